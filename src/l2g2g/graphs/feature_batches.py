"""Feature files in pieces: the rules of `read_features`, for files that are larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.archives import (
    check_unpacked_size,
    open_parquet,
    parquet_batches,
    plain_npy_shape,
    read_npy_rows,
)
from l2g2g.graphs.graph import Features, check_features
from l2g2g.graphs.node_ids import IdKind, find_id_kind
from l2g2g.graphs.read_features import (
    VectorTable,
    check_finite,
    distinct_ids,
    has_header,
    read_features,
    text_among_numbers,
    vectors_from_table,
)
from l2g2g.graphs.text_batches import TextBatches, open_text_batches
from l2g2g.graphs.text_tables import find_line, is_text_file

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_AT_ONCE = 1 << 25
_TEXT_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False)
class NumberedFeatures:
    """Features whose rows are node numbers, read piece by piece.

    Attributes:
        source_name: What errors call them.
        shape: (num_nodes, num_features).
        sparse: Whether the pieces are CSR.
        pieces: (num_rows, num_features) float32 rows in order, checked.
    """

    source_name: str
    shape: tuple[int, int]
    sparse: bool
    pieces: Callable[[], Iterator[Features]]


@dataclass(frozen=True, eq=False)
class NamedFeatures:
    """Features whose rows have ids, read piece by piece.

    Attributes:
        source_name: What errors call them.
        num_features: Numbers of each row.
        has_integer_ids: Whether ids are integers; otherwise all are text.
        tables: Pieces with their ids, checked; an id may still stand in two pieces.
        row_name: From a row number to what errors call that row ("line 7").
    """

    source_name: str
    num_features: int
    has_integer_ids: bool
    tables: Callable[[], Iterator[VectorTable]]
    row_name: Callable[[int], str]


def open_features(path: Path, memory_limit: int) -> NumberedFeatures | NamedFeatures:
    """Open a feature file. memory_limit: bytes that one piece may take, or an archive, which is read as a whole."""
    ending = path.suffix.lower()
    if not path.is_file():
        raise InputError(f"{path}: no such feature file")
    if ending == ".npy":
        return _open_npy(path, memory_limit)
    if ending == ".npz":
        check_unpacked_size(path, memory_limit)
        return numbered_features(read_features(path, memory_limit).vectors, str(path))
    if ending == ".parquet":
        return _open_parquet(path, memory_limit)
    if is_text_file(path):
        return _open_text(open_text_batches(path, _TEXT_AT_ONCE))
    raise InputError(f"{path}: unknown ending of a feature file; use .npy, .npz, .csv, .tsv, .txt or .parquet")


def numbered_features(features: Features, source_name: str) -> NumberedFeatures:
    """Features that are in memory, as if they were read."""
    checked = check_features(features, features.shape[0], source_name)
    return NumberedFeatures(source_name, checked.shape, sp.issparse(checked), lambda: iter([checked]))


def _open_npy(path: Path, memory_limit: int) -> NumberedFeatures:
    shape = plain_npy_shape(path, "biuf")
    if shape is None or len(shape) != 2 or 0 in shape:  # another file under this name, or one that is refused
        return numbered_features(read_features(path, memory_limit).vectors, str(path))

    def pieces() -> Iterator[np.ndarray]:
        num_rows = max(1, _BYTES_AT_ONCE // (4 * shape[1]))
        for low in range(0, shape[0], num_rows):
            block = read_npy_rows(path, low, low + num_rows)
            yield check_features(block, len(block), str(path), low)

    return NumberedFeatures(str(path), shape, False, pieces)


def _open_parquet(path: Path, memory_limit: int) -> NamedFeatures:
    import pyarrow as pa

    with open_parquet(path) as file:
        num_rows, fields = file.metadata.num_rows, list(file.schema_arrow)
    if len(fields) < 2:
        raise InputError(f"{path}: only {len(fields)} column; it needs an id column and numbers after it")
    if num_rows == 0:
        raise InputError(f"{path}: no rows; it needs one row per node")
    first = vectors_from_table(next(parquet_batches(path, 1, memory_limit)), str(path))
    width = first.vectors.shape[1]

    def tables() -> Iterator[VectorTable]:
        first_row = 0
        for table in parquet_batches(path, max(1, _BYTES_AT_ONCE // (4 * width)), memory_limit):
            vectors = vectors_from_table(table, str(path), first_row)
            if vectors.vectors.shape[1] != width:  # lists of one length here, and of another in the first piece
                found = vectors.vectors.shape[1]
                raise InputError(
                    f"{path}: row {first_row + 1} has {found} numbers, row 1 has {width}; all must be equally long"
                )
            yield vectors
            first_row += table.num_rows

    has_integers = pa.types.is_integer(fields[0].type)
    if pa.types.is_uint64(fields[0].type):  # those beyond 64 bits are text
        has_integers = all(table.ids is not None and table.ids.dtype.kind == "i" for table in tables())
    return NamedFeatures(str(path), width, has_integers, tables, lambda row: f"row {row + 1}")


def _open_text(batches: TextBatches) -> NamedFeatures:
    import pyarrow as pa

    path = batches.path
    if batches.num_columns < 2:
        raise InputError(f"{path}: only one column; it needs an id column and numbers after it")
    skip_first = has_header(batches.first_row)
    titles = batches.first_row[1:] if skip_first else None
    pieces = _text_pieces(batches, skip_first)
    first = next(pieces, None)
    if first is None:
        raise InputError(f"{path}: only a header; it needs one row per node")
    has_integers = find_id_kind(ids for _, ids, _ in chain([first], pieces)) is IdKind.INTEGERS

    def row_name(row: int) -> str:
        return f"line {find_line(path, row + int(skip_first))}"

    def tables() -> Iterator[VectorTable]:
        quoted = not has_integers and batches.quoted
        for first_row, ids, vectors in _text_pieces(batches, skip_first, quoted=quoted):
            here = partial(_name_row, row_name, first_row)
            check_finite(vectors, str(path), here, titles, first_row)
            ids = ids.cast(pa.int64()) if has_integers else ids
            yield VectorTable(vectors, distinct_ids(ids, str(path), here), str(path), here)

    return NamedFeatures(str(path), batches.num_columns - 1, has_integers, tables, row_name)


def _text_pieces(
    batches: TextBatches, skip_first: bool, *, quoted: bool = False
) -> Iterator[tuple[int, pa.ChunkedArray, np.ndarray]]:
    """Rows before the piece, its ids as text and its (num_rows, num_features) numbers. quoted: see `TextTable`."""
    import pyarrow as pa

    first_row = 0
    for number, table in enumerate(batches.tables(quoted=quoted)):
        skip = skip_first and number == 0
        types = [pa.string(), *[pa.float32()] * (table.num_columns - 1)]
        try:
            ids, *columns = table.columns(types, skip_first=skip)
        except pa.ArrowInvalid:
            before = first_row + int(skip_first and not skip)
            raise InputError(text_among_numbers(table, skip, before)) from None
        if len(ids):
            yield first_row, table.trimmed(ids), np.column_stack([column.to_numpy() for column in columns])
        first_row += len(ids)


def _name_row(row_name: Callable[[int], str], first_row: int, row: int) -> str:
    return row_name(first_row + row)
