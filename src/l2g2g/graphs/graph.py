"""Graph: nodes and edges in memory with optional features, checked and cleaned; and new nodes that join it later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import (
    FORTH,
    Cleaning,
    clean_arcs,
    find_directions,
    restrict,
    sort_columns,
    symmetric_adjacency,
)
from l2g2g.graphs.checks import (
    Features,
    check_features,
    check_labels,
    check_node_numbers,
    check_num_nodes,
    check_weights,
)
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.held_out import HeldOutRule, drop_entries

_RULE_ENTRIES = 1 << 20  # of a block in which a rule looks for held-out edges


class EdgeModel(Protocol):
    """A model that generates graphs and knows the probability of each edge."""

    def edge_probability(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the (num_pairs,) probability of an edge between each source and target."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Consecutive rows low:high of an adjacency matrix in memory.

    Attributes:
        indptr: (high - low + 1,) int64, starting at 0.
        indices: (num_entries,) int32 columns, ascending in each row.
        first_entry: Number of entries of the matrix before these rows.
        weights: (num_entries,) float32; None where all weights are 1, or where they were not requested.
        directions: (num_entries,) uint8, FORTH where the arc row → column exists, BACK where column → row does; None
            for an undirected graph, or where they were not requested.
        arc_weights: (num_entries,) float32 weight of the arc row → column, 0 without one; None without directions or
            where all weights are 1.
    """

    low: int
    high: int
    indptr: np.ndarray
    indices: np.ndarray
    first_entry: int
    weights: np.ndarray | None = None
    directions: np.ndarray | None = None
    arc_weights: np.ndarray | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays."""
        arrays = self.indptr, self.indices, self.weights, self.directions, self.arc_weights
        return sum(part.nbytes for part in arrays if part is not None)

    def arcs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (sources, targets, places) of the arcs row → column of a directed graph, places among the entries."""
        assert self.directions is not None
        return self._at(np.flatnonzero(self.directions & FORTH))

    def upper(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (sources, targets, places) of the entries above the diagonal: each edge once."""
        return self._at(np.flatnonzero(self.indices > self.rows))

    @property
    def rows(self) -> np.ndarray:
        """(num_entries,) int64 row of each entry."""
        return np.repeat(np.arange(self.low, self.high), np.diff(self.indptr))

    def _at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.rows[places], self.indices[places].astype(np.int64), places


@dataclass(frozen=True, eq=False)
class NewNodes:
    """New nodes with their edges to known nodes and to each other.

    Attributes:
        to_known: (num_new, num_known) CSR weights of the edges to known nodes.
        among: (num_new, num_new) symmetric CSR weights of the edges between new nodes, no diagonal.
        features: (num_new, num_features) float32, dense or CSR; None without features.
        name: What messages call them.
    """

    to_known: sp.csr_array
    among: sp.csr_array
    features: Any = None
    name: str = "new nodes"

    @property
    def num_new(self) -> int:
        """Number of new nodes."""
        return self.to_known.shape[0]

    @property
    def num_known(self) -> int:
        """Number of known nodes."""
        return self.to_known.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(num_new, num_known), which scikit-learn asks for."""
        return self.num_new, self.num_known

    @property
    def degrees(self) -> np.ndarray:
        """(num_new,) number of neighbours."""
        return np.diff(self.to_known.indptr) + np.diff(self.among.indptr)

    def propagation(self, known_degrees: np.ndarray, *, loops: bool = True) -> sp.csr_array:
        """Return the (num_new, num_known + num_new) rows of Â = D^(-1/2) (A + I) D^(-1/2) of the grown graph.

        known_degrees: (num_known,) sums of the weights of each known node before it grew, plus 1 for its loop.
        loops: False for the rows of D^(-1/2) A D^(-1/2), D without loops.
        """
        among = self.among + sp.eye_array(self.num_new) if loops else self.among
        both = sp.csr_array(sp.hstack([self.to_known, among], format="csr"))
        of_known = known_degrees + np.asarray(self.to_known.sum(axis=0)).ravel() - (0 if loops else 1)
        degrees = np.concatenate([of_known, np.asarray(both.sum(axis=1)).ravel()])
        scale = 1 / np.sqrt(np.where(degrees > 0, degrees, 1.0))  # a node without edges has no entry to scale
        rows = np.repeat(np.arange(self.num_new), np.diff(both.indptr))
        values = both.data * scale[self.num_known + rows] * scale[both.indices]
        indptr, indices = both.indptr.astype(np.int32), both.indices.astype(np.int32)
        scaled = sp.csr_array((values.astype(np.float32), indices, indptr), shape=both.shape)
        scaled.sort_indices()
        return scaled

    def select(self, members: np.ndarray, known: np.ndarray) -> NewNodes:
        """Select some of the new nodes and some of the known nodes, by number, without features."""
        to_known = sp.csr_array(self.to_known[members][:, known])
        return NewNodes(to_known, sp.csr_array(self.among[members][:, members]), None, self.name)


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph, undirected unless `arcs` are kept. `Graph.from_arcs` and `read_graph` build it, clean and checked.

    Attributes:
        adjacency: (num_nodes, num_nodes) symmetric CSR, columns sorted, no diagonal, float32 weights
            (all 1 where the graph has none), int32 indices where they fit.
        features: (num_nodes, num_features) float32, dense or CSR; None for a graph without features.
        node_ids: (num_nodes,) integers or strings; None where the id of a node is its row number.
        labels: (num_nodes,) class of each node as int64 or text, where known (see `check_labels`).
        name: What messages and results call this graph.
        weighted: True if edge weights were given.
        cleaning: What was changed when the graph was read.
        block_model: The model that generated the graph, if any.
        arcs: (num_nodes, num_nodes) CSR weights of the arcs of a directed graph; None for an undirected one.
            `adjacency` joins both directions: patches are cut from it and encoders propagate over it.
        columns: How the columns of the feature table were read, unless all are plain numbers.

    Example:
        >>> graph = Graph.from_arcs([0, 1, 1, 2], [1, 0, 2, 2])
        >>> graph.num_nodes, graph.num_edges, graph.cleaning.num_self_loops
        (3, 2, 1)
    """

    adjacency: sp.csr_array
    features: Features | None = None
    node_ids: np.ndarray | None = None
    labels: np.ndarray | None = None
    name: str = "graph"
    weighted: bool = False
    cleaning: Cleaning = field(default_factory=Cleaning)
    block_model: EdgeModel | None = None
    arcs: sp.csr_array | None = None
    columns: FeatureColumns | None = None

    # Of `GraphStore`: in memory, not read from a store, with all edges.
    resident, stored, rule = True, None, None

    @classmethod
    def from_arcs(
        cls,
        sources: np.ndarray | list[int],
        targets: np.ndarray | list[int],
        weights: np.ndarray | None = None,
        *,
        num_nodes: int | None = None,
        features: Features | np.ndarray | sp.sparray | sp.spmatrix | None = None,
        node_ids: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        name: str = "graph",
        block_model: EdgeModel | None = None,
        directed: bool = False,
    ) -> Graph:
        """Build a graph from arcs between node numbers; join their directions and drop self-loops.

        sources, targets: (num_arcs,) node numbers. weights: (num_arcs,) positive and finite.
        Weights of an edge given twice in one direction are summed; of an edge given in both directions the heavier one
        counts. directed: also keep the directions, in `arcs`.
        """
        sources, targets = check_node_numbers(sources, targets, num_nodes, name)
        if num_nodes is None:
            num_nodes = int(max(sources.max(), targets.max())) + 1 if len(sources) else 0
            check_num_nodes(num_nodes, len(sources), name)
        if num_nodes == 0 or len(sources) == 0:
            raise InputError(f"{name}: the graph has no edges; give at least one edge between two nodes")
        if weights is not None:
            weights = check_weights(weights, len(sources), name)
        adjacency, arcs, cleaning = clean_arcs(sources, targets, weights, num_nodes, keep_arcs=directed)
        if arcs is not None and len(arcs.data) == adjacency.nnz > 0:
            raise InputError(f"{name}: every edge is given in both directions; there is no direction to learn")
        if adjacency.nnz == 0:
            raise InputError(f"{name}: all {len(sources):,} edges are self-loops; give edges between two nodes")
        checked = None if features is None else check_features(features, num_nodes, name)
        return cls(
            adjacency,
            checked,
            node_ids,
            None if labels is None else check_labels(labels, num_nodes, name),
            name,
            weighted=weights is not None,
            cleaning=replace(cleaning, num_reversed=0) if directed else cleaning,
            block_model=block_model,
            arcs=arcs,
        )

    def __repr__(self) -> str:
        """One line; the arrays are in the attributes."""
        size = f"{self.num_nodes:,} nodes, {self.num_edges:,} edges, {self.num_features:,} features"
        kinds = {"weighted": self.weighted, "directed": self.directed, "labels": self.labels is not None}
        return f"Graph({self.name!r}: {', '.join([size, *(kind for kind, holds in kinds.items() if holds)])})"

    @property
    def directed(self) -> bool:
        """True if edges have a direction."""
        return self.arcs is not None

    @property
    def num_arcs(self) -> int | None:
        """Number of arcs; None for an undirected graph."""
        return None if self.arcs is None else self.arcs.nnz

    @property
    def num_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return self.adjacency.shape[0]

    @property
    def num_edges(self) -> int:
        """Number of undirected edges."""
        return self.adjacency.nnz // 2

    @property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) number of neighbours."""
        return np.diff(self.adjacency.indptr)

    @property
    def shape(self) -> tuple[int, int]:
        """(num_nodes, num_nodes), which scikit-learn asks for: to it a graph is a matrix of pairs."""
        return self.num_nodes, self.num_nodes

    @property
    def num_features(self) -> int:
        """Number of feature columns, 0 without features."""
        return 0 if self.features is None else self.features.shape[1]

    @property
    def has_sparse_features(self) -> bool:
        """True if features are CSR."""
        return bool(sp.issparse(self.features))

    @property
    def entries_per_row(self) -> float:
        """Numbers in a feature row: the columns, or the mean number of entries of sparse features."""
        features: Any = self.features
        return features.nnz / self.num_nodes if self.has_sparse_features else float(self.num_features)

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (num_nodes, num_nodes) adjacency matrix; at least the rows of these nodes are complete."""
        return self.adjacency

    def read_adjacency_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (len(nodes), num_nodes) rows of the adjacency matrix."""
        return self.adjacency[nodes]

    def read_directions_of(self, nodes: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return directions and arc weights of the entries of `read_adjacency_of`, as in `RowBlock`."""
        if self.arcs is None:
            return None, None
        rows = self.adjacency[nodes]
        sources = np.repeat(np.asarray(nodes), np.diff(rows.indptr))
        return find_directions(self.arcs, sources, rows.indices, weighted=self.weighted)

    def read_features(self, nodes: np.ndarray | slice) -> Features:
        """Return the (len(nodes), num_features) feature rows, dense or CSR."""
        if self.features is None:
            raise InputError(f"{self.name}: the graph has no features")
        is_whole = isinstance(nodes, slice) and nodes.indices(self.num_nodes) == (0, self.num_nodes, 1)
        return self.features if is_whole else self.features[nodes]

    def to_graph(self) -> Graph:
        """Return the whole graph in memory: itself."""
        return self

    def without(self, rule: HeldOutRule | None, num_edges: int) -> Graph:
        """Return the same nodes without the num_edges that a rule holds out."""
        if rule is None:
            return self
        places = [
            block.first_entry + rule.find(block.indptr, block.indices, np.arange(block.low, block.high))
            for block in self.row_blocks(_RULE_ENTRIES)
        ]
        parts = self.adjacency.indptr, self.adjacency.indices, self.adjacency.data
        indptr, indices, data = drop_entries(*parts, np.concatenate(places))
        assert len(indices) == 2 * num_edges
        return self.with_adjacency(sp.csr_array((data, indices, indptr), shape=self.adjacency.shape))

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each undirected edge once, as (sources, targets) with source < target."""
        rows, is_upper = self._entries()
        return rows[is_upper], self.adjacency.indices[is_upper]

    def edge_weights(self) -> np.ndarray:
        """Return the (num_edges,) weights in the order of `edges`."""
        return self.adjacency.data[self._entries()[1]]

    def _entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Return for each entry of the adjacency matrix its row, and whether it is above the diagonal."""
        rows = np.repeat(np.arange(self.num_nodes, dtype=self.adjacency.indices.dtype), self.degrees)
        return rows, rows < self.adjacency.indices

    def row_blocks(
        self, num_entries: int = 1 << 22, *, weights: bool = False, directions: bool = False
    ) -> Iterator[RowBlock]:
        """Yield all rows of the adjacency matrix in order, about num_entries entries at a time."""
        indptr, low = self.adjacency.indptr, 0
        while low < self.num_nodes:
            high = max(low + 1, int(np.searchsorted(indptr, int(indptr[low]) + num_entries, side="right")) - 1)
            block = self.row_block(low, high)
            if not weights:
                block = replace(block, weights=None)
            if directions and self.arcs is not None:
                found = find_directions(self.arcs, block.rows, block.indices, weighted=self.weighted)
                block = replace(block, directions=found[0], arc_weights=found[1])
            yield block
            low = high

    def row_start(self, row: int) -> int:
        """Return the number of entries before a row."""
        return int(self.adjacency.indptr[row])

    def row_bounds(self, num_entries: int) -> np.ndarray:
        """Return the (2,) first and last bound of rows: all rows are one block."""
        return np.array([0, self.num_nodes])

    def row_block(self, low: int, high: int) -> RowBlock:
        """Return the rows low:high of the adjacency matrix with their weights; views where possible."""
        adjacency = self.adjacency
        first, last = int(adjacency.indptr[low]), int(adjacency.indptr[high])
        bounds = adjacency.indptr[low : high + 1].astype(np.int64) - first
        indices = adjacency.indices[first:last].astype(np.int32, copy=False)
        return RowBlock(low, high, bounds, indices, first, adjacency.data[first:last] if self.weighted else None)

    def with_edges(self, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> Graph:
        """Return the same nodes and features with other edges, each undirected edge given once.

        A directed graph keeps the arcs between joined nodes.
        """
        return self.with_adjacency(symmetric_adjacency(sources, targets, weights, self.num_nodes))

    def with_adjacency(self, adjacency: sp.csr_array) -> Graph:
        """Return the same nodes and features with another adjacency matrix."""
        arcs = None if self.arcs is None else restrict(self.arcs, adjacency)
        return replace(self, adjacency=adjacency, arcs=arcs)

    def __getitem__(self, selection: tuple[np.ndarray, np.ndarray]) -> Graph | NewNodes:
        """Select what scikit-learn's cross-validation cuts out of a matrix of pairs.

        `graph[np.ix_(nodes, nodes)]` is the graph of these nodes, and `graph[np.ix_(new, known)]` are new nodes with
        their edges to known ones and to each other.
        """
        if not isinstance(selection, tuple) or len(selection) != 2:
            raise TypeError("a graph is indexed by np.ix_(rows, columns)")
        rows, columns = (np.ravel(numbers) for numbers in selection)
        if np.array_equal(rows, columns):
            return self.induce(rows)
        if len(np.intersect1d(rows, columns)):
            raise InputError(f"{self.name}: rows and columns must be the same nodes or share none (new, known)")
        features = None if self.features is None else self.features[rows]
        chosen = self.adjacency[rows]
        return NewNodes(sort_columns(chosen[:, columns]), sort_columns(chosen[:, rows]), features, self.name)

    def induce(self, nodes: np.ndarray) -> Graph:
        """Return the graph of some nodes, in the given order, with the edges between them."""
        features, node_ids, labels = (
            None if part is None else part[nodes] for part in (self.features, self.node_ids, self.labels)
        )
        adjacency = sort_columns(self.adjacency[nodes][:, nodes])
        arcs = None if self.arcs is None else sort_columns(self.arcs[nodes][:, nodes])
        return Graph(adjacency, features, node_ids, labels, self.name, self.weighted, arcs=arcs, columns=self.columns)

    def to_networkx(self, embedding: np.ndarray | None = None) -> Any:
        """Return a networkx graph with features, labels and an embedding as node attributes; see `graphs.export`."""
        from l2g2g.graphs.export import to_networkx

        return to_networkx(self, embedding)

    def to_pyg(self, embedding: np.ndarray | None = None) -> Any:
        """Return a PyG `Data`, with an embedding as `data.embedding`; see `graphs.export`."""
        from l2g2g.graphs.export import to_pyg

        return to_pyg(self, embedding)

    def renamed(self, name: str) -> Graph:
        """Return the same graph with another name."""
        return replace(self, name=name)
