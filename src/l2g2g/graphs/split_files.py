"""Split files: a split as Parquet tables of (source, target, label), which `l2g2g split` writes.

DIR/train.parquet        edges to train on, label 1, with a weight where the graph has weights
DIR/validation.parquet   held-out edges (label 1) and non-edges (label 0)
DIR/test.parquet         the same for the test
DIR/split.json           where the split comes from; pairs made by other programs need none
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from l2g2g.errors import InputError
from l2g2g.graphs.archives import reading
from l2g2g.graphs.array_writer import force_to_disk, move_into_place
from l2g2g.graphs.arrow_tables import open_parquet
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.node_ids import find_rows, name_row, plain_ids, quoted
from l2g2g.graphs.read_edges import check_weight_column
from l2g2g.graphs.splits import BLOCK_ENTRIES, AnyStore, EdgeSplit, LinkSplit, Pairs, pair_pattern
from l2g2g.graphs.write import make_folder, write_text, writing

TRAIN, VALIDATION, TEST, MANIFEST = "train.parquet", "validation.parquet", "test.parquet", "split.json"
_KIND, _VERSION = "l2g2g split", 1
_REMEDY = "write the split again with l2g2g split"


@dataclass(frozen=True, eq=False)
class PinnedSplit:
    """A split that was read from files; nodes by their numbers in the graph.

    Attributes:
        folder: Where it was read from.
        sources, targets: (num_train,) int32 edges to train on, arcs of a directed graph.
        weights: (num_train,) float32; None where every weight is 1.
        validation: Pairs for early stopping; None where the file has no rows.
        test: Pairs for the final scores.
        sha256: Of the files, to tell whether two splits are the same.
    """

    folder: Path
    sources: np.ndarray
    targets: np.ndarray
    weights: np.ndarray | None
    validation: Pairs | None
    test: Pairs
    sha256: str

    def in_memory(self, graph: Graph) -> LinkSplit[Graph]:
        """The split of a graph in memory, whose nodes and features stay."""
        edges = self.training_edges(graph.num_nodes, directed=graph.directed)
        train = replace(graph, adjacency=edges.adjacency, arcs=edges.arcs, weighted=edges.weighted)
        return LinkSplit(train, self.validation, self.test, self._held_out(graph.num_nodes))

    def of_training_graph(self, train: AnyStore) -> LinkSplit[AnyStore]:
        """The split of a graph whose training edges are a store of their own."""
        return LinkSplit(train, self.validation, self.test, self._held_out(train.num_nodes))

    def training_edges(self, num_nodes: int, *, directed: bool = False) -> Graph:
        """The training edges between all nodes, without features."""
        name = str(self.folder / TRAIN)
        arcs = self.sources, self.targets, self.weights
        return Graph.from_arcs(*arcs, num_nodes=num_nodes, name=name, directed=directed)

    def _held_out(self, num_nodes: int) -> Any:
        sets = [part for part in (self.validation, self.test) if part is not None]
        return pair_pattern([pairs for part in sets for pairs in (part.positive, part.negative)], num_nodes)


def check_split_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but a split."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give a folder for the split")
    if not folder.exists():
        return
    found = {path.name for path in folder.iterdir()}
    foreign = sorted(found - {TRAIN, VALIDATION, TEST, MANIFEST})
    if foreign or (found and not _is_split(folder)):
        name = (foreign or sorted(found))[0]
        raise InputError(f"{folder}: holds {name}, which no split wrote; give a new or an empty folder")


def write_split(
    folder: Path, graph: GraphStore, split: EdgeSplit, node_ids: np.ndarray | None, **facts: Any
) -> dict[str, Any]:
    """Write a split, complete or not at all; a split that was there is replaced. Returns what split.json says.

    node_ids: (num_nodes,) of the graph; None writes node numbers. facts: more for split.json, such as the seed.
    """
    folder = folder.resolve()
    check_split_folder(folder)
    make_folder(folder.parent)
    part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    with writing(folder):
        try:
            part.mkdir()
            num_train = _write_parquet(part / TRAIN, _training_columns(graph, split), node_ids)
            for name, pairs in ((VALIDATION, split.validation), (TEST, split.test)):
                _write_parquet(part / name, [_columns_of(pairs)], node_ids)
            manifest = {
                "kind": _KIND,
                "version": _VERSION,
                "l2g2g": metadata.version("l2g2g"),
                "graph": graph.name,
                "num_nodes": graph.num_nodes,
                "num_edges": graph.num_edges,
                "weighted": graph.weighted,
                "directed": graph.directed,
                "protocol": split.protocol,
                **facts,
                "train": num_train,
                "validation": _count(split.validation),
                "test": _count(split.test),
            }
            write_text(part / MANIFEST, json.dumps(manifest, indent=2) + "\n")
            force_to_disk(part)
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
            move_into_place(part, folder)
            force_to_disk(folder.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return manifest


def read_split(
    folder: Path,
    node_ids: np.ndarray | None,
    num_nodes: int,
    name: str,
    *,
    directed: bool = False,
    memory_limit: int | None = None,
) -> PinnedSplit:
    """Read a split of a graph and check that nothing held out is trained on.

    node_ids: (num_nodes,) of the graph; None where a node is its number. name: of the graph, for errors.
    memory_limit: bytes that a file may unpack to.
    """
    _check_graph(folder, num_nodes, name, directed=directed)
    known = np.arange(num_nodes) if node_ids is None else node_ids
    train = _read_table(folder / TRAIN, known, name, memory_limit=memory_limit)
    if not train.is_edge.all():
        row = int(np.argmin(train.is_edge))
        raise InputError(f"{train.path}: row {row + 1}: label 0; train on edges only, label 1")
    tables = [_read_table(folder / each, known, name, memory_limit=memory_limit) for each in (VALIDATION, TEST)]
    _check_disjoint([train, *tables], num_nodes)
    validation, test = (_pairs_of(table, num_nodes, directed=directed) for table in tables)
    if test is None:
        raise InputError(f"{folder / TEST}: has no rows; there is nothing to score on: {_REMEDY}")
    sums = [_sum_of(folder / each) for each in (TRAIN, VALIDATION, TEST)]
    digest = hashlib.sha256("".join(sums).encode()).hexdigest()
    sources, targets = (ends.astype(np.int32) for ends in (train.sources, train.targets))
    return PinnedSplit(folder, sources, targets, train.weights, validation, test, digest)


def read_held_out(folder: Path, node_ids: np.ndarray, name: str) -> tuple[Pairs | None, Pairs]:
    """The validation pairs, None where there are none, and the test pairs of a split as rows of some vectors.

    node_ids: (num_vectors,) of the vectors. name: of their file, for errors.
    """
    directed = bool((_read_manifest(folder) or {}).get("directed", False))
    tables = [_read_table(folder / each, node_ids, name) for each in (VALIDATION, TEST)]
    validation, test = (_pairs_of(table, len(node_ids), directed=directed) for table in tables)
    if test is None:
        raise InputError(f"{folder / TEST}: has no rows; there is nothing to score on: {_REMEDY}")
    return validation, test


@dataclass(frozen=True, eq=False)
class _Table:
    """One file of a split, nodes by number: (num_rows,) each."""

    path: Path
    sources: np.ndarray
    targets: np.ndarray
    is_edge: np.ndarray
    weights: np.ndarray | None
    known: np.ndarray

    def show(self, row: int) -> str:
        """The two nodes of a row, as errors show them."""
        return " - ".join(quoted(self.known[ends[row]]) for ends in (self.sources, self.targets))

    def keys(self, num_nodes: int) -> np.ndarray:
        """(num_rows,) one number for each unordered pair."""
        low, high = np.minimum(self.sources, self.targets), np.maximum(self.sources, self.targets)
        return low * num_nodes + high


def _count(pairs: Pairs | None) -> dict[str, int]:
    edges, others = (0, 0) if pairs is None else (len(pairs.positive), len(pairs.negative))
    return {"edges": edges, "non_edges": others}


def _training_columns(graph: GraphStore, split: EdgeSplit) -> Iterator[dict[str, np.ndarray]]:
    """The edges that are left, some at a time: arcs of a directed graph, otherwise u < v in order."""
    for block in graph.row_blocks(BLOCK_ENTRIES, weights=True, directions=True):
        sources, targets, places = block.arcs() if graph.directed else block.upper()
        left = np.ones(len(sources), bool) if split.rule is None else ~split.rule.holds(sources, targets)
        values = block.arc_weights if graph.directed else block.weights
        weights = None if values is None else values[places[left]]
        yield _columns(sources[left], targets[left], np.ones(int(left.sum()), bool), weights)


def _columns_of(pairs: Pairs | None) -> dict[str, np.ndarray]:
    return _columns(*(Pairs(*np.empty((2, 0, 2), np.int64)) if pairs is None else pairs).endpoints())


def _columns(
    sources: np.ndarray, targets: np.ndarray, is_edge: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    columns = {"source": sources, "target": targets, "label": is_edge.astype(np.int8)}
    return columns if weights is None else {**columns, "weight": weights.astype(np.float32)}


def _write_parquet(path: Path, parts: Iterable[dict[str, np.ndarray]], node_ids: np.ndarray | None) -> int:
    """Write columns some rows at a time, node numbers as ids. Returns the number of rows."""
    num_rows, writer = 0, None
    try:
        for columns in parts:
            table = _as_table(columns, node_ids)
            writer = pq.ParquetWriter(path, table.schema) if writer is None else writer
            writer.write_table(table)
            num_rows += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return num_rows


def _as_table(columns: dict[str, np.ndarray], node_ids: np.ndarray | None) -> pa.Table:
    kind = pa.int64() if node_ids is None or node_ids.dtype.kind in "iu" else pa.string()
    for name in ("source", "target"):
        numbers = columns[name]
        ids = numbers.astype(np.int64) if node_ids is None else node_ids[numbers]
        columns = {**columns, name: pa.array(ids, kind)}
    return pa.table(columns)


def _read_table(path: Path, known: np.ndarray, name: str, *, memory_limit: int | None = None) -> _Table:
    """Read one file. known: (num_nodes,) ids. name: where these nodes are, for errors."""
    if not path.is_file():
        reason = "no such file" if path.parent.is_dir() else f"no such folder as {path.parent}"
        raise InputError(f"{path}: {reason}; a split has {TRAIN}, {VALIDATION} and {TEST} (l2g2g split)")
    table = open_parquet(path).read(memory_limit)
    for column in ("source", "target", "label"):
        if table.column_names.count(column) != 1:
            raise InputError(f"{path}: no column {column!r} but {table.column_names}; {_REMEDY}")
    if table.column_names.count("weight") > 1:
        raise InputError(f"{path}: two columns 'weight' among {table.column_names}; {_REMEDY}")
    is_edge = _read_labels(table.column("label"), path)
    if table.num_rows == 0:
        return _Table(path, np.empty(0, np.int64), np.empty(0, np.int64), is_edge, None, known)
    weights = None
    if path.name == TRAIN and "weight" in table.column_names:
        weights = check_weight_column(table.column("weight"), str(path), name_row).astype(np.float32)
    sources, targets = (_read_nodes(table.column(each), path, known, name) for each in ("source", "target"))
    loops = sources == targets
    if loops.any():
        row = int(np.argmax(loops))
        raise InputError(f"{path}: row {row + 1}: {quoted(known[sources[row]])} is paired with itself; remove the row")
    return _Table(path, sources, targets, is_edge, weights, known)


def _read_labels(column: pa.ChunkedArray, path: Path) -> np.ndarray:
    """(num_rows,) whether each label is 1; refuse all but 0 and 1."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or kind in (pa.float32(), pa.float64())):
        raise InputError(f"{path}: labels are {kind}; use 1 for an edge and 0 for none")
    allowed = pa.array([0, 1]).cast(kind)
    wrong = ~pc.is_in(column, value_set=allowed).to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{path}: row {row + 1}: label {column[row].as_py()}; use 1 for an edge and 0 for none")
    return pc.equal(column, allowed[1]).to_numpy()


