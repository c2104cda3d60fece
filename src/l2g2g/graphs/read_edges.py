"""Edge tables from text, Parquet, pandas or Arrow: a stream of batches, or all of them in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2g2g.errors import InputError
from l2g2g.graphs.archives import load_arrays, native, plain_npy_shape, reading
from l2g2g.graphs.arrow_tables import (
    Columns,
    Stream,
    as_arrow_table,
    collected,
    column_from_values,
    is_text,
    kept,
    open_parquet,
)
from l2g2g.graphs.checks import check_node_numbers
from l2g2g.graphs.column_roles import (
    Roles,
    check_headers,
    find_header,
    find_roles,
    log_columns,
    may_be_header,
    seems_header,
    shared_header,
)
from l2g2g.graphs.formats import AS_FOUND, IdChoice, TableOptions
from l2g2g.graphs.node_ids import (
    IdKind,
    RowName,
    as_integers,
    encode,
    find_id_kind,
    first_true,
    name_row,
    name_rows_from,
    plain_ids,
    typed_ids,
)
from l2g2g.graphs.text_tables import NUMBER, is_number, open_text_table

_ROWS_AT_ONCE = 1 << 18
_EDGES_AT_ONCE = 1 << 20
NodePairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Edges as they stand in the table, ids not yet numbered.

    Attributes:
        sources: (num_rows,) ids, int64 or text.
        targets: (num_rows,) ids of the same type.
        weights: (num_rows,) float64, positive and finite; None where there is no third column.
        source_name: What errors call the table: its file, or what kind of object it was.
        row_name: From a row number to what errors call that row ("line 7").
    """

    sources: pa.ChunkedArray
    targets: pa.ChunkedArray
    weights: np.ndarray | None
    source_name: str
    row_name: RowName

    @property
    def has_integer_ids(self) -> bool:
        """Whether ids are integers that fit 64 bits; otherwise they are text."""
        return pa.types.is_int64(self.sources.type)

    def numbered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number the nodes in the order of first appearance, row by row, the source before the target.

        Returns:
            (num_rows,) sources, (num_rows,) targets, (num_nodes,) ids.
        """
        # Text is numbered column by column first, because interleaving numbers is far cheaper than text.
        codes, ids = encode(pa.chunked_array([*self.sources.chunks, *self.targets.chunks], type=self.sources.type))
        num_rows = len(self.sources)
        interleaved = np.stack([codes[:num_rows], codes[num_rows:]], axis=1).ravel()
        numbers, order = encode(interleaved)
        return numbers[0::2], numbers[1::2], ids[order]

    def as_node_numbers(self, num_nodes: int, features_name: str) -> tuple[np.ndarray, np.ndarray]:
        """Take the ids for node numbers, as features by node number ask for; all must be below num_nodes."""
        if not self.has_integer_ids:
            raise InputError(
                f"{self.source_name}: ids are text but {features_name} has its rows by node number; "
                f"use integer ids, or a feature table (.csv, .parquet) with an id column"
            )
        columns = []
        for column, ids in (("source", self.sources), ("target", self.targets)):
            numbers = ids.to_numpy()
            if numbers.max() >= num_nodes:
                row = int(np.argmax(numbers >= num_nodes))
                raise InputError(
                    f"{self.source_name}: {self.row_name(row)}: {column} {numbers[row]} is beyond the {num_nodes:,} "
                    f"feature rows of {features_name}; add rows or correct the id"
                )
            columns.append(numbers)
        return columns[0], columns[1]


def check_weight_column(column: pa.ChunkedArray, source_name: str, row_name: RowName) -> np.ndarray:
    """(num_rows,) float64 weights; refuse text, NaN, Inf, zero and negative ones."""
    remedy = "weights must be positive and finite numbers; correct it, or name two columns with --source and --target"
    if column.null_count:
        raise InputError(f"{source_name}: {row_name(first_true(pc.is_null(column)))}: the weight is missing; {remedy}")
    if is_text(column.type):
        wrong_text = pc.invert(pc.match_substring_regex(column, NUMBER))
        if pc.any(wrong_text).as_py():
            row = first_true(wrong_text)
            text = column[row].as_py()
            what = f"weight {text!r}" if text.strip() else "the weight is empty"
            if text.count(",") == 1 and is_number(text.replace(",", ".")):
                what, remedy = f"weight {text!r} has a decimal comma", f"write {text.replace(',', '.')}"
            raise InputError(f"{source_name}: {row_name(row)}: {what}; {remedy}")
        column = column.cast(pa.float64())
    elif not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"{source_name}: weights are {column.type}; {remedy}")
    weights = column.to_numpy().astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        as_stored = weights.astype(np.float32)  # the precision of a graph: 1e300 is infinite in it
    wrong = ~(np.isfinite(as_stored) & (as_stored > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{source_name}: {row_name(row)}: weight {weights[row]}; {remedy}")
    return weights


class _Checked(NamedTuple):
    """Some rows of an edge table, each column checked by itself."""

    ids: Columns
    weights: np.ndarray | None
    row_name: RowName


@dataclass(frozen=True, eq=False)
class EdgeBatches:
    """An edge table as a stream of batches.

    Attributes:
        source_name: What errors call the table: its file, or what kind of object it was.
        weighted: Whether there is a third column.
        id_kind: What all ids of the table are.
        checked: The batches, before their ids are of one type.
        num_edges: Number of rows, where the file says it before it is read; otherwise 0.
    """

    source_name: str
    weighted: bool
    id_kind: IdKind
    checked: Stream[_Checked]
    num_edges: int = 0

    @property
    def has_integer_ids(self) -> bool:
        """Whether all ids are integers that fit 64 bits; otherwise all are text."""
        return self.id_kind is IdKind.INTEGERS

    def tables(self) -> Iterator[EdgeTable]:
        """The batches in order, one of an edge list that is kept in memory; ids are of one type in all of them."""
        for ids, weights, row_name in self.checked():
            sources, targets = typed_ids(ids, self.id_kind, self.source_name, row_name)
            yield EdgeTable(sources, targets, weights, self.source_name, row_name)


def read_text_edges(path: Path, known_ids: Iterable[np.ndarray] = (), options: TableOptions = AS_FOUND) -> EdgeTable:
    """Read an edge list of any common dialect, or a folder of its parts, into memory. known_ids: see `find_header`."""
    return next(open_text_edges(path, known_ids, keep=True, options=options).tables())


def read_parquet_edges(path: Path, memory_limit: int | None = None, options: TableOptions = AS_FOUND) -> EdgeTable:
    """Read an edge list from a Parquet file, or from a folder of its parts, into memory."""
    return next(open_parquet_edges(path, memory_limit, keep=True, options=options).tables())


def edges_from_table(table: Any, source_name: str, options: TableOptions = AS_FOUND) -> EdgeTable:
    """Take a pandas DataFrame, an Arrow table, or any object with the Arrow C stream interface (polars, DuckDB)."""
    arrow = as_arrow_table(table, source_name)
    roles = find_roles(arrow.column_names, options, source_name, titled=True)
    stream = _chosen(lambda: iter([arrow]), roles)
    return next(_open_columns(stream, roles, arrow.schema.types, arrow.num_rows, source_name, options).tables())


def edges_from_pairs(edges: list[Any]) -> EdgeTable:
    """Take a list of (source, target) or (source, target, weight), ids integers or text."""
    lengths = {len(edge) for edge in edges}
    if lengths not in ({2}, {3}):
        odd = next(place for place, edge in enumerate(edges) if len(edge) not in (2, 3) or len(edge) != len(edges[0]))
        raise InputError(
            f"edges: edge number {odd} has {len(edges[odd])} parts, the first {len(edges[0])}; "
            f"give (source, target) or (source, target, weight) for every edge"
        )
    columns = [column_from_values(list(column)) for column in zip(*edges, strict=True)]
    table = pa.table(columns, names=["source", "target", "weight"][: len(columns)])
    return edges_from_table(table, "edges")


def open_text_edges(
    path: Path, known_ids: Iterable[np.ndarray] = (), *, keep: bool = False, options: TableOptions = AS_FOUND
) -> EdgeBatches:
    """Open an edge list of any common dialect, or a folder of its parts, all with the same header or all without one.

    known_ids: see `find_header`. keep: whether all rows are one batch, which stays in memory for further passes.
    """
    whole = open_text_table(path, keep=keep, delimiter=options.delimiter)
    first_cells = [row[0] for row in whole.sample[1:] if row]
    titled = shared_header(whole) if options.header is None else options.header
    roles = find_roles(whole.titles, options, str(path), titled=titled, first_cells=first_cells)
    text = whole.of_columns(roles.places)
    is_text = may_be_header(text.first_row) if roles.header is None else roles.header
    integers: Stream[Columns] = partial(text.edge_columns, skip_first=is_text)
    integers = collected(integers) if keep else integers
    is_fast = False
    if options.ids != "text":
        try:
            is_fast = sum(len(columns[0]) for columns in integers()) > 0
        except pa.ArrowInvalid:
            is_fast = False
    texts: Stream[Columns] = partial(text.texts, skip_first=True, trim=True)
    texts = collected(texts) if keep else texts
    # Of rows that are all integers a few tell as much as all.
    others = partial(_first_rows, integers) if is_fast else texts
    skip_first = find_header(path, text.first_row, roles, others, known_ids)
    if options.header is not False:
        check_headers(text, partial(seems_header, edge=text.first_row), skip_first=skip_first)
    row_name = partial(text.name_row, skip_first=skip_first)
    if is_fast and skip_first == is_text:
        checked = partial(_checked, integers, str(path), row_name)
        return EdgeBatches(str(path), text.num_columns == 3, IdKind.INTEGERS, checked)
    if not skip_first:
        texts = partial(text.texts, skip_first=False, trim=True)
        texts = collected(texts) if keep else texts
    edges = _with_id_kind(texts, str(path), text.num_columns == 3, row_name, keep=keep, ids=options.ids)
    if next(edges.checked(), None) is None:
        raise InputError(f"{path}: only a header; it needs at least one edge")
    return edges


def open_parquet_edges(
    path: Path, memory_limit: int | None = None, *, keep: bool = False, options: TableOptions = AS_FOUND
) -> EdgeBatches:
    """Open an edge list in a Parquet file, or in a folder of its parts.

    memory_limit: bytes that a batch may take. keep: whether all rows are one batch, which stays in memory.
    """
    file = open_parquet(path)
    roles = find_roles(file.schema.names, options, str(path), titled=True)

    def tables() -> Iterator[pa.Table]:
        yield from [file.read(memory_limit)] if keep else file.batches(_ROWS_AT_ONCE, memory_limit)

    log_columns(path, [file.schema.names[place] for place in roles.places], roles)
    stream = _chosen(tables, roles)
    return _open_columns(stream, roles, file.schema.types, file.num_rows, str(path), options, keep=keep)


def _chosen(tables: Stream[pa.Table], roles: Roles) -> Stream[Columns]:
    """The columns of an edge list out of tables."""
    return lambda: ([table.column(place) for place in roles.places] for table in tables())


def _open_columns(
    columns: Stream[Columns],
    roles: Roles,
    types: list[pa.DataType],
    num_rows: int,
    source_name: str,
    options: TableOptions,
    *,
    keep: bool = True,
) -> EdgeBatches:
    """A table whose columns have types already. types: of all of them."""
    if num_rows == 0:
        raise InputError(f"{source_name}: the table is empty; it needs at least one edge")
    is_weighted = len(roles.places) == 3

    kinds = [types[place] for place in roles.places[:2]]
    is_integer = all(pa.types.is_integer(kind) and not pa.types.is_uint64(kind) for kind in kinds)
    if is_integer and options.ids != "text":
        checked = partial(_checked, columns, source_name, name_row)
        return EdgeBatches(source_name, is_weighted, IdKind.INTEGERS, checked, num_rows)
    return replace(
        _with_id_kind(columns, source_name, is_weighted, name_row, keep=keep, ids=options.ids), num_edges=num_rows
    )


def _with_id_kind(
    columns: Stream[Columns],
    source_name: str,
    weighted: bool,
    row_name: RowName,
    *,
    keep: bool,
    ids: IdChoice | None,
) -> EdgeBatches:
    """A table of which a pass over all ids tells what they are, unless the user says it."""
    checked: Stream[_Checked] = partial(_checked, columns, source_name, row_name, ids=ids)
    checked = kept(checked) if keep else checked
    if ids is None:
        id_kind = find_id_kind(column for batch in checked() for column in batch.ids)
    else:
        id_kind = IdKind.INTEGERS if ids == "integer" else IdKind.NAMES
    return EdgeBatches(source_name, weighted, id_kind, checked)


def _checked(
    columns: Stream[Columns], source_name: str, row_name: RowName, *, ids: IdChoice | None = None
) -> Iterator[_Checked]:
    """Every batch that has rows; weights are positive and finite, ids int64 or text without gaps."""
    first_row = 0
    for batch in columns():
        num_rows = len(batch[0])
        if num_rows:
            here = name_rows_from(row_name, first_row)
            weights = check_weight_column(batch[2], source_name, here) if len(batch) == 3 else None
            found = [plain_ids(column, source_name, here) for column in batch[:2]]
            if ids == "integer":
                found = [as_integers(column, source_name, here) for column in found]
            yield _Checked(found, weights, here)
        first_row += num_rows


def _first_rows(columns: Stream[Columns]) -> list[Columns]:
    return [next(batch for batch in columns() if len(batch[0]))]


@dataclass(frozen=True, eq=False)
class NumberedEdges:
    """Edges whose nodes are numbers already, as a stream of batches.

    Attributes:
        path: The file.
        num_edges: Number of edges, repeated ones and self-loops included.
        num_nodes: How many nodes the features say there are; None where the largest number says it.
        columns: (num_rows,) sources and targets, not yet checked.
        weighted: Never.
    """

    path: Path
    num_edges: int
    num_nodes: int | None
    columns: Stream[NodePairs]
    weighted: bool = False

    def batches(self) -> Iterator[NodePairs]:
        """(num_rows,) sources and targets, checked."""
        first_row = 0
        for sources, targets in self.columns():
            yield check_node_numbers(sources, targets, self.num_nodes, str(self.path), first_row)
            first_row += len(sources)

    def collected(self) -> NodePairs:
        """(num_edges,) sources and targets, checked."""
        sources, targets = zip(*self.batches(), strict=True)
        return np.concatenate(sources), np.concatenate(targets)

    def largest_node(self) -> int:
        """The largest node number, found by a pass over all edges."""
        return max(int(max(sources.max(), targets.max())) for sources, targets in self.batches())


def open_npy_edges(path: Path, num_nodes: int | None) -> NumberedEdges:
    """Open edges in an .npy file. num_nodes: how many nodes there are, where features say it."""
    shape = plain_npy_shape(path, "iu")
    if shape is not None and len(shape) == 2 and 2 in shape:
        num_edges = shape[1] if shape[0] == 2 else shape[0]
        columns: Stream[NodePairs] = partial(_mapped_columns, path, num_edges)
    else:  # an archive under this name, or something that is refused
        loaded = edge_columns(next(iter(load_arrays(path).values())), f"{path}: ")
        num_edges = len(loaded[0])
        columns = partial(iter, [loaded])
    if num_edges == 0:
        raise InputError(f"{path}: the graph has no edges; give at least one edge between two nodes")
    return NumberedEdges(path, num_edges, num_nodes, columns)


def edge_columns(edges: Any, source: str = "") -> NodePairs:
    """(num_edges,) sources and targets from a (2, num_edges) or (num_edges, 2) array."""
    array = np.asarray(edges)
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(f"{source}edges have shape {array.shape}; give (2, num_edges) or (num_edges, 2)")
    columns = array if array.shape[0] == 2 else array.T
    return columns[0], columns[1]


def _mapped_columns(path: Path, num_edges: int) -> Iterator[NodePairs]:
    for low in range(0, num_edges, _EDGES_AT_ONCE):
        with reading(path):
            # Mapped anew for every batch: pages that were touched are given back with it.
            sources, targets = edge_columns(np.load(path, mmap_mode="r", allow_pickle=False))
            part = slice(low, low + _EDGES_AT_ONCE)
            batch = native(np.array(sources[part])), native(np.array(targets[part]))
        yield batch
