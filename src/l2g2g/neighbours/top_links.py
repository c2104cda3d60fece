"""Top links: the pairs of highest score that are not in the graph, without scoring all pairs.

Nodes are cut into groups that lie close together. A bound says how high the best pair of two groups can score; pairs
of groups are looked at in the order of their bounds, and once the bound is below what has been found there is nothing
left to find. Where that takes too long, the rest is left out, and a random part of it is scored to say what it holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numba import njit, prange
from threadpoolctl import threadpool_limits

from l2g2g.errors import InputError
from l2g2g.evaluation.ranking import is_known
from l2g2g.neighbours.groups import Groups, bound_scores, make_groups, principal_axes
from l2g2g.neighbours.sides import Sides

_GROUP = 256  # nodes of a group: its vectors and a row of its scores stay in the first caches
_MOST_CUTS = 12  # 4096 groups, 16 million bounds
_FIRST_TILES, _MOST_TILES = 64, 8192  # pairs of groups that are scored between two looks at what was found
_MOST_KEPT = 20_000_000  # pairs kept in one such round
_MOST_PRODUCTS = 4e12  # about a minute on two cores
_SAMPLED_TILES = 2048


@dataclass(frozen=True, eq=False)
class TopLinks:
    """Pairs that are no edges, the likeliest first.

    Attributes:
        sources, targets: (num_links,) node numbers; sources below targets unless the score is one-way.
        scores: (num_links,) float32, the decoder's score before the sigmoid.
        recall: Estimated share of the true list that is in this one; None if the search came to its end: all of it.
        scored_fraction: Share of all pairs that had to be scored.
    """

    sources: np.ndarray
    targets: np.ndarray
    scores: np.ndarray
    recall: float | None
    scored_fraction: float

    @property
    def probabilities(self) -> np.ndarray:
        """(num_links,) σ(score)."""
        return sigmoid(self.scores)


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """1 / (1 + e^−score), in float64 and without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(scores, dtype=np.float64)))


def top_links(
    sides: Sides, count: int, known: sp.csr_array, *, max_products: float = _MOST_PRODUCTS, seed: int = 0
) -> TopLinks:
    """The `count` pairs of highest score among those that are not known; fewer where there are fewer.

    Of equal scores the lower node numbers come first.

    Args:
        sides: What pairs are scored by.
        known: CSR pattern of the edges (of the arcs, where the score is one-way), columns sorted; its diagonal does
            not matter. Both directions of an edge must be there unless the score is one-way.
        max_products: Multiplications after which the search ends with what it has.
        seed: Of the sample that says what was missed then.
    """
    if count < 1:
        raise InputError(f"--top is {count}; it must be at least 1")
    if known.shape != (sides.num_nodes, sides.num_nodes):
        raise InputError(f"{sides.num_nodes:,} vectors but {known.shape[0]:,} nodes in the graph; they must be equal")
    num_pairs = sides.num_nodes * (sides.num_nodes - 1) // (1 if sides.one_way else 2)
    num_cuts = min(_MOST_CUTS, max(0, math.ceil(math.log2(max(1, sides.num_nodes / _GROUP)))))
    axes = principal_axes(sides.left) if sides.same else principal_axes(sides.left, sides.right)
    left = make_groups(sides.left, axes, num_cuts)
    right = left if sides.same else make_groups(sides.right, axes, num_cuts)
    search = _Search(sides, left, right, known, count)
    rest = search.run(max_products)
    sources, targets = np.divmod(search.keys, sides.num_nodes)
    recall = None
    if len(rest):
        recall = len(search.keys) / (len(search.keys) + search.estimate_missed(rest, seed))
    scored = min(1.0, search.num_scored / max(1, num_pairs))
    return TopLinks(sources, targets, search.scores + np.float32(sides.bias), recall, scored)


