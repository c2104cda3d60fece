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
from torch import Tensor

from l2g2g.models.randomness import Purpose, random_word, random_words, scale_to, signed_key, stream_key
from l2g2g.models.sparse import SparseMatrix, csr_tensor


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
    weights: np.ndarray,
    nodes: np.ndarray,
    far_nodes: np.ndarray,
    key: int,
    fraction: float,
    groups: np.ndarray | None = None,
) -> SparseMatrix:
    """Â of the visible edges of stacked patches.

    indptr, indices, weights: CSR of the block-diagonal adjacency without diagonal. nodes: (num_rows,) node
    numbers of the rows. far_nodes: (num_entries,) node numbers of the columns, nodes[indices]. fraction: share of the
    edges between groups that is hidden. groups: (num_rows,) int64, None for the nodes themselves.
    """
    hidden = _flag_hidden(indptr[:-1], indptr, indices, nodes, far_nodes, key, fraction, groups)
    new_indptr, new_indices, values = (torch.from_numpy(part) for part in _visible(indptr, indices, weights, hidden))
    matrix = csr_tensor(new_indptr, new_indices, values, (len(nodes), len(nodes)))
    return SparseMatrix(matrix, matrix)


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


def hidden_edges(
    indptr: np.ndarray,
    indices: np.ndarray,
    nodes: np.ndarray,
    far_nodes: np.ndarray,
    key: int,
    fraction: float,
    groups: np.ndarray | None = None,
    *,
    starts: np.ndarray | None = None,
) -> tuple[Tensor, Tensor]:
    """CSR pattern of the hidden edges of stacked patches. A smaller fraction gives a subset.

    starts: (num_rows,) the first entry of each row to look at; with those above the diagonal each edge of an undirected
    graph is found once.
    """
    starts = indptr[:-1] if starts is None else starts
    hidden = _flag_hidden(starts, indptr, indices, nodes, far_nodes, key, fraction, groups)
    new_indptr, new_indices = _hidden(starts, indptr, indices, hidden)
    return torch.from_numpy(new_indptr), torch.from_numpy(new_indices)


def hidden_edges_torch(
    indptr: Tensor,
    indices: Tensor,
    nodes: Tensor,
    key: int,
    fraction: float,
    groups: Tensor | None = None,
    *,
    starts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The same with torch operations only, for any device."""
    rows = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), indptr.diff())
    hidden = _is_hidden(nodes, nodes if groups is None else groups, rows, indices.long(), key, fraction)
    if starts is not None:
        hidden &= torch.arange(len(rows), device=rows.device) >= starts[rows]
    counts = torch.zeros(len(nodes) + 1, dtype=torch.int64, device=nodes.device)
    counts.index_add_(0, rows[hidden] + 1, torch.ones_like(rows[hidden]))
    return counts.cumsum(0).to(torch.int32), indices[hidden]


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


def _flag_hidden(
    starts: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    nodes: np.ndarray,
    far_nodes: np.ndarray,
    key: int,
    fraction: float,
    groups: np.ndarray | None,
) -> np.ndarray:
    """(num_entries,) uint8, 1 where an edge is hidden; anything before the start of a row."""
    flags = _flag_by_chance(starts, indptr, nodes, far_nodes, np.uint64(key), np.uint64(edge_threshold(fraction)))
    if groups is not None:
        _clear_inside_groups(indptr, indices, groups, flags)
    return flags


@njit(cache=True, parallel=True)
def _flag_by_chance(
    starts: np.ndarray,
    indptr: np.ndarray,
    nodes: np.ndarray,
    far_nodes: np.ndarray,
    key: np.uint64,
    threshold: np.uint64,
) -> np.ndarray:
    flags = np.empty(len(far_nodes), np.uint8)
    bits = np.uint64(32)
    for row in prange(len(indptr) - 1):
        own = np.uint64(nodes[row])
        others = far_nodes[starts[row] : indptr[row + 1]]
        flagged = flags[starts[row] : indptr[row + 1]]
        for place in range(len(others)):  # nothing but arithmetic in here: it becomes vector code
            other = np.uint64(others[place])
            low = own if own < other else other
            high = other if own < other else own
            flagged[place] = (random_word(key, (low << bits) + high) >> bits) < threshold
    return flags


@njit(cache=True, parallel=True)
def _clear_inside_groups(indptr: np.ndarray, indices: np.ndarray, groups: np.ndarray, flags: np.ndarray) -> None:
    for row in prange(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            flags[entry] &= groups[row] != groups[indices[entry]]


# In the loops below every entry is written and the place moves on only if it counts: whether it does is chance, and a
# branch that is guessed wrong costs more than the work.
@njit(cache=True, parallel=True)
def _visible(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    num_rows = len(indptr) - 1
    counts = np.zeros(num_rows + 1, np.int32)
    scale = np.empty(num_rows, np.float32)
    for row in prange(num_rows):
        flags, own_weights = hidden[indptr[row] : indptr[row + 1]], weights[indptr[row] : indptr[row + 1]]
        count, degree = 1 + len(flags), 1.0
        for place in range(len(flags)):
            count -= flags[place]
            degree += own_weights[place] * (1 - flags[place])
        counts[row + 1] = count
        scale[row] = 1.0 / np.sqrt(degree)
    new_indptr = np.cumsum(counts).astype(np.int32)
    new_indices = np.empty(new_indptr[-1], np.int32)
    values = np.empty(new_indptr[-1], np.float32)
    for row in prange(num_rows):
        place, last = new_indptr[row], new_indptr[row + 1] - 1
        entry = indptr[row]
        while place < last:
            column = indices[entry]
            new_indices[place] = column
            values[place] = weights[entry] * scale[row] * scale[column]
            place += 1 - hidden[entry]
            entry += 1
        new_indices[last] = row
        values[last] = scale[row] * scale[row]
    return new_indptr, new_indices, values


@njit(cache=True, parallel=True)
def _hidden(
    starts: np.ndarray, indptr: np.ndarray, indices: np.ndarray, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    num_rows = len(indptr) - 1
    counts = np.zeros(num_rows + 1, np.int32)
    for row in prange(num_rows):
        flags = hidden[starts[row] : indptr[row + 1]]
        count = 0
        for place in range(len(flags)):
            count += flags[place]
        counts[row + 1] = count
    new_indptr = np.cumsum(counts).astype(np.int32)
    new_indices = np.empty(new_indptr[-1], np.int32)
    for row in prange(num_rows):
        place, last, entry = new_indptr[row], new_indptr[row + 1], starts[row]
        while place < last:
            new_indices[place] = indices[entry]
            place += hidden[entry]
            entry += 1
    return new_indptr, new_indices


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
