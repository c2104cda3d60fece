"""Training rows: the rows of edges that a process works on, block by block; those that fit a budget stay in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph_store import GraphStore
from l2g2g.models.local_rows import LocalRows, balance_rows
from l2g2g.parallel.communicator import Communicator
from l2g2g.parallel.node_index import NodeIndex

_BLOCK_ARCS = 1 << 20


@dataclass(frozen=True, eq=False)
class NodeRows:
    """Rows of an adjacency matrix.

    Attributes:
        nodes: (num_rows,) int64 their nodes, ascending.
        indptr: (num_rows + 1,) int64, from 0.
        indices: int32 columns, ascending in each row.
        weights: (num_entries,) float32; None where every weight is 1.
        directions, arc_weights: (num_entries,) of a directed graph, as in `RowBlock`.
    """

    nodes: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray | None
    directions: np.ndarray | None = None
    arc_weights: np.ndarray | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays."""
        by_entry = self.indices, self.weights, self.directions, self.arc_weights
        return sum(part.nbytes for part in (self.nodes, self.indptr, *by_entry) if part is not None)

    def renumbered(self, index: NodeIndex) -> NodeRows:
        """The same with places in a list of nodes instead of their numbers; all nodes are in the list."""
        nodes, indices = (index.places(part) for part in (self.nodes, self.indices))
        return replace(self, nodes=nodes, indices=indices)


class TrainingRows:
    """The rows of all nodes, or of those that this rank owns. A graph in memory is one block.

    Args:
        graph: The edges that may be seen.
        nodes: (num_rows,) ascending, the nodes whose rows are read; None for all.
        span: (low, high) the same for a range of nodes, which is read nearly in one go.
        keep_bytes: Blocks are kept in memory until they have this size together; the others are read every time.
        block_arcs: About so many arcs make a block.
    """

    def __init__(
        self,
        graph: GraphStore,
        *,
        nodes: np.ndarray | None = None,
        span: tuple[int, int] | None = None,
        keep_bytes: int = 0,
        block_arcs: int = _BLOCK_ARCS,
    ) -> None:
        self.graph, self.nodes, self._is_range = graph, nodes, nodes is None
        if nodes is None:
            self._bounds = graph.row_bounds(block_arcs)
            if span is not None and span != (0, graph.num_nodes):
                self.nodes = np.arange(*span)
                self._bounds = np.unique(np.concatenate([span, np.clip(self._bounds, *span)]))
        else:
            step = max(1, int(block_arcs * graph.num_nodes / max(1, 2 * graph.num_edges)))
            self._bounds = np.append(np.arange(0, len(nodes), step), len(nodes))
        self._kept: dict[int, NodeRows] = {}
        self._spare_bytes = keep_bytes
        self._index: NodeIndex | None = None

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph: the columns."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Edges of the graph, also those that have no row here."""
        return self.graph.num_edges

    @property
    def has_all(self) -> bool:
        """Whether these are the rows of all nodes."""
        return self.nodes is None

    @property
    def whole(self) -> sp.csr_array | None:
        """(num_nodes, num_nodes) the adjacency matrix where it is in memory; None otherwise."""
        return self.graph.to_graph().adjacency if self.graph.resident and self.has_all else None

    def blocks(self) -> Iterator[NodeRows]:
        """All rows in order."""
        for low, high in zip(self._bounds[:-1].tolist(), self._bounds[1:].tolist(), strict=True):
            block = self._kept.get(low)
            if block is None:
                block = self._read(low, high)
                block = block if self._index is None else block.renumbered(self._index)
                # What came first stays: blocks are read round and round, and the one used last is needed last.
                if block.num_bytes <= self._spare_bytes:
                    self._kept[low] = block
                    self._spare_bytes -= block.num_bytes
            yield block

    def renumber(self, index: NodeIndex) -> None:
        """From now on give places in a list of nodes instead of their numbers, for rows and columns."""
        self._kept = {low: block.renumbered(index) for low, block in self._kept.items()}
        self._index = index

    @cached_property
    def stays_in_memory(self) -> bool:
        """Whether all of these rows are kept; one pass over them tells."""
        if self.graph.resident and self.has_all:
            return True
        return all(low in self._kept for low, _ in zip(self._bounds[:-1].tolist(), self.blocks(), strict=True))

    @cached_property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) int64 number of neighbours; 0 for a node that has no row here."""
        found = np.zeros(self.num_nodes, np.int64)
        for block in self.blocks():
            found[block.nodes] = np.diff(block.indptr)
        return found

    def to_adjacency(self) -> sp.csr_array:
        """(num_nodes, num_nodes) these rows in memory, those of other nodes empty."""
        blocks = list(self.blocks())
        indptr = np.concatenate([[0], np.cumsum(self.degrees)])
        indices = np.concatenate([block.indices for block in blocks])
        weights = [np.ones(len(part.indices), np.float32) if part.weights is None else part.weights for part in blocks]
        return sp.csr_array((np.concatenate(weights), indices, indptr), shape=(self.num_nodes,) * 2)

    def _read(self, low: int, high: int) -> NodeRows:
        if self._is_range:
            block = self.graph.row_block(low, high)
            by_entry = block.indices, block.weights, block.directions, block.arc_weights
            return NodeRows(np.arange(low, high), block.indptr, *by_entry)
        assert self.nodes is not None
        nodes = self.nodes[low:high]
        rows = self.graph.read_adjacency_of(nodes)
        weights = rows.data if self.graph.weighted else None
        ways = self.graph.read_directions_of(nodes)
        return NodeRows(nodes, rows.indptr.astype(np.int64), rows.indices, weights, *ways)


def share_rows(rows: TrainingRows, communicator: Communicator, *, keep_bytes: int = 0) -> LocalRows:
    """The rows of a range of nodes on each rank, of about as much work. rows: of all nodes, which one process takes.

    keep_bytes: what blocks may take that stay in memory, on several ranks.
    """
    if communicator.size == 1:
        return LocalRows(rows)
    own = TrainingRows(rows.graph, span=rank_span(rows.graph, communicator))
    stored = rows.graph.stored
    folder = None if stored is None else stored.directory
    bounds = rank_bounds(rows.graph, communicator.size)
    return LocalRows(own, communicator, bounds, keep_bytes=keep_bytes, folder=folder)


def rank_span(graph: GraphStore, communicator: Communicator) -> tuple[int, int]:
    """(low, high) the range of nodes of this rank; all for one process."""
    if communicator.size == 1:
        return 0, graph.num_nodes
    low, high = rank_bounds(graph, communicator.size)[communicator.rank : communicator.rank + 2].tolist()
    return low, high


def rank_bounds(graph: GraphStore, num_ranks: int) -> np.ndarray:
    """(num_ranks + 1,) the ranges of nodes of all ranks: the same of a graph and of what training sees of it."""
    return balance_rows(graph.row_start, graph.num_nodes, num_ranks)