class _Search:
    """The best pairs so far, and the pairs of groups ("tiles") that may hold better ones."""

    def __init__(self, sides: Sides, left: Groups, right: Groups, known: sp.csr_array, count: int) -> None:
        self.sides, self.left, self.right, self.known, self.count = sides, left, right, known, count
        self.scores, self.keys = np.empty(0, np.float32), np.empty(0, np.int64)
        self.num_scored = 0
        sizes = np.diff(right.starts)
        self.width = -(-int(sizes.max()) // 16) * 16
        self.rows = sides.left[left.order]
        self.columns = _lay_out(sides.right[right.order], right.starts, self.width)

    @property
    def threshold(self) -> float:
        """What a pair must reach to be among the best."""
        return float(self.scores[-1]) if len(self.scores) == self.count else -math.inf

    def run(self, max_products: float) -> np.ndarray:
        """Score tile after tile, by their bounds. Returns those that were left out though they may hold something."""
        tiles, bounds = self._tiles()
        place, step = 0, _FIRST_TILES
        products_per_tile = self.width**2 * self.sides.left.shape[1]
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
        if self.sides.same:
            bounds[np.tril_indices(len(bounds), -1)] = -np.inf  # a pair of groups once
        tiles = np.argsort(-bounds, axis=None, kind="stable")
        in_order = bounds.ravel()[tiles]
        present = int(np.searchsorted(-in_order, np.inf, side="left"))
        return tiles[:present], in_order[:present]

    def _score(self, tiles: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and keys (source · num_nodes + target) of the pairs that may be among the best."""
        kept = min(count, self.width**2)
        scores, keys = np.empty((len(tiles), kept), np.float32), np.empty((len(tiles), kept), np.int64)
        with threadpool_limits(1, "blas"):  # our own threads take a tile each
            found = _score_tiles(
                tiles,
                self.rows,
                self.columns,
                self.left.order,
                self.left.starts,
                self.right.order,
                self.right.starts,
                self.known.indptr,
                self.known.indices,
                np.float32(self.threshold),
                self.sides.same,
                self.sides.one_way,
                scores,
                keys,
            )
        ones, others = np.divmod(tiles, self.right.num_groups)
        self.num_scored += int((np.diff(self.left.starts)[ones] * np.diff(self.right.starts)[others]).sum())
        present = np.arange(kept) < found[:, None]
        return scores[present], keys[present]

    def _merge(self, scores: np.ndarray, keys: np.ndarray) -> None:
        scores, keys = np.concatenate([self.scores, scores]), np.concatenate([self.keys, keys])
        best = np.lexsort((keys, -scores))[: self.count]
        self.scores, self.keys = scores[best], keys[best]


def _lay_out(table: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """(num_groups, dim, width): the vectors of each group as columns, zeros after them."""
    blocks = np.zeros((len(starts) - 1, table.shape[1], width), np.float32)
    for group, (low, high) in enumerate(pairwise(starts)):
        blocks[group, :, : high - low] = table[low:high].T
    return blocks


@njit(cache=True, parallel=True)
def _score_tiles(
    tiles: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    order: np.ndarray,
    starts: np.ndarray,
    other_order: np.ndarray,
    other_starts: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    threshold: np.float32,
    same: bool,
    one_way: bool,
    scores: np.ndarray,
    keys: np.ndarray,
) -> np.ndarray:
    """Keep the best pairs of each tile in a heap of its own. Returns how many each has."""
    num_others, _, width = columns.shape
    num_nodes = len(order)
    found = np.zeros(len(tiles), np.int64)
    for tile in prange(len(tiles)):
        one, other = tiles[tile] // num_others, tiles[tile] % num_others
        num_rows = starts[one + 1] - starts[one]
        num_columns = other_starts[other + 1] - other_starts[other]
        lines = np.empty((num_rows, width), np.float32)
        np.dot(rows[starts[one] : starts[one + 1]], columns[other], lines)
        for row in range(num_rows):
            line, source = lines[row], order[starts[one] + row]
            if not _reaches(line, threshold):
                continue
            first = row + 1 if same and one == other else 0
            for column in range(first, num_columns):
                if line[column] < threshold:
                    continue
                target = other_order[other_starts[other] + column]
                if same:
                    key = min(source, target) * num_nodes + max(source, target)
                elif source == target or (source > target and not one_way):
                    continue
                else:
                    key = source * num_nodes + target
                if not is_known(indptr, indices, source, target):
                    found[tile] = _push(scores[tile], keys[tile], found[tile], line[column], key)
    return found


@njit(cache=True, inline="always")
def _reaches(line: np.ndarray, threshold: np.float32) -> bool:
    """Whether any score does; counted without a branch, so that it is vector code."""
    count = 0
    for column in range(len(line)):
        count += line[column] >= threshold
    return count > 0


@njit(cache=True)
def _worse(score: np.float32, key: int, other_score: np.float32, other_key: int) -> bool:
    return key > other_key if score == other_score else bool(score < other_score)


@njit(cache=True)
def _push(scores: np.ndarray, keys: np.ndarray, count: int, score: np.float32, key: int) -> int:
    """Put a pair into a heap whose root is the worst; where it is full the worst gives way. Returns its new size."""
    if count < len(scores):
        place = count
        while place > 0 and _worse(score, key, scores[(place - 1) // 2], keys[(place - 1) // 2]):
            scores[place], keys[place] = scores[(place - 1) // 2], keys[(place - 1) // 2]
            place = (place - 1) // 2
        scores[place], keys[place] = score, key
        return count + 1
    if _worse(score, key, scores[0], keys[0]):
        return count
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and _worse(scores[child + 1], keys[child + 1], scores[child], keys[child]):
            child += 1
        if not _worse(scores[child], keys[child], score, key):
            break
        scores[place], keys[place] = scores[child], keys[child]
        place = child
    scores[place], keys[place] = score, key
    return count
