"""Row draws: the pairs of an epoch from the rows of a graph, block by block, without the graph in memory.

They are the pairs that `masking.hidden_pairs` and `sampling.draw_negatives` give for the whole graph: what is drawn for
a row depends on its node, its neighbours and its place among all negatives alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from l2g2g.models.masking import edge_threshold
from l2g2g.models.randomness import random_word
from l2g2g.models.sampling import pick_allowed, unite_row


def draw_row_edges(
    indptr: np.ndarray, indices: np.ndarray, low: int, key: int, fraction: float, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, entries) of the edges u < v that are hidden, of the rows low, low + 1, …; each (num_pairs,).

    groups: (num_nodes,) int64, edges inside a group are not hidden; None: every node is a group of its own.
    """
    dealt = np.empty(0, np.int64) if groups is None else groups
    flags = np.empty(len(indices), np.uint8)
    starts = _flag_hidden(indptr, indices, low, np.uint64(key), np.uint64(edge_threshold(fraction)), dealt, flags)
    return _list_flagged(indptr, indices, low, flags, starts)


def draw_row_negatives(
    indptr: np.ndarray,
    indices: np.ndarray,
    low: int,
    held: tuple[np.ndarray, np.ndarray],
    starts: np.ndarray,
    num_nodes: int,
    keys: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) of the negatives of the rows low, low + 1, …, those of a row together.

    indptr, indices: the edges of these rows, columns in order. held: CSR of the pairs of all nodes that are no
    negatives besides. starts: (num_rows + 1,) place of the negatives of each row among those of all nodes.
    keys: those of the stream, and of its second one; see `sampling`.
    """
    return _draw(indptr, indices, low, *held, starts, num_nodes, np.uint64(keys[0]), np.uint64(keys[1]))


@njit(cache=True, parallel=True)
def _flag_hidden(
    indptr: np.ndarray,
    indices: np.ndarray,
    low: int,
    key: np.uint64,
    threshold: np.uint64,
    groups: np.ndarray,
    flags: np.ndarray,
) -> np.ndarray:
    """Flag the entries above the diagonal that are hidden. Returns (num_rows + 1,) how many come before each row."""
    bits = np.uint64(32)
    counts = np.zeros(len(indptr), np.int64)
    for row in prange(len(indptr) - 1):
        node, first, last, count = low + row, indptr[row], indptr[row + 1], 0
        upper = first + np.searchsorted(indices[first:last], node)
        flags[first:upper] = 0
        start = np.uint64(node) << bits
        for entry in range(upper, last):  # nothing but arithmetic: it becomes vector code
            flags[entry] = (random_word(key, start + np.uint64(indices[entry])) >> bits) < threshold
        if len(groups):
            for entry in range(upper, last):
                flags[entry] &= groups[node] != groups[indices[entry]]
        for entry in range(upper, last):
            count += flags[entry]
        counts[row + 1] = count
    return np.cumsum(counts)


@njit(cache=True, parallel=True)
def _list_flagged(
    indptr: np.ndarray, indices: np.ndarray, low: int, flags: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = starts[-1]
    rows, columns, entries = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int64)
    for row in prange(len(indptr) - 1):
        place, entry = starts[row + 1] - 1, indptr[row + 1] - 1
        while place >= starts[row]:  # from the end, where the entries above the diagonal are; no branch to guess
            rows[place], columns[place], entries[place] = low + row, indices[entry], entry
            place -= flags[entry]
            entry -= 1
    return rows, columns, entries


@njit(cache=True, inline="always")
def _holds(sorted_columns: np.ndarray, column: np.int64) -> bool:
    place = np.searchsorted(sorted_columns, column)
    return bool(place < len(sorted_columns) and sorted_columns[place] == column)


@njit(cache=True)
def _pick_allowed(node: int, own: np.ndarray, held: np.ndarray, num_nodes: int, word: np.uint64) -> np.int64:
    """A random column that is neither in one of the two lists nor the node itself."""
    excluded = np.empty(unite_row(node, own, held, np.empty(0, np.int64)), np.int64)
    unite_row(node, own, held, excluded)
    return pick_allowed(excluded, 0, num_nodes, word)


@njit(cache=True, parallel=True)
def _draw(
    indptr: np.ndarray,
    indices: np.ndarray,
    low: int,
    held_indptr: np.ndarray,
    held: np.ndarray,
    starts: np.ndarray,
    num_nodes: int,
    key: np.uint64,
    second_key: np.uint64,
) -> tuple[np.ndarray, np.ndarray]:
    low_half, bits, size, base = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(num_nodes), starts[0]
    rows, columns = np.empty(starts[-1] - base, np.int32), np.empty(starts[-1] - base, np.int32)
    for row in prange(len(starts) - 1):
        node = low + row
        own = indices[indptr[row] : indptr[row + 1]]
        others = held[held_indptr[node] : held_indptr[node + 1]]
        for position in range(starts[row], starts[row + 1]):
            word = random_word(key, np.uint64(position))
            column = np.int64(((word >> bits) * size) >> bits)
            if column == node or _holds(own, column) or _holds(others, column):
                column = np.int64(((word & low_half) * size) >> bits)
                if column == node or _holds(own, column) or _holds(others, column):
                    column = _pick_allowed(node, own, others, num_nodes, random_word(second_key, np.uint64(position)))
            rows[position - base], columns[position - base] = node, column
    return rows, columns
