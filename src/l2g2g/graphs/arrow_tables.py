"""Arrow tables: column types, Arrow and Parquet files, and tables of other libraries in memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from l2g2g.errors import InputError
from l2g2g.graphs.archives import decoded_size, parquet_parts, reading, refuse_size

Item = TypeVar("Item")
Stream = Callable[[], Iterator[Item]]
Columns = list[pa.ChunkedArray]
ARROW_ENDINGS = (".arrow", ".feather")
_MAGIC = b"ARROW1"
_HEADER, _COMPRESSION = 2, 3  # fields of a message and of a record batch, in the order of the format's schema
_BUFFER_BYTES = 1 << 24  # of all columns together


def kept(stream: Stream[Item]) -> Stream[Item]:
    """The same stream, each item read once, on first use, and in memory from then on.

    Example:
        >>> numbers = kept(lambda: map(int, "123"))
        >>> next(numbers()), list(numbers()), list(numbers())
        (1, [1, 2, 3], [1, 2, 3])
    """
    items: list[Item] = []
    rest: Iterator[Item] | None = None
    source: Stream[Item] | None = stream  # None once everything is kept: what it holds is given back

    def one_pass() -> Iterator[Item]:
        nonlocal rest, source
        place = 0
        while place < len(items) or source is not None:
            if place == len(items):
                assert source is not None
                rest = source() if rest is None else rest
                try:
                    items.append(next(rest))
                except StopIteration:
                    rest = source = None
                    return
                except BaseException:  # a generator that failed would end as if it were complete
                    items.clear()
                    rest = None
                    raise
            yield items[place]
            place += 1

    return one_pass


def collected(stream: Stream[Columns]) -> Stream[Columns]:
    """A stream of one batch, in memory from its first pass on: the columns of all batches, none of them copied."""
    return kept(partial(_joined, stream))


def _joined(stream: Stream[Columns]) -> Iterator[Columns]:
    batches = list(stream())
    if batches:
        yield [
            pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
            for columns in zip(*batches, strict=True)
        ]


def is_list(kind: pa.DataType) -> bool:
    """Whether values of this type are lists, of one length or of any."""
    return pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_numeric(kind: pa.DataType) -> bool:
    """Whether values of this type are numbers; false and true count as 0 and 1."""
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values where they lie in a dictionary, otherwise the type itself."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def unpacked(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of which every row has its own value, also where it is a dictionary."""
    kind = plain_type(column.type)
    return column if kind is column.type else column.cast(kind)


