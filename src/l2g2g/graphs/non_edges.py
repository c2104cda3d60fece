"""Non-edges: distinct random pairs of nodes that no edge joins, drawn by keyed hashes, from memory or from disk."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from l2g2g.core import kernels
from l2g2g.core.randomness import hash_node_pairs, random_words, scale_all_bits
from l2g2g.errors import InputError
from l2g2g.graphs.graph_store import EdgeSource
from l2g2g.graphs.held_out import smallest_pairs

BLOCK_ENTRIES = 1 << 20
_MOST_ATTEMPTS, _CANDIDATES = 32, 1 << 18  # looked up in one pass over the graph
_TABLE_CELLS = 1 << 22


def sample_non_edges(graph: EdgeSource, count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw `count` distinct pairs u < v, uniformly among those that are not edges. Returns (count, 2)."""
    key = int(generator.integers(2**64, dtype=np.uint64))
    numbers = np.arange(count)
    return draw_non_edges(graph, np.stack([np.zeros_like(numbers), numbers], axis=1), key)


def draw_non_edges(
    graph: EdgeSource, owners: np.ndarray, key: int, *, block_entries: int = BLOCK_ENTRIES
) -> np.ndarray:
    """One pair u < v for each owner, all distinct, uniform among the pairs that are not edges. Returns (count, 2).

    The candidates of an owner are hashes of (key, owner, attempt). It takes the first that is an edge neither of the
    graph nor of two equal nodes, and that no other owner has: a lower attempt comes first, then the earlier owner.
    Where non-edges are scarce, those with the smallest hashes are taken instead, in this order.

    owners: (count, 2) distinct pairs of numbers. block_entries: read at once, without any effect on the result.
    """
    count, num_nodes = len(owners), graph.num_nodes
    num_pairs = num_nodes * (num_nodes - 1) // 2
    num_free = num_pairs - graph.num_edges
    if count > num_free:
        raise InputError(
            f"{graph.name}: {count} non-edges are needed but the graph has only {num_free}; "
            f"it is too dense to be evaluated on held-out links"
        )
    if 2 * count > num_free or 4 * num_free < num_pairs:  # drawing at random would meet too few
        blocks = partial(_non_edge_blocks, graph, block_entries)
        return smallest_pairs(blocks, num_free, count, key, graph.name)
    streams = hash_node_pairs(owners[:, 0], owners[:, 1], key)
    found, waiting, attempt = np.full(count, -1, np.int64), np.arange(count), 0
    while len(waiting):
        num_attempts = min(_MOST_ATTEMPTS, max(1, _CANDIDATES // len(waiting)))
        candidates = _candidates(streams[waiting], range(attempt, attempt + num_attempts), num_nodes)
        allowed = ~_are_edges(graph, candidates.ravel(), block_entries).reshape(candidates.shape)
        allowed &= candidates // num_nodes != candidates % num_nodes
        _settle(found, waiting, candidates, allowed)
        waiting, attempt = np.flatnonzero(found < 0), attempt + num_attempts
    return np.stack([found // num_nodes, found % num_nodes], axis=1)


def _candidates(streams: np.ndarray, attempts: range, num_nodes: int) -> np.ndarray:
    """(num_attempts, num_owners) pairs u ≤ v as u · num_nodes + v, uniform over ordered pairs of nodes."""
    found = np.empty((len(attempts), len(streams)), np.int64)
    for place, attempt in enumerate(attempts):
        one, other = (scale_all_bits(random_words(streams, 2 * attempt + end), num_nodes) for end in (0, 1))
        found[place] = np.minimum(one, other) * num_nodes + np.maximum(one, other)
    return found


def _settle(found: np.ndarray, waiting: np.ndarray, candidates: np.ndarray, allowed: np.ndarray) -> None:
    """Give owners their first allowed candidate that is not taken. waiting: the owners of the columns, in order."""
    taken = np.sort(found[found >= 0])
    for pairs, is_allowed in zip(candidates, allowed, strict=True):
        places = np.flatnonzero(is_allowed & (found[waiting] < 0))
        if len(places) == 0:
            continue
        places = places[~_are_among(pairs[places], taken)]
        new, first = np.unique(pairs[places], return_index=True)  # the earliest owner of each pair
        found[waiting[places[first]]] = new
        taken = np.insert(taken, np.searchsorted(taken, new), new)


def _are_among(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """(num_values,) whether each value is among some in ascending order."""
    if len(ordered) == 0:
        return np.zeros(len(values), bool)
    return ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values


def _are_edges(graph: EdgeSource, pairs: np.ndarray, block_entries: int) -> np.ndarray:
    """(num_pairs,) whether each pair u · num_nodes + v is an edge; one pass over the graph."""
    order = np.argsort(pairs)
    ordered, found = pairs[order], np.empty(len(pairs), bool)
    for block in graph.row_blocks(block_entries):
        low, high = np.searchsorted(ordered, np.array([block.low, block.high]) * graph.num_nodes)
        wanted = ordered[low:high]
        rows, columns = wanted // graph.num_nodes - block.low, wanted % graph.num_nodes
        found[order[low:high]] = kernels().find_entries(block.indptr, block.indices, rows, columns) >= 0
    return found


def _non_edge_blocks(graph: EdgeSource, block_entries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(sources, targets) of all non-edges u < v in order."""
    num_nodes = graph.num_nodes
    height = max(1, _TABLE_CELLS // num_nodes)
    for block in graph.row_blocks(block_entries):
        for low in range(block.low, block.high, height):
            nodes = np.arange(low, min(low + height, block.high))
            indptr = block.indptr[low - block.low : low - block.low + len(nodes) + 1]
            is_free = np.arange(num_nodes) > nodes[:, None]
            rows = np.repeat(np.arange(len(nodes)), np.diff(indptr))
            is_free[rows, block.indices[indptr[0] : indptr[-1]]] = False
            rows, targets = np.nonzero(is_free)
            yield nodes[rows], targets
