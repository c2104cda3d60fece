"""Feature files and arrays: rows by node number (.npy, .npz, arrays) or rows by id (.csv, .parquet)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.archives import check_unpacked_size, load_arrays, read_parquet
from l2g2g.graphs.graph import Features
from l2g2g.graphs.node_ids import as_node_ids, encode, find_rows, integers_or_text, quoted
from l2g2g.graphs.read_npz import features_from_arrays
from l2g2g.graphs.text_tables import NUMBER, TextTable, is_number, is_text_file, open_text_table

if TYPE_CHECKING:
    import pyarrow as pa

_ID_HEADERS = {"id", "ids", "node", "nodes", "node_id", "nodeid", "name", "index", ""}
_NOT_FINITE = {"nan", "inf", "-inf", ""}  # numbers gone wrong, not names of columns


def _row_name(row: int) -> str:
    return f"row {row + 1}"


@dataclass(frozen=True, eq=False)
class VectorTable:
    """One vector per row, with or without an id.

    Attributes:
        vectors: (num_rows, num_columns), dense or sparse.
        ids: (num_rows,) integers or text, each once; None where a row is a node number.
        source_name: What errors call the table.
        row_name: From a row number to what errors call that row ("line 7").
        spared: Ids that need no row; None where all do.
    """

    vectors: Features
    ids: np.ndarray | None
    source_name: str
    row_name: Callable[[int], str] = _row_name
    spared: np.ndarray | None = None

    def by_node(self, node_ids: np.ndarray, graph_name: str) -> np.ndarray:
        """(num_nodes, num_columns) vectors in the order of node_ids; every node needs a row but those spared one."""
        assert self.ids is not None
        assert isinstance(self.vectors, np.ndarray)
        rows = find_rows(node_ids, self.ids)
        if self.spared is not None:
            spared = (rows < 0) & (find_rows(node_ids, self.spared) >= 0)
            if spared.any():
                found = np.zeros((len(node_ids), self.vectors.shape[1]), self.vectors.dtype)
                found[~spared] = replace(self, spared=None).by_node(node_ids[~spared], graph_name)
                return found
        if (rows < 0).any():
            missing = node_ids[int(np.argmax(rows < 0))]
            raise InputError(
                f"{self.source_name}: {len(self.ids):,} feature rows but {len(node_ids):,} nodes in {graph_name}: "
                f"no row for node {quoted(missing)} and {int((rows < 0).sum()) - 1:,} others; add a row for each node"
            )
        return self.vectors[rows]

    def ids_beyond(self, node_ids: np.ndarray) -> np.ndarray:
        """The ids that are none of node_ids, in the order of their rows."""
        assert self.ids is not None
        return self.ids[find_rows(self.ids, node_ids) < 0]


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
    """Read an id column and a vector per row from a text table or a Parquet file."""
    if path.suffix.lower() != ".parquet":
        return _vectors_from_text(open_text_table(path))
    return vectors_from_table(read_parquet(path, memory_limit), str(path))


def vectors_from_table(table: pa.Table, source_name: str, first_row: int = 0) -> VectorTable:
    """Take an id column and after it one list column, or one number column per dimension.

    first_row: how many rows came before, where these are a part of the whole.
    """
    import pyarrow as pa

    if table.num_columns < 2:
        raise InputError(f"{source_name}: only {table.num_columns} column; it needs an id column and numbers after it")
    if table.num_rows == 0:
        raise InputError(f"{source_name}: no rows; it needs one row per node")

    def row_name(row: int) -> str:
        return f"row {first_row + row + 1}"

    second = table.column(1).type
    is_list = pa.types.is_fixed_size_list(second) or pa.types.is_list(second) or pa.types.is_large_list(second)
    vectors = _from_list_column(table, source_name) if is_list else _from_number_columns(table, source_name)
    titles = table.column_names[1:] if not is_list else None
    check_finite(vectors, source_name, row_name, titles, first_row)
    return VectorTable(vectors, distinct_ids(table.column(0), source_name, row_name), source_name, row_name)


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
    if ending == ".parquet" or is_text_file(path):
        return read_vector_file(path, memory_limit)
    raise InputError(f"{path}: unknown ending of a feature file; use .npy, .npz, .csv, .tsv, .txt or .parquet")


def _vectors_from_text(table: TextTable) -> VectorTable:
    import pyarrow as pa

    path = table.path
    if table.num_columns < 2:
        raise InputError(f"{path}: only one column; it needs an id column and numbers after it")
    skip_first = has_header(table.first_row)
    numbers: list[pa.DataType] = [pa.float32()] * (table.num_columns - 1)
    try:
        ids, *columns = table.columns([pa.string(), *numbers], skip_first=skip_first)
    except pa.ArrowInvalid:
        raise InputError(text_among_numbers(table, skip_first)) from None
    if len(ids) == 0:
        raise InputError(f"{path}: only a header; it needs one row per node")

    def row_name(row: int) -> str:
        return f"line {table.line_number(row, skip_first=skip_first)}"

    vectors = np.column_stack([column.to_numpy() for column in columns])
    titles = table.first_row[1:] if skip_first else None
    check_finite(vectors, str(path), row_name, titles)
    ids = integers_or_text(table.trimmed(ids))
    return VectorTable(vectors, distinct_ids(ids, str(path), row_name), str(path), row_name)


def has_header(first_row: list[str]) -> bool:
    """Whether the first line names its columns: it calls the first one an id, or has no number after it."""
    if first_row[0].lower() in _ID_HEADERS:
        return True
    return not any(is_number(cell) or cell.lower() in _NOT_FINITE for cell in first_row[1:])


def text_among_numbers(table: TextTable, skip_first: bool, first_row: int = 0) -> str:
    """Say where the first cell is that is no number. first_row: rows of data before those of the table."""
    import pyarrow.compute as pc

    worst: tuple[int, int, str] | None = None
    for column, cells in enumerate(table.texts(skip_first=skip_first)[1:], start=1):
        wrong = pc.invert(pc.match_substring_regex(cells, NUMBER)).to_numpy()
        row = int(np.argmax(wrong)) if wrong.any() else len(wrong)
        if row < len(wrong) and (worst is None or row < worst[0]):
            worst = (row, column, cells[row].as_py())
    if worst is None:
        return f"{table.path}: cannot be read as numbers; give an id column and numbers after it"
    row, column, cell = worst
    line = table.line_number(first_row + row, skip_first=skip_first)
    title = f" ({table.first_row[column]})" if has_header(table.first_row) else ""
    return f"{table.path}: line {line}, column {column + 1}{title}: {cell!r} is not a number; features must be numbers"


def _from_list_column(table: pa.Table, source_name: str) -> np.ndarray:
    import pyarrow.compute as pc

    if table.num_columns > 2:
        raise InputError(f"{source_name}: {table.num_columns} columns; keep the id and one list column")
    lists = table.column(1).combine_chunks()
    lengths = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)
    if (lengths != lengths[0]).any() or lengths[0] < 1:
        row = int(np.argmax(lengths != lengths[0]))
        raise InputError(
            f"{source_name}: row {row + 1} has {lengths[row]} numbers, row 1 has {lengths[0]}; all must be equally long"
        )
    values = pc.list_flatten(lists)
    return _numbers(values, source_name, table.column_names[1]).reshape(len(lengths), -1)


def _from_number_columns(table: pa.Table, source_name: str) -> np.ndarray:
    names = table.column_names
    return np.column_stack(
        [_numbers(table.column(index), source_name, names[index]) for index in range(1, table.num_columns)]
    )


def _numbers(column: pa.Array | pa.ChunkedArray, source_name: str, title: str) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_real = pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    if not is_real:
        raise InputError(f"{source_name}: column {title!r} holds {column.type}; features must be numbers")
    values = pc.cast(column, pa.float32(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy())


def check_finite(
    vectors: np.ndarray, source_name: str, row_name: Any, titles: list[str] | None, first_row: int = 0
) -> None:
    """Refuse NaN and Inf; name the row. first_row: how many rows came before."""
    finite = np.isfinite(vectors)
    if finite.all():
        return
    row, column = (int(index) for index in np.argwhere(~finite)[0])
    title = repr(titles[column]) if titles else column
    raise InputError(
        f"{source_name}: {row_name(row)}: feature row {first_row + row}, column {title} is {vectors[row, column]}; "
        f"replace NaN and Inf by numbers"
    )


def distinct_ids(column: pa.ChunkedArray, source_name: str, row_name: Any) -> np.ndarray:
    """Distinct ids as int64 or text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        row = int(np.argmax(pc.is_null(column).to_numpy()))
        raise InputError(f"{source_name}: {row_name(row)}: the id is missing; fill it in")
    if not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_integer(column.type)
    ):
        raise InputError(f"{source_name}: the first column holds {column.type}; it must hold ids, integers or text")
    ids = as_node_ids(column.to_numpy(), source_name)
    numbers, distinct = encode(ids)
    if len(distinct) < len(ids):
        second = int(np.argmax(numbers != np.arange(len(numbers))))
        first = int(np.argmax(numbers == numbers[second]))
        raise InputError(
            f"{source_name}: node {quoted(ids[second])} is in {row_name(first)} and again in {row_name(second)}; "
            f"keep one row per node"
        )
    return ids


def _from_tensor(tensor: Any) -> Features:
    """A torch tensor, dense or sparse, without importing torch."""
    tensor = tensor.detach().cpu()
    if str(tensor.layout) == "torch.strided":
        return tensor.numpy()
    entries = tensor.to_sparse_coo().coalesce()
    rows, columns = entries.indices().numpy()
    return sp.csr_array((entries.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))
