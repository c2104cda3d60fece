"""Feature files and arrays: rows by node number (.npy, .npz, arrays) or rows by id (.csv, .parquet)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.archives import check_unpacked_size, is_parquet, load_arrays, parts_of, plain_npy_shape, read_npy_rows
from l2g2g.graphs.arrow_tables import (
    Columns,
    Stream,
    as_arrow_table,
    collected,
    is_edge_table,
    is_list,
    is_numeric,
    is_pandas,
    kept,
    open_parquet,
)
from l2g2g.graphs.checks import check_features
from l2g2g.graphs.column_roles import INDEX_TITLES, check_headers
from l2g2g.graphs.feature_columns import (
    FeatureColumns,
    check_label_type,
    find_feature_columns,
    label_kind,
    read_labels,
    tell_features,
)
from l2g2g.graphs.formats import AS_FOUND, Missing, TableOptions
from l2g2g.graphs.graph import Features
from l2g2g.graphs.matrix_files import features_from_arrays
from l2g2g.graphs.node_ids import (
    IdKind,
    RowName,
    check_unique,
    find_id_kind,
    find_rows,
    id_column,
    name_row,
    name_rows_from,
    plain_ids,
    quoted,
)
from l2g2g.graphs.text_tables import (
    TextTable,
    is_number,
    is_text_table,
    open_text_table,
    trimmed,
    trimmed_unless_quoted,
)

_BYTES_AT_ONCE = 1 << 24
_ID_HEADERS = {"id", "ids", "node", "nodes", "node_id", "nodeid", "name", "index", ""}
_PLAIN_ID_HEADERS = {"id", "node_id", "nodeid"}  # mean ids in any column
_INDEX_HEADERS = {"index", *INDEX_TITLES}
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
        columns: What the columns of a table became; None where they are a list, or numbers without titles.
    """

    source_name: str
    num_features: int
    has_integer_ids: bool
    tables: Stream[VectorTable]
    row_name: RowName
    columns: FeatureColumns | None = None


def read_features(
    source: Any,
    memory_limit: int | None = None,
    options: TableOptions = AS_FOUND,
    known: FeatureColumns | None = None,
) -> VectorTable:
    """Read features from a path, an array, a sparse matrix, or a table of pandas, Arrow or polars.

    known: the columns of a finished model, to read a table in the same way.
    """
    if isinstance(source, (str, Path)):
        return _read_feature_file(Path(source), memory_limit, options, known)
    if is_edge_table(source):
        table = _as_table(source)
        return _only(_open_tables(lambda: iter([table]), table.schema, table.num_rows, "features", options, known))
    if options.label_column is not None:
        raise InputError("--label-column names a column of a feature table; these features have no titles")
    if sp.issparse(source):
        return VectorTable(_filled(sp.csr_array(source), options.missing, "features"), None, "features")
    if type(source).__module__.split(".")[0] == "torch":
        return VectorTable(_filled(_from_tensor(source), options.missing, "features"), None, "features")
    array = np.asarray(source)
    if array.ndim != 2:
        raise InputError(f"features have shape {array.shape}; give one row per node")
    return VectorTable(_filled(array, options.missing, "features"), None, "features")


def read_vector_file(path: Path, memory_limit: int | None = None) -> VectorTable:
    """Read an id column and a vector per row from a text table or a Parquet file into memory."""
    features = _open_vector_file(path, memory_limit, AS_FOUND, None, keep=True)
    words = [] if features.columns is None else [each.title for each in features.columns.columns if each.values]
    if words:
        raise InputError(f"{path}: column {words[0]!r} holds text; a vector needs numbers after its id")
    return _only(features)


def _only(features: NamedFeatures) -> VectorTable:
    """The one table of features in memory, each id once."""
    vectors = next(features.tables())
    assert vectors.ids is not None
    check_unique(vectors.ids, vectors.source_name, vectors.row_name)
    return vectors


