"""Graph store: a graph on disk, read piece by piece, with all its edges or without those that are held out.

STORE/graph     an array folder (see `array_folder`): indptr, indices, perhaps weights, features, ids and labels
STORE/patches   the patches cut from it, see `patches.store`
STORE/lock      held by the process that writes
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import find_directions, select_arcs
from l2g2g.graphs.array_folder import (
    REMEDY,
    ArrayFolder,
    StoredArray,
    blocks_of,
    check_array,
    check_numbers,
    check_offsets,
    is_folder_of,
    open_folder,
    read_text,
    reading_manifest,
)
from l2g2g.graphs.array_writer import FolderWriter, locked_for_writing, write_folder
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.graph import Cleaning, EdgeModel, Features, Graph, RowBlock
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.held_out import HeldOutRule, drop_entries

GRAPH_FOLDER, PATCH_FOLDER = "graph", "patches"
KIND = "graph"
_ROWS_AT_ONCE = 1 << 18


class StoredGraph:
    """A graph on disk; `open_graph` opens it. Rows are read into arrays of their own, never mapped.

    Attributes as of `GraphStore`, and on disk:
        indptr: (num_nodes + 1,) int64.
        indices: (2 num_edges,) int32, ascending in each row, no diagonal, both directions.
        weights: (2 num_edges,) float32; None where all weights are 1.
        directions, arc_weights: (2 num_edges,) uint8 and float32, as in `RowBlock`.
    """

    def __init__(self, directory: Path, folder: ArrayFolder) -> None:
        values, arrays = folder.values, folder.arrays
        self.directory, self.folder, self.arrays = directory, folder, arrays
        with reading_manifest(folder.folder):
            self.name = str(values["name"])
            self.num_nodes = int(values["num_nodes"])
            self.num_edges = int(values["num_edges"])
            self.num_features = int(values["num_features"])
            self.weighted = bool(values["weighted"])
            self.cleaning = Cleaning(**values["cleaning"])
            self.source: dict[str, Any] | None = values["source"]
            self.num_arcs: int | None = None if values["num_arcs"] is None else int(values["num_arcs"])
            self.columns = read_columns(values, self.num_features)
        self.directed = self.num_arcs is not None
        _check_arrays(folder, self.num_nodes, self.num_edges, self.num_features, self.weighted, self.directed)
        self.resident = False
        self.rule: HeldOutRule | None = None
        self.block_model: EdgeModel | None = None  # known if this process generated the graph
        self.sha256, self.num_bytes = folder.sha256, folder.num_bytes
        self.has_node_ids = "ids" in arrays or "ids_offsets" in arrays
        self.has_sparse_features = "features_indptr" in arrays
        self.indptr: StoredArray = arrays["indptr"]
        self.indices: StoredArray = arrays["indices"]
        self.weights: StoredArray | None = arrays.get("weights")
        self.directions: StoredArray | None = arrays.get("directions")
        self.arc_weights: StoredArray | None = arrays.get("arc_weights")

    @property
    def stored(self) -> StoredGraph:
        """The store that it is read from: itself."""
        return self

    @property
    def entries_per_row(self) -> float:
        """Numbers in a feature row: the columns, or the mean number of entries of sparse features."""
        if not self.has_sparse_features:
            return float(self.num_features)
        return len(self.arrays["features_data"]) / self.num_nodes

    @property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) number of neighbours, read from disk."""
        return np.diff(self.indptr.read())

    @property
    def feature_dtype(self) -> np.dtype | None:
        """float32 or float16, as the features are stored; None without features."""
        name = "features_data" if self.has_sparse_features else "features"
        return self.arrays[name].dtype if name in self.arrays else None

    def read_node_ids(self, low: int = 0, high: int | None = None) -> np.ndarray | None:
        """Return the ids of the nodes low:high, integers or strings; None where a node is its row number."""
        return _read_names(self.arrays, "ids", low, high)

    @property
    def labels(self) -> np.ndarray | None:
        """(num_nodes,) class of each node, read from disk; None without labels."""
        return _read_names(self.arrays, "labels", 0, None)

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (num_nodes, num_nodes) adjacency matrix with the rows of these nodes only, and weights 1."""
        wanted = np.zeros(self.num_nodes, bool)
        wanted[nodes] = True
        counts, indices = np.zeros(self.num_nodes, np.int64), [np.empty(0, np.int32)]
        for block in self.row_blocks():
            is_wanted, lengths = wanted[block.low : block.high], np.diff(block.indptr)
            counts[block.low : block.high] = np.where(is_wanted, lengths, 0)
            indices.append(block.indices[np.repeat(is_wanted, lengths)])
        found, indptr = np.concatenate(indices), np.concatenate([[0], np.cumsum(counts)])
        return sp.csr_array((np.ones(len(found), np.float32), found, indptr), shape=(self.num_nodes,) * 2)

    def row_blocks(
        self, num_entries: int = 1 << 22, *, weights: bool = False, directions: bool = False
    ) -> Iterator[RowBlock]:
        """Yield all rows of the adjacency matrix in order, about num_entries entries at a time."""
        low = 0
        while low < self.num_nodes:
            indptr = self.indptr.read(low, min(low + _ROWS_AT_ONCE, self.num_nodes) + 1)
            check_offsets(indptr, len(self.indices), self.indptr.path)
            num_rows = max(1, int(np.searchsorted(indptr, indptr[0] + num_entries, side="right")) - 1)
            yield self._read_block(low, indptr[: num_rows + 1], weights=weights, directions=directions)
            low += num_rows

    def row_start(self, row: int) -> int:
        """Return the number of entries before a row."""
        return int(self.indptr.read(row, row + 1)[0])

    def row_bounds(self, num_entries: int) -> np.ndarray:
        """Return the (num_blocks + 1,) bounds of blocks of rows of about num_entries entries."""
        rows, total = range(self.num_nodes + 1), self.row_start(self.num_nodes)
        inner = [bisect_left(rows, start, key=self.row_start) for start in range(num_entries, total, num_entries)]
        return np.unique(np.array([0, *inner, self.num_nodes]))

    def row_block(self, low: int, high: int) -> RowBlock:
        """Return the rows low:high of the adjacency matrix with their weights."""
        indptr = self.indptr.read(low, high + 1)
        check_offsets(indptr, len(self.indices), self.indptr.path)
        return self._read_block(low, indptr, weights=True, directions=True)

    def _read_block(self, low: int, indptr: np.ndarray, *, weights: bool, directions: bool) -> RowBlock:
        """Read the rows from low on. indptr: (num_rows + 1,) their bounds among all entries."""
        first, last = int(indptr[0]), int(indptr[-1])
        indices = self.indices.read(first, last)
        check_numbers(indices, self.num_nodes, self.indices.path)
        arrays = (self.weights, weights), (self.directions, directions), (self.arc_weights, directions)
        values = (array.read(first, last) if is_wanted and array is not None else None for array, is_wanted in arrays)
        return RowBlock(low, low + len(indptr) - 1, indptr - first, indices, first, *values)

    def read_directions_of(self, nodes: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return directions and arc weights of the entries of `read_adjacency_of`."""
        if self.directions is None:
            return None, None
        ranges = _bounds(self.indptr, nodes, len(self.indices))
        weights = None if self.arc_weights is None else self.arc_weights.take_ranges(*ranges)
        return self.directions.take_ranges(*ranges), weights

    def read_adjacency_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (len(nodes), num_nodes) rows of the adjacency matrix. Ascending nodes are fastest."""
        starts, ends = _bounds(self.indptr, nodes, len(self.indices))
        weights = None if self.weights is None else self.weights.take_ranges(starts, ends)
        indices = self.indices.take_ranges(starts, ends)
        return self._matrix(_indptr_of(ends - starts), indices, weights)

    def read_features(self, nodes: np.ndarray | slice) -> Features:
        """Return the (len(nodes), num_features) feature rows, dense or CSR, float32 or float16."""
        if self.num_features == 0:
            raise InputError(f"{self.name}: the graph has no features")
        low, high, _ = nodes.indices(self.num_nodes) if isinstance(nodes, slice) else (0, 0, 1)
        if not self.has_sparse_features:
            dense = self.arrays["features"]
            return dense.read(low, high) if isinstance(nodes, slice) else dense.take(np.asarray(nodes, np.int64))
        indptr, indices, values = (self.arrays[f"features_{name}"] for name in ("indptr", "indices", "data"))
        if isinstance(nodes, slice):
            bounds = indptr.read(low, high + 1)
            check_offsets(bounds, len(indices), indptr.path)
            first, last = int(bounds[0]), int(bounds[-1])
            columns, data, lengths = indices.read(first, last), values.read(first, last), np.diff(bounds)
        else:
            starts, ends = _bounds(indptr, nodes, len(indices))
            columns, data, lengths = indices.take_ranges(starts, ends), values.take_ranges(starts, ends), ends - starts
        check_numbers(columns, self.num_features, indices.path)
        return sp.csr_array((data, columns, _indptr_of(lengths)), shape=(len(lengths), self.num_features))

    def without(self, rule: HeldOutRule | None, num_edges: int) -> GraphStore:
        """Return the same nodes without the edges that a rule holds out, which are left out wherever rows are read."""
        return self if rule is None else TrainingGraph(self, rule, num_edges)

    def to_graph(self) -> Graph:
        """Read the whole graph into memory."""
        rows = self.row_block(0, self.num_nodes)
        features = None if self.num_features == 0 else self.read_features(slice(None)).astype(np.float32, copy=False)
        arcs = None
        if rows.directions is not None:
            arcs = select_arcs(rows.indptr, rows.indices, rows.directions, rows.arc_weights, self.num_nodes)
        return Graph(
            self._matrix(rows.indptr, rows.indices, rows.weights),
            features,
            self.read_node_ids(),
            self.labels,
            self.name,
            weighted=self.weighted,
            cleaning=self.cleaning,
            arcs=arcs,
            columns=self.columns,
        )

    def _matrix(self, indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray | None) -> sp.csr_array:
        check_numbers(indices, self.num_nodes, self.indices.path)
        weights = np.ones(len(indices), np.float32) if weights is None else weights
        if len(indices) < 2**31:
            indptr = indptr.astype(np.int32)
        return sp.csr_array((weights, indices, indptr), shape=(len(indptr) - 1, self.num_nodes))


class TrainingGraph(StoredGraph):
    """A stored graph without its held-out edges, which are left out wherever rows are read.

    Entries before a row, and the bounds of blocks of rows, are those of the whole graph.
    """

    def __init__(self, whole: StoredGraph, rule: HeldOutRule, num_edges: int) -> None:
        vars(self).update(vars(whole))
        self.whole, self.rule, self.num_edges = whole, rule, num_edges
        self._held: HeldOutRule = rule  # the same as `rule`, which is None for other graphs
        self._held_places: dict[tuple[int, int], np.ndarray] = {}  # cached, because finding them hashes every edge

    @property
    def stored(self) -> StoredGraph:
        """The store that it is read from, with all edges."""
        return self.whole

    @cached_property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) number of neighbours in training."""
        return np.concatenate([np.diff(block.indptr) for block in self.row_blocks()])

    def row_blocks(
        self, num_entries: int = 1 << 22, *, weights: bool = False, directions: bool = False
    ) -> Iterator[RowBlock]:
        """Yield all rows in order, about num_entries entries of the whole graph at a time."""
        for block in self.whole.row_blocks(num_entries, weights=weights, directions=directions):
            yield self._drop(block)

    def row_block(self, low: int, high: int) -> RowBlock:
        """Return the rows low:high of the adjacency matrix with their weights."""
        return self._drop(self.whole.row_block(low, high))

    def _drop(self, block: RowBlock) -> RowBlock:
        bounds = (block.low, block.high)
        if bounds not in self._held_places:
            places = self._held.find(block.indptr, block.indices, np.arange(*bounds))
            self._held_places[bounds] = places.astype(np.int32)
        held = self._held_places[bounds]
        indptr, indices, weights = drop_entries(block.indptr, block.indices, block.weights, held)
        directions, arc_weights = (
            None if part is None else np.delete(part, held) for part in (block.directions, block.arc_weights)
        )
        return RowBlock(*bounds, indptr, indices, block.first_entry, weights, directions, arc_weights)

    def read_adjacency_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (len(nodes), num_nodes) rows of the adjacency matrix."""
        rows = self.whole.read_adjacency_of(nodes)
        indptr, indices, data = self._held.drop(rows.indptr, rows.indices, rows.data, np.asarray(nodes))
        return sp.csr_array((data, indices, indptr), shape=rows.shape)

    def read_directions_of(self, nodes: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return directions and arc weights of the entries of `read_adjacency_of`."""
        directions, weights = self.whole.read_directions_of(nodes)
        if directions is None:
            return None, None
        rows = self.whole.read_adjacency_of(nodes)
        held = self._held.find(rows.indptr, rows.indices, np.asarray(nodes))
        return np.delete(directions, held), None if weights is None else np.delete(weights, held)

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (num_nodes, num_nodes) adjacency matrix with the rows of these nodes only, and weights 1."""
        rows = self.whole.pattern_of(nodes)
        indptr, indices, data = self._held.drop(rows.indptr, rows.indices, rows.data, np.arange(self.num_nodes))
        return sp.csr_array((data, indices, indptr), shape=rows.shape)

    def without(self, rule: HeldOutRule | None, num_edges: int) -> GraphStore:
        """Return this graph; its edges are already held out."""
        assert rule is None
        return self

    def to_graph(self) -> Graph:
        """Read the training graph into memory."""
        return self.whole.to_graph().without(self.rule, self.num_edges)


def is_store(directory: str | Path) -> bool:
    """Return True for a directory with a finished store of a graph."""
    return is_folder_of(Path(directory) / GRAPH_FOLDER, KIND)


def open_graph(directory: str | Path, *, verify: bool = False) -> StoredGraph:
    """Open a store that `l2g2g prepare` or `write_graph` made. verify: check the SHA-256 of every array."""
    directory = Path(directory)
    return StoredGraph(directory, open_folder(directory / GRAPH_FOLDER, KIND, verify=verify))


def write_graph(graph: Graph, directory: str | Path, *, source: dict[str, Any] | None = None) -> StoredGraph:
    """Write a graph in memory as a store. source: what it was read from."""
    directory = Path(directory)
    with locked_for_writing(directory), write_folder(directory / GRAPH_FOLDER, KIND) as writer:
        adjacency = graph.adjacency
        writer.save("indptr", adjacency.indptr.astype(np.int64))
        writer.save("indices", adjacency.indices.astype(np.int32, copy=False))
        if graph.weighted:
            writer.save("weights", adjacency.data.astype(np.float32, copy=False))
        if graph.arcs is not None:
            rows = np.repeat(np.arange(graph.num_nodes), graph.degrees)
            directions, arc_weights = find_directions(graph.arcs, rows, adjacency.indices, weighted=graph.weighted)
            writer.save("directions", directions)
            if arc_weights is not None:
                writer.save("arc_weights", arc_weights)
        if graph.features is not None:
            _save_features(writer, graph.features)
        for name, values in (("ids", graph.node_ids), ("labels", graph.labels)):
            if values is not None:
                writer.save_names(name, blocks_of(values))
        writer.values = store_values(
            name=graph.name,
            num_nodes=graph.num_nodes,
            num_edges=graph.num_edges,
            num_features=graph.num_features,
            weighted=graph.weighted,
            cleaning=graph.cleaning,
            source=source,
            num_arcs=graph.num_arcs,
            columns=graph.columns,
        )
    return open_graph(directory)


def store_values(*, cleaning: Cleaning, columns: FeatureColumns | None, **values: Any) -> dict[str, Any]:
    """Return what the manifest of a graph says besides its arrays."""
    return {**values, "cleaning": asdict(cleaning), "columns": None if columns is None else columns.to_dict()}


def _save_features(writer: FolderWriter, features: Features) -> None:
    if sp.issparse(features):
        writer.save("features_indptr", features.indptr.astype(np.int64))
        writer.save("features_indices", features.indices.astype(np.int32, copy=False))
        writer.save("features_data", features.data)
    else:
        writer.save("features", features)


def read_columns(values: dict[str, Any], num_features: int) -> FeatureColumns | None:
    """Return the feature columns of a manifest. Raises KeyError, TypeError or ValueError where they do not fit."""
    if values.get("columns") is None:
        return None
    columns = FeatureColumns.from_dict(values["columns"])
    if columns.num_features != num_features:
        raise ValueError(f"{columns.num_features} feature columns of {num_features}")
    return columns


def _read_names(arrays: dict[str, StoredArray], name: str, low: int, high: int | None) -> np.ndarray | None:
    if name in arrays:
        return arrays[name].read(low, high)
    return read_text(arrays, name, low, high) if f"{name}_offsets" in arrays else None


def _check_arrays(
    folder: ArrayFolder, num_nodes: int, num_edges: int, num_features: int, weighted: bool, directed: bool
) -> None:
    """Raise InputError for arrays of the wrong type or length."""
    check_array(folder, "indptr", "int64", num_nodes + 1)
    check_array(folder, "indices", "int32", 2 * num_edges)
    if weighted:
        check_array(folder, "weights", "float32", 2 * num_edges)
    if directed:
        check_array(folder, "directions", "uint8", 2 * num_edges)
    if directed and weighted:
        check_array(folder, "arc_weights", "float32", 2 * num_edges)
    if "features_indptr" in folder.arrays:
        check_array(folder, "features_indptr", "int64", num_nodes + 1)
        check_array(folder, "features_indices", "int32", None)
        check_array(folder, "features_data", "float32", *folder.arrays["features_indices"].shape)
    elif num_features:
        check_array(folder, "features", "float32 float16", num_nodes, num_features)
    for name in ("ids", "labels"):
        if name in folder.arrays:
            check_array(folder, name, "int64", num_nodes)
        elif f"{name}_offsets" in folder.arrays:
            check_array(folder, f"{name}_offsets", "int64", num_nodes + 1)
            check_array(folder, f"{name}_bytes", "uint8", None)


def _bounds(indptr: StoredArray, nodes: np.ndarray, num_entries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the entries of these rows begin and end, (num_nodes,) each."""
    nodes = np.asarray(nodes, np.int64)
    starts, ends = indptr.take(nodes), indptr.take(nodes + 1)
    if len(nodes) and (starts.min() < 0 or (ends < starts).any() or ends.max() > num_entries):
        raise InputError(f"{indptr.path}: is damaged (offsets decrease or exceed {num_entries:,}); {REMEDY}")
    return starts, ends


def _indptr_of(lengths: np.ndarray) -> np.ndarray:
    """Return the (num_rows + 1,) indptr of rows of these lengths."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32 if lengths.sum() < 2**31 else np.int64)


@dataclass(frozen=True)
class StoredIds:
    """The ids of a graph on disk, read in slices."""

    graph: StoredGraph

    def __len__(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    def __getitem__(self, part: slice) -> np.ndarray:
        """Read some ids, integers or text."""
        low, high, _ = part.indices(len(self))
        ids = self.graph.read_node_ids(low, high)
        assert ids is not None
        return ids


NodeIds = np.ndarray | StoredIds


def node_ids_of(graph: GraphStore) -> NodeIds | None:
    """Return the ids of a graph in memory or on disk; None where a node is its row number."""
    if graph.stored is None:
        return graph.to_graph().node_ids
    return StoredIds(graph.stored) if graph.stored.has_node_ids else None


def read_node_ids(graph: GraphStore) -> np.ndarray | None:
    """Read the ids of a graph into memory; None where a node is its row number."""
    ids = node_ids_of(graph)
    return None if ids is None else ids[:]
