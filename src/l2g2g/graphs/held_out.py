"""Edges in the order of a hash of the seed and their two nodes: the first of them are held out of training.

Whether an edge is held out depends on the seed, its two nodes and the last held-out edge of the order. So every reader
of a row, a patch or a block of a graph leaves out the same edges, in both directions, and never has to look them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from l2g2g.core.randomness import Purpose, hash_node_pairs, stream_key
from l2g2g.errors import InputError

PairBlocks = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]
_LARGEST_HASH = 2**64 - 1


@dataclass(frozen=True)
class HashedPair:
    """A pair of nodes u < v with its hash. Pairs are ordered by (hash, source, target)."""

    hash: int
    source: int
    target: int


@dataclass(frozen=True)
class HeldOutRule:
    """Which edges are held out: those up to `last` in the order of (hash, u, v).

    Attributes:
        seed: Of the hash.
        last: The last edge that is held out.
    """

    seed: int
    last: HashedPair

    def drop(
        self, indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray | None, nodes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """CSR without the edges that are held out; arguments as in `find`."""
        return drop_entries(indptr, indices, weights, self.find(indptr, indices, nodes))

    def find(
        self, indptr: np.ndarray, indices: np.ndarray, nodes: np.ndarray, far_nodes: np.ndarray | None = None
    ) -> np.ndarray:
        """(num_held,) places of the entries of a CSR that are held out, in order.

        nodes: (num_rows,) the nodes of its rows; far_nodes: of its columns, None where a column is a node.
        """
        rows = np.repeat(nodes, np.diff(indptr))
        return np.flatnonzero(self.holds(rows, indices if far_nodes is None else far_nodes[indices]))

    def holds(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """(num_pairs,) whether an edge between each two nodes is held out."""
        sources, targets = np.minimum(one, other), np.maximum(one, other)
        hashes = hash_node_pairs(sources, targets, split_key(self.seed))
        bound = np.uint64(self.last.hash)
        held = hashes < bound
        tied = np.flatnonzero(hashes == bound)
        before = sources[tied] < self.last.source
        held[tied] = before | ((sources[tied] == self.last.source) & (targets[tied] <= self.last.target))
        return held


def split_key(seed: int) -> int:
    """The key of the hash that decides which edges are held out."""
    return stream_key(seed, Purpose.SPLIT)


def smallest_pairs(blocks: PairBlocks, num_pairs: int, count: int, key: int, name: str) -> np.ndarray:
    """The first pairs in the order of (hash, u, v). Returns (count, 2) in this order.

    What lies above a bound that leaves a little more than `count` is not collected, so memory holds no other pairs.
    As hashes are even, one pass over the blocks is nearly always enough; otherwise the bound is raised.

    blocks: gives (sources, targets) in the order of (u, v), u < v, num_pairs in all. name: of the graph, for errors.
    """
    wanted = count + 6 * math.sqrt(count) + 16
    while True:
        bound = min(_LARGEST_HASH, int(wanted / max(1, num_pairs) * 2.0**64))
        hashes, sources, targets = _collect(blocks(), key, np.uint64(bound))
        if len(hashes) >= count:
            break
        if bound == _LARGEST_HASH:
            raise InputError(f"{name}: has {len(hashes):,} pairs where {num_pairs:,} are expected; it is damaged")
        wanted *= 2
    # Stable: equal hashes stay in the order of (u, v).
    order = np.argsort(hashes, kind="stable")[:count]
    return np.stack([sources[order], targets[order]], axis=1)


def _collect(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]], key: int, bound: np.uint64
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(hashes, sources, targets) of the pairs with a hash up to the bound."""
    found = [(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))]
    for sources, targets in blocks:
        hashes = hash_node_pairs(sources, targets, key)
        chosen = np.flatnonzero(hashes <= bound)
        found.append((hashes[chosen], sources[chosen].astype(np.int64), targets[chosen].astype(np.int64)))
    hashes, sources, targets = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return hashes, sources, targets


def rule_of(held: np.ndarray, seed: int) -> HeldOutRule | None:
    """The rule that holds out these edges. held: (num_held, 2) from `smallest_pairs`; None where there are none."""
    if len(held) == 0:
        return None
    source, target = held[-1]
    (last,) = hash_node_pairs(held[-1:, 0], held[-1:, 1], split_key(seed))
    return HeldOutRule(seed, HashedPair(int(last), int(source), int(target)))


def drop_entries(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray | None, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """CSR without the entries at some places, given in order."""
    stays = np.ones(len(indices), bool)
    stays[places] = False
    fewer = indptr - np.searchsorted(places, indptr).astype(indptr.dtype)
    return fewer, indices[stays], None if weights is None else weights[stays]
