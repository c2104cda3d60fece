"""Masking: edges hidden from the encoder for an epoch, which it then learns to predict; dropped feature entries.

Nodes lie in groups, and edges between groups are hidden, each with the same chance. Random edges: every node is a
group of its own. Patches drawn anew: nodes, or whole clusters, are dealt into a few groups, and all edges between
these are hidden. Whether an edge is hidden depends on (seed, epoch) and its two nodes alone: it is hidden in every
patch that holds it and in both directions, whichever patch, batch or rank looks.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor, get_num_threads

from l2g2g.models.randomness import Purpose, random_word, random_words, scale_to, signed_key, stream_key
from l2g2g.models.row_vectors import share_rows
from l2g2g.models.sparse import SparseMatrix, csr_tensor

_ROWS = 64  # rows whose edges are looked at together


def edge_threshold(fraction: float) -> int:
    """Upper 32 bits below this number mean that an edge is hidden."""
    return round(fraction * (1 << 32))


def deal_groups(units: Tensor, num_groups: int, *, seed: int, epoch: int) -> Tensor:
    """(num_rows,) int64 random group of every row in this epoch; rows of one unit (a node, a cluster) stay together."""
    key = torch.tensor(signed_key(stream_key(seed, Purpose.MASK_GROUPS, epoch)), device=units.device)
    return scale_to(random_words(key, units), torch.tensor(num_groups, device=units.device))


def propagate_visible(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray | None,
    nodes: np.ndarray,
    far_nodes: np.ndarray,
    key: int,
    fraction: float,
    groups: np.ndarray | None = None,
    sections: np.ndarray | None = None,
) -> SparseMatrix:
    """Â of the visible edges of stacked patches.

    indptr, indices, weights: CSR of the block-diagonal adjacency without diagonal; no weights: all are 1.
    nodes: (num_rows,) node numbers of the rows. far_nodes: (num_entries,) those of the columns, nodes[indices].
    fraction: share of the edges between groups that is hidden. groups: (num_rows,) int64, None for the nodes.
    sections: those of the result.
    """
    return propagate_unflagged(
        indptr, indices, weights, flag_hidden(indptr, indices, nodes, far_nodes, key, fraction, groups), sections
    )


def flag_hidden(
    indptr: np.ndarray,
    indices: np.ndarray,
    nodes: np.ndarray,
    far_nodes: np.ndarray,
    key: int,
    fraction: float,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """(num_entries,) uint8, 1 where an edge is hidden; arguments as for `propagate_visible`."""
    hidden = _flag_by_chance(indptr, nodes, far_nodes, np.uint64(key), np.uint64(edge_threshold(fraction)))
    if groups is not None:
        _clear_inside_groups(indptr, indices, groups, hidden)
    return hidden


def propagate_unflagged(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray | None,
    hidden: np.ndarray,
    sections: np.ndarray | None = None,
) -> SparseMatrix:
    """Â of the edges without a flag; see `propagate_visible`."""
    num_rows = len(indptr) - 1
    own_weights = np.empty(0, np.float32) if weights is None else weights
    visible = _visible(indptr, indices, own_weights, hidden, share_rows(indptr, get_num_threads()))
    new_indptr, new_indices, values = (torch.from_numpy(part) for part in visible)
    matrix = csr_tensor(new_indptr, new_indices, values, (num_rows, num_rows))
    return SparseMatrix(matrix, matrix, sections)


def propagate_visible_torch(
    indptr: Tensor,
    indices: Tensor,
    weights: Tensor,
    nodes: Tensor,
    key: int,
    fraction: float,
    groups: Tensor | None = None,
) -> SparseMatrix:
    """The same with torch operations only, for any device."""
    num_rows = len(nodes)
    rows = torch.repeat_interleave(torch.arange(num_rows, device=nodes.device), indptr.diff())
    seen = ~_is_hidden(nodes, nodes if groups is None else groups, rows, indices.long(), key, fraction)
    loops = torch.arange(num_rows, device=nodes.device)
    all_rows, all_columns = torch.cat([rows[seen], loops]), torch.cat([indices[seen].long(), loops])
    values = torch.cat([weights[seen], weights.new_ones(num_rows)])
    scale = torch.zeros_like(values[:num_rows]).index_add_(0, all_rows, values).rsqrt()
    values = values * scale[all_rows] * scale[all_columns]
    order = torch.argsort(all_rows, stable=True)  # the node itself is the last of its row
    new_indptr = torch.searchsorted(all_rows[order], torch.arange(num_rows + 1, device=nodes.device))
    matrix = csr_tensor(
        new_indptr.to(torch.int32), all_columns[order].to(torch.int32), values[order], (num_rows, num_rows)
    )
    return SparseMatrix(matrix, matrix)


@njit(cache=True, parallel=True)
def numbers_at(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """table[places], for places of any integer type: NumPy widens them first, which takes longer than the rest."""
    found = np.empty(len(places), table.dtype)
    for entry in prange(len(places)):
        found[entry] = table[places[entry]]
    return found


def hidden_pairs(
    rows: np.ndarray,
    columns: np.ndarray,
    nodes: np.ndarray,
    key: int,
    fraction: float,
    groups: np.ndarray | None = None,
) -> tuple[Tensor, Tensor]:
    """(rows, columns) of those edges in a list that are hidden, in order. A smaller fraction gives a subset.

    rows, columns: (num_edges,) int32. nodes: (num_rows,) their node numbers. groups: as in `propagate_visible`.
    """
    threshold = np.uint64(edge_threshold(fraction))
    flags = _flag_list(rows, columns, nodes, np.uint64(key), threshold)
    if groups is not None:
        _clear_list_inside_groups(rows, columns, groups, flags)
    found = _pick(rows, columns, flags, get_num_threads())
    return torch.from_numpy(found[0]), torch.from_numpy(found[1])


def hidden_pairs_torch(
    rows: Tensor, columns: Tensor, nodes: Tensor, key: int, fraction: float, groups: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same with torch operations only, for any device."""
    hidden = _is_hidden(nodes, nodes if groups is None else groups, rows.long(), columns.long(), key, fraction)
    return rows[hidden], columns[hidden]


