"""Pair kernel: scores of pairs, their loss and its gradient in one compiled pass over a list of pairs (CPU).

A block of pairs is scored, the slopes of the loss are computed for the whole block in vector code, and the gradient
goes to both ends while their rows are still in the first-level cache. An undirected pair is scored once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.polynomial import chebyshev, polynomial

from l2g2g.models.row_vectors import add_scaled, as_rows, blank_table, dot, dot_sixteen, float_of_bits

_BLOCK = 256  # pairs whose rows and gradients stay in the first-level cache
_STRIDE = 37  # no divisor in common with the block
_LOG2_E = np.float32(1.4426950408889634)
_SMALLEST = np.float32(-87.0)  # e^x is still a normal float32


def _fit(function: np.ufunc | object, low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Coefficients, highest first, of a polynomial that is within a few 1e-8 of the function on [low, high]."""
    middle, half = (low + high) / 2, (high - low) / 2
    fitted = chebyshev.cheb2poly(chebyshev.chebinterpolate(lambda x: function(middle + half * x), degree))  # type: ignore[operator]
    shifted = np.zeros(1)
    for coefficient in fitted[::-1]:
        shifted = polynomial.polyadd(polynomial.polymul(shifted, [-middle / half, 1 / half]), [coefficient])
    return tuple(np.float32(value) for value in shifted[::-1])


_E6, _E5, _E4, _E3, _E2, _E1, _E0 = _fit(np.exp2, -0.5, 0.5, 6)
_L9, _L8, _L7, _L6, _L5, _L4, _L3, _L2, _L1, _L0 = _fit(np.log1p, 0.0, 1.0, 9)
_FAST = {"contract", "reassoc", "nsz", "arcp"}  # not a NaN lost: it must reach the loss


@dataclass(frozen=True)
class Sums:
    """The gradient of a pair loss as it grows: of both sides, and of the bias.

    Attributes:
        left, right: (num_tables, num_rows, width), a table for every part of the pairs, or one for all parts; the same
            ones where both sides are one.
        bias, loss: (num_parts,) sums over the pairs so far.
    """

    left: np.ndarray
    right: np.ndarray
    bias: np.ndarray
    loss: np.ndarray

    @classmethod
    def empty(cls, left: np.ndarray, right: np.ndarray | None, num_parts: int, *, apart: bool = False) -> Sums:
        """Nothing added yet. left, right: (num_rows, width) float32; no right one: both sides are one.

        apart: no row is an end of pairs of two parts, so one table holds the sums of all.
        """
        num_tables = 1 if apart else num_parts
        tables = [blank_table(num_tables, *side.shape) for side in ([left] if right is None else [left, right])]
        for table in tables:
            _clear(table.reshape(num_tables, -1))
        return cls(tables[0], tables[-1], np.zeros(num_parts), np.zeros(num_parts))

    def add_pairs(
        self,
        left: np.ndarray,
        right: np.ndarray,
        rows: np.ndarray,
        columns: np.ndarray,
        weights: np.ndarray,
        bounds: np.ndarray,
        *,
        bias: float,
        sign: float,
    ) -> Sums:
        """Add Σ weight · −log σ(sign (left_u · right_v + bias)) and its gradient.

        rows, columns: (num_pairs,) the ends of every pair, those of a row together. weights: (num_pairs,), a scalar,
        or (num_rows, 1) by the row of a pair. bounds: (num_parts + 1,) first pair of each part.
        """
        tables = [as_rows(table) for table in (left, right, self.left, self.right)]
        by_row, flat = weights.ndim == 2, weights.reshape(-1)
        loss, slope = _pass(*tables, rows, columns, flat, bounds, by_row, np.float32(bias), np.float32(sign))  # type: ignore[call-arg, arg-type]
        return Sums(self.left, self.right, self.bias + slope, self.loss + loss)

    def gradients(self) -> tuple[np.ndarray, np.ndarray | None]:
        """(num_rows, width) of the left side and of the right one, None where both are one."""
        own = _add_parts(self.left)
        return own, None if self.right is self.left else _add_parts(self.right)


def _add_parts(parts: np.ndarray) -> np.ndarray:
    _add_up(parts.reshape(len(parts), -1))
    first: np.ndarray = parts[0]
    return first


@njit(cache=True, parallel=True)
def _clear(tables: np.ndarray) -> None:
    """Zeros everywhere, each table by the thread that will fill it."""
    for part in prange(len(tables)):
        tables[part] = 0.0


