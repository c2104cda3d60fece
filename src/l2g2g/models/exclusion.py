"""Exclusion: whether a column is one that its row must not draw, asked sixteen times at once (CPU).

Every row has a small filter, a word for each of its excluded columns; three bits of one of these words stand for a
column. Where not all three are set the column is allowed; where they are, one time in three hundred, its row is
searched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange
from numba.core import cgutils, types
from numba.core.typing import Signature
from numba.extending import intrinsic as numba_intrinsic
from numba.np.arrayobj import make_array

intrinsic: Any = numba_intrinsic  # what it makes is called with other arguments than it was written with
_WORD_SPREAD, _BIT_SPREAD = 0x9E3779B1, 0x85EBCA77  # odd numbers that carry every bit of a column upwards
_BIT_SHIFTS = (27, 22, 17)  # where the numbers of the three bits, five bits each, are taken from
_LANES = 16
_BIT, _INT, _LONG = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_INTS, _LONGS = ir.VectorType(_INT, _LANES), ir.VectorType(_LONG, _LANES)


@njit(cache=True, parallel=True)
def build_filters(indptr: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """(num_excluded,) uint32: the filters of all rows, each as long as its row of the CSR pattern."""
    filters = np.zeros(len(excluded), np.uint32)
    for row in prange(len(indptr) - 1):
        low, high = indptr[row], indptr[row + 1]
        for entry in range(low, high):
            filters[low + _word_of(excluded[entry], high - low)] |= _bits_of(excluded[entry])
    return filters


@njit(cache=True, inline="always")
def _word_of(column: int, count: int) -> np.int64:
    """Which of the `count` words of a row's filter stands for a column."""
    spread = (np.uint64(np.uint32(column)) * np.uint64(_WORD_SPREAD)) & np.uint64(0xFFFFFFFF)
    return np.int64((spread * np.uint64(count)) >> np.uint64(32))


@njit(cache=True, inline="always")
def _bits_of(column: int) -> np.uint32:
    """Three bits that stand for a column in its word; sometimes two of them are one."""
    spread = (np.uint64(np.uint32(column)) * np.uint64(_BIT_SPREAD)) & np.uint64(0xFFFFFFFF)
    bits = np.uint32(0)
    for shift in _BIT_SHIFTS:
        bits |= np.uint32(1) << np.uint32((spread >> np.uint64(shift)) & np.uint64(31))
    return np.uint32(bits)


@njit(cache=True, inline="always")
def is_excluded(column: np.int64, excluded: np.ndarray) -> bool:
    """Whether a column is one of the excluded ones."""
    found = False
    for other in excluded:  # no early end: vector code
        found |= other == column
    return found


@njit(cache=True, inline="always")
def find_suspects(
    filters: np.ndarray, indptr: np.ndarray, rows: np.ndarray, columns: np.ndarray, start: int, stop: int
) -> int:
    """A number whose bit i is set if columns[start + i] may be excluded for rows[start + i]; 0 ≤ i < 16.

    Where fewer than sixteen are left before `stop`, all of them may be.
    """
    suspects = 0xFFFF >> max(_LANES - stop + start, 0)
    if start + _LANES <= stop:
        suspects = _suspect_sixteen(filters, indptr, rows, columns, start)
    return suspects


@intrinsic
def _suspect_sixteen(
    typing: Any, filters: Any, indptr: Any, rows: Any, columns: Any, start: Any
) -> tuple[Signature, Any]:
    """A number whose bit i is set if columns[start + i] may be excluded for rows[start + i], by its filter; 0 ≤ i < 16.

    rows, columns: int32. filters, indptr: what `build_filters` gave and took.
    """
    del typing, start

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        places = [
            make_array(kind)(context, builder, each).data
            for kind, each in zip(signature.args[:4], arguments[:4], strict=True)
        ]
        row, column = (_load(builder, place, arguments[4]) for place in places[2:])
        row = builder.sext(row, _LONGS)
        ends = [_gather(builder, places[1], each) for each in (row, builder.add(row, _all(1, _LONG)))]
        low, high = (each if each.type == _LONGS else builder.sext(each, _LONGS) for each in ends)
        spread = builder.zext(builder.mul(column, _all(_WORD_SPREAD)), _LONGS)
        word = builder.lshr(builder.mul(spread, builder.sub(high, low)), _all(32, _LONG))
        held = _gather(builder, places[0], builder.add(low, word))
        spread, wanted = builder.mul(column, _all(_BIT_SPREAD)), _all(0)
        for shift in _BIT_SHIFTS:
            number = builder.and_(builder.lshr(spread, _all(shift)), _all(31))
            wanted = builder.or_(wanted, builder.shl(_all(1), number))
        suspect = builder.icmp_unsigned("==", builder.and_(held, wanted), wanted)
        return builder.zext(builder.bitcast(suspect, ir.IntType(_LANES)), _LONG)

    return types.int64(filters, indptr, rows, columns, types.int64), generate


def _all(value: int, kind: ir.IntType = _INT) -> ir.Constant:
    """A vector of the same number."""
    return ir.Constant(ir.VectorType(kind, _LANES), [value] * _LANES)


def _load(builder: ir.IRBuilder, place: Any, start: Any) -> Any:
    """Sixteen int32 in a row."""
    return builder.load(builder.bitcast(builder.gep(place, [start]), _INTS.as_pointer()), align=4)


def _gather(builder: ir.IRBuilder, place: Any, numbers: Any) -> Any:
    """place[number] for a vector of numbers."""
    kind = place.type.pointee
    size, vectors = kind.width // 8, ir.VectorType(kind, _LANES)
    nothing = ir.Constant(_LONGS, ir.Undefined)
    start = builder.insert_element(nothing, builder.ptrtoint(place, _LONG), ir.Constant(_INT, 0))
    starts = builder.shuffle_vector(start, nothing, _all(0))
    addresses = builder.add(starts, builder.mul(numbers, _all(size, _LONG)))
    pointers = builder.inttoptr(addresses, ir.VectorType(kind.as_pointer(), _LANES))
    every = ir.Constant(ir.VectorType(_BIT, _LANES), [1] * _LANES)
    arguments = [pointers, ir.Constant(_INT, size), every, ir.Constant(vectors, ir.Undefined)]
    kinds = ir.FunctionType(vectors, [each.type for each in arguments])
    name = f"llvm.masked.gather.v{_LANES}i{kind.width}.v{_LANES}p0"
    return builder.call(cgutils.get_or_insert_function(builder.module, kinds, name), arguments)
