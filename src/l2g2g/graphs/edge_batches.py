"""Edge tables in pieces: the rules of `read_edges`, for files that are larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from l2g2g.errors import InputError
from l2g2g.graphs.archives import open_parquet, parquet_batches
from l2g2g.graphs.read_edges import (
    EdgeTable,
    are_numbers,
    check_num_columns,
    check_weight_column,
    has_header,
    plain_ids,
    refuse_negative,
    refuse_odd_numbers,
)
from l2g2g.graphs.text_batches import TextBatches, open_text_batches
from l2g2g.graphs.text_tables import find_line, is_number

if TYPE_CHECKING:
    import pyarrow as pa

Columns = list["pa.ChunkedArray"]
Pieces = Callable[[], Iterator[Columns]]
_ROWS_AT_ONCE = 1 << 20
_TEXT_AT_ONCE = 1 << 24  # bytes


@dataclass(frozen=True, eq=False)
class EdgeBatches:
    """An edge table that is read piece by piece, anew for every pass.

    Attributes:
        source_name: What errors call the table.
        has_integer_ids: Whether all ids are integers that fit 64 bits; otherwise all are text.
        weighted: Whether there is a third column.
        pieces: The columns of all rows in order, not yet checked.
        row_name: From a row number to what errors call that row ("line 7").
    """

    source_name: str
    has_integer_ids: bool
    weighted: bool
    pieces: Pieces
    row_name: Callable[[int], str]

    def tables(self) -> Iterator[EdgeTable]:
        """The pieces as edge tables, checked; ids are of one type in all of them."""
        import pyarrow as pa

        kind = pa.int64() if self.has_integer_ids else pa.string()
        for first_row, columns in _counted(self.pieces()):
            row_name = partial(_name_row, self.row_name, first_row)
            weights = check_weight_column(columns[2], self.source_name, row_name) if self.weighted else None
            ids = [plain_ids(column, self.source_name, row_name).cast(kind) for column in columns[:2]]
            if self.has_integer_ids:
                refuse_negative(ids, self.source_name, row_name)
            yield EdgeTable(ids[0], ids[1], weights, self.source_name, row_name)


def open_text_edges(path: Path) -> EdgeBatches:
    """Open an edge list of any common dialect."""
    import pyarrow as pa

    batches = open_text_batches(path, _TEXT_AT_ONCE)
    check_num_columns(batches.num_columns, str(path))
    skip_first = not any(is_number(cell) for cell in batches.first_row[:2])
    pieces = partial(_number_pieces, batches, skip_first)
    try:
        is_fast = sum(len(columns[0]) for columns in pieces()) > 0
    except pa.ArrowInvalid:
        is_fast = False
    if not is_fast:
        skip_first = has_header(batches.first_row, partial(_text_pieces, batches, True))
        pieces = partial(_text_pieces, batches, skip_first)
    if not any(len(columns[0]) for columns in pieces()):
        raise InputError(f"{path}: only a header; it needs at least one edge")

    def row_name(row: int) -> str:
        return f"line {find_line(path, row + int(skip_first))}"

    has_integers = is_fast or _all_integers(pieces, str(path), row_name)
    return EdgeBatches(str(path), has_integers, batches.num_columns == 3, pieces, row_name)


def open_parquet_edges(path: Path, memory_limit: int) -> EdgeBatches:
    """Open an edge list in a Parquet file of two or three columns. memory_limit: bytes that one piece may take."""
    import pyarrow as pa

    with open_parquet(path) as file:
        types = [field.type for field in file.schema_arrow]
        num_rows = file.metadata.num_rows
    check_num_columns(len(types), str(path))
    if num_rows == 0:
        raise InputError(f"{path}: the table is empty; it needs at least one edge")

    def pieces() -> Iterator[Columns]:
        for table in parquet_batches(path, _ROWS_AT_ONCE, memory_limit):
            yield table.columns

    def row_name(row: int) -> str:
        return f"row {row + 1}"

    plain = all(pa.types.is_integer(kind) and not pa.types.is_uint64(kind) for kind in types[:2])
    has_integers = plain or _all_integers(pieces, str(path), row_name)
    return EdgeBatches(str(path), has_integers, len(types) == 3, pieces, row_name)


def _number_pieces(batches: TextBatches, skip_first: bool) -> Iterator[Columns]:
    import pyarrow as pa

    types = [pa.int64(), pa.int64(), pa.float64()][: batches.num_columns]
    for number, table in enumerate(batches.tables()):
        yield table.columns(types, skip_first=skip_first and number == 0)


def _text_pieces(batches: TextBatches, skip_first: bool) -> Iterator[Columns]:
    for number, table in enumerate(batches.tables(quoted=batches.quoted)):
        yield table.texts(skip_first=skip_first and number == 0)


def _all_integers(pieces: Pieces, source_name: str, row_name: Callable[[int], str]) -> bool:
    """Whether ids that may be text are all integers of 64 bits; odd numbers are refused unless names are among them."""
    import pyarrow as pa

    for first_row, columns in _counted(pieces()):
        ids = [plain_ids(column, source_name, partial(_name_row, row_name, first_row)) for column in columns[:2]]
        if not all(are_numbers(column.cast(pa.string())) for column in ids):
            return False
    fits = True
    for first_row, columns in _counted(pieces()):
        here = partial(_name_row, row_name, first_row)
        ids = [plain_ids(column, source_name, here).cast(pa.string()) for column in columns[:2]]
        refuse_odd_numbers(ids, source_name, here)
        try:
            for column in ids:
                column.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits they stay text
            fits = False
    return fits


def _counted(pieces: Iterator[Columns]) -> Iterator[tuple[int, Columns]]:
    """Every piece that has rows, with the number of rows before it."""
    first_row = 0
    for columns in pieces:
        if len(columns[0]):
            yield first_row, columns
            first_row += len(columns[0])


def _name_row(row_name: Callable[[int], str], first_row: int, row: int) -> str:
    return row_name(first_row + row)
