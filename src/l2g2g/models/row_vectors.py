"""Row vectors: rows of a table as machine vectors, for compiled loops over the pairs of a sparse pattern.

numba turns a loop over the columns of a row into vector code only where it can prove that nothing overlaps, which it
cannot for sums that go to both ends of a pair. So a row is one record, its width is part of the type, and the few
operations on rows are written as vector operations.
"""

from __future__ import annotations

import math
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
_LINE = 16  # floats in a line of the cache


def as_rows(table: np.ndarray) -> np.ndarray:
    """(..., num_rows, width) contiguous float32 -> (..., num_rows) records, without a copy."""
    return table.view(_record(table.shape[-1]))[..., 0]


@lru_cache
def _record(width: int) -> np.dtype[np.void]:
    return np.dtype([("row", np.float32, (width,))])


def blank_table(*shape: int) -> np.ndarray:
    """A float32 table, contents undefined, whose rows of sixteen are lines of the cache and not parts of two."""
    count = math.prod(shape)
    room = np.empty(count + _LINE, np.float32)  # numpy asks for large pages, which torch does not
    first = -room.__array_interface__["data"][0] // 4 % _LINE
    return room[first : first + count].reshape(shape)


def zero_table(*shape: int) -> np.ndarray:
    """The same, filled with zeros."""
    table = blank_table(*shape)
    table.fill(0.0)
    return table


def share_rows(indptr: np.ndarray, num_parts: int, sections: np.ndarray | None = None) -> np.ndarray:
    """(num_parts + 1,) rows at which parts begin that have about as many entries each.

    sections: the parts for one thread: it sums as as many threads, or processes, with a section each would do.
    """
    num_rows = len(indptr) - 1
    if num_parts == 1:
        return np.array([0, num_rows]) if sections is None else sections
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
        products: dict[int, list[Any]] = {}  # pieces of one size are added up before their floats are
        for one, other in zip(first.load(), second.load(), strict=True):
            products.setdefault(one.type.count, []).append(builder.fmul(one, other, flags=_FAST))
        for size, parts in products.items():
            product = _add_all(builder, parts)
            add_up = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(_FLOAT, [_FLOAT, product.type]),
                f"llvm.vector.reduce.fadd.v{size}f32",
            )
            total = builder.call(add_up, [total, product], fastmath=_FAST)
        return total

    return types.float32(left, types.int64, right, types.int64), generate


@intrinsic
def dot_sixteen(
    typing: Any, target: Any, place: Any, left: Any, rows: Any, right: Any, columns: Any, start: Any
) -> tuple[Signature, Any]:
    """target[place + i] = left[rows[start + i]] · right[columns[start + i]] for sixteen i at once.

    To add up the floats of one vector takes four shuffles. Of sixteen vectors, two become one that holds halves of
    both, four times over: the last one holds all sums, in order.
    """
    del typing, place, start

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        of_target, _, of_left, of_rows, of_right, of_columns, _ = signature.args
        out, first_out, left_, rows_, right_, columns_, first = arguments
        vectors = []
        for number in range(_WIDEST):
            entry = builder.add(first, ir.Constant(_LONG, number))
            row, column = (
                builder.sext(builder.load(builder.gep(make_array(kind)(context, builder, part).data, [entry])), _LONG)
                for kind, part in ((of_rows, rows_), (of_columns, columns_))
            )
            one, other = _Row(context, builder, of_left, left_, row), _Row(context, builder, of_right, right_, column)
            products = [
                _widen(builder, builder.fmul(mine, yours, flags=_FAST))
                for mine, yours in zip(one.load(), other.load(), strict=True)
            ]
            vectors.append(_add_all(builder, products))
        stride = 1
        while len(vectors) > 1:
            # In lanes without this bit halves of the first vector, in the others halves of the second.
            second = [_WIDEST * bool(lane & stride) for lane in range(_WIDEST)]
            kept = [lane + second[lane] for lane in range(_WIDEST)]
            moved = [(lane ^ stride) + second[lane] for lane in range(_WIDEST)]
            vectors = [
                builder.fadd(_shuffle(builder, *pair, kept), _shuffle(builder, *pair, moved), flags=_FAST)
                for pair in zip(vectors[::2], vectors[1::2], strict=True)
            ]
            stride *= 2
        floats = make_array(of_target)(context, builder, out).data
        where = builder.bitcast(builder.gep(floats, [first_out]), vectors[0].type.as_pointer())
        builder.store(vectors[0], where, align=4)
        return context.get_dummy_value()

    number = types.int64
    return types.void(target, number, left, rows, right, columns, number), generate


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


