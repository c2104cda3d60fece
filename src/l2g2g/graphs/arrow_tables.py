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
_HEADER, _COMPRESSION = 2, 3  # fields of a message and of a record batch, in the order of the format's schema
_BUFFER_BYTES = 1 << 24  # of all columns together


def kept(stream: Stream[Item]) -> Stream[Item]:
    """Return the same stream, read once, on first use, and in memory from then on.

    Example:
        >>> numbers = kept(lambda: map(int, "123"))
        >>> next(numbers()), list(numbers())
        (1, [1, 2, 3])
    """
    items: list[Item] | None = None

    def one_pass() -> Iterator[Item]:
        nonlocal items, stream
        if items is None:
            items = list(stream())
            stream = lambda: iter(())  # noqa: E731  # releases what the stream holds
        return iter(items)

    return one_pass


def collected(stream: Stream[Columns]) -> Stream[Columns]:
    """Return a stream of one batch that stays in memory: the columns of all batches joined without a copy."""
    return kept(partial(_joined, stream))


def _joined(stream: Stream[Columns]) -> Iterator[Columns]:
    batches = list(stream())
    if batches:
        yield [
            pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
            for columns in zip(*batches, strict=True)
        ]


def is_list(kind: pa.DataType) -> bool:
    """Return True for a type of lists, of fixed or variable length."""
    return pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)


def is_text(kind: pa.DataType) -> bool:
    """Return True for a type of text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_numeric(kind: pa.DataType, *, bools: bool = True) -> bool:
    """Return True for a type of numbers; booleans count as 0 and 1 unless bools is False."""
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or (bools and pa.types.is_boolean(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the value type of a dictionary type, and any other type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def unpacked(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column with dictionaries replaced by their values."""
    kind = plain_type(column.type)
    return column if kind is column.type else column.cast(kind)