def _read_nodes(column: pa.ChunkedArray, path: Path, known: np.ndarray, name: str) -> np.ndarray:
    """(num_rows,) numbers of the nodes."""
    wanted = plain_ids(column, str(path), name_row).to_numpy()
    rows = find_rows(wanted, known)
    if (rows < 0).any():
        row = int(np.argmax(rows < 0))
        raise InputError(
            f"{path}: row {row + 1}: no node {quoted(wanted[row])} in {name}; "
            f"give the graph or the vectors that belong to this split"
        )
    return rows


def _check_disjoint(tables: list[_Table], num_nodes: int) -> None:
    """Refuse a pair that is in two files, in either direction."""
    for place, table in enumerate(tables):
        keys = table.keys(num_nodes)
        for other in tables[place + 1 :]:
            repeated = np.isin(keys, other.keys(num_nodes))
            if repeated.any():
                row = int(np.argmax(repeated))
                there = int(np.argmax(other.keys(num_nodes) == keys[row]))
                raise InputError(
                    f"{table.path}: row {row + 1}: {table.show(row)} is also in {other.path.name}, row {there + 1}; "
                    f"keep it in one file"
                )


def _pairs_of(table: _Table, num_nodes: int, *, directed: bool) -> Pairs | None:
    """The edges and non-edges of a file, reversed arcs last; None where it has no rows."""
    if len(table.sources) == 0:
        return None
    if table.is_edge.all() or not table.is_edge.any():
        what = "non-edges (label 0)" if table.is_edge.all() else "edges (label 1)"
        raise InputError(f"{table.path}: has no {what}; both are needed to score")
    pairs = np.stack([table.sources, table.targets], axis=1)
    ordered = table.sources * num_nodes + table.targets
    keys = ordered if directed else table.keys(num_nodes)
    both = np.isin(keys, keys[table.is_edge]) & ~table.is_edge
    if both.any():
        row = int(np.argmax(both))
        there = int(np.argmax((keys == keys[row]) & table.is_edge))
        hint = "" if directed else " (if its direction tells them apart, give --directed)"
        raise InputError(
            f"{table.path}: row {row + 1}: {table.show(row)} has label 0 here and 1 in row {there + 1}; "
            f"keep one of them{hint}"
        )
    backwards = table.targets * num_nodes + table.sources
    is_reversed = np.isin(backwards, ordered[table.is_edge]) & ~table.is_edge & directed
    apart = ~table.is_edge & ~is_reversed
    negative = np.concatenate([pairs[apart], pairs[is_reversed]])
    return Pairs(pairs[table.is_edge], negative, int(is_reversed.sum()))


