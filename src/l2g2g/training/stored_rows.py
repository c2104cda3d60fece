"""Stored rows: the rows of a graph on disk, block by block, without the edges that are held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.held_out import HeldOutRule, drop_entries
from l2g2g.graphs.store import StoredGraph
from l2g2g.models.propagation import SYMMETRIC, Propagation
from l2g2g.models.sparse import SparseMatrix

_BLOCK_ARCS = 1 << 22


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Consecutive rows of an adjacency matrix.

    Attributes:
        low: Node of the first row.
        indptr, indices: CSR of the rows, columns in order.
        weights: (num_entries,) float32; None where all are 1.
    """

    low: int
    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray | None

    @property
    def high(self) -> int:
        """Node after the last row."""
        return self.low + len(self.indptr) - 1

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays."""
        return sum(part.nbytes for part in (self.indptr, self.indices, self.weights) if part is not None)


class StoredRows:
    """The rows that training may see of a graph on disk.

    Args:
        graph: The graph.
        held: Which edges are held out; None for none.
        keep_bytes: Blocks are kept in memory until they have this size together; the others are read every time.
        block_arcs: About so many arcs make a block.
    """

    def __init__(
        self, graph: StoredGraph, held: HeldOutRule | None = None, *, keep_bytes: int = 0, block_arcs: int = _BLOCK_ARCS
    ) -> None:
        self.graph, self.held = graph, held
        self._indptr = graph.indptr.read()
        wanted = np.arange(block_arcs, int(self._indptr[-1]), block_arcs)
        inner = np.searchsorted(self._indptr, wanted)
        self._bounds = np.unique(np.concatenate([[0], inner, [graph.num_nodes]]))
        self._kept: dict[int, RowBlock] = {}
        self._held_places: dict[int, np.ndarray] = {}  # found once: every edge of a block has to be looked at
        self._room = keep_bytes

    @property
    def num_nodes(self) -> int:
        """Rows and columns."""
        return self.graph.num_nodes

    def blocks(self) -> Iterator[RowBlock]:
        """All rows in order."""
        for low, high in zip(self._bounds[:-1].tolist(), self._bounds[1:].tolist(), strict=True):
            block = self._kept.get(low)
            if block is None:
                block = self._read(low, high)
                # What came first stays: blocks are read round and round, and the one used last is needed last.
                if block.num_bytes <= self._room:
                    self._kept[low] = block
                    self._room -= block.num_bytes
            yield block

    @cached_property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) int64 number of neighbours."""
        return np.concatenate([np.diff(block.indptr) for block in self.blocks()])

    def to_adjacency(self) -> sp.csr_array:
        """(num_nodes, num_nodes) all rows in memory, with weights 1."""
        blocks = list(self.blocks())
        indptr = np.concatenate([[0], np.cumsum(self.degrees)])
        indices = np.concatenate([block.indices for block in blocks])
        return sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(self.num_nodes,) * 2)

    def count_between(self, labels: np.ndarray) -> int:
        """Arcs between nodes of different labels. labels: (num_nodes,)."""
        total = 0
        for block in self.blocks():
            own = np.repeat(labels[block.low : block.high], np.diff(block.indptr))
            total += int((own != labels[block.indices]).sum())
        return total

    def find_components(self) -> np.ndarray:
        """(num_nodes,) number of the connected component of a node: block by block, components are joined."""
        labels = np.arange(self.num_nodes)
        for block in self.blocks():
            rows = np.repeat(labels[block.low : block.high], np.diff(block.indptr))
            ends = rows, labels[block.indices]
            joined = sp.coo_array((np.ones(len(rows), np.int8), ends), shape=(self.num_nodes,) * 2)
            labels = sp.csgraph.connected_components(sp.csr_array(joined), directed=False)[1][labels]
        return labels

    @cached_property
    def scale(self) -> np.ndarray:
        """(num_nodes,) float64 diagonal of D^(-1/2), where D counts weights and a self-loop."""
        if not self.graph.weighted:
            return 1.0 / np.sqrt(1.0 + self.degrees)
        return np.concatenate([_scale(block.indptr, _weights(block)) for block in self.blocks()])

    def propagations(self, propagation: Propagation = SYMMETRIC) -> Iterator[tuple[int, SparseMatrix]]:
        """All rows of a propagation in order, block by block, and the node that each block begins with."""
        for block in self.blocks():
            parts = block.indptr, block.indices, block.weights
            yield block.low, propagation.of_rows(*parts, block.low, self.num_nodes, lambda: self.scale)

    def _read(self, low: int, high: int) -> RowBlock:
        first, last = int(self._indptr[low]), int(self._indptr[high])
        indptr, indices = self._indptr[low : high + 1] - first, self.graph.indices.read(first, last)
        weights = None if self.graph.weights is None else self.graph.weights.read(first, last)
        if self.held is not None:
            if low not in self._held_places:
                places = self.held.find(indptr, indices, np.arange(low, high))
                self._held_places[low] = places.astype(np.int32)
            indptr, indices, weights = drop_entries(indptr, indices, weights, self._held_places[low])
        return RowBlock(low, indptr, indices, weights)


def _weights(block: RowBlock) -> np.ndarray:
    return np.empty(0, np.float32) if block.weights is None else block.weights


def _scale(indptr: np.ndarray, weights: np.ndarray) -> np.ndarray:
    num_rows = len(indptr) - 1
    rows = np.concatenate([np.arange(num_rows), np.repeat(np.arange(num_rows), np.diff(indptr))])
    return 1.0 / np.sqrt(np.bincount(rows, np.concatenate([np.ones(num_rows), weights]), num_rows))
