"""Graph store: the one interface to the rows and features of a graph, in memory (one block) or on disk.

`Graph` holds arrays, `StoredGraph` reads files, and `TrainingGraph` leaves out held-out edges of a stored graph.
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
_ROWS_AT_ONCE = 1 << 20  # a wider copy of all rows would take as much memory as the graph


class EdgeSource(Protocol):
    """Rows of a symmetric adjacency matrix, read in order: what splits, non-edges and spectral vectors need."""

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
        """True if edges have a direction."""

    def row_blocks(self, num_entries: int = ..., *, directions: bool = False) -> Iterator[RowBlock]:
        """Yield all rows of the adjacency matrix in order, about num_entries entries at a time."""


class GraphStore(EdgeSource, Protocol):
    """Rows of the symmetric adjacency matrix and of the features of a graph."""

    @property
    def num_features(self) -> int:
        """Number of feature columns, 0 without features."""

    @property
    def weighted(self) -> bool:
        """True if edge weights were given."""

    @property
    def cleaning(self) -> Cleaning:
        """What was changed when the graph was read."""

    @property
    def columns(self) -> FeatureColumns | None:
        """How the columns of the feature table were read, unless all are plain numbers."""

    @property
    def block_model(self) -> EdgeModel | None:
        """The model that generated the graph, if any and known in this process."""

    @property
    def resident(self) -> bool:
        """True if all of it is in memory."""

    @property
    def stored(self) -> StoredGraph | None:
        """The store that it is read from, with all edges; None if it is resident."""

    @property
    def rule(self) -> HeldOutRule | None:
        """The rule for the edges of the store that are held out; None for none."""

    @property
    def has_sparse_features(self) -> bool:
        """True if features are CSR."""

    @property
    def entries_per_row(self) -> float:
        """Numbers in a feature row: the columns, or the mean number of entries of sparse features."""

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
        """Yield all rows of the adjacency matrix in order, about num_entries entries at a time."""

    def row_start(self, row: int) -> int:
        """Return the number of entries before a row, held-out edges included."""

    def row_bounds(self, num_entries: int) -> np.ndarray:
        """Return the (num_blocks + 1,) bounds of blocks of rows of about num_entries entries; one block in memory."""

    def row_block(self, low: int, high: int) -> RowBlock:
        """Return the rows low:high of the adjacency matrix with their weights."""

    def read_adjacency_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (len(nodes), num_nodes) rows of the adjacency matrix. Ascending nodes are fastest."""

    def read_directions_of(self, nodes: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return directions and arc weights of the entries of `read_adjacency_of`, as in `RowBlock`."""

    def read_features(self, nodes: np.ndarray | slice) -> Features:
        """Return the (len(nodes), num_features) feature rows, dense or CSR. Ascending nodes are fastest."""

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """Return the (num_nodes, num_nodes) adjacency matrix; at least the rows of these nodes are complete."""

    def without(self, rule: HeldOutRule | None, num_edges: int) -> GraphStore:
        """Return the same nodes without the edges that a rule holds out. num_edges: how many are left."""

    def to_graph(self) -> Graph:
        """Read the whole graph into memory."""


def fingerprint(graph: GraphStore) -> dict[str, Any]:
    """Return sizes and a SHA-256 each of edges, features and ids, to name a difference; for a store its own SHA-256.

    A store that several ranks share has the fingerprint of the graph in memory that it was written from, so that one
    process can resume their run. Names, sources and labels do not count, because training does not see them.
    """
    if graph.stored is not None:
        written_from = (graph.stored.source or {}).get(_KEY)
        return dict(written_from) if isinstance(written_from, dict) else {"store": graph.stored.sha256}
    whole = graph.to_graph()
    return {
        "num_nodes": whole.num_nodes,
        "num_edges": whole.num_edges,
        "num_features": whole.num_features,
        "directed": whole.directed,
        "edges": _hash(whole.adjacency, whole.arcs),
        "features": None if whole.features is None else _hash(whole.features),
        "node_ids": None if whole.node_ids is None else _hash(whole.node_ids),
    }


def describe_as_source(graph: Graph) -> dict[str, Any]:
    """Return the `source` of a store that is written from this graph, for its `fingerprint`."""
    return {_KEY: fingerprint(graph)}


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
                    rows = rows.astype("<i8", copy=False)  # equal for any integer width
                digest.update(rows.data)
    return digest.hexdigest()


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the same items while a thread already reads the next one; two are in memory.

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
