"""Pair patterns put together: with their transpose, joined, and weighted as the edges are."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.models.sampling import transpose_pattern, transpose_pattern_torch
from l2g2g.models.sparse import PairPattern


def rows_of(indptr: Tensor) -> Tensor:
    """(num_pairs,) row of every entry of a CSR pattern."""
    return torch.repeat_interleave(torch.arange(len(indptr) - 1, device=indptr.device), indptr.diff())


def directed_pattern(indptr: Tensor, indices: Tensor, weights: Tensor) -> PairPattern:
    """A square pattern that is not symmetric, with the transpose its gradients need."""
    if indptr.device.type != "cpu":
        return PairPattern(indptr, indices, weights, transpose_pattern_torch(indptr, indices))
    first, second, order = (torch.from_numpy(part) for part in transpose_pattern(indptr.numpy(), indices.numpy()))
    return PairPattern(indptr, indices, weights, (first, second, order))


def join_patterns(first: PairPattern, second: PairPattern) -> PairPattern:
    """All pairs of two patterns over the same rows, each with its weight; a pair may stand in both."""
    parts = (first, second)
    order = torch.argsort(torch.cat([rows_of(part.indptr) for part in parts]), stable=True)
    weights = torch.cat([part.weights.expand(part.num_pairs) for part in parts])[order]
    return directed_pattern(
        first.indptr + second.indptr, torch.cat([part.indices for part in parts])[order], weights.contiguous()
    )


def values_at(matrix: sp.csr_array, indptr: Tensor, indices: Tensor) -> Tensor:
    """(num_pairs,) values of a CSR matrix, columns sorted, at a part of its entries."""
    device, width = indptr.device, matrix.shape[1]
    all_indptr, all_indices, values = (
        torch.from_numpy(part).to(device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    keys = rows_of(all_indptr) * width + all_indices
    return values[torch.searchsorted(keys, rows_of(indptr) * width + indices)]


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
