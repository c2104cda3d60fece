"""Sampling: negative pairs inside patches, and FastGAE's node samples.

A negative of row u is drawn without rejection: with the excluded columns c_0 < c_1 < … of u (neighbours,
held-out partners and u itself) the r-th allowed column is r + i, where i counts the c_i − i ≤ r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from torch import Tensor

from l2g2g.models.degree_sampling import TargetUnits, draw_by_units, draw_by_units_torch, units_by_degree
from l2g2g.models.pair_patterns import PairPattern
from l2g2g.models.randomness import Purpose, mix, random_word, random_words, scale_to, signed_key, stream_key


@dataclass(frozen=True, eq=False)
class NegativePlan:
    """What is constant about the negatives of some stacked patches, computed once.

    Attributes:
        excluded: (indptr, indices) CSR over the stacked rows of pairs that are never drawn; holds the diagonal.
        shares: (num_rows,) float64, the negatives that all rows of the patch up to this one deserve together:
            count · (allowed pairs up to the row) / (allowed pairs of the patch).
        offsets: (num_patches + 1,) rows of each patch.
        pair_offsets: (num_patches + 1,) negatives of each patch.
        patches: (num_patches,) the numbers of the patches, which key their random streams.
        units: How likely each row is as the far end; None for uniformly.
    """

    excluded: tuple[np.ndarray, np.ndarray]
    shares: np.ndarray
    offsets: np.ndarray
    pair_offsets: np.ndarray
    patches: np.ndarray
    units: TargetUnits | None = None

    @property
    def num_pairs(self) -> int:
        """Negatives per draw."""
        return int(self.pair_offsets[-1])


def plan_negatives(
    excluded: sp.csr_array,
    offsets: np.ndarray,
    counts: np.ndarray,
    patches: np.ndarray | None = None,
    degrees: np.ndarray | None = None,
) -> NegativePlan:
    """Plan counts[j] negatives in patch j, uniformly among its pairs outside `excluded`.

    excluded: block-diagonal (num_rows, num_rows) symmetric pattern that includes the diagonal.
    A patch in which every pair is excluded gets no negatives. degrees: (num_rows,); with them a pair (u, v) is
    drawn in proportion to degree_v^0.75 instead.
    """
    units = None if degrees is None else units_by_degree(degrees, excluded, offsets)
    allowed = np.repeat(np.diff(offsets), np.diff(offsets)) - np.diff(excluded.indptr)
    if units is not None:
        allowed = units.allowed
    cumulative = np.concatenate([[0], np.cumsum(allowed.astype(np.int64))])
    base = cumulative[offsets[:-1]]
    totals = cumulative[offsets[1:]] - base
    granted = np.where(totals > 0, counts, 0)
    pair_offsets = np.concatenate([[0], np.cumsum(granted)])
    sizes = np.diff(offsets)
    share = (cumulative[1:] - np.repeat(base, sizes)) / np.repeat(np.maximum(totals, 1), sizes)
    return NegativePlan(
        (excluded.indptr, excluded.indices),
        share * np.repeat(granted, sizes),
        offsets,
        pair_offsets,
        np.arange(len(offsets) - 1) if patches is None else patches,
        units,
    )


def draw_negatives(plan: NegativePlan, weights: Tensor, *, seed: int, epoch: int) -> PairPattern:
    """Draw fresh negatives on the CPU, the same for the same (seed, epoch, patch). weights: as in PairPattern."""
    keys = _patch_keys(plan, seed, epoch)
    indptr = _deal(plan.shares, plan.offsets, plan.pair_offsets, _shifts(keys))
    if plan.num_pairs < 2**31:
        indptr = indptr.astype(np.int32)
    where = indptr, plan.offsets, plan.pair_offsets, keys
    if plan.units is None:
        columns = _draw(*plan.excluded, *where)
    else:
        columns = draw_by_units(*plan.excluded, plan.units.starts, plan.units.removed, plan.units.allowed, *where)
    return PairPattern(torch.from_numpy(indptr), torch.from_numpy(columns), weights)


def draw_negatives_torch(
    plan: NegativePlan, weights: Tensor, *, seed: int, epoch: int, device: torch.device | str
) -> PairPattern:
    """The same draw with torch operations only, for any device; gives the same pairs."""
    sizes = torch.from_numpy(np.diff(plan.offsets)).to(device)
    per_patch = torch.from_numpy(np.diff(plan.pair_offsets)).to(device)
    patch = torch.repeat_interleave(torch.arange(len(sizes), device=device), per_patch)
    patch_keys = _patch_keys(plan, seed, epoch)
    indptr = torch.from_numpy(_deal(plan.shares, plan.offsets, plan.pair_offsets, _shifts(patch_keys))).to(device)
    rows = torch.repeat_interleave(torch.arange(len(indptr) - 1, device=device), indptr.diff())
    excluded_indptr = torch.from_numpy(plan.excluded[0]).to(device).long()
    excluded = torch.from_numpy(plan.excluded[1]).to(device).long()
    start = torch.from_numpy(plan.offsets[:-1]).to(device)[patch]
    position = torch.arange(len(rows), device=device) - torch.from_numpy(plan.pair_offsets[:-1]).to(device)[patch]
    keys = torch.tensor([signed_key(int(key)) for key in patch_keys], device=device)[patch]
    words = random_words(keys, position)
    if plan.units is None:
        num_allowed = sizes[patch] - excluded_indptr.diff()[rows]
        rank = scale_to(words, num_allowed)
        owner = torch.repeat_interleave(torch.arange(len(excluded_indptr) - 1, device=device), excluded_indptr.diff())
        stride = len(excluded_indptr)
        patch_start = torch.repeat_interleave(torch.from_numpy(plan.offsets[:-1]).to(device), sizes)
        place = torch.arange(len(excluded), device=device) - excluded_indptr[owner]
        thresholds = owner * stride + (excluded - patch_start[owner] - place)
        below = torch.searchsorted(thresholds, rows * stride + rank, right=True) - excluded_indptr[rows]
        columns = start + rank + below
    else:
        columns = draw_by_units_torch(excluded_indptr, excluded, plan.units, rows, start, words)
    return PairPattern(indptr.to(torch.int32), columns.to(torch.int32), weights.to(device))


def sample_nodes_by_degree(degrees: np.ndarray, count: int, *, seed: int, epoch: int, alpha: float = 1.0) -> np.ndarray:
    """Draw `count` distinct nodes with probability proportional to (degree + 1)^alpha, sorted (FastGAE)."""
    generator = np.random.default_rng([seed, int(Purpose.NODE_SAMPLE), epoch])
    # Exponential races: the first arrivals are a weighted sample without replacement.
    arrivals = generator.exponential(size=len(degrees)) / (degrees + 1.0) ** alpha
    return np.sort(np.argpartition(arrivals, count - 1)[:count])


def _patch_keys(plan: NegativePlan, seed: int, epoch: int) -> np.ndarray:
    return np.array([stream_key(seed, Purpose.NEGATIVES, epoch, int(patch)) for patch in plan.patches], np.uint64)


def _shifts(keys: np.ndarray) -> np.ndarray:
    """A random number in [0, 1) for each patch, apart from the words that choose its columns."""
    return np.array([(mix(int(key)) >> 11) / 2**53 for key in keys])


@njit(cache=True)
def _deal(shares: np.ndarray, offsets: np.ndarray, pair_offsets: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Where the negatives of each row begin in this draw.

    Shares are rounded after a random shift, so that every row has its share in the mean over epochs; without it
    fewer negatives than rows would come from the same few rows for ever.
    """
    indptr = np.zeros(len(shares) + 1, np.int64)
    for patch in range(len(offsets) - 1):
        count = pair_offsets[patch + 1] - pair_offsets[patch]
        for row in range(offsets[patch], offsets[patch + 1]):
            indptr[row + 1] = pair_offsets[patch] + min(np.int64(np.floor(shares[row] + shifts[patch])), count)
    return indptr


@njit(cache=True, parallel=True)
def _draw(
    excluded_indptr: np.ndarray,
    excluded: np.ndarray,
    indptr: np.ndarray,
    offsets: np.ndarray,
    pair_offsets: np.ndarray,
    keys: np.ndarray,
) -> np.ndarray:
    columns = np.empty(indptr[-1], np.int32)
    for patch in range(len(offsets) - 1):
        start, stop = offsets[patch], offsets[patch + 1]
        for row in prange(start, stop):
            low, high = excluded_indptr[row], excluded_indptr[row + 1]
            num_allowed = np.uint64(stop - start - (high - low))
            for entry in range(indptr[row], indptr[row + 1]):
                word = random_word(keys[patch], np.uint64(entry - pair_offsets[patch]))
                rank = np.int64(((word >> np.uint64(32)) * num_allowed) >> np.uint64(32))
                left, right = low, high
                while left < right:
                    middle = (left + right) // 2
                    if excluded[middle] - start - (middle - low) <= rank:
                        left = middle + 1
                    else:
                        right = middle
                columns[entry] = start + rank + (left - low)
    return columns
