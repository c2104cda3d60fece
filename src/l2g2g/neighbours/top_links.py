"""Top links: the pairs of highest score that are not in the graph, without scoring all pairs.

Nodes are cut into groups that lie close together. A bound says how high the best pair of two groups can score; pairs
of groups are looked at in the order of their bounds, and once the bound is below what has been found there is nothing
left to find. Where that takes too long, the rest is left out, and a random part of it is scored to say what it holds.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from l2g2g.core import kernels, native
from l2g2g.errors import InputError
from l2g2g.graphs.write_table import make_frame, show_rows
from l2g2g.neighbours.factors import ScoreFactors

if TYPE_CHECKING:
    import pandas as pd

_MARGIN = 1e-5  # of the largest product of lengths: what rounding of single scores may add
_GROUP = 256  # nodes of a group: its vectors and a row of its scores stay in the first caches
_MOST_CUTS = 12  # 4096 groups, 16 million bounds
_FIRST_TILES, _MOST_TILES = 64, 8192  # pairs of groups that are scored between two looks at what was found
_MOST_KEPT = 20_000_000  # pairs kept in one such round
_MOST_PRODUCTS = 4e12  # about a minute on two cores
_SAMPLED_TILES = 2048
_SCORES_AT_ONCE = 1 << 20  # 4 MB: they are still in the cache when they are looked at


@dataclass(frozen=True, eq=False)
class Groups:
    """Vectors in groups of nearly equal size that lie close together.

    Attributes:
        order: (num_nodes,) nodes, those of a group beside each other.
        starts: (num_groups + 1,) where each group begins in the order.
        low, high: (num_groups, width) the box around a group, in coordinates along the directions of the cuts.
        longest: (num_groups,) the length of its longest vector.
    """

    order: np.ndarray
    starts: np.ndarray
    low: np.ndarray
    high: np.ndarray
    longest: np.ndarray

    @property
    def num_groups(self) -> int:
        """Groups."""
        return len(self.starts) - 1


def principal_axes(*tables: np.ndarray) -> np.ndarray:
    """(width, width) orthonormal columns: the directions in which the vectors of all tables reach farthest."""
    total = sum(table.T.astype(np.float64) @ table for table in tables)
    return np.linalg.eigh(total)[1][:, ::-1]


def make_groups(table: np.ndarray, axes: np.ndarray, num_cuts: int) -> Groups:
    """2^num_cuts groups of the rows of a table: each cut halves a group across the direction of its largest spread.

    table: (num_nodes, width); axes: orthonormal, which scores do not notice and boxes fit better.
    """
    turned = np.ascontiguousarray(table @ axes.astype(np.float32))
    order = np.arange(len(table))
    starts = np.array([0, len(table)])
    for _ in range(num_cuts):
        for low, high in pairwise(starts):
            part = turned[order[low:high]]
            along = part @ _direction(part)
            order[low:high] = order[low:high][np.argpartition(along, len(along) // 2)] if high > low + 1 else order[low]
        middles = (starts[:-1] + starts[1:]) // 2
        starts = np.sort(np.concatenate([starts, middles]))
    low, high = (
        np.array([reach(turned[order[a:b]], axis=0) for a, b in pairwise(starts)]) for reach in (np.min, np.max)
    )
    lengths = np.linalg.norm(table, axis=1)[order]
    return Groups(order, starts, low, high, np.maximum.reduceat(lengths, starts[:-1]))


def _direction(part: np.ndarray) -> np.ndarray:
    """(width,) the direction in which the rows differ most."""
    spread = part - part.mean(axis=0)
    return np.linalg.eigh(spread.T @ spread)[1][:, -1]


def bound_scores(left: Groups, right: Groups) -> np.ndarray:
    """(num_left, num_right) float32: no inner product of a vector of one group with one of the other is larger."""
    margin = _MARGIN * float(left.longest.max()) * float(right.longest.max())
    parts = left.low, left.high, right.low, right.high, left.longest, right.longest
    bounds = kernels().bound_boxes(*(np.ascontiguousarray(part, np.float64) for part in parts))
    return np.nextafter((bounds + margin).astype(np.float32), np.float32(np.inf))


@dataclass(frozen=True, eq=False)
class TopLinks:
    """Pairs that are no edges, the likeliest first.

    Attributes:
        sources, targets: (num_links,) node numbers; sources below targets unless the score is one-way.
        scores: (num_links,) float32, the decoder's score before the sigmoid.
        recall: Estimated share of the true list that is in this one; None if the search came to its end: all of it.
        scored_fraction: Share of all pairs that had to be scored.
        calibrated: (num_links,) probabilities at the density of the graph; None where no validation pairs tell them.
    """

    sources: np.ndarray
    targets: np.ndarray
    scores: np.ndarray
    recall: float | None
    scored_fraction: float
    calibrated: np.ndarray | None = None

    @property
    def probabilities(self) -> np.ndarray:
        """(num_links,) calibrated where that is possible, otherwise σ(score), which only ranks pairs."""
        return sigmoid(self.scores) if self.calibrated is None else self.calibrated

    def __repr__(self) -> str:
        """The first rows as text."""
        return show_rows(f"TopLinks: {len(self.scores):,} likeliest links", self._columns())

    def to_pandas(self) -> pd.DataFrame:
        """A row for each link: source, target, probability and score."""
        return make_frame(self._columns())

    def _columns(self) -> dict[str, np.ndarray]:
        columns = {"source": self.sources, "target": self.targets}
        return {**columns, "probability": self.probabilities, "score": self.scores}


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """1 / (1 + e^−score), in float64 and without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(scores, dtype=np.float64)))


