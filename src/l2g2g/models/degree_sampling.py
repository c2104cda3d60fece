"""Degree-aware negatives: the far end of a non-edge is drawn in proportion to degree^0.75, without rejection.

Every row v of a patch is a stretch of w_v units on a line. For a row u with excluded columns c_0 < c_1 < … the r-th
unit that is left lies r + (units of c_0 … c_(i−1)) along the line, where i counts the c_i whose stretch begins, with
what is excluded before it taken away, at r or before. Units are whole numbers, so every device draws the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from torch import Tensor

from l2g2g.models.randomness import random_word, scale_to

# The exponent of word2vec and node2vec (Mikolov et al. 2013): between uniform targets and those of the edges.
EXPONENT = 0.75
_LARGEST_TOTAL = 2**31 - 1
_UNITS_OF_DEGREE_ONE = 1024


@dataclass(frozen=True, eq=False)
class TargetUnits:
    """How likely each row of some stacked patches is as the far end of a negative.

    Attributes:
        starts: (num_rows + 1,) int64, units of all rows before this one.
        removed: (num_excluded,) int64, units of the excluded columns of the same row before this one.
        allowed: (num_rows,) int64, units that are left for a row.
    """

    starts: np.ndarray
    removed: np.ndarray
    allowed: np.ndarray


def units_by_degree(degrees: np.ndarray, excluded: sp.csr_array, offsets: np.ndarray) -> TargetUnits:
    """Units in proportion to degree^0.75; a row without edges has none, any other has at least one.

    degrees: (num_rows,). excluded: block-diagonal pattern that includes the diagonal. offsets: (num_patches + 1,).
    """
    wanted = degrees.astype(np.float64) ** EXPONENT * (degrees > 0)
    largest = max(1.0, float(np.add.reduceat(wanted, offsets[:-1][np.diff(offsets) > 0]).max(initial=0.0)))
    room = _LARGEST_TOTAL - len(wanted)  # each may be rounded up by one
    units = np.ceil(wanted * min(_UNITS_OF_DEGREE_ONE, room / largest)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(units)])
    before = np.concatenate([[0], np.cumsum(units[excluded.indices])])
    begins, ends = excluded.indptr[:-1], excluded.indptr[1:]
    removed = before[:-1] - np.repeat(before[begins], np.diff(excluded.indptr))
    totals = np.repeat(starts[offsets[1:]] - starts[offsets[:-1]], np.diff(offsets))
    return TargetUnits(starts, removed, totals - (before[ends] - before[begins]))


@njit(cache=True, parallel=True)
def draw_by_units(
    excluded_indptr: np.ndarray,
    excluded: np.ndarray,
    starts: np.ndarray,
    removed: np.ndarray,
    allowed: np.ndarray,
    indptr: np.ndarray,
    offsets: np.ndarray,
    pair_offsets: np.ndarray,
    keys: np.ndarray,
) -> np.ndarray:
    """(num_pairs,) columns of the negatives whose rows `indptr` tells."""
    columns = np.empty(indptr[-1], np.int32)
    for patch in range(len(offsets) - 1):
        start, stop = offsets[patch], offsets[patch + 1]
        for row in prange(start, stop):
            low, high = excluded_indptr[row], excluded_indptr[row + 1]
            for entry in range(indptr[row], indptr[row + 1]):
                word = random_word(keys[patch], np.uint64(entry - pair_offsets[patch]))
                rank = np.int64(((word >> np.uint64(32)) * np.uint64(allowed[row])) >> np.uint64(32))
                left, right = low, high
                while left < right:
                    middle = (left + right) // 2
                    if starts[excluded[middle]] - starts[start] - removed[middle] <= rank:
                        left = middle + 1
                    else:
                        right = middle
                place = starts[start] + rank
                if left > low:
                    last = excluded[left - 1]
                    place += removed[left - 1] + starts[last + 1] - starts[last]
                columns[entry] = start + np.searchsorted(starts[start : stop + 1], place, side="right") - 1
    return columns


def draw_by_units_torch(
    excluded_indptr: Tensor, excluded: Tensor, units: TargetUnits, rows: Tensor, begin: Tensor, words: Tensor
) -> Tensor:
    """The same with torch operations only. rows, begin (first row of the patch), words: one per pair."""
    starts, removed, allowed = (
        torch.from_numpy(part).to(rows.device) for part in (units.starts, units.removed, units.allowed)
    )
    rank = scale_to(words, allowed[rows])
    owner = torch.repeat_interleave(torch.arange(len(excluded_indptr) - 1, device=rows.device), excluded_indptr.diff())
    # Rank and thresholds are counted from the first unit of the patch; a row's thresholds stay below its stride.
    patch_begin = torch.zeros_like(allowed).index_put_((rows,), begin)
    stride = _LARGEST_TOTAL + 1
    thresholds = owner * stride + (starts[excluded] - starts[patch_begin[owner]] - removed).clamp(0, stride - 1)
    below = torch.searchsorted(thresholds, rows * stride + rank, right=True)
    last = (below - 1).clamp(min=0)
    own_units = starts[excluded + 1] - starts[excluded]
    extra = torch.where(below > excluded_indptr[rows], removed[last] + own_units[last], 0)
    return torch.searchsorted(starts, starts[begin] + rank + extra, right=True) - 1
