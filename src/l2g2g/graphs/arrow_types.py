"""Types of Arrow columns: what the readers of tables ask of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def is_list(kind: pa.DataType) -> bool:
    """Whether values of this type are lists, of one length or of any."""
    import pyarrow as pa

    return pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are text."""
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_numeric(kind: pa.DataType) -> bool:
    """Whether values of this type are numbers; false and true count as 0 and 1."""
    import pyarrow as pa

    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values where they lie in a dictionary, otherwise the type itself."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def unpacked(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of which every row has its own value, also where it is a dictionary."""
    kind = plain_type(column.type)
    return column if kind is column.type else column.cast(kind)