def write_arrow(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema to an Arrow file, uncompressed, so that readers can map it into memory."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)


def read_arrow(path: Path) -> pa.Table:
    """Read numbers, text and lists of numbers from an Arrow file or stream, and validate everything.

    Refuse a compressed file, because nothing tells beforehand how much memory it takes.
    """
    with reading(path):
        with pa.OSFile(str(path), "rb") as file:
            content = file.read_buffer()
        # A file is a stream between a mark and a table of contents; only the stream is trusted.
        stream = content.slice(8) if content[:6].to_pybytes() == b"ARROW1" else content
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
            if message.type == "record batch" and _is_packed(message.metadata.to_pybytes()):
                raise InputError(
                    f"{path}: is compressed; write it without compression (compression='uncompressed'), or as .parquet"
                )
        reader = pa.ipc.open_stream(pa.BufferReader(stream))
        for field in reader.schema:
            kind = field.type.value_type if is_list(field.type) else field.type
            if not (is_numeric(kind) or is_text(kind)) or (kind != field.type and not is_numeric(kind, bools=False)):
                raise InputError(
                    f"{path}: column {field.name!r} holds {field.type}; use numbers, text or lists of numbers"
                )
        table = reader.read_all()
        table.validate(full=True)
        return table


def _is_packed(message: bytes) -> bool:
    """Return True if the header of a record batch, a flatbuffer, names a compression."""
    root = struct.unpack_from("<I", message, 0)[0]
    place = root + _offset(message, root, _HEADER)
    batch = place + struct.unpack_from("<I", message, place)[0]
    return _offset(message, batch, _COMPRESSION) != 0


def _offset(message: bytes, table: int, field: int) -> int:
    """Return the offset of a field in a flatbuffer's table; 0 where the field is absent."""
    fields = table - struct.unpack_from("<i", message, table)[0]
    size = struct.unpack_from("<H", message, fields)[0]
    place = 4 + 2 * field
    return struct.unpack_from("<H", message, fields + place)[0] if place + 2 <= size else 0


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A Parquet file, or the parts of a folder, of numbers, text and lists of numbers.

    Attributes:
        num_bytes: Lower bound of the bytes that the columns take in memory.
        texts: Columns of text, which are read as dictionaries and then unpacked.
    """

    path: Path
    parts: list[Path]
    schema: pa.Schema
    num_rows: int
    num_bytes: int
    texts: list[str]

    def batches(self, num_rows: int, memory_limit: int | None = None) -> Iterator[pa.Table]:
        """Yield num_rows rows at a time, read page by page, because a column chunk may be as large as the file.

        memory_limit: bytes of text that a batch may hold; by default the free memory of the machine.
        """
        for part in self.parts:
            with self._opened(part) as file:
                for batch in file.iter_batches(batch_size=num_rows):
                    if batch.num_rows:
                        yield self._unpacked(pa.Table.from_batches([batch]), memory_limit)

    def read(self, memory_limit: int | None = None) -> pa.Table:
        """Read all rows, column by column, which takes less memory than joining batches.

        memory_limit: bytes that the table may take; by default the free memory of the machine.
        """
        refuse_size(self.path, self.num_bytes, memory_limit)
        tables = []
        for part in self.parts:
            with self._opened(part) as file:
                tables.append(self._unpacked(file.read(), memory_limit))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    @contextmanager
    def _opened(self, part: Path) -> Iterator[pq.ParquetFile]:
        buffer_size = max(1 << 14, min(1 << 20, _BUFFER_BYTES // max(1, len(self.schema))))
        with (
            reading(part),
            pq.ParquetFile(part, read_dictionary=self.texts, pre_buffer=False, buffer_size=buffer_size) as file,
        ):
            yield file

    def _unpacked(self, table: pa.Table, memory_limit: int | None) -> pa.Table:
        """Validate a table and unpack its dictionaries of text, which may take far more memory than they did."""
        table.validate(full=True)
        packed = [column for column in table.columns if pa.types.is_dictionary(column.type)]
        refuse_size(self.path, sum(map(_text_size, packed)), memory_limit)
        return pa.table([unpacked(column) for column in table.columns], names=table.column_names)


def open_parquet(path: Path) -> ParquetTable:
    """Open a Parquet file, or a folder of parts that have the same columns."""
    if not path.is_dir():
        return _open_part(path)
    parts = [_open_part(part) for part in parquet_parts(path)]
    if not parts:
        raise InputError(f"{path}: no Parquet files in this folder; give a folder of .parquet parts, or a file")
    for part in parts[1:]:
        if not part.schema.equals(parts[0].schema):
            shown = [", ".join(f"{each.name} {each.type}" for each in one.schema) for one in (part, parts[0])]
            raise InputError(
                f"{part.path}: its columns are not those of {parts[0].path.name} ({shown[0]} instead of {shown[1]}); "
                f"write all parts with the same columns and types"
            )
    num_rows, num_bytes = (sum(getattr(part, name) for part in parts) for name in ("num_rows", "num_bytes"))
    return ParquetTable(path, [part.path for part in parts], parts[0].schema, num_rows, num_bytes, parts[0].texts)


def _open_part(path: Path) -> ParquetTable:
    with reading(path):
        num_bytes = decoded_size(path)  # refuses a damaged footer
        texts = _text_columns(pq.read_schema(path), path)
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            schema = file.schema_arrow.remove_metadata()  # parts may have different writers
            return ParquetTable(path, [path], schema, file.metadata.num_rows, num_bytes, texts)


def _text_columns(schema: pa.Schema, path: Path) -> list[str]:
    """List the text columns; refuse columns other than numbers, text and lists of numbers."""
    for field in schema:
        plain = field.type.value_type if is_list(field.type) else plain_type(field.type)
        if pa.types.is_nested(plain) or pa.types.is_binary(plain) or (is_list(field.type) and is_text(plain)):
            raise InputError(f"{path}: column {field.name!r} holds {field.type}; use numbers and text")
    return [field.name for field in schema if is_text(field.type)]


def _text_size(column: pa.ChunkedArray) -> int:
    """Return the bytes of a dictionary column once it is unpacked."""
    total = 8 * len(column)
    for chunk in column.chunks:
        if is_text(chunk.dictionary.type):
            lengths = pc.binary_length(chunk.dictionary).cast("int64")
            total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def as_arrow_table(table: Any, source_name: str) -> pa.Table:
    """Convert a pandas DataFrame or any object with the Arrow C stream interface to an Arrow table."""
    if isinstance(table, pa.Table):
        return table
    if is_pandas(table):
        try:
            columns = [_from_series(table.iloc[:, index]) for index in range(table.shape[1])]
        except pa.ArrowException as error:
            raise InputError(f"{source_name}: {error}; use integers or text as ids and numbers as weights") from error
        return pa.table(columns, names=[str(title) for title in table.columns])
    try:
        found = pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{source_name}: {error}; give a table of integers, text and numbers") from error
    columns = [
        column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column for column in found.columns
    ]
    return pa.table(columns, names=found.column_names)


def _from_series(series: Any) -> pa.Array:
    try:
        return pa.Array.from_pandas(series)
    except pa.ArrowException:  # a column of integers and text becomes text
        return pa.Array.from_pandas(series.where(series.isna(), series.map(str)))


def column_from_values(values: list[Any]) -> pa.Array:
    """Convert Python or NumPy values to a column."""
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):  # integers beside text, or beyond 64 bits, become text
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def is_edge_table(source: object) -> bool:
    """Return True for a pandas DataFrame or any table that Arrow can read."""
    return is_pandas(source) or hasattr(source, "__arrow_c_stream__")


def is_pandas(source: object) -> bool:
    """Return True for a pandas DataFrame, without importing pandas."""
    return (type(source).__module__.split(".")[0], type(source).__name__) == ("pandas", "DataFrame")
