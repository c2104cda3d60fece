"""Sampling: negative pairs inside patches, and FastGAE's node samples.

A negative of row u is any column of its patch but the excluded ones (neighbours, held-out partners and u itself).
Two columns are tried; a small filter of every row tells at once that most columns are not excluded. Where both
are excluded, the r-th allowed column is taken, at random r: with the excluded columns c_0 < c_1 < … it is r + i, where
i counts the c_i − i ≤ r. So every allowed column is as likely as any other, and a hub with few of them is no trouble.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from torch import Tensor

from l2g2g.models.degree_sampling import TargetUnits, draw_by_units, draw_by_units_torch, units_by_degree
from l2g2g.models.exclusion import build_filters, find_suspects, is_excluded
from l2g2g.models.pair_patterns import PairPattern
from l2g2g.models.randomness import Purpose, mix, random_word, random_words, scale_to, signed_key, stream_key

_ROWS = 64  # rows whose negatives are drawn together


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
        filters: (num_excluded,) uint32, a word for every excluded pair; see `exclusion`.
    """

    excluded: tuple[np.ndarray, np.ndarray]
    shares: np.ndarray
    offsets: np.ndarray
    pair_offsets: np.ndarray
    patches: np.ndarray
    units: TargetUnits | None = None
    filters: np.ndarray | None = None

    @property
    def num_pairs(self) -> int:
        """Negatives per draw."""
        return int(self.pair_offsets[-1])


def exclude(edges: sp.csr_array, held_out: sp.csr_array) -> sp.csr_array:
    """Pattern of all pairs that are no negatives: edges, held-out pairs and the diagonal. All (num_rows, num_rows)."""
    parts = [part if part.has_sorted_indices else part.sorted_indices() for part in (edges, held_out)]
    indptr, indices = _unite(parts[0].indptr, parts[0].indices, parts[1].indptr, parts[1].indices)
    if len(indices) < 2**31:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=edges.shape)


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
    shares, pair_offsets = share_out(allowed, offsets, counts)
    return NegativePlan(
        (excluded.indptr, excluded.indices),
        shares,
        offsets,
        pair_offsets,
        np.arange(len(offsets) - 1) if patches is None else patches,
        units,
        build_filters(excluded.indptr, excluded.indices) if units is None else None,
    )


