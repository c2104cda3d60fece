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
    key: int,
    fraction: float,
    groups: np.ndarray | None = None,
) -> SparseMatrix:
    """Â of the visible edges of stacked patches.

    indptr, indices, weights: CSR of the block-diagonal adjacency without diagonal. nodes: (num_rows,) node
    numbers of the rows. fraction: share of the edges between groups that is hidden. groups: (num_rows,) int64,
    None for the nodes themselves.
    """
    groups = nodes if groups is None else groups
    parts = _visible(indptr, indices, weights, nodes, groups, np.uint64(key), np.uint64(edge_threshold(fraction)))
    new_indptr, new_indices, values = (torch.from_numpy(part) for part in parts)
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
    order = torch.argsort(all_rows * num_rows + all_columns)
    new_indptr = torch.searchsorted(all_rows[order], torch.arange(num_rows + 1, device=nodes.device))
    matrix = csr_tensor(
        new_indptr.to(torch.int32), all_columns[order].to(torch.int32), values[order], (num_rows, num_rows)
    )
    return SparseMatrix(matrix, matrix)


def hidden_edges(
    indptr: np.ndarray,
    indices: np.ndarray,
    nodes: np.ndarray,
    key: int,
    fraction: float,
    groups: np.ndarray | None = None,
    *,
    once: bool = False,
) -> tuple[Tensor, Tensor]:
    """CSR pattern of the hidden edges of stacked patches. A smaller fraction gives a subset.

    once: only the entries above the diagonal, so that each edge of an undirected graph stands in it once.
    """
    groups = nodes if groups is None else groups
    parts = _hidden(indptr, indices, nodes, groups, np.uint64(key), np.uint64(edge_threshold(fraction)), once)
    return torch.from_numpy(parts[0]), torch.from_numpy(parts[1])


def hidden_edges_torch(
    indptr: Tensor,
    indices: Tensor,
    nodes: Tensor,
    key: int,
    fraction: float,
    groups: Tensor | None = None,
    *,
    once: bool = False,
) -> tuple[Tensor, Tensor]:
    """The same with torch operations only, for any device."""
    rows = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), indptr.diff())
    hidden = _is_hidden(nodes, nodes if groups is None else groups, rows, indices.long(), key, fraction)
    if once:
        hidden &= indices > rows
    counts = torch.zeros(len(nodes) + 1, dtype=torch.int64, device=nodes.device)
    counts.index_add_(0, rows[hidden] + 1, torch.ones_like(rows[hidden]))
    return counts.cumsum(0).to(torch.int32), indices[hidden]


def drop_entries(values: np.ndarray, offsets: np.ndarray, keys: np.ndarray, fraction: float) -> np.ndarray:
    """Set a fraction of the entries to zero and scale the rest up, as dropout does.

    values: (num_entries,). offsets: (num_patches + 1,) the entries of each patch, keyed by its own stream.
    """
    return _drop(values, offsets, keys, np.uint64(edge_threshold(fraction)), np.float32(1.0 / (1.0 - fraction)))


def _is_hidden(nodes: Tensor, groups: Tensor, rows: Tensor, columns: Tensor, key: int, fraction: float) -> Tensor:
    first, second = nodes[rows], nodes[columns]
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    words = random_words(torch.tensor(signed_key(key), device=first.device), (low << 32) + high)
    return (groups[rows] != groups[columns]) & (((words >> 32) & 0xFFFFFFFF) < edge_threshold(fraction))


@njit(cache=True, inline="always")
def _hides(nodes: np.ndarray, groups: np.ndarray, row: int, column: int, key: np.uint64, threshold: np.uint64) -> bool:
    if groups[row] == groups[column]:
        return False
    low, high = min(nodes[row], nodes[column]), max(nodes[row], nodes[column])
    position = (np.uint64(low) << np.uint64(32)) + np.uint64(high)
    return bool((random_word(key, position) >> np.uint64(32)) < threshold)


@njit(cache=True, parallel=True)
def _visible(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    nodes: np.ndarray,
    groups: np.ndarray,
    key: np.uint64,
    threshold: np.uint64,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    num_rows = len(nodes)
    counts = np.zeros(num_rows + 1, np.int32)
    scale = np.empty(num_rows, np.float32)
    for row in prange(num_rows):
        count, degree = 1, 1.0
        for entry in range(indptr[row], indptr[row + 1]):
            if not _hides(nodes, groups, row, indices[entry], key, threshold):
                count += 1
                degree += weights[entry]
        counts[row + 1] = count
        scale[row] = 1.0 / np.sqrt(degree)
    new_indptr = np.cumsum(counts).astype(np.int32)
    new_indices = np.empty(new_indptr[-1], np.int32)
    values = np.empty(new_indptr[-1], np.float32)
    for row in prange(num_rows):
        place = new_indptr[row]
        looped = False
        for entry in range(indptr[row], indptr[row + 1]):
            column = indices[entry]
            if column > row and not looped:
                new_indices[place] = row
                values[place] = scale[row] * scale[row]
                place += 1
                looped = True
            if not _hides(nodes, groups, row, column, key, threshold):
                new_indices[place] = column
                values[place] = weights[entry] * scale[row] * scale[column]
                place += 1
        if not looped:
            new_indices[place] = row
            values[place] = scale[row] * scale[row]
    return new_indptr, new_indices, values


@njit(cache=True, parallel=True)
def _hidden(
    indptr: np.ndarray,
    indices: np.ndarray,
    nodes: np.ndarray,
    groups: np.ndarray,
    key: np.uint64,
    threshold: np.uint64,
    once: bool,
) -> tuple[np.ndarray, np.ndarray]:
    num_nodes = len(nodes)
    counts = np.zeros(num_nodes + 1, np.int32)
    for row in prange(num_nodes):
        count = 0
        first = row + 1 if once else 0
        for entry in range(indptr[row], indptr[row + 1]):
            if indices[entry] >= first and _hides(nodes, groups, row, indices[entry], key, threshold):
                count += 1
        counts[row + 1] = count
    new_indptr = np.cumsum(counts).astype(np.int32)
    new_indices = np.empty(new_indptr[-1], np.int32)
    for row in prange(num_nodes):
        place = new_indptr[row]
        first = row + 1 if once else 0
        for entry in range(indptr[row], indptr[row + 1]):
            if indices[entry] >= first and _hides(nodes, groups, row, indices[entry], key, threshold):
                new_indices[place] = indices[entry]
                place += 1
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