def write_arrow(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema, one after the other, unpacked, so that others can map them into memory."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)


def read_arrow(path: Path) -> pa.Table:
    """Read a table of numbers, text and lists of numbers, from a file or a stream of Arrow.

    A packed one is refused: nothing says beforehand how much memory it takes. Everything in the file is checked before
    it is used.
    """
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


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A Parquet file, or the parts of a folder, of numbers, text and lists of numbers, opened to be read in batches.

    Attributes:
        path: The file or folder.
        parts: The files in order.
        schema: Names and types of its columns; text is a dictionary until it is unpacked.
        num_rows: Number of rows.
        num_bytes: Least number of bytes that the columns take in memory.
        texts: Names of the columns that are read as dictionaries.
    """

    path: Path
    parts: list[Path]
    schema: pa.Schema
    num_rows: int
    num_bytes: int
    texts: list[str]

    def batches(self, num_rows: int, memory_limit: int | None = None) -> Iterator[pa.Table]:
        """All rows, so many at a time, page by page: a part of a column may be as large as the file.

        memory_limit: bytes of text that a batch may hold; by default the free memory of the machine.
        """
        for part in self.parts:
            with self._opened(part) as file:
                for batch in file.iter_batches(batch_size=num_rows):
                    if batch.num_rows:
                        yield self._in_full(pa.Table.from_batches([batch]), memory_limit)

    def read(self, memory_limit: int | None = None) -> pa.Table:
        """All rows at once: column by column, which takes less memory than to join batches.

        memory_limit: bytes that the table may take; by default the free memory of the machine.
        """
        refuse_size(self.path, self.num_bytes, memory_limit)
        tables = []
        for part in self.parts:
            with self._opened(part) as file:
                tables.append(self._in_full(file.read(), memory_limit))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    @contextmanager
    def _opened(self, part: Path) -> Iterator[pq.ParquetFile]:
        buffer_size = max(1 << 14, min(1 << 20, _BUFFER_BYTES // max(1, len(self.schema))))
        with (
            reading(part),
            pq.ParquetFile(part, read_dictionary=self.texts, pre_buffer=False, buffer_size=buffer_size) as file,
        ):
            yield file

    def _in_full(self, table: pa.Table, memory_limit: int | None) -> pa.Table:
        """The table, checked, with dictionaries of text expanded, which may take far more memory than they did."""
        table.validate(full=True)  # text that is no text, places that are none
        packed = [pa.types.is_dictionary(column.type) for column in table.columns]
        num_bytes = sum(_text_size(column) for column, it_is in zip(table.columns, packed, strict=True) if it_is)
        refuse_size(self.path, num_bytes, memory_limit)
        columns = [
            column.cast(column.type.value_type) if it_is else column
            for column, it_is in zip(table.columns, packed, strict=True)
        ]
        return pa.table(columns, names=table.column_names)


def open_parquet(path: Path) -> ParquetTable:
    """Open a Parquet file, or a folder of parts that have the same columns."""
    if not path.is_dir():
        return _open_part(path)
    parts = [_open_part(part) for part in parquet_parts(path)]
    if not parts:
        raise InputError(f"{path}: no Parquet files in this folder; give a folder of .parquet parts, or a file")
    for part in parts[1:]:
        if not part.schema.equals(parts[0].schema):
            raise InputError(
                f"{part.path}: its columns are not those of {parts[0].path.name} ({_show(part.schema)} instead of "
                f"{_show(parts[0].schema)}); write all parts with the same columns and types"
            )
    num_rows, num_bytes = (sum(getattr(part, name) for part in parts) for name in ("num_rows", "num_bytes"))
    return ParquetTable(path, [part.path for part in parts], parts[0].schema, num_rows, num_bytes, parts[0].texts)


def _open_part(path: Path) -> ParquetTable:
    with reading(path):
        num_bytes = decoded_size(path)  # refuses a damaged footer, which PyArrow might not survive
        texts = _text_columns(pq.read_schema(path), path)
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            schema = file.schema_arrow.remove_metadata()  # what wrote it may differ from part to part
            return ParquetTable(path, [path], schema, file.metadata.num_rows, num_bytes, texts)


def _show(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def read_parquet(path: Path, memory_limit: int | None = None) -> pa.Table:
    """The whole table of a Parquet file, refused where it is larger than it may be."""
    return open_parquet(path).read(memory_limit)


def _text_columns(schema: pa.Schema, path: Path) -> list[str]:
    """Names of the columns of text; a column that is neither numbers, text nor lists of numbers is refused."""
    for field in schema:
        plain = field.type.value_type if is_list(field.type) else plain_type(field.type)
        if pa.types.is_nested(plain) or pa.types.is_binary(plain) or (is_list(field.type) and is_text(plain)):
            raise InputError(f"{path}: column {field.name!r} holds {field.type}; use numbers and text")
    return [field.name for field in schema if is_text(field.type)]


def _text_size(column: pa.ChunkedArray) -> int:
    """Bytes of a column of dictionaries once every row has its own value."""
    total = 8 * len(column)
    for chunk in column.chunks:
        if is_text(chunk.dictionary.type):
            lengths = pc.binary_length(chunk.dictionary).cast("int64")
            total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def as_arrow_table(table: Any, source_name: str) -> pa.Table:
    """A pandas DataFrame, an Arrow table or any object with the Arrow C stream interface as an Arrow table."""
    if isinstance(table, pa.Table):
        return table
    if is_pandas(table):
        return _from_pandas(table, source_name)
    try:
        found = pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{source_name}: {error}; give a table of integers, text and numbers") from error
    columns = [
        column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column for column in found.columns
    ]
    return pa.table(columns, names=found.column_names)


def _from_pandas(frame: Any, source_name: str) -> pa.Table:
    try:
        columns = [_from_series(frame.iloc[:, index]) for index in range(frame.shape[1])]
    except pa.ArrowException as error:
        raise InputError(f"{source_name}: {error}; use integers or text as ids and numbers as weights") from error
    return pa.table(columns, names=[str(title) for title in frame.columns])


def _from_series(series: Any) -> pa.Array:
    try:
        return pa.Array.from_pandas(series)
    except pa.ArrowException:  # integers and text in one column: all are names
        return pa.Array.from_pandas(series.where(series.isna(), series.map(str)))


def column_from_values(values: list[Any]) -> pa.Array:
    """A column of Python's or NumPy's values."""
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):  # integers and text in one column, or beyond 64 bits: all are names
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def is_edge_table(source: object) -> bool:
    """Whether this is a pandas DataFrame, an Arrow table or a table of another library that Arrow can read."""
    return is_pandas(source) or hasattr(source, "__arrow_c_stream__")


def is_pandas(source: object) -> bool:
    """Whether this is a pandas DataFrame, found out without importing pandas."""
    return (type(source).__module__.split(".")[0], type(source).__name__) == ("pandas", "DataFrame")