def _check_graph(folder: Path, num_nodes: int, name: str, *, directed: bool) -> None:
    """Refuse a split that says it is of another graph: numbers would be taken for its nodes."""
    manifest = _read_manifest(folder) or {}
    if manifest.get("directed", directed) != directed:
        remedy = "leave --directed out" if directed else "add --directed"
        kind = "an undirected" if directed else "a directed"
        raise InputError(f"{folder}: is the split of {kind} graph; {remedy}")
    then = manifest.get("num_nodes", num_nodes)
    if then != num_nodes:
        raise InputError(
            f"{folder}: is the split of a graph with {then:,} nodes, but {name} has {num_nodes:,}; give that graph, or "
            f"remove {MANIFEST} to use the pairs with this one"
        )


def _is_split(folder: Path) -> bool:
    """Whether `write_split` wrote this folder."""
    with suppress(InputError):
        return _read_manifest(folder) is not None
    return False


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    """What split.json says; None where there is none."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        with reading(path):
            found = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise InputError(f"{path}: is nested too deeply; {_REMEDY}") from error
    is_sound = isinstance(found, dict) and found.get("kind") == _KIND and found.get("version") == _VERSION
    if not is_sound or type(found.get("num_nodes")) is not int or type(found.get("directed")) is not bool:
        raise InputError(
            f"{path}: is not what l2g2g split writes; {_REMEDY}, or remove the file to use the pairs alone"
        )
    return found


def _sum_of(path: Path) -> str:
    with reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