def drop_entries(values: np.ndarray, offsets: np.ndarray, keys: np.ndarray, fraction: float) -> np.ndarray:
    """Set a fraction of the entries to zero and scale the rest up, as dropout does.

    values: (num_entries,). offsets: (num_patches + 1,) the entries of each patch, keyed by its own stream.
    """
    return _drop(values, offsets, keys, np.uint64(edge_threshold(fraction)), np.float32(1.0 / (1.0 - fraction)))


def keep_entries(offsets: np.ndarray, keys: np.ndarray, fraction: float) -> np.ndarray:
    """(num_entries,) uint8, 0 for the entries that `drop_entries` sets to zero."""
    return _keep(offsets, keys, np.uint64(edge_threshold(fraction)))


def _is_hidden(nodes: Tensor, groups: Tensor, rows: Tensor, columns: Tensor, key: int, fraction: float) -> Tensor:
    first, second = nodes[rows], nodes[columns]
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    words = random_words(torch.tensor(signed_key(key), device=first.device), (low << 32) + high)
    return (groups[rows] != groups[columns]) & (((words >> 32) & 0xFFFFFFFF) < edge_threshold(fraction))


@njit(cache=True, inline="always")
def _is_chosen(one: np.uint64, other: np.uint64, key: np.uint64, threshold: np.uint64) -> bool:
    """Whether chance hides an edge: the same for both of its directions."""
    low, high = min(one, other), max(one, other)
    return bool((random_word(key, (low << np.uint64(32)) + high) >> np.uint64(32)) < threshold)


