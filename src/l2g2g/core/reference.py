"""Reference: every formula of the core once more in plain NumPy and torch, for reading, for tests and other devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

# Kernels on graphs: NumPy arrays in, NumPy arrays out, the same names and arguments as in `_native`.


def pack_pattern(
    indptr: np.ndarray,
    indices: np.ndarray,
    other_indptr: np.ndarray,
    other_indices: np.ndarray,
    order: np.ndarray,
    places: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr int64, columns int32) of the union of two square CSR patterns, rows and columns in another order.

    order: (num_rows,) int32 row at each new place. places: (num_rows,) int32 new place of each row.
    """
    num_rows = len(order)
    keys = []
    for pointers, columns in ((indptr, indices), (other_indptr, other_indices)):
        rows = np.repeat(np.arange(num_rows), np.diff(pointers))
        keys.append(places[rows].astype(np.int64) * num_rows + places[columns])
    union = np.unique(np.concatenate(keys))
    counts = np.bincount(union // max(1, num_rows), minlength=num_rows)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), (union % max(1, num_rows)).astype(np.int32)


def find_entries(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(num_pairs,) bool, whether a CSR pattern with sorted columns has an entry at each (row, column); all int64."""
    width = int(max(columns.max(initial=0), indices.max(initial=0))) + 1
    held = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)) * width + indices
    wanted = rows * width + columns
    place = np.minimum(np.searchsorted(held, wanted), max(len(held) - 1, 0))
    return held[place] == wanted if len(held) else np.zeros(len(rows), bool)


# Random numbers: see core/cpp/hashing.hpp. NumPy's uint32 wraps around as C++'s does.

_SPREAD = np.uint32(0x9E3779B1)


def mix(words: np.ndarray) -> np.ndarray:
    """A bijection of uint32 words in which every input bit reaches every output bit."""
    words = words ^ (words >> np.uint32(16))
    words = words * np.uint32(0x7FEB352D)
    words = words ^ (words >> np.uint32(15))
    words = words * np.uint32(0x846CA68B)
    return words ^ (words >> np.uint32(16))


def hash_nodes(nodes: np.ndarray, key: int) -> np.ndarray:
    """(num_nodes,) uint32 hashes of node numbers under a 64-bit key."""
    return mix(nodes.astype(np.uint32) + np.uint32(key & 0xFFFFFFFF))


def hash_pairs(one: np.ndarray, other: np.ndarray, key: int) -> np.ndarray:
    """(num_pairs,) uint32 hashes of pairs of nodes, the same in both directions."""
    return mix((hash_nodes(one, key) + hash_nodes(other, key)) ^ np.uint32(key >> 32))


def hash_numbers(node_hashes: np.ndarray, numbers: np.ndarray, key: int) -> np.ndarray:
    """(count,) uint32 hashes of (node, number), from the hashes of the nodes."""
    return mix((node_hashes + numbers.astype(np.uint32) * _SPREAD) ^ np.uint32(key >> 32))


def keep_factors(dropout: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(num_entries,) float32 factor of each entry under a dropout (`models.sparse.Dropout`): 0 where it is left out."""
    words = hash_numbers(dropout.node_hashes[rows], columns, dropout.key)
    return np.where(words >= dropout.threshold, np.float32(dropout.factor), np.float32(0.0))


# Kernels on tensors: torch, any device and precision.


def drop_dense(rows: Tensor, dropout: Any) -> Tensor:
    """Dense rows with some entries set to zero and the others scaled up."""
    num_rows, width = rows.shape
    every = np.repeat(np.arange(num_rows), width), np.tile(np.arange(width), num_rows)
    factors = torch.from_numpy(keep_factors(dropout, *every)).reshape(num_rows, width)
    return rows * factors.to(rows)


def pair_loss(left: Tensor, right: Tensor, bias: Tensor, edges: Any, non_edges: Any) -> Tensor:
    """Σ weight · −log σ(±(left_u · right_v + bias)) over two lists of pairs (`models.pairs.PairList`)."""
    total = left.new_zeros(())
    for pairs, sign in ((edges, -1.0), (non_edges, 1.0)):
        rows, columns = (torch.from_numpy(end).long().to(left.device) for end in (pairs.rows, pairs.columns))
        weights = torch.from_numpy(pairs.pair_weights).to(left)
        scores = (left.index_select(0, rows) * right.index_select(0, columns)).sum(1) + bias
        total = total + (functional.softplus(sign * scores) * weights).sum()
    return total
