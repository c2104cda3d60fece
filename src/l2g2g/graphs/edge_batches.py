"""Edge tables in pieces: the rules of `read_edges`, for files that are larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from l2g2g.errors import InputError
from l2g2g.graphs.archives import open_parquet, parquet_batches
from l2g2g.graphs.headers import find_header, may_be_header
from l2g2g.graphs.node_ids import IdKind, find_id_kind
from l2g2g.graphs.read_edges import (
    EdgeTable,
    check_num_columns,
    check_weight_column,
    plain_ids,
    typed_ids,
)
from l2g2g.graphs.text_batches import TextBatches, open_text_batches
from l2g2g.graphs.text_tables import find_line

if TYPE_CHECKING:
    import numpy as np
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
        id_kind: What all ids of the table are.
        weighted: Whether there is a third column.
        pieces: The columns of all rows in order, not yet checked.
        row_name: From a row number to what errors call that row ("line 7").
    """

    source_name: str
    id_kind: IdKind
    weighted: bool
    pieces: Pieces
    row_name: Callable[[int], str]

    @property
    def has_integer_ids(self) -> bool:
        """Whether all ids are integers that fit 64 bits; otherwise all are text."""
        return self.id_kind is IdKind.INTEGERS

    def tables(self) -> Iterator[EdgeTable]:
        """The pieces as edge tables, checked; ids are of one type in all of them."""
        for first_row, columns in _counted(self.pieces()):
            row_name = partial(_name_row, self.row_name, first_row)
            weights = check_weight_column(columns[2], self.source_name, row_name) if self.weighted else None
            ids = [plain_ids(column, self.source_name, row_name) for column in columns[:2]]
            ids = typed_ids(ids, self.id_kind, self.source_name, row_name)
            yield EdgeTable(ids[0], ids[1], weights, self.source_name, row_name)


def open_text_edges(path: Path, known_ids: Iterable[np.ndarray] = ()) -> EdgeBatches:
    """Open an edge list of any common dialect. known_ids: see `find_header`."""
    import pyarrow as pa

    batches = open_text_batches(path, _TEXT_AT_ONCE)
    check_num_columns(batches.num_columns, str(path))
    is_text = may_be_header(batches.first_row)
    pieces = partial(_number_pieces, batches, is_text)
    try:
        is_fast = sum(len(columns[0]) for columns in pieces()) > 0
    except pa.ArrowInvalid:
        is_fast = False
    # Of rows that are all integers a few tell as much as all.
    other_rows = partial(_first_rows, pieces) if is_fast else partial(_text_pieces, batches, True)
    skip_first = find_header(path, batches.first_row, other_rows, known_ids)
    is_fast = is_fast and skip_first == is_text
    if not is_fast:
        pieces = partial(_text_pieces, batches, skip_first)
    if not any(len(columns[0]) for columns in pieces()):
        raise InputError(f"{path}: only a header; it needs at least one edge")

    def row_name(row: int) -> str:
        return f"line {find_line(path, row + int(skip_first))}"

    id_kind = IdKind.INTEGERS if is_fast else find_id_kind(_id_columns(pieces, str(path), row_name))
    return EdgeBatches(str(path), id_kind, batches.num_columns == 3, pieces, row_name)


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
    id_kind = IdKind.INTEGERS if plain else find_id_kind(_id_columns(pieces, str(path), row_name))
    return EdgeBatches(str(path), id_kind, len(types) == 3, pieces, row_name)


def _number_pieces(batches: TextBatches, skip_first: bool) -> Iterator[Columns]:
    for number, table in enumerate(batches.tables()):
        yield table.edge_columns(skip_first=skip_first and number == 0)


def _first_rows(pieces: Pieces) -> list[Columns]:
    return [next(columns for columns in pieces() if len(columns[0]))]


def _text_pieces(batches: TextBatches, skip_first: bool) -> Iterator[Columns]:
    for number, table in enumerate(batches.tables(quoted=batches.quoted)):
        yield table.texts(skip_first=skip_first and number == 0)


def _id_columns(pieces: Pieces, source_name: str, row_name: Callable[[int], str]) -> Iterator[pa.ChunkedArray]:
    """The id columns of all pieces, without gaps."""
    for first_row, columns in _counted(pieces()):
        for column in columns[:2]:
            yield plain_ids(column, source_name, partial(_name_row, row_name, first_row))


def _counted(pieces: Iterator[Columns]) -> Iterator[tuple[int, Columns]]:
    """Every piece that has rows, with the number of rows before it."""
    first_row = 0
    for columns in pieces:
        if len(columns[0]):
            yield first_row, columns
            first_row += len(columns[0])


def _name_row(row_name: Callable[[int], str], first_row: int, row: int) -> str:
    return row_name(first_row + row)