@njit(cache=True, parallel=True)
def _add_up(tables: np.ndarray) -> None:
    """Add all tables to the first one."""
    num_parts, length = tables.shape
    for stretch in prange(num_parts):
        low, high = stretch * length // num_parts, (stretch + 1) * length // num_parts
        total = tables[0, low:high]
        for part in range(1, num_parts):
            other = tables[part, low:high]
            for place in range(len(total)):
                total[place] += other[place]


@njit(cache=True, parallel=True)
def _pass(
    left: np.ndarray,
    right: np.ndarray,
    left_sums: np.ndarray,
    right_sums: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    weights: np.ndarray,
    bounds: np.ndarray,
    by_row: bool,
    bias: np.float32,
    sign: np.float32,
) -> tuple[np.ndarray, np.ndarray]:
    num_parts = len(bounds) - 1
    losses, slopes = np.zeros(num_parts), np.zeros(num_parts)
    for part in prange(num_parts):
        low, high = bounds[part], bounds[part + 1]
        own_weights = weights[low:high] if len(weights) > 1 and not by_row else weights
        table = np.int64(part) if len(left_sums) > 1 else np.int64(0)
        sums = (left_sums[table], right_sums[table])
        losses[part], slopes[part] = _pass_pairs(
            left, right, *sums, rows[low:high], columns[low:high], own_weights, by_row, bias, sign
        )
    return losses, slopes


# Inlined always: on its own it would be compiled, and so rounded, otherwise when it comes from numba's cache.
@njit(cache=True, forceinline=True)
def _pass_pairs(
    left: np.ndarray,
    right: np.ndarray,
    left_sums: np.ndarray,
    right_sums: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    weights: np.ndarray,
    by_row: bool,
    bias: np.float32,
    sign: np.float32,
) -> tuple[float, float]:
    """Loss and sum of slopes of some pairs, block by block."""
    slopes, own_weights = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    own_weights[:] = weights[0] if len(weights) else np.float32(0.0)
    loss, slope = 0.0, 0.0
    for start in range(0, len(rows), _BLOCK):
        count = min(_BLOCK, len(rows) - start)
        in_sixteens = count - count % 16
        for pair in range(0, in_sixteens, 16):
            dot_sixteen(slopes, pair, left, rows, right, columns, start + pair)
        for pair in range(in_sixteens, count):
            slopes[pair] = dot(left, rows[start + pair], right, columns[start + pair])
        if by_row:
            for pair in range(count):
                own_weights[pair] = weights[rows[start + pair]]
        elif len(weights) > 1:
            for pair in range(count):
                own_weights[pair] = weights[start + pair]
        block_loss, block_slope = _take_slopes(slopes, own_weights, count, bias, sign)
        loss += block_loss
        slope += block_slope
        for turn in range(count):
            # Pairs of one row lie together, and each sum would wait for the one before: so they take turns.
            pair = (turn * _STRIDE) % _BLOCK if count == _BLOCK else turn
            row, column = rows[start + pair], columns[start + pair]
            add_scaled(left_sums, row, slopes[pair], right, column)
            add_scaled(right_sums, column, slopes[pair], left, row)
    return loss, slope


# error_model: Python's check for a division by zero would keep the loop from becoming vector code.
@njit(cache=True, fastmath=_FAST, error_model="numpy", forceinline=True)
def _take_slopes(
    scores: np.ndarray, weights: np.ndarray, count: int, bias: np.float32, sign: np.float32
) -> tuple[float, float]:
    """Turn scores into slopes of the loss, in place. Returns the sums of losses and of slopes.

    With x = −sign (score + bias) and e = exp(−|x|) the loss is max(x, 0) + log(1 + e), its slope in x is σ(x).
    """
    zero, half, one = np.float32(0.0), np.float32(0.5), np.float32(1.0)
    loss, slope = zero, zero
    for pair in range(count):
        x = -sign * (scores[pair] + bias)
        power = -abs(x)
        power = (power if power > _SMALLEST else _SMALLEST) * _LOG2_E
        whole = np.int32(power - half)  # to the nearest, as the power is not positive
        rest = power - np.float32(whole)
        e = ((((((_E6 * rest + _E5) * rest + _E4) * rest + _E3) * rest + _E2) * rest + _E1) * rest) + _E0
        e *= float_of_bits(np.int32((whole + 127) << 23))  # times 2^whole
        log = ((((((((_L9 * e + _L8) * e + _L7) * e + _L6) * e + _L5) * e + _L4) * e + _L3) * e + _L2) * e + _L1) * e
        above = one / (one + e)
        chance = above if x >= zero else e * above
        loss += (half * (x + abs(x)) + (log + _L0)) * weights[pair]
        scores[pair] = -sign * chance * weights[pair]
        slope += scores[pair]
    return np.float64(loss), np.float64(slope)
