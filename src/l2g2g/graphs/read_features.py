"""Feature files and arrays: rows by node number (.npy, .npz, arrays) or rows by id (.csv, .parquet)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.archives import (
    check_unpacked_size,
    load_arrays,
    open_parquet,
    plain_npy_shape,
    read_npy_rows,
)
from l2g2g.graphs.graph import Features, check_features
from l2g2g.graphs.node_ids import IdKind, as_text, find_id_kind
from l2g2g.graphs.passes import Columns, Stream, collected, kept
from l2g2g.graphs.read_npz import features_from_arrays
from l2g2g.graphs.text_tables import (
    NUMBER,
    TextBlock,
    TextTable,
    find_line,
    is_number,
    is_text_file,
    open_text_table,
    trimmed,
    trimmed_unless_quoted,
)
from l2g2g.graphs.vector_table import (
    RowName,
    VectorTable,
    check_distinct,
    check_finite,
    check_shape,
    id_column,
    rows_from_table,
    vectors_from_table,
)

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_AT_ONCE = 1 << 25
_ID_HEADERS = {"id", "ids", "node", "nodes", "node_id", "nodeid", "name", "index", ""}
_NOT_FINITE = {"nan", "inf", "-inf", ""}  # numbers gone wrong, not names of columns


@dataclass(frozen=True, eq=False)
class NumberedFeatures:
    """Features whose rows are node numbers, as a stream of batches.

    Attributes:
        source_name: What errors call them.
        shape: (num_nodes, num_features).
        sparse: Whether the batches are CSR.
        batches: (num_rows, num_features) float32 rows in order, checked.
    """

    source_name: str
    shape: tuple[int, ...]
    sparse: bool
    batches: Stream[Features]


@dataclass(frozen=True, eq=False)
class NamedFeatures:
    """Features whose rows have ids, as a stream of batches.

    Attributes:
        source_name: What errors call them.
        num_features: Numbers of each row.
        has_integer_ids: Whether ids are integers; otherwise all are text.
        tables: Batches with their ids, one of a file that is kept in memory; an id may occur again.
        row_name: From a row number to what errors call that row ("line 7").
    """

    source_name: str
    num_features: int
    has_integer_ids: bool
    tables: Stream[VectorTable]
    row_name: RowName


def read_features(source: Any, memory_limit: int | None = None) -> VectorTable:
    """Read features from a path, an array, a sparse matrix, a pandas DataFrame or an Arrow table."""
    if isinstance(source, (str, Path)):
        return _read_feature_file(Path(source), memory_limit)
    if sp.issparse(source):
        return VectorTable(sp.csr_array(source), None, "features")
    module = type(source).__module__.split(".")[0]
    if module in ("pandas", "pyarrow"):
        return vectors_from_table(_as_table(source), "features")
    if module == "torch":
        return VectorTable(_from_tensor(source), None, "features")
    array = np.asarray(source)
    if array.ndim != 2:
        raise InputError(f"features have shape {array.shape}; give one row per node")
    return VectorTable(array, None, "features")


def read_vector_file(path: Path, memory_limit: int | None = None) -> VectorTable:
    """Read an id column and a vector per row from a text table or a Parquet file into memory."""
    vectors = next(_open_vector_file(path, memory_limit, keep=True).tables())
    assert vectors.ids is not None
    check_distinct(vectors.ids, vectors.source_name, vectors.row_name)
    return vectors


def open_features(path: Path, memory_limit: int) -> NumberedFeatures | NamedFeatures:
    """Open a feature file. memory_limit: bytes that one batch may take, or an archive, which is read as a whole."""
    ending = path.suffix.lower()
    if not path.is_file():
        raise InputError(f"{path}: no such feature file")
    shape = plain_npy_shape(path, "biuf") if ending == ".npy" else None
    if shape is not None and len(shape) == 2 and 0 not in shape:
        return NumberedFeatures(str(path), shape, False, partial(_npy_batches, path, shape))
    if ending in (".npy", ".npz"):  # not in rows that could be read by themselves
        features = _read_feature_file(path, memory_limit).vectors
        checked = check_features(features, features.shape[0], str(path))
        return NumberedFeatures(str(path), checked.shape, sp.issparse(checked), lambda: iter([checked]))
    _check_ending(path)
    return _open_vector_file(path, memory_limit)


def _npy_batches(path: Path, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    num_rows = max(1, _BYTES_AT_ONCE // (4 * shape[1]))
    for low in range(0, shape[0], num_rows):
        block = read_npy_rows(path, low, low + num_rows)
        yield check_features(block, len(block), str(path), low)


def _check_ending(path: Path) -> None:
    if path.suffix.lower() != ".parquet" and not is_text_file(path):
        raise InputError(f"{path}: unknown ending of a feature file; use .npy, .npz, .csv, .tsv, .txt or .parquet")


def _open_vector_file(path: Path, memory_limit: int | None, *, keep: bool = False) -> NamedFeatures:
    """Open a text table or a Parquet file.

    memory_limit: bytes that a batch of Parquet may take. keep: whether all rows are one batch, which stays in memory.
    """
    if path.suffix.lower() == ".parquet":
        return _open_parquet(path, memory_limit, keep=keep)
    return _open_text(path, keep=keep)


def _open_parquet(path: Path, memory_limit: int | None, *, keep: bool) -> NamedFeatures:
    import pyarrow as pa

    file = open_parquet(path)
    check_shape(len(file.schema), file.num_rows, str(path))
    rows_at_once = max(1, _BYTES_AT_ONCE * file.num_rows // max(1, file.num_bytes))

    def read() -> Iterator[VectorTable]:
        first_row, num_features = 0, None
        for table in [file.read(memory_limit)] if keep else file.batches(rows_at_once, memory_limit):
            rows = rows_from_table(table, str(path), first_row, num_features)
            first_row, num_features = first_row + table.num_rows, rows.vectors.shape[1]
            yield rows

    batches = kept(read) if keep else read
    num_features = next(batches()).vectors.shape[1]
    has_integers = pa.types.is_integer(file.schema.types[0])
    if pa.types.is_uint64(file.schema.types[0]):  # those beyond 64 bits are text
        has_integers = all(batch.ids is not None and batch.ids.dtype.kind == "i" for batch in batches())

    def tables() -> Iterator[VectorTable]:
        for batch in batches():
            assert batch.ids is not None
            is_odd = batch.ids.dtype.kind == "i" and not has_integers
            yield replace(batch, ids=as_text(batch.ids)) if is_odd else batch

    return NamedFeatures(str(path), num_features, has_integers, tables, lambda row: f"row {row + 1}")


def _open_text(path: Path, *, keep: bool) -> NamedFeatures:
    import pyarrow as pa

    text = open_text_table(path, keep=keep)
    if text.num_columns < 2:
        raise InputError(f"{path}: only one column; it needs an id column and numbers after it")
    skip_first = has_header(text.first_row)
    titles = text.first_row[1:] if skip_first else None
    batches: Stream[Columns] = partial(_text_columns, text, skip_first)
    batches = collected(batches) if keep else batches
    if not any(len(columns[0]) for columns in batches()):
        raise InputError(f"{path}: only a header; it needs one row per node")
    has_integers = find_id_kind(trimmed(columns[0]) for columns in batches()) is IdKind.INTEGERS
    trim = trimmed_unless_quoted if not has_integers and text.quoted else trimmed

    def row_name(row: int) -> str:
        return f"line {find_line(path, row + int(skip_first))}"

    def tables() -> Iterator[VectorTable]:
        first_row = 0
        for ids, *columns in batches():
            if len(ids):
                here = partial(_name_row, row_name, first_row)
                vectors = np.column_stack([column.to_numpy() for column in columns])
                check_finite(vectors, str(path), here, titles, first_row)
                names = trim(ids).cast(pa.int64()) if has_integers else trim(ids)
                yield VectorTable(vectors, id_column(names, str(path), here), str(path), here)
            first_row += len(ids)

    return NamedFeatures(str(path), text.num_columns - 1, has_integers, tables, row_name)


def _text_columns(text: TextTable, skip_first: bool) -> Iterator[Columns]:
    """Ids as they are written, and numbers, block by block."""
    import pyarrow as pa

    types = [pa.string(), *[pa.float32()] * (text.num_columns - 1)]
    first_row = 0
    for number, block in enumerate(text.blocks()):
        skip = skip_first and number == 0
        try:
            columns = block.columns(types, skip_first=skip)
        except pa.ArrowInvalid:
            raise InputError(_text_among_numbers(text, block, skip, first_row + int(skip_first))) from None
        yield columns
        first_row += len(columns[0])


def _name_row(row_name: RowName, first_row: int, row: int) -> str:
    return row_name(first_row + row)


def has_header(first_row: list[str]) -> bool:
    """Whether the first line names its columns: it calls the first one an id, or has no number after it."""
    if first_row[0].lower() in _ID_HEADERS:
        return True
    return not any(is_number(cell) or cell.lower() in _NOT_FINITE for cell in first_row[1:])


def _text_among_numbers(text: TextTable, block: TextBlock, skip_first: bool, lines_before: int) -> str:
    """Say where the first cell is that is no number. lines_before: lines with data before the rows of the block."""
    import pyarrow.compute as pc

    worst: tuple[int, int, str] | None = None
    for column, cells in enumerate(map(text.trimmed, block.texts(skip_first=skip_first)[1:]), start=1):
        wrong = pc.invert(pc.match_substring_regex(cells, NUMBER)).to_numpy()
        row = int(np.argmax(wrong)) if wrong.any() else len(wrong)
        if row < len(wrong) and (worst is None or row < worst[0]):
            worst = (row, column, cells[row].as_py())
    if worst is None:
        return f"{text.path}: cannot be read as numbers; give an id column and numbers after it"
    row, column, cell = worst
    line = find_line(text.path, lines_before + row)
    title = f" ({text.first_row[column]})" if has_header(text.first_row) else ""
    return f"{text.path}: line {line}, column {column + 1}{title}: {cell!r} is not a number; features must be numbers"


def _as_table(source: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    try:
        return pa.Table.from_pandas(source, preserve_index=False)
    except (pa.ArrowException, AttributeError, TypeError) as error:
        raise InputError(f"features: {error}; give a table with an id column and number columns after it") from error


def _read_feature_file(path: Path, memory_limit: int | None) -> VectorTable:
    ending = path.suffix.lower()
    if not path.is_file():
        raise InputError(f"{path}: no such feature file")
    check_unpacked_size(path, memory_limit)
    if ending in (".npy", ".npz"):
        vectors = features_from_arrays(load_arrays(path), path)
        if vectors.ndim != 2:
            raise InputError(f"{path}: features have shape {vectors.shape}; give one row per node")
        return VectorTable(vectors, None, str(path))
    _check_ending(path)
    return read_vector_file(path, memory_limit)


def _from_tensor(tensor: Any) -> Features:
    """A torch tensor, dense or sparse, without importing torch."""
    tensor = tensor.detach().cpu()
    if str(tensor.layout) == "torch.strided":
        return tensor.numpy()
    entries = tensor.to_sparse_coo().coalesce()
    rows, columns = entries.indices().numpy()
    return sp.csr_array((entries.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))
