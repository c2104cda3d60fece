"""Pair patterns: node pairs to be scored, as CSR patterns; joined, and weighted as the edges are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit
from torch import Tensor


@dataclass(frozen=True, eq=False)
class PairPattern:
    """Node pairs (row, column) to be scored, as a CSR pattern.

    Attributes:
        indptr, indices: (num_rows + 1,) and (num_entries,) int32, the columns of a row in order where `twice`.
        weights: Weight of every entry in the loss: a scalar, a column (num_rows, 1) by its row, or (num_entries,).
        twice: Whether every pair stands in it in both directions, as in an adjacency; then only scores that are the
            same in both are asked for.
        rows: (num_entries,) int32 row of every entry, where whoever made the pattern knew them; see `listed`.
    """

    indptr: Tensor
    indices: Tensor
    weights: Tensor
    twice: bool = False
    rows: Tensor | None = None

    @property
    def num_pairs(self) -> int:
        """Entries of the pattern."""
        return len(self.indices)

    @property
    def entry_weights(self) -> Tensor:
        """(num_entries,) weight of every entry."""
        return spread_weights(self.weights, rows_of(self.indptr) if self.rows is None else self.rows)

    @cached_property
    def listed(self) -> tuple[Tensor, Tensor, Tensor]:
        """(rows, columns, weights) of all pairs, each once, those of a row together; weights as in the pattern."""
        if not self.twice:
            rows = rows_of(self.indptr) if self.rows is None else self.rows
            return rows, self.indices, self.weights
        if self.indices.device.type == "cpu" and self.weights.dim() != 1:
            rows, columns = (torch.from_numpy(part) for part in _upper_half(self.indptr.numpy(), self.indices.numpy()))
            return rows, columns, 2 * self.weights
        rows = rows_of(self.indptr)
        upper = self.indices > rows
        return rows[upper], self.indices[upper], 2 * (self.weights[upper] if self.weights.dim() == 1 else self.weights)

    @cached_property
    def transpose(self) -> tuple[Tensor, Tensor, Tensor]:
        """(indptr, indices, order) of the transposed pattern; order[e] is the place of its entry e in this one."""
        rows, order = rows_of(self.indptr), torch.argsort(self.indices, stable=True)
        every = torch.arange(len(self.indptr), device=self.indptr.device)
        indptr = torch.searchsorted(self.indices[order].long(), every)
        return indptr.to(torch.int32), rows[order], order.to(torch.int32)


def rows_of(indptr: Tensor) -> Tensor:
    """(num_pairs,) int32 row of every entry of a CSR pattern."""
    every = torch.arange(len(indptr) - 1, dtype=torch.int32, device=indptr.device)
    return torch.repeat_interleave(every, indptr.diff())


def spread_weights(weights: Tensor, rows: Tensor) -> Tensor:
    """(num_pairs,) weight of every pair, from a scalar, a column by rows, or the weights themselves."""
    return weights[rows.long(), 0] if weights.dim() == 2 else weights.expand(len(rows))


@njit(cache=True)
def _upper_half(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) of the entries above the diagonal."""
    count = 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            count += indices[entry] > row
    rows, columns, place = np.empty(count, np.int32), np.empty(count, np.int32), 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            if indices[entry] > row:
                rows[place], columns[place] = row, indices[entry]
                place += 1
    return rows, columns


def join_patterns(first: PairPattern, second: PairPattern) -> PairPattern:
    """All pairs of two patterns over the same rows, each with its weight; a pair may stand in both."""
    parts = (first, second)
    order = torch.argsort(torch.cat([rows_of(part.indptr) for part in parts]), stable=True)
    weights = torch.cat([part.entry_weights for part in parts])[order]
    return PairPattern(
        first.indptr + second.indptr, torch.cat([part.indices for part in parts])[order], weights.contiguous()
    )


def values_at(matrix: sp.csr_array, indptr: Tensor, indices: Tensor) -> Tensor:
    """(num_pairs,) values of a CSR matrix, columns sorted, at a part of its entries."""
    device, width = indptr.device, matrix.shape[1]
    all_indptr, all_indices, values = (
        torch.from_numpy(part).to(device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    keys = rows_of(all_indptr).long() * width + all_indices
    return values[torch.searchsorted(keys, rows_of(indptr).long() * width + indices)]


def weigh_pairs(values: Tensor, bounds: np.ndarray, shares: np.ndarray) -> Tensor:
    """(num_pairs,) weights in proportion to the values that add up to the share of every patch.

    values: (num_pairs,) positive. bounds: (num_patches + 1,) the pairs of each patch.
    """
    patch = torch.repeat_interleave(
        torch.arange(len(shares), device=values.device), torch.from_numpy(np.diff(bounds)).to(values.device)
    )
    totals = torch.zeros(len(shares), dtype=torch.float64, device=values.device).index_add_(0, patch, values.double())
    factors = torch.from_numpy(shares).to(values.device) / totals.clamp(min=1e-30)
    return (values * factors[patch]).to(torch.float32)
