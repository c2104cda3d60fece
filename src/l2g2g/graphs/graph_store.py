"""Graph store: the one interface to the rows and features of a graph, in memory (one block) or on disk.

`Graph` holds arrays, `StoredGraph` reads files, `TrainingGraph` leaves out held-out edges wherever it reads a store.
Runs ask for rows and features and for whether these are resident, never for a type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.graph import Cleaning, EdgeModel, Features, Graph, RowBlock
from l2g2g.graphs.held_out import HeldOutRule

if TYPE_CHECKING:
    from l2g2g.graphs.store import StoredGraph

Item = TypeVar("Item")
_KEY = "fingerprint"
_ROWS_AT_ONCE = 1 << 20  # wider copies of all would take as much memory as the graph


class EdgeSource(Protocol):
    """The rows of a symmetric adjacency matrix, read in order: what splits, non-edges and spectral vectors need."""

    @property
    def name(self) -> str:
        """What messages and results call the graph."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes, isolated ones included."""

    @property
    def num_edges(self) -> int:
        """Number of undirected edges."""

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""

    def row_blocks(self, num_entries: int = ..., *, directions: bool = False) -> Iterator[RowBlock]:
        """All rows of the adjacency matrix in order, about num_entries of its entries at a time."""


class GraphStore(EdgeSource, Protocol):
    """Rows of the symmetric adjacency matrix and of the features of a graph, and what is known of it."""

    @property
    def num_features(self) -> int:
        """Number of feature columns, 0 without features."""

    @property
    def weighted(self) -> bool:
        """Whether edge weights were given."""

    @property
    def cleaning(self) -> Cleaning:
        """What was changed on the way in."""

    @property
    def columns(self) -> FeatureColumns | None:
        """What the columns of the feature table became, where they were not all plain numbers."""

    @property
    def block_model(self) -> EdgeModel | None:
        """The model that generated the graph, where one did and this process knows it."""

    @property
    def resident(self) -> bool:
        """Whether all of it is in memory."""

    @property
    def stored(self) -> StoredGraph | None:
        """The store that it is read from, with all edges; None where it is resident."""

    @property
    def rule(self) -> HeldOutRule | None:
        """Which edges of the stored graph are left out here; None for none."""

    @property
    def has_sparse_features(self) -> bool:
        """Whether features are CSR."""

    @property
    def entries_per_row(self) -> float:
        """Numbers that a feature row holds: its columns, of sparse features its entries on average."""

    @property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) number of neighbours."""

    @property
    def labels(self) -> np.ndarray | None:
        """(num_nodes,) class of each node, where known."""

    @property
    def num_arcs(self) -> int | None:
        """Number of arcs of the whole graph; None for an undirected one."""

    def row_blocks(
        self, num_entries: int = ..., *, weights: bool = False, directions: bool = False
    ) -> Iterator[RowBlock]:
        """All rows of the adjacency matrix in order, about num_entries of its entries at a time."""

    def row_start(self, row: int) -> int:
        """Entries before a row; edges that are held out may be among them."""

    def row_bounds(self, num_entries: int) -> np.ndarray:
        """(num_blocks + 1,) rows at which blocks of about num_entries entries begin and end; one block in memory."""

    def row_block(self, low: int, high: int) -> RowBlock:
        """Rows low:high of the adjacency matrix, with weights where there are some."""

    def read_adjacency_of(self, nodes: np.ndarray) -> sp.csr_array:
        """(len(nodes), num_nodes) rows of the adjacency matrix, in the order of nodes. Ascending nodes read best."""

    def read_directions_of(self, nodes: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Directions and weights of the arcs of the entries of `read_adjacency_of`, as in `RowBlock`."""

    def read_features(self, nodes: np.ndarray | slice) -> Features:
        """(len(nodes), num_features) feature rows, dense or CSR. Ascending nodes read best."""

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """(num_nodes, num_nodes) the adjacency matrix, in which at least the rows of these nodes are complete."""

    def without(self, rule: HeldOutRule | None, num_edges: int) -> GraphStore:
        """The same nodes without the edges that a rule holds out. num_edges: how many are left."""

    def to_graph(self) -> Graph:
        """The whole graph in memory."""


def fingerprint(graph: GraphStore) -> dict[str, Any]:
    """Sizes, and a SHA-256 of edges, features and ids each, so that a difference can be named; of a store its own.

    A store that ranks wrote of a graph in memory has the fingerprint of that, so that one process can go on with what
    several began. Names, where the graph was read from and its labels do not count: training sees none of them.
    """
    if graph.stored is None:
        return _describe(graph.to_graph())
    known = (graph.stored.source or {}).get(_KEY)
    return dict(known) if isinstance(known, dict) else {"store": graph.stored.sha256}


def as_source(graph: Graph) -> dict[str, Any]:
    """What the store of a graph in memory is to say of its source."""
    return {_KEY: fingerprint(graph)}


def _describe(graph: Graph) -> dict[str, Any]:
    features = graph.features
    return {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": graph.num_features,
        "directed": graph.directed,
        "edges": _hash(graph.adjacency, graph.arcs),
        "features": None if features is None else _hash(features),
        "node_ids": None if graph.node_ids is None else _hash(graph.node_ids),
    }


def _hash(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        arrays = [part.indptr, part.indices, part.data] if sp.issparse(part) else [part]
        for array in arrays:
            if array is None:
                digest.update(b"none")
                continue
            array = np.asarray(array)
            digest.update(f"{array.dtype.kind} {array.shape} ".encode())
            if array.dtype.kind == "O":
                for text in array.tolist():
                    digest.update(str(text).encode() + b"\0")
                continue
            for low in range(0, len(array), _ROWS_AT_ONCE):
                rows = np.ascontiguousarray(array[low : low + _ROWS_AT_ONCE])
                if rows.dtype.kind in "iu":
                    rows = rows.astype("<i8", copy=False)  # the same numbers, however wide they are held
                digest.update(rows.data)
    return digest.hexdigest()


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items in the same order, the next one always on its way; memory for two of them.

    Example:
        >>> list(read_ahead(iter("abc")))
        ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield item  # type: ignore[misc]