@intrinsic(prefer_literal=True)
def project(
    typing: Any, target: Any, row: Any, factors: Any, place: Any, table: Any, count: Any
) -> tuple[Signature, Any] | None:
    """target[row + i] = Σ factors[place + i][k] · table[k] for i < count; the table stays in the cache.

    count is a literal: several rows at once read the table once, and none waits for the sum of another.
    """
    del typing, row, place
    if not isinstance(count, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        of_target, _, of_factors, _, of_table, _ = signature.args
        out, row_, factors_, place_, table_, _ = arguments
        steps = [ir.Constant(_LONG, each) for each in range(count.literal_value)]
        floats = [_floats_of_row(context, builder, of_factors, factors_, builder.add(place_, step)) for step in steps]
        sums: list[list[Any]] = [[None] * len(_pieces(_width(of_table))) for _ in steps]
        for number in range(_width(of_factors)):
            vectors = _Row(context, builder, of_table, table_, ir.Constant(_LONG, number)).load()
            for own, own_floats in zip(sums, floats, strict=True):
                factor = builder.load(builder.gep(own_floats, [ir.Constant(_LONG, number)]))
                own[:] = [_add_product(builder, old, factor, new) for old, new in zip(own, vectors, strict=True)]
        for own, step in zip(sums, steps, strict=True):
            _Row(context, builder, of_target, out, builder.add(row_, step)).store(own)
        return context.get_dummy_value()

    number = types.int64
    return types.void(target, number, factors, number, table, count), generate


@intrinsic(prefer_literal=True)
def add_outer(typing: Any, sums: Any, left: Any, right: Any, row: Any, count: Any) -> tuple[Signature, Any] | None:
    """sums[k] += Σ left[row + i][k] · right[row + i] over i < count, for a small table of sums; count is a literal."""
    del typing, row
    if not isinstance(count, types.IntegerLiteral):
        return None

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        of_sums, of_left, of_right, *_ = signature.args
        sums_, left_, right_, row_, _ = arguments
        rows = [builder.add(row_, ir.Constant(_LONG, each)) for each in range(count.literal_value)]
        factors = [_floats_of_row(context, builder, of_left, left_, each) for each in rows]
        vectors = [_Row(context, builder, of_right, right_, each).load() for each in rows]
        for number in range(_width(of_left)):
            place = _Row(context, builder, of_sums, sums_, ir.Constant(_LONG, number))
            pieces = place.load()
            for floats, own in zip(factors, vectors, strict=True):
                factor = builder.load(builder.gep(floats, [ir.Constant(_LONG, number)]))
                pieces = [_add_product(builder, old, factor, new) for old, new in zip(pieces, own, strict=True)]
            place.store(pieces)
        return context.get_dummy_value()

    return types.void(sums, left, right, types.int64, count), generate


@intrinsic
def keep_positive(typing: Any, target: Any, row: Any, source: Any, place: Any) -> tuple[Signature, Any]:
    """target[row], 0 where source[place] is not positive; a NaN of the target stays where the source is one too."""
    del typing, row, place

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        own = _Row(context, builder, signature.args[0], *arguments[:2])
        other = _Row(context, builder, signature.args[2], *arguments[2:])
        gated = []
        for vector, sign in zip(own.load(), other.load(), strict=True):
            zeros = ir.Constant(vector.type, None)
            gated.append(builder.select(builder.fcmp_ordered("<=", sign, zeros), zeros, vector))
        own.store(gated)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


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
        start = _floats_of_row(context, builder, rows, table, row)
        self.builder = builder
        self.places = []
        for offset, size in _pieces(_width(rows)):
            place = builder.gep(start, [ir.Constant(_LONG, offset)])
            self.places.append(builder.bitcast(place, ir.VectorType(_FLOAT, size).as_pointer()))

    def load(self) -> list[Any]:
        return [self.builder.load(place, align=4) for place in self.places]

    def store(self, vectors: list[Any]) -> None:
        for vector, place in zip(vectors, self.places, strict=True):
            self.builder.store(vector, place, align=4)


def _floats_of_row(context: Any, builder: ir.IRBuilder, rows: types.Array, table: Any, row: Any) -> Any:
    """Where the floats of a row begin."""
    floats = builder.bitcast(make_array(rows)(context, builder, table).data, _FLOAT.as_pointer())
    return builder.gep(floats, [builder.mul(row, ir.Constant(_LONG, _width(rows)))])


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


def _add_all(builder: ir.IRBuilder, vectors: list[Any]) -> Any:
    """Their sum."""
    total, *rest = vectors
    for vector in rest:
        total = builder.fadd(total, vector, flags=_FAST)
    return total


def _shuffle(builder: ir.IRBuilder, one: Any, two: Any, lanes: list[int]) -> Any:
    """Floats of two vectors, numbered through, in this order."""
    return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(_INT, len(lanes)), lanes))


def _widen(builder: ir.IRBuilder, vector: Any) -> Any:
    """The widest vector that begins with these floats, zeros after them."""
    size = vector.type.count
    if size == _WIDEST:
        return vector
    lanes = [min(lane, size) for lane in range(_WIDEST)]  # `size` is the first float of the second vector
    return _shuffle(builder, vector, ir.Constant(vector.type, None), lanes)


def _add_product(builder: ir.IRBuilder, old: Any, factor: Any, vector: Any) -> Any:
    """old + factor · vector, or the product alone."""
    nothing = ir.Constant(vector.type, ir.Undefined)
    single = builder.insert_element(nothing, factor, ir.Constant(_INT, 0))
    everywhere = ir.Constant(ir.VectorType(_INT, vector.type.count), [0] * vector.type.count)
    factors = builder.shuffle_vector(single, nothing, everywhere)
    product = builder.fmul(factors, vector, flags=_FAST)
    return product if old is None else builder.fadd(old, product, flags=_FAST)