def open_features(path: Path, memory_limit: int, options: TableOptions = AS_FOUND) -> NumberedFeatures | NamedFeatures:
    """Open a feature file. memory_limit: bytes that one batch may take, or an archive, which is read as a whole."""
    ending = path.suffix.lower()
    _check_file(path)
    if ending in (".npy", ".npz"):
        _refuse_label(path, options)
    shape = plain_npy_shape(path, "biuf") if ending == ".npy" else None
    if shape is not None and len(shape) == 2 and 0 not in shape:
        fill = _column_means(path, shape) if options.missing == "mean" else None
        batches = partial(_npy_batches, path, shape, options.missing, fill)
        return NumberedFeatures(str(path), shape, False, batches)
    if ending in (".npy", ".npz"):  # not in rows that could be read by themselves
        features = _read_feature_file(path, memory_limit, options, None).vectors
        checked = check_features(features, features.shape[0], str(path))
        return NumberedFeatures(str(path), checked.shape, sp.issparse(checked), lambda: iter([checked]))
    _check_ending(path)
    return _open_vector_file(path, memory_limit, options, None)


def _npy_batches(path: Path, shape: tuple[int, ...], missing: Missing, fill: np.ndarray | None) -> Iterator[np.ndarray]:
    num_rows = max(1, _BYTES_AT_ONCE // (4 * shape[1]))
    for low in range(0, shape[0], num_rows):
        block = _filled(read_npy_rows(path, low, low + num_rows), missing, str(path), fill)
        yield check_features(block, len(block), str(path), low)


def _column_means(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """(num_columns,) mean of the numbers of each column, by a pass over the file."""
    total, count = np.zeros(shape[1]), np.zeros(shape[1], np.int64)
    num_rows = max(1, _BYTES_AT_ONCE // (4 * shape[1]))
    for low in range(0, shape[0], num_rows):
        block = read_npy_rows(path, low, low + num_rows)
        known = ~np.isnan(block)
        total += np.where(known, block, 0).sum(axis=0, dtype=np.float64)
        count += known.sum(axis=0)
    return total / np.maximum(count, 1)


def _filled(features: Features, missing: Missing, source_name: str, fill: np.ndarray | None = None) -> Features:
    """The same features, NaN replaced as asked. fill: the means of the columns, where they are known already."""
    values = features.data if sp.issparse(features) else features
    if missing == "error" or values.dtype.kind != "f" or not np.isnan(values).any():
        return features
    if sp.issparse(features):
        if missing == "mean":
            raise InputError(f"{source_name}: sparse features have no mean to fill in; choose --missing zero")
        filled = features.copy()
        filled.data = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        return filled
    if fill is None:
        known = ~np.isnan(values)
        total = np.where(known, values, 0).sum(axis=0, dtype=np.float64)
        fill = total / np.maximum(known.sum(axis=0), 1) if missing == "mean" else np.zeros(values.shape[1])
    return np.where(np.isnan(values), fill.astype(values.dtype), values)


def _check_file(path: Path) -> None:
    if not path.is_file() and not (path.is_dir() and parts_of(path)):
        raise InputError(f"{path}: no such feature file")


def _check_ending(path: Path) -> None:
    if not is_parquet(path) and not is_text_table(path):
        raise InputError(f"{path}: unknown ending of a feature file; use .npy, .npz, .csv, .tsv, .txt or .parquet")


def _refuse_label(path: Path, options: TableOptions) -> None:
    if options.label_column is not None:
        raise InputError(f"{path}: has no titled columns; --label-column needs a .csv or .parquet with ids")


def _open_vector_file(
    path: Path,
    memory_limit: int | None,
    options: TableOptions,
    known: FeatureColumns | None,
    *,
    keep: bool = False,
) -> NamedFeatures:
    """Open a text table, a Parquet file or a folder of parts.

    memory_limit: bytes that a batch of Parquet may take. keep: whether all rows are one batch, which stays in memory.
    """
    if not is_parquet(path):
        return _open_text(path, options, known, keep=keep)
    file = open_parquet(path)
    rows_at_once = max(1, _BYTES_AT_ONCE * file.num_rows // max(1, file.num_bytes))

    def read() -> Iterator[pa.Table]:
        yield from [file.read(memory_limit)] if keep else file.batches(rows_at_once, memory_limit)

    batches = kept(read) if keep else read
    return _open_tables(batches, file.schema, file.num_rows, str(path), options, known)


@dataclass(frozen=True)
class _Layout:
    """Places of the columns of a feature table. titles: of the features; None where the table has none."""

    ids: int
    label: int | None
    features: tuple[int, ...]
    titles: list[str] | None

    @property
    def places(self) -> tuple[int, ...]:
        """Of all columns that are read: ids, perhaps labels, features."""
        return (self.ids, *(() if self.label is None else (self.label,)), *self.features)

    @property
    def first_feature(self) -> int:
        """Where features begin among these."""
        return 1 if self.label is None else 2

    def names(self) -> list[str]:
        """What errors call the features."""
        return self.titles or [f"column {place + 1}" for place in self.features]


def _find_layout(
    titles: list[str] | None,
    num_columns: int,
    options: TableOptions,
    source_name: str,
    known: FeatureColumns | None,
    first_cells: list[str] | None = None,
) -> _Layout:
    """Which column holds ids, labels and features; others as in `_find_ids`."""
    ids, rest = _find_ids(titles, num_columns, first_cells)
    label = None
    if options.label_column is not None:
        wanted = options.label_column
        named = [] if titles is None else [place for place in rest if titles[place] == wanted]
        if named:
            label = named[0]
        elif wanted.isdecimal() and int(wanted) - 1 in rest:
            label = int(wanted) - 1
        else:
            shown = f"no titles, but columns 2 to {num_columns}"
            if titles is not None:
                shown = ", ".join(titles[place] for place in rest[:12])
            raise InputError(f"{source_name}: no column {wanted!r} for --label-column; it has {shown}")
    places = [place for place in rest if place != label]
    if known is not None:
        own = None if titles is None else [titles[place] for place in places]
        places = [places[place] for place in known.matched(own, len(places), source_name)]
    return _Layout(ids, label, tuple(places), None if titles is None else [titles[place] for place in places])


def _find_ids(titles: list[str] | None, num_columns: int, first_cells: list[str] | None) -> tuple[int, list[int]]:
    """The column of the ids, and the other columns without pandas' index: the first, unless another one is called id.

    first_cells: of the first column, where it may be pandas' index.
    """
    ids = start = 0
    if titles is not None and num_columns > 2 and titles[0].lower() in _INDEX_HEADERS:
        is_index = first_cells is None or first_cells == [str(row) for row in range(len(first_cells))]
        ids = start = int(titles[1].lower() in _ID_HEADERS - _INDEX_HEADERS and is_index)
    elif titles is not None and titles[0].lower() not in _ID_HEADERS:
        named = [place for place, title in enumerate(titles) if title.lower() in _PLAIN_ID_HEADERS]
        ids = named[0] if len(named) == 1 else 0
    return ids, [place for place in range(start, num_columns) if place != ids]


def _open_tables(
    batches: Stream[pa.Table],
    schema: pa.Schema,
    num_rows: int,
    source_name: str,
    options: TableOptions,
    known: FeatureColumns | None,
) -> NamedFeatures:
    """Features in tables whose columns have types."""
    check_shape(len(schema), num_rows, source_name)
    layout = _find_layout(schema.names, len(schema), options, source_name, known)
    kinds = [schema.types[place] for place in layout.features]
    has_lists = any(is_list(kind) for kind in kinds)
    if has_lists and options.missing != "error":
        raise InputError(f"{source_name}: --missing is for columns of numbers and text, not for lists; leave it out")
    if layout.label is not None:
        check_label_type(schema.types[layout.label], schema.names[layout.label], source_name)

    def chosen() -> Iterator[Columns]:
        yield from ([table.column(place) for place in layout.places] for table in batches())

    id_type = schema.types[layout.ids]
    has_integers = pa.types.is_integer(id_type) if options.ids is None else options.ids == "integer"
    if options.ids is None and pa.types.is_uint64(id_type):  # those beyond 64 bits are text
        ids = (plain_ids(batch[0], source_name, name_row) for batch in chosen())
        has_integers = all(pa.types.is_int64(each.type) for each in ids)
    is_plain = has_lists or (all(map(is_numeric, kinds)) and options.missing == "error")
    return _open_columns(
        chosen,
        layout,
        options,
        known,
        source_name,
        name_row,
        schema.names[layout.ids],
        has_integers=has_integers,
        is_plain=is_plain,
    )


def _open_columns(
    batches: Stream[Columns],
    layout: _Layout,
    options: TableOptions,
    known: FeatureColumns | None,
    source_name: str,
    row_name: RowName,
    id_title: str,
    *,
    has_integers: bool,
    is_plain: bool,
) -> NamedFeatures:
    """Features of columns in the order of the layout's places. is_plain: whether they are numbers, or lists of them."""
    columns = known
    if known is None and layout.features and not is_plain:
        features = lambda: (batch[layout.first_feature :] for batch in batches())  # noqa: E731
        titled = layout.titles is not None
        columns = find_feature_columns(features, layout.names(), options, source_name, row_name, titled=titled)
    label = _label_kind_of(lambda: (batch[1] for batch in batches()), layout)
    if columns is not None or label is not None or layout.ids:
        tell_features(source_name, id_title, columns, options.label_column)

    def tables() -> Iterator[VectorTable]:
        first_row, width = 0, None
        for batch in batches():
            num_rows, features = len(batch[0]), batch[layout.first_feature :]
            if num_rows:
                here = name_rows_from(row_name, first_row)
                if columns is not None:
                    vectors = columns.vectors(features, source_name, here)
                else:
                    names = features and layout.titles
                    vectors = stack_columns(features, num_rows, names, source_name, here, first_row, width)
                    width = vectors.shape[1]
                ids = id_column(batch[0], source_name, here, has_integers=has_integers)
                labels = None if label is None else read_labels(batch[1], label, source_name)
                fill = None if columns is None else columns.fill
                yield VectorTable(vectors, ids, source_name, here, labels=labels, columns=columns, fill=fill)
            first_row += num_rows

    num_features = next(tables()).vectors.shape[1] if columns is None else columns.num_features
    return NamedFeatures(source_name, num_features, has_integers, tables, row_name, columns)


def _label_kind_of(columns: Callable[[], Iterable[pa.ChunkedArray]], layout: _Layout) -> IdKind | None:
    """Whether the labels of a table are integers or text, by a pass over it; None without labels."""
    if layout.label is None:
        return None
    kind = IdKind.INTEGERS
    for column in columns():
        kind = label_kind(kind, column)
    return IdKind.INTEGERS if kind is IdKind.INTEGERS else IdKind.NAMES


def _open_text(path: Path, options: TableOptions, known: FeatureColumns | None, *, keep: bool) -> NamedFeatures:
    whole = open_text_table(path, keep=keep)
    if len(whole.titles) < 2:
        raise InputError(f"{path}: only one column; it needs an id column and numbers after it")
    skip_first = has_header(whole.titles)
    check_headers(whole, has_header, skip_first=skip_first)
    first_cells = [row[0] for row in whole.sample[1:] if row]
    titles = whole.titles if skip_first else None
    layout = _find_layout(titles, len(whole.titles), options, str(path), known, first_cells)
    text = whole.of_columns(layout.places)
    numbers: Stream[Columns] = partial(_typed_columns, text, skip_first, layout.first_feature)
    batches = collected(numbers) if keep else numbers
    num_rows = _count_rows_of_numbers(batches) if options.missing == "error" and known is None else None
    is_plain = num_rows is not None
    if num_rows is None:
        words: Stream[Columns] = partial(text.texts, skip_first=skip_first)
        batches = collected(words) if keep else words
        num_rows = sum(len(columns[0]) for columns in batches())
    if num_rows == 0:
        raise InputError(f"{path}: only a header; it needs one row per node")
    if options.ids is None:
        has_integers = find_id_kind(trimmed(batch[0]) for batch in batches()) is IdKind.INTEGERS
    else:
        has_integers = options.ids == "integer"
    trim = trimmed_unless_quoted if not has_integers and text.quoted else trimmed

    def with_trimmed_ids() -> Iterator[Columns]:
        yield from ([trim(batch[0]), *batch[1:]] for batch in batches())

    return _open_columns(
        with_trimmed_ids,
        layout,
        options,
        known,
        str(path),
        partial(text.name_row, skip_first=skip_first),
        whole.titles[layout.ids] if skip_first else "column 1",
        has_integers=has_integers,
        is_plain=is_plain,
    )


def _count_rows_of_numbers(batches: Stream[Columns]) -> int | None:
    """Number of rows; None where a feature is not a number."""
    try:
        return sum(len(columns[0]) for columns in batches())
    except pa.ArrowInvalid:
        return None


def _typed_columns(text: TextTable, skip_first: bool, first_feature: int) -> Iterator[Columns]:
    """Ids and labels as they are written, and numbers, block by block."""
    types = [pa.string()] * first_feature + [pa.float32()] * (text.num_columns - first_feature)
    for block in text.blocks():
        yield block.columns(types, skip_first=skip_first)


def has_header(first_row: list[str]) -> bool:
    """Whether the first line names its columns: it calls the first one an id, or has no number after it."""
    if first_row[0].lower() in _ID_HEADERS:
        return True
    return not any(is_number(cell) or cell.lower() in _NOT_FINITE for cell in first_row[1:])


def _as_table(source: Any) -> pa.Table:
    """A table with the ids first. Of pandas these are the index, unless it only numbers the rows."""
    if is_pandas(source) and type(source.index).__name__ != "RangeIndex":
        source = source.reset_index()
    return as_arrow_table(source, "features")


def _read_feature_file(
    path: Path, memory_limit: int | None, options: TableOptions, known: FeatureColumns | None
) -> VectorTable:
    ending = path.suffix.lower()
    _check_file(path)
    check_unpacked_size(path, memory_limit)
    if ending in (".npy", ".npz"):
        _refuse_label(path, options)
        vectors = features_from_arrays(load_arrays(path), path)
        if vectors.ndim != 2:
            raise InputError(f"{path}: features have shape {vectors.shape}; give one row per node")
        return VectorTable(_filled(vectors, options.missing, str(path)), None, str(path))
    _check_ending(path)
    return _only(_open_vector_file(path, memory_limit, options, known, keep=True))


def _from_tensor(tensor: Any) -> Features:
    """A torch tensor, dense or sparse, without importing torch."""
    tensor = tensor.detach().cpu()
    if str(tensor.layout) == "torch.strided":
        return tensor.numpy()
    entries = tensor.to_sparse_coo().coalesce()
    rows, columns = entries.indices().numpy()
    return sp.csr_array((entries.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))


@dataclass(frozen=True, eq=False)
class VectorTable:
    """One vector per row, with or without an id.

    Attributes:
        vectors: (num_rows, num_columns), dense or sparse.
        ids: (num_rows,) integers or text, each once; None where a row is a node number.
        source_name: What errors call the table.
        row_name: From a row number to what errors call that row ("line 7").
        spared: Ids that need no row; None where all do.
        labels: (num_rows,) class of each row, integers or text; None without labels.
        columns: What the columns of the table became, where they were not all plain numbers.
        fill: (num_columns,) the row of a node that has none; None where such a node is refused.
    """

    vectors: Features
    ids: np.ndarray | None
    source_name: str
    row_name: RowName = name_row
    spared: np.ndarray | None = None
    labels: np.ndarray | None = None
    columns: FeatureColumns | None = None
    fill: np.ndarray | None = None

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
        if self.fill is not None and (rows < 0).any():
            return np.where((rows < 0)[:, None], self.fill, self.vectors[rows])
        if (rows < 0).any():
            missing = node_ids[int(np.argmax(rows < 0))]
            raise InputError(
                f"{self.source_name}: {len(self.ids):,} feature rows but {len(node_ids):,} nodes in {graph_name}: "
                f"no row for node {quoted(missing)} and {int((rows < 0).sum()) - 1:,} others; add a row for each node, "
                f"or choose --missing"
            )
        return self.vectors[rows]

    def labels_by_node(self, node_ids: np.ndarray) -> np.ndarray | None:
        """(num_nodes,) labels in the order of node_ids, -1 or an empty text for a node without a row."""
        if self.labels is None:
            return None
        assert self.ids is not None
        rows = find_rows(node_ids, self.ids)
        unknown = -1 if self.labels.dtype.kind == "i" else ""
        return np.where(rows < 0, unknown, self.labels[rows])

    def ids_beyond(self, node_ids: np.ndarray) -> np.ndarray:
        """The ids that are none of node_ids, in the order of their rows."""
        assert self.ids is not None
        return self.ids[find_rows(self.ids, node_ids) < 0]


def check_shape(num_columns: int, num_rows: int, source_name: str) -> None:
    """Refuse a table that cannot be one of ids and vectors."""
    if num_columns < 2:
        raise InputError(f"{source_name}: only {num_columns} column; it needs an id column and numbers after it")
    if num_rows == 0:
        raise InputError(f"{source_name}: no rows; it needs one row per node")


def stack_columns(
    columns: list[pa.ChunkedArray],
    num_rows: int,
    titles: list[str] | None,
    source_name: str,
    row_name: RowName,
    first_row: int = 0,
    num_features: int | None = None,
) -> np.ndarray:
    """(num_rows, num_features) float32 of one list column, or of one number column per dimension, all finite.

    first_row: how many rows came before. num_features: how many numbers these have; None for the first.
    """
    if not columns:
        return np.empty((num_rows, 0), np.float32)
    names = titles or [f"column {place + 2}" for place in range(len(columns))]
    if is_list(columns[0].type):
        if len(columns) > 1:
            raise InputError(f"{source_name}: {len(columns) + 1} columns; keep the id and one list column")
        vectors, titles = read_lists(columns[0], source_name, names[0], first_row, num_features), None
    else:
        each = zip(columns, names, strict=True)
        vectors = np.column_stack([_numbers(column, source_name, name) for column, name in each])
    check_finite(vectors, source_name, row_name, titles, first_row)
    return vectors


def read_lists(
    column: pa.ChunkedArray, source_name: str, title: str, first_row: int = 0, num_features: int | None = None
) -> np.ndarray:
    """(num_rows, num_features) float32 from a column of lists of one length. Others as in `stack_columns`."""
    lists = column.combine_chunks()
    lengths = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)
    wanted = lengths[0] if num_features is None else num_features
    if (lengths != wanted).any() or wanted < 1:
        row = int(np.argmax(lengths != wanted))
        raise InputError(
            f"{source_name}: row {first_row + row + 1} has {lengths[row]} numbers, row 1 has {wanted}; "
            f"all must be equally long"
        )
    values = pc.list_flatten(lists)
    return _numbers(values, source_name, title).reshape(len(lengths), -1)


def _numbers(column: pa.Array | pa.ChunkedArray, source_name: str, title: str) -> np.ndarray:
    if not is_numeric(column.type):
        raise InputError(f"{source_name}: column {title!r} holds {column.type}; features must be numbers")
    return np.asarray(pc.cast(column, pa.float32(), safe=False).to_numpy(zero_copy_only=False))


def check_finite(
    vectors: np.ndarray, source_name: str, row_name: RowName, titles: list[str] | None, first_row: int = 0
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
