"""Intervals: how sure AUC, average precision and accuracy are, given that others could have been held out.

Pairs count as independent draws. The choice of the seed and of the split is not in the interval: for that, run several
seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_NORMAL_975 = 1.959963984540054
_RESAMPLES = 400
_MOST_LEVELS = 4000


@dataclass(frozen=True)
class Interval:
    """A value and the ends of its 95 % interval, all as fractions."""

    value: float
    low: float
    high: float


def auc_interval(edges: np.ndarray, others: np.ndarray) -> Interval:
    """AUC with DeLong's interval on the logit scale, which never leaves 0 to 1.

    edges: (num_edges,) scores of edges, others: (num_others,) scores of non-edges.
    Where every pair is in order there is nothing to estimate a spread from; the interval then says which values would
    still let that happen once in forty times with so few scores.

    Example:
        >>> auc_interval(np.array([3.0, 1.0]), np.array([2.0, 0.0])).value
        0.75
    """
    wins = _share_below(edges, others)
    losses = 1 - _share_below(others, edges)
    value = float(wins.mean())
    fewest = min(len(edges), len(others))
    if value in (0.0, 1.0) or fewest < 2:
        least = 0.025 ** (1 / fewest)
        return Interval(value, *((0.0, 1 - least) if value == 0 else (least, 1.0) if value == 1 else (0.0, 1.0)))
    deviation = np.sqrt(wins.var(ddof=1) / len(edges) + losses.var(ddof=1) / len(others))
    centre, spread = np.log(value / (1 - value)), _NORMAL_975 * deviation / (value * (1 - value))
    low, high = 1 / (1 + np.exp(-(centre + np.array([-spread, spread]))))
    return Interval(value, float(low), float(high))


def precision_interval(edges: np.ndarray, others: np.ndarray, seed: int = 0) -> Interval:
    """Average precision with the middle 95 % of a bootstrap that draws edges and non-edges apart.

    To draw pairs anew is to draw how many there are of each score. Where there are very many scores, near ones are
    drawn as one; what that changes in the value is taken out of the ends.
    """
    levels, places = np.unique(-np.concatenate([edges, others]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(levels)) for part in (places[: len(edges)], places[len(edges) :])]
    value = float(_average_precision(*counts))
    if len(levels) > _MOST_LEVELS:
        starts = np.linspace(0, len(levels), _MOST_LEVELS, endpoint=False).astype(np.int64)
        counts = [np.add.reduceat(part, starts) for part in counts]
    generator = np.random.default_rng([seed, 0x1A7])
    drawn = [generator.multinomial(part.sum(), part / part.sum(), size=_RESAMPLES) for part in counts]
    ends = np.quantile(_average_precision(*drawn), [0.025, 0.975]) + value - _average_precision(*counts)
    low, high = np.clip(ends, 0, 1)
    return Interval(value, float(low), float(high))


def share_interval(count: int, total: int) -> Interval:
    """A share with Wilson's interval, which never leaves 0 to 1.

    Example:
        >>> found = share_interval(90, 100)
        >>> found.value, round(found.low, 3), round(found.high, 3)
        (0.9, 0.826, 0.945)
    """
    square = _NORMAL_975**2
    share, weight = count / total, 1 + square / total
    centre = (share + square / (2 * total)) / weight
    reach = _NORMAL_975 / weight * np.sqrt(share * (1 - share) / total + square / (4 * total**2))
    return Interval(share, float(max(centre - reach, 0.0)), float(min(centre + reach, 1.0)))


def _share_below(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Share of the others below each score, equal ones counting half."""
    ordered = np.sort(others)
    below, up_to = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    return (below + up_to) / (2 * len(others))


def _average_precision(edges: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Of (..., num_levels) pairs of each score, the highest score first; equal scores pass together."""
    found = np.cumsum(edges, axis=-1)
    passed = found + np.cumsum(others, axis=-1)
    return np.asarray((edges * found / np.maximum(passed, 1)).sum(axis=-1) / found[..., -1])