def share_out(allowed: np.ndarray, offsets: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(shares, pair_offsets) of a NegativePlan. allowed: (num_rows,) pairs of each row that may be drawn."""
    cumulative = np.concatenate([[0], np.cumsum(allowed.astype(np.int64))])
    base = cumulative[offsets[:-1]]
    totals = cumulative[offsets[1:]] - base
    granted = np.where(totals > 0, counts, 0)
    sizes = np.diff(offsets)
    share = (cumulative[1:] - np.repeat(base, sizes)) / np.repeat(np.maximum(totals, 1), sizes)
    return share * np.repeat(granted, sizes), np.concatenate([[0], np.cumsum(granted)])


def draw_negatives(
    plan: NegativePlan, weights: Tensor, *, seed: int, epoch: int, room: tuple[np.ndarray, np.ndarray] | None = None
) -> PairPattern:
    """Draw fresh negatives on the CPU, the same for the same (seed, epoch, patch). weights: as in PairPattern.

    room: two (num_pairs,) int32 arrays to write rows and columns to; what was drawn there before is gone.
    """
    indptr, keys, again = begin_draw(plan, seed=seed, epoch=epoch)
    if plan.num_pairs < 2**31:
        indptr = indptr.astype(np.int32)
    where = indptr, plan.offsets, plan.pair_offsets, keys
    rows = None
    if plan.units is None:
        assert plan.filters is not None
        ends = (np.empty(plan.num_pairs, np.int32), np.empty(plan.num_pairs, np.int32)) if room is None else room
        _draw(*ends, *plan.excluded, plan.filters, *where, again)  # type: ignore[call-arg]
        rows, columns = torch.from_numpy(ends[0]), ends[1]
    else:
        columns = draw_by_units(*plan.excluded, plan.units.starts, plan.units.removed, plan.units.allowed, *where)
    return PairPattern(torch.from_numpy(indptr), torch.from_numpy(columns), weights, rows=rows)


def begin_draw(plan: NegativePlan, *, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, keys, second keys): where the negatives of each row begin in a draw, and the streams of each patch."""
    keys = _patch_keys(plan, seed, epoch)
    return _deal(plan.shares, plan.offsets, plan.pair_offsets, shifts(keys)), keys, second_keys(keys)


def draw_negatives_torch(
    plan: NegativePlan, weights: Tensor, *, seed: int, epoch: int, device: torch.device | str
) -> PairPattern:
    """The same draw with torch operations only, for any device; gives the same pairs."""
    sizes = torch.from_numpy(np.diff(plan.offsets)).to(device)
    per_patch = torch.from_numpy(np.diff(plan.pair_offsets)).to(device)
    patch = torch.repeat_interleave(torch.arange(len(sizes), device=device), per_patch)
    patch_keys = _patch_keys(plan, seed, epoch)
    indptr = torch.from_numpy(_deal(plan.shares, plan.offsets, plan.pair_offsets, shifts(patch_keys))).to(device)
    rows = torch.repeat_interleave(torch.arange(len(indptr) - 1, device=device), indptr.diff())
    excluded_indptr = torch.from_numpy(plan.excluded[0]).to(device).long()
    excluded = torch.from_numpy(plan.excluded[1]).to(device).long()
    start = torch.from_numpy(plan.offsets[:-1]).to(device)[patch]
    position = torch.arange(len(rows), device=device) - torch.from_numpy(plan.pair_offsets[:-1]).to(device)[patch]
    keys = torch.tensor([signed_key(int(key)) for key in patch_keys], device=device)[patch]
    words = random_words(keys, position)
    if plan.units is None:
        owner = torch.repeat_interleave(torch.arange(len(excluded_indptr) - 1, device=device), excluded_indptr.diff())
        stride, local = len(excluded_indptr), excluded - start_of_row(plan, device)[owner]
        again = torch.tensor([signed_key(int(key)) for key in second_keys(patch_keys)], device=device)[patch]
        rank = scale_to(random_words(again, position), sizes[patch] - excluded_indptr.diff()[rows])
        thresholds = owner * stride + (local - (torch.arange(len(excluded), device=device) - excluded_indptr[owner]))
        columns = rank + torch.searchsorted(thresholds, rows * stride + rank, right=True) - excluded_indptr[rows]
        known = owner * stride + local
        for half in (words << 32, words):  # the first try is the last to be written
            tried = scale_to(half, sizes[patch])
            wanted = rows * stride + tried
            place = torch.searchsorted(known, wanted).clamp(max=max(len(known) - 1, 0))
            columns = torch.where(known[place] == wanted, columns, tried)
        columns = start + columns
    else:
        columns = draw_by_units_torch(excluded_indptr, excluded, plan.units, rows, start, words)
    return PairPattern(indptr.to(torch.int32), columns.to(torch.int32), weights.to(device))


def sample_nodes_by_degree(degrees: np.ndarray, count: int, *, seed: int, epoch: int, alpha: float = 1.0) -> np.ndarray:
    """Draw `count` distinct nodes with probability proportional to (degree + 1)^alpha, sorted (FastGAE)."""
    generator = np.random.default_rng([seed, int(Purpose.NODE_SAMPLE), epoch])
    # Exponential races: the first arrivals are a weighted sample without replacement.
    arrivals = generator.exponential(size=len(degrees)) / (degrees + 1.0) ** alpha
    return np.sort(np.argpartition(arrivals, count - 1)[:count])


def start_of_row(plan: NegativePlan, device: torch.device | str) -> Tensor:
    """(num_rows,) first row of the patch of every row."""
    starts, sizes = (torch.from_numpy(part).to(device) for part in (plan.offsets[:-1], np.diff(plan.offsets)))
    return torch.repeat_interleave(starts, sizes)


def _patch_keys(plan: NegativePlan, seed: int, epoch: int) -> np.ndarray:
    return np.array([stream_key(seed, Purpose.NEGATIVES, epoch, int(patch)) for patch in plan.patches], np.uint64)


def second_keys(keys: np.ndarray) -> np.ndarray:
    """Streams for the draws whose first word gave no column."""
    return np.array([mix(int(key) ^ 1) for key in keys], np.uint64)


def shifts(keys: np.ndarray) -> np.ndarray:
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
def _unite(
    indptr: np.ndarray, indices: np.ndarray, other_indptr: np.ndarray, other_indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, indices) of the union of two patterns, columns in order, and the diagonal."""
    num_rows = len(indptr) - 1
    new_indptr = np.zeros(num_rows + 1, np.int64)
    for row in prange(num_rows):
        one, other = indices[indptr[row] : indptr[row + 1]], other_indices[other_indptr[row] : other_indptr[row + 1]]
        new_indptr[row + 1] = unite_row(row, one, other, indices[:0])
    new_indptr = np.cumsum(new_indptr)
    new_indices = np.empty(new_indptr[-1], indices.dtype)
    for row in prange(num_rows):
        one, other = indices[indptr[row] : indptr[row + 1]], other_indices[other_indptr[row] : other_indptr[row + 1]]
        unite_row(row, one, other, new_indices[new_indptr[row] : new_indptr[row + 1]])
    return new_indptr, new_indices


@njit(cache=True)
def unite_row(row: int, one: np.ndarray, other: np.ndarray, target: np.ndarray) -> int:
    """How many different columns two lists and the diagonal have; they go to the target, in order, if it has room."""
    first, second, count, loop = 0, 0, 0, False
    while first < len(one) or second < len(other) or not loop:
        column = np.int64(2**62) if loop else np.int64(row)
        if first < len(one):
            column = min(column, np.int64(one[first]))
        if second < len(other):
            column = min(column, np.int64(other[second]))
        loop |= column == row
        first += first < len(one) and one[first] == column
        second += second < len(other) and other[second] == column
        if len(target):
            target[count] = column
        count += 1
    return count


@njit(cache=True, parallel=True)
def _draw(
    rows: np.ndarray,
    columns: np.ndarray,
    excluded_indptr: np.ndarray,
    excluded: np.ndarray,
    filters: np.ndarray,
    indptr: np.ndarray,
    offsets: np.ndarray,
    pair_offsets: np.ndarray,
    keys: np.ndarray,
    second_keys: np.ndarray,
) -> None:
    bits = np.uint64(32)
    for patch in range(len(offsets) - 1):
        # Named here: a value that is read from an array in a loop keeps it from becoming vector code.
        start, stop, shift, key = offsets[patch], offsets[patch + 1], pair_offsets[patch], keys[patch]
        size, base = np.uint64(stop - start), np.int32(start)
        for block in prange((stop - start + _ROWS - 1) // _ROWS):
            first_row, last_row = start + block * _ROWS, min(start + (block + 1) * _ROWS, stop)
            first, last = indptr[first_row], indptr[last_row]
            # The first try of all rows: nothing but arithmetic, so it becomes vector code.
            own, begun = columns[first:last], np.uint64(first - shift)
            for place in range(len(own)):
                word = random_word(key, begun + np.uint64(place))
                own[place] = base + np.int32(((word >> bits) * size) >> bits)
            for row in range(first_row, last_row):
                rows[indptr[row] : indptr[row + 1]] = row
            for sixteen in range(first, last, 16):
                suspects, entry = find_suspects(filters, excluded_indptr, rows, columns, sixteen, last), sixteen
                while suspects:
                    if suspects & 1:
                        row, position = rows[entry], np.uint64(entry - shift)
                        banned = excluded[excluded_indptr[row] : excluded_indptr[row + 1]]
                        columns[entry] = allow(columns[entry], banned, start, stop, position, key, second_keys[patch])
                    suspects, entry = suspects >> 1, entry + 1


@njit(cache=True)
def allow(
    column: np.int64,
    excluded: np.ndarray,
    start: int,
    stop: int,
    position: np.uint64,
    key: np.uint64,
    second_key: np.uint64,
) -> np.int64:
    """The column itself, or another one where it is excluded."""
    low_half, bits = np.uint64(0xFFFFFFFF), np.uint64(32)
    if is_excluded(column, excluded):
        column = start + np.int64(((random_word(key, position) & low_half) * np.uint64(stop - start)) >> bits)
        if is_excluded(column, excluded):
            column = pick_allowed(excluded, start, stop, random_word(second_key, position))
    return column


@njit(cache=True)
def pick_allowed(excluded: np.ndarray, start: int, stop: int, word: np.uint64) -> np.int64:
    """The r-th column from start to stop that is not excluded, at random r. excluded: in order."""
    bits = np.uint64(32)
    rank = np.int64(((word >> bits) * np.uint64(stop - start - len(excluded))) >> bits)
    column = start + rank
    for place in range(len(excluded)):
        column += excluded[place] - start - place <= rank
    return column
