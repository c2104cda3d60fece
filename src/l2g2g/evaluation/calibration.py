"""Calibration: scores become probabilities at the density of the graph, not at one non-edge for every edge.

Links that were held out stand for the missing ones. They are counted among all other pairs in bins of falling score,
which are fine at the top: a list of the likeliest links is made there, and no curve fitted to sampled pairs reaches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from l2g2g.errors import InputError

_FIRST_BIN, _GROWTH = 64.0, 2.0  # pairs in the highest bin, and how much larger each next one is
_PRIOR = 0.5  # links and others added to every bin, of the density of the bins below


@dataclass(frozen=True)
class Calibration:
    """Held-out links for each other pair by score: its logarithm is linear between knots and level beyond them.

    Attributes:
        scores: Knots, ascending.
        log_odds: At the knots, never falling, where as many links are missing as were held out.
    """

    scores: tuple[float, ...]
    log_odds: tuple[float, ...]

    def probabilities(self, scores: np.ndarray, times: float = 1.0) -> np.ndarray:
        """(num_pairs,) probability that each pair is a missing link.

        The missing links are among the pairs that counted as others, so it is the ratio itself, at most 1.
        times: how many times as many links are missing as were held out.
        """
        if not times > 0:
            raise InputError(f"the links that are missing must be some, not {times} of those held out")
        log_odds = np.interp(np.asarray(scores, np.float64), self.scores, self.log_odds) + np.log(times)
        return np.minimum(np.exp(log_odds), 1.0)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"scores": list(self.scores), "log_odds": list(self.log_odds)}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Calibration:
        """What `to_dict` gave. KeyError, TypeError or ValueError where it is something else."""
        scores, log_odds = (tuple(float(value) for value in found[name]) for name in ("scores", "log_odds"))
        if not scores or len(scores) != len(log_odds) or list(scores) != sorted(scores):
            raise ValueError("knots that do not fit")
        return cls(scores, log_odds)


def fit_calibration(links: np.ndarray, top: np.ndarray, sample: np.ndarray, num_others: int) -> Calibration:
    """Fit to scores of held-out links and of pairs that are none.

    links: (num_links,) scores of the held-out links. num_others: pairs that are no links, of which
    top: (num_top,) scores of those that score highest, all of them, and sample: (num_sampled,) of uniform ones.
    """
    if len(links) == 0 or len(top) + len(sample) == 0:
        raise InputError("a calibration needs held-out links and other pairs")
    floor = top.min() if len(top) else np.inf
    rest = sample[sample < floor]
    weights = np.concatenate([np.ones(len(top)), np.full(len(rest), max(0, num_others - len(top)) / max(1, len(rest)))])
    others = np.concatenate([top, rest])
    order = np.argsort(-others, kind="stable")
    others, above = others[order], np.cumsum(weights[order])
    bounds = _bounds(others, above)
    # Pairs with a score of at least each bound: held-out links, and others by their weights.
    num_links = np.searchsorted(np.sort(-links), -bounds, side="right").astype(np.float64)
    places = np.searchsorted(-others, -bounds, side="right")
    num_rest = np.concatenate([[0.0], above])[places]
    in_bin = np.diff(np.concatenate([[0.0], num_links])), np.diff(np.concatenate([[0.0], num_rest]))
    middles = _middles(np.sort(np.concatenate([links, others]))[::-1], bounds)
    density = len(links) / max(1.0, float(num_others))
    odds = (in_bin[0] + _PRIOR * density) / (in_bin[1] + _PRIOR)
    rising = _never_rising(odds, in_bin[1] + _PRIOR)
    return Calibration(tuple(middles[::-1].tolist()), tuple(np.log(rising[::-1]).tolist()))


def _bounds(others: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Lowest scores of the bins, falling: the first has so many of the other pairs, each next one more."""
    bounds, size, end = [], _FIRST_BIN, _FIRST_BIN
    while end < above[-1]:
        bounds.append(others[np.searchsorted(above, end)])
        size *= _GROWTH
        end += size
    found = np.unique(np.array([*bounds, -np.inf]))[::-1]
    return found


def _middles(scores: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The middle score of each bin. scores: all, falling."""
    ends = np.searchsorted(-scores, -bounds, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    return scores[np.minimum((starts + np.maximum(ends, starts + 1) - 1) // 2, len(scores) - 1)]


def _never_rising(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The nearest values that never rise from one bin to the next: neighbours that do are pooled."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, bins
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] < pool[0]:
            mean, heavy, count = pools.pop()
            total = heavy + pool[1]
            pool = ((mean * heavy + pool[0] * pool[1]) / total, total, count + pool[2])
        pools.append(pool)
    return np.repeat([mean for mean, _, _ in pools], [count for _, _, count in pools])
