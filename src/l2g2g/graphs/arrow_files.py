"""Arrow files (Feather): tables as they lie in memory, written and read without packing."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from l2g2g.errors import InputError
from l2g2g.graphs.archives import reading
from l2g2g.graphs.arrow_types import is_list, is_numeric, is_text

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_ENDINGS = (".arrow", ".feather")
_MAGIC = b"ARROW1"
_HEADER, _COMPRESSION = 2, 3  # fields of a message and of a record batch, in the order of the format's schema


def write_arrow(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema, one after the other, unpacked, so that others can map them into memory."""
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)


def read_arrow(path: Path) -> pa.Table:
    """Read a table of numbers, text and lists of numbers, from a file or a stream of Arrow.

    A packed one is refused: nothing says beforehand how much memory it takes. Everything in the file is checked before
    it is used.
    """
    import pyarrow as pa

    with reading(path):
        with pa.OSFile(str(path), "rb") as file:
            content = file.read_buffer()
        # A file is a stream with a mark before it and a table of contents after it; only the stream is trusted.
        stream = content.slice(8) if content[: len(_MAGIC)].to_pybytes() == _MAGIC else content
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
            if message.type == "record batch" and _is_packed(message.metadata.to_pybytes()):
                raise InputError(
                    f"{path}: is packed; write it without compression (compression='uncompressed'), or as .parquet"
                )
        reader = pa.ipc.open_stream(pa.BufferReader(stream))
        for field in reader.schema:
            if not _is_plain(field.type):
                raise InputError(
                    f"{path}: column {field.name!r} holds {field.type}; use numbers, text or lists of numbers"
                )
        table = reader.read_all()
        table.validate(full=True)
        return table


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values lie in the file as they are, so that it is as large as they are."""
    import pyarrow as pa

    if is_list(kind):
        return is_numeric(kind.value_type) and not pa.types.is_boolean(kind.value_type)
    return is_text(kind) or is_numeric(kind)


def _is_packed(message: bytes) -> bool:
    """Whether a record batch names a compression. message: its head, a flatbuffer."""
    root = struct.unpack_from("<I", message, 0)[0]
    place = root + _offset(message, root, _HEADER)
    batch = place + struct.unpack_from("<I", message, place)[0]
    return _offset(message, batch, _COMPRESSION) != 0


def _offset(message: bytes, table: int, field: int) -> int:
    """Where a field of a flatbuffer's table lies, counted from the table; 0 where it is left out."""
    fields = table - struct.unpack_from("<i", message, table)[0]
    size = struct.unpack_from("<H", message, fields)[0]
    place = 4 + 2 * field
    return struct.unpack_from("<H", message, fields + place)[0] if place + 2 <= size else 0
