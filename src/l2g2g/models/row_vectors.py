"""Row vectors: rows of a table as machine vectors, for compiled loops over the pairs of a sparse pattern.

numba turns a loop over the columns of a row into vector code only where it can prove that nothing overlaps, which it
cannot for sums that go to both ends of a pair. So a row is one record, its width is part of the type, and the few
operations on rows are written as vector operations.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import Signature
from numba.extending import intrinsic as numba_intrinsic
from numba.np.arrayobj import make_array

intrinsic: Any = numba_intrinsic  # what it makes is called with other arguments than it was written with
_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FAST = ("contract", "reassoc", "nsz")  # in any order, but a NaN stays one
_WIDEST = 16  # floats in a vector; wider rows are several


def as_rows(table: np.ndarray) -> np.ndarray:
    """(..., num_rows, width) contiguous float32 -> (..., num_rows) records, without a copy."""
    return table.view(_record(table.shape[-1]))[..., 0]


@lru_cache
def _record(width: int) -> np.dtype[np.void]:
    return np.dtype([("row", np.float32, (width,))])


def share_rows(indptr: np.ndarray, num_parts: int) -> np.ndarray:
    """(num_parts + 1,) rows at which parts begin that have about as many entries each."""
    num_rows = len(indptr) - 1
    if num_parts == 1:
        return np.array([0, num_rows])
    # Whole numbers of the same kind: others would make a copy of all of indptr.
    wanted = (int(indptr[-1]) * np.arange(1, num_parts) // num_parts).astype(indptr.dtype)
    inner = np.searchsorted(indptr, wanted)
    return np.concatenate([[0], np.minimum(inner, num_rows), [num_rows]]).astype(np.int64)


@intrinsic
def dot(typing: Any, left: Any, row: Any, right: Any, column: Any) -> tuple[Signature, Any]:
    """left[row] · right[column] of two tables of records."""
    del typing, row, column

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        first = _Row(context, builder, signature.args[0], *arguments[:2])
        second = _Row(context, builder, signature.args[2], *arguments[2:])
        total = ir.Constant(_FLOAT, 0.0)
        products: dict[int, Any] = {}  # pieces of one size are added up before their floats are
        for one, other in zip(first.load(), second.load(), strict=True):
            product, size = builder.fmul(one, other, flags=_FAST), one.type.count
            products[size] = builder.fadd(products[size], product, flags=_FAST) if size in products else product
        for size, product in products.items():
            add_up = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(_FLOAT, [_FLOAT, product.type]),
                f"llvm.vector.reduce.fadd.v{size}f32",
            )
            total = builder.call(add_up, [total, product], fastmath=_FAST)
        return total

    return types.float32(left, types.int64, right, types.int64), generate


@intrinsic
def add_scaled(typing: Any, target: Any, row: Any, factor: Any, source: Any, column: Any) -> tuple[Signature, Any]:
    """target[row] += factor · source[column], for two tables of records."""
    del typing, row, factor, column

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        place = _Row(context, builder, signature.args[0], *arguments[:2])
        added = _Row(context, builder, signature.args[3], *arguments[3:])
        sums = [
            _add_product(builder, old, arguments[2], new) for old, new in zip(place.load(), added.load(), strict=True)
        ]
        place.store(sums)
        return context.get_dummy_value()

    return types.void(target, types.int64, types.float32, source, types.int64), generate


@intrinsic
def combine(
    typing: Any,
    target: Any,
    row: Any,
    added: Any,
    place: Any,
    values: Any,
    columns: Any,
    source: Any,
    start: Any,
    stop: Any,
) -> tuple[Signature, Any]:
    """target[row] = added[place] + Σ values[e] · source[columns[e]] over start ≤ e < stop, summed in registers."""
    del typing, row, place, start, stop

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        of_target, _, of_added, _, of_values, of_columns, of_source, *_ = signature.args
        out, own_row, initial, initial_row, values_, columns_, table, first, last = arguments
        sums = [cgutils.alloca_once(builder, ir.VectorType(_FLOAT, size)) for _, size in _pieces(_width(of_target))]
        for part, begun in zip(sums, _Row(context, builder, of_added, initial, initial_row).load(), strict=True):
            builder.store(begun, part)
        factors = make_array(of_values)(context, builder, values_).data
        numbers = make_array(of_columns)(context, builder, columns_).data
        with cgutils.for_range_slice(builder, first, last, ir.Constant(_LONG, 1)) as (entry, _):
            column = builder.sext(builder.load(builder.gep(numbers, [entry])), _LONG)
            factor = builder.load(builder.gep(factors, [entry]))
            for part, added in zip(sums, _Row(context, builder, of_source, table, column).load(), strict=True):
                builder.store(_add_product(builder, builder.load(part), factor, added), part)
        _Row(context, builder, of_target, out, own_row).store([builder.load(part) for part in sums])
        return context.get_dummy_value()

    number = types.int64
    return types.void(target, number, added, number, values, columns, source, number, number), generate


@intrinsic
def float_of_bits(typing: Any, bits: Any) -> tuple[Signature, Any]:
    """The float32 with these 32 bits."""
    del typing, bits

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        del context, signature
        return builder.bitcast(arguments[0], _FLOAT)

    return types.float32(types.int32), generate


class _Row:
    """One row of a table of records, as the vectors it is made of."""

    def __init__(self, context: Any, builder: ir.IRBuilder, rows: types.Array, table: Any, row: Any) -> None:
        width = _width(rows)
        floats = builder.bitcast(make_array(rows)(context, builder, table).data, _FLOAT.as_pointer())
        start = builder.mul(row, ir.Constant(_LONG, width))
        self.builder = builder
        self.places = []
        for offset, size in _pieces(width):
            place = builder.gep(floats, [builder.add(start, ir.Constant(_LONG, offset))])
            self.places.append(builder.bitcast(place, ir.VectorType(_FLOAT, size).as_pointer()))

    def load(self) -> list[Any]:
        return [self.builder.load(place, align=4) for place in self.places]

    def store(self, vectors: list[Any]) -> None:
        for vector, place in zip(vectors, self.places, strict=True):
            self.builder.store(vector, place, align=4)


def _width(rows: types.Array) -> int:
    record: Any = rows.dtype
    return int(record.size // 4)


def _pieces(width: int) -> list[tuple[int, int]]:
    """(offset, size) of the vectors of a row: as many of the widest as fit, then halves for the rest."""
    pieces, offset, size = [], 0, _WIDEST
    while offset < width:
        while offset + size > width:
            size //= 2
        pieces.append((offset, size))
        offset += size
    return pieces


def _add_product(builder: ir.IRBuilder, old: Any, factor: Any, vector: Any) -> Any:
    """old + factor · vector."""
    nothing = ir.Constant(vector.type, ir.Undefined)
    single = builder.insert_element(nothing, factor, ir.Constant(_INT, 0))
    everywhere = ir.Constant(ir.VectorType(_INT, vector.type.count), [0] * vector.type.count)
    factors = builder.shuffle_vector(single, nothing, everywhere)
    return builder.fadd(old, builder.fmul(factors, vector, flags=_FAST), flags=_FAST)