@njit(cache=True, parallel=True)
def _flag_by_chance(
    indptr: np.ndarray, nodes: np.ndarray, far_nodes: np.ndarray, key: np.uint64, threshold: np.uint64
) -> np.ndarray:
    """(num_entries,) uint8, 1 where an edge is hidden."""
    flags, num_rows = np.empty(len(far_nodes), np.uint8), len(indptr) - 1
    for block in prange((num_rows + _ROWS - 1) // _ROWS):
        first, last = block * _ROWS, min((block + 1) * _ROWS, num_rows)
        start = indptr[first]
        others, flagged = far_nodes[start : indptr[last]], flags[start : indptr[last]]
        near = np.empty(len(others), np.uint64)
        for row in range(first, last):
            near[indptr[row] - start : indptr[row + 1] - start] = nodes[row]
        for place in range(len(near)):  # nothing but arithmetic in here, for many rows at once: it becomes vector code
            flagged[place] = _is_chosen(near[place], np.uint64(others[place]), key, threshold)
    return flags


@njit(cache=True, parallel=True)
def _flag_list(
    rows: np.ndarray, columns: np.ndarray, nodes: np.ndarray, key: np.uint64, threshold: np.uint64
) -> np.ndarray:
    flags = np.empty(len(rows), np.uint8)
    for edge in prange(len(rows)):
        flags[edge] = _is_chosen(np.uint64(nodes[rows[edge]]), np.uint64(nodes[columns[edge]]), key, threshold)
    return flags


@njit(cache=True, parallel=True)
def _clear_list_inside_groups(rows: np.ndarray, columns: np.ndarray, groups: np.ndarray, flags: np.ndarray) -> None:
    for edge in prange(len(rows)):
        flags[edge] &= groups[rows[edge]] != groups[columns[edge]]


@njit(cache=True, parallel=True)
def _clear_inside_groups(indptr: np.ndarray, indices: np.ndarray, groups: np.ndarray, flags: np.ndarray) -> None:
    for row in prange(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            flags[entry] &= groups[row] != groups[indices[entry]]


# In the loops below every entry is written and the place moves on only if it counts: whether it does is chance, and a
# branch that is guessed wrong costs more than the work.
@njit(cache=True, parallel=True)
def _visible(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, hidden: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSR of Â of the entries that are not hidden; the node itself is the last of its row. bounds: rows of parts."""
    num_rows, num_parts = len(indptr) - 1, len(bounds) - 1
    starts = np.zeros(num_parts + 1, np.int64)
    for part in prange(num_parts):
        low, high = bounds[part], bounds[part + 1]
        starts[part + 1] = high - low + _count_zeros(hidden[indptr[low] : indptr[high]])
    starts = np.cumsum(starts)
    new_indptr, scale = np.zeros(num_rows + 1, np.int32), np.empty(num_rows, np.float32)
    new_indices, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    for part in prange(num_parts):
        place = starts[part]
        for row in range(bounds[part], bounds[part + 1]):
            first, degree = place, np.float32(1.0)
            if len(weights) == 0:
                for entry in range(indptr[row], indptr[row + 1]):
                    new_indices[place] = indices[entry]
                    place += 1 - hidden[entry]
                degree = np.float32(1 + place - first)
            else:
                for entry in range(indptr[row], indptr[row + 1]):
                    new_indices[place], values[place] = indices[entry], weights[entry]
                    degree += weights[entry] * np.float32(1 - hidden[entry])
                    place += 1 - hidden[entry]
            new_indices[place], values[place] = row, np.float32(1.0)
            place += 1
            scale[row] = np.float32(1.0) / np.sqrt(degree)
            new_indptr[row + 1] = place
    for part in prange(num_parts):
        for row in range(bounds[part], bounds[part + 1]):
            for place in range(new_indptr[row], new_indptr[row + 1]):
                weight = np.float32(1.0) if len(weights) == 0 else values[place]
                values[place] = weight * (scale[row] * scale[new_indices[place]])
    return new_indptr, new_indices, values


@njit(cache=True, inline="always")
def _count_zeros(flags: np.ndarray) -> int:
    count = 0
    for place in range(len(flags)):
        count += 1 - flags[place]
    return count


@njit(cache=True, parallel=True)
def _pick(rows: np.ndarray, columns: np.ndarray, flags: np.ndarray, num_parts: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of a list that have a flag."""
    bounds = np.arange(num_parts + 1) * len(rows) // num_parts
    starts = np.zeros(num_parts + 1, np.int64)
    for part in prange(num_parts):
        own = flags[bounds[part] : bounds[part + 1]]
        starts[part + 1] = len(own) - _count_zeros(own)
    starts = np.cumsum(starts)
    new_rows, new_columns = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
    for part in prange(num_parts):
        place, edge = starts[part], bounds[part]
        while place < starts[part + 1]:
            new_rows[place], new_columns[place] = rows[edge], columns[edge]
            place += flags[edge]
            edge += 1
    return new_rows, new_columns


@njit(cache=True, parallel=True)
def _drop(
    values: np.ndarray, offsets: np.ndarray, keys: np.ndarray, threshold: np.uint64, scale: np.float32
) -> np.ndarray:
    kept = np.empty_like(values)
    for patch in range(len(offsets) - 1):
        for entry in prange(offsets[patch], offsets[patch + 1]):
            word = random_word(keys[patch], np.uint64(entry - offsets[patch]))
            kept[entry] = values[entry] * scale if (word >> np.uint64(32)) >= threshold else np.float32(0.0)
    return kept


@njit(cache=True, parallel=True)
def _keep(offsets: np.ndarray, keys: np.ndarray, threshold: np.uint64) -> np.ndarray:
    kept = np.empty(offsets[-1], np.uint8)
    for patch in range(len(offsets) - 1):
        for entry in prange(offsets[patch], offsets[patch + 1]):
            word = random_word(keys[patch], np.uint64(entry - offsets[patch]))
            kept[entry] = (word >> np.uint64(32)) >= threshold
    return kept
