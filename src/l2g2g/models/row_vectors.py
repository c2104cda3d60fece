"""Row vectors: rows of a table as machine vectors, for compiled loops over pairs of rows.

numba turns a loop over the columns of a row into vector code only where it can prove that nothing overlaps, which it
cannot for sums that go to both ends of a pair. So a row is one record, its width is part of the type, and the few
operations on rows are written as vector operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import Signature
from numba.extending import intrinsic as numba_intrinsic
from numba.np.arrayobj import make_array

intrinsic: Any = numba_intrinsic  # what it makes is called with other arguments than it was written with
_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_FAST = ("contract", "reassoc", "nsz")  # in any order, but a NaN stays one


def as_rows(table: np.ndarray) -> np.ndarray:
    """(..., num_rows, width) contiguous float32 -> (..., num_rows) records, without a copy."""
    return table.view(np.dtype([("row", np.float32, (table.shape[-1],))]))[..., 0]


def _width(rows: types.Array) -> int:
    record: Any = rows.dtype
    return int(record.size // 4)


def _pointer(context: Any, builder: ir.IRBuilder, rows: types.Array, table: Any, row: Any) -> Any:
    """Where a row of records begins, as a pointer to one vector."""
    array = make_array(rows)(context, builder, table)
    start = builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [_bytes(builder, rows, row)])
    return builder.bitcast(start, ir.VectorType(_FLOAT, _width(rows)).as_pointer())


def _bytes(builder: ir.IRBuilder, rows: types.Array, row: Any) -> Any:
    return builder.mul(row, ir.Constant(row.type, 4 * _width(rows)))


@intrinsic
def dot(typing: Any, left: Any, row: Any, right: Any, column: Any) -> tuple[Signature, Any]:
    """left[row] · right[column] of two tables of records."""
    del typing

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        first, second = (
            builder.load(_pointer(context, builder, signature.args[k], *arguments[k : k + 2]), align=4) for k in (0, 2)
        )
        vector = first.type
        add_up = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(_FLOAT, [_FLOAT, vector]),
            f"llvm.vector.reduce.fadd.v{vector.count}f32",
        )
        products = builder.fmul(first, second, flags=_FAST)
        return builder.call(add_up, [ir.Constant(_FLOAT, 0.0), products], fastmath=_FAST)

    return types.float32(left, types.int64, right, types.int64), generate


@intrinsic
def add_scaled(typing: Any, target: Any, row: Any, factor: Any, source: Any, column: Any) -> tuple[Signature, Any]:
    """target[row] += factor · source[column], for two tables of records."""
    del typing

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        old = builder.load(place, align=4)
        added = builder.load(_pointer(context, builder, signature.args[3], *arguments[3:]), align=4)
        nothing = ir.Constant(old.type, ir.Undefined)
        single = builder.insert_element(nothing, arguments[2], ir.Constant(_INT, 0))
        everywhere = ir.Constant(ir.VectorType(_INT, old.type.count), [0] * old.type.count)
        factors = builder.shuffle_vector(single, nothing, everywhere)
        new = builder.fadd(old, builder.fmul(factors, added, flags=_FAST), flags=_FAST)
        builder.store(new, place, align=4)
        return context.get_dummy_value()

    return types.void(target, types.int64, types.float32, source, types.int64), generate


@intrinsic
def float_of_bits(typing: Any, bits: Any) -> tuple[Signature, Any]:
    """The float32 with these 32 bits."""
    del typing, bits

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Any) -> Any:
        del context, signature
        return builder.bitcast(arguments[0], _FLOAT)

    return types.float32(types.int32), generate