def top_links(
    factors: ScoreFactors, count: int, known: sp.csr_array, *, max_products: float = _MOST_PRODUCTS, seed: int = 0
) -> TopLinks:
    """The `count` pairs of highest score among those that are not known; fewer where there are fewer.

    Of equal scores the lower node numbers come first.

    Args:
        factors: What pairs are scored by.
        known: CSR pattern of the edges (of the arcs, where the score is one-way), columns sorted; its diagonal does
            not matter. Both directions of an edge must be there unless the score is one-way.
        max_products: Multiplications after which the search ends with what it has.
        seed: Of the sample that says what was missed then.
    """
    if count < 1:
        raise InputError(f"--top is {count}; it must be at least 1")
    if known.shape != (factors.num_nodes, factors.num_nodes):
        raise InputError(f"{factors.num_nodes:,} vectors but {known.shape[0]:,} nodes in the graph; they must be equal")
    num_pairs = factors.num_nodes * (factors.num_nodes - 1) // (1 if factors.one_way else 2)
    num_cuts = min(_MOST_CUTS, max(0, math.ceil(math.log2(max(1, factors.num_nodes / _GROUP)))))
    axes = principal_axes(factors.left) if factors.same else principal_axes(factors.left, factors.right)
    left = make_groups(factors.left, axes, num_cuts)
    right = left if factors.same else make_groups(factors.right, axes, num_cuts)
    search = _Search(factors, left, right, known, count)
    rest = search.run(max_products)
    sources, targets = np.divmod(search.keys, factors.num_nodes)
    recall = None
    if len(rest):
        recall = len(search.keys) / (len(search.keys) + search.estimate_missed(rest, seed))
    scored = min(1.0, search.num_scored / max(1, num_pairs))
    return TopLinks(sources, targets, search.scores + np.float32(factors.bias), recall, scored)


class _Search:
    """The best pairs so far, and the pairs of groups ("tiles") that may hold better ones."""

    def __init__(self, factors: ScoreFactors, left: Groups, right: Groups, known: sp.csr_array, count: int) -> None:
        self.factors, self.left, self.right, self.count = factors, left, right, count
        self.known = np.ascontiguousarray(known.indptr, np.int64), np.ascontiguousarray(known.indices, np.int32)
        self.scores, self.keys = np.empty(0, np.float32), np.empty(0, np.int64)
        self.num_scored = 0
        largest = max(np.diff(left.starts).max(), np.diff(right.starts).max())
        self.width = -(-int(largest) // 16) * 16
        self.rows = _lay_out(factors.left[left.order], left.starts, self.width)
        columns = self.rows if factors.same else _lay_out(factors.right[right.order], right.starts, self.width)
        self.columns = np.ascontiguousarray(columns.transpose(0, 2, 1))

    @property
    def threshold(self) -> float:
        """What a pair must reach to be among the best."""
        return float(self.scores[-1]) if len(self.scores) == self.count else -math.inf

    def run(self, max_products: float) -> np.ndarray:
        """Score tile after tile, by their bounds. Returns those that were left out though they may hold something."""
        tiles, bounds = self._tiles()
        place, step = 0, _FIRST_TILES
        products_per_tile = self.width**2 * self.factors.left.shape[1]
        largest_step = max(1, min(_MOST_TILES, _MOST_KEPT // min(self.count, self.width**2)))
        while place < len(tiles) and bounds[place] >= self.threshold:
            if place * products_per_tile > max_products:
                return tiles[place : int(np.searchsorted(-bounds, -self.threshold, side="right"))]
            step = min(step, largest_step)
            end = min(place + step, int(np.searchsorted(-bounds, -self.threshold, side="right")))
            self._merge(*self._score(tiles[place:end], self.count))
            place, step = end, 2 * step
        return tiles[:0]

    def estimate_missed(self, rest: np.ndarray, seed: int) -> float:
        """Pairs among the tiles left out that belong into the list, from a random part of these tiles."""
        chosen = np.random.default_rng(seed).choice(len(rest), min(_SAMPLED_TILES, len(rest)), replace=False)
        threshold = self.threshold
        scores, _ = self._score(rest[np.sort(chosen)], self.count)
        return float((scores > threshold).sum()) * len(rest) / len(chosen)

    def _tiles(self) -> tuple[np.ndarray, np.ndarray]:
        """(num_tiles,) numbers left · num_right + right, and their bounds, the highest first."""
        bounds = bound_scores(self.left, self.right)
        if self.factors.same:
            bounds[np.tril_indices(len(bounds), -1)] = -np.inf  # a pair of groups once
        tiles = np.argsort(-bounds, axis=None, kind="stable")
        in_order = bounds.ravel()[tiles]
        present = int(np.searchsorted(-in_order, np.inf, side="left"))
        return tiles[:present], in_order[:present]

    def _score(self, tiles: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and keys (source · num_nodes + target) of the pairs that may be among the best."""
        kept = min(count, self.width**2)
        scores, keys = np.empty((len(tiles), kept), np.float32), np.empty((len(tiles), kept), np.int64)
        found = np.empty(len(tiles), np.int64)
        groups = self.left.order, self.left.starts, self.right.order, self.right.starts
        ones, others = np.divmod(tiles, self.right.num_groups)
        options = self.threshold, self.factors.same, self.factors.one_way

        def score(here: slice) -> None:
            products = np.matmul(self.rows[ones[here]], self.columns[others[here]])
            kept_here = scores[here], keys[here]
            found[here] = kernels().best_pairs(products, tiles[here], *groups, *self.known, *options, *kept_here)

        at_once = max(1, _SCORES_AT_ONCE // self.width**2)
        parts = [slice(low, low + at_once) for low in range(0, len(tiles), at_once)]
        core = native()
        # Our own threads take some tiles each: a product of two groups is too small to be shared by several.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(core.num_threads() if core else 1) as threads:
            list(threads.map(score, parts))
        self.num_scored += int((np.diff(self.left.starts)[ones] * np.diff(self.right.starts)[others]).sum())
        present = np.arange(kept) < found[:, None]
        return scores[present], keys[present]

    def _merge(self, scores: np.ndarray, keys: np.ndarray) -> None:
        scores, keys = np.concatenate([self.scores, scores]), np.concatenate([self.keys, keys])
        best = np.lexsort((keys, -scores))[: self.count]
        self.scores, self.keys = scores[best], keys[best]


def _lay_out(table: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """(num_groups, width, dim): the vectors of each group, zeros after them."""
    blocks = np.zeros((len(starts) - 1, width, table.shape[1]), np.float32)
    for group, (low, high) in enumerate(pairwise(starts)):
        blocks[group, : high - low] = table[low:high]
    return blocks
