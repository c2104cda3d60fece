"""Stored rows: the rows of a graph on disk, block by block, without the edges that are held out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.held_out import HeldOutRule, drop_entries
from l2g2g.graphs.store import StoredGraph

_BLOCK_ARCS = 1 << 22


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
        self.indptr = graph.indptr.read()
        wanted = np.arange(block_arcs, int(self.indptr[-1]), block_arcs)
        inner = np.searchsorted(self.indptr, wanted)
        self._bounds = np.unique(np.concatenate([[0], inner, [graph.num_nodes]]))
        self._kept: dict[tuple[int, int], RowBlock] = {}
        # Found once: every edge of a block has to be looked at.
        self._held_places: dict[tuple[int, int], np.ndarray] = {}
        self._room = keep_bytes

    @property
    def num_nodes(self) -> int:
        """Rows and columns."""
        return self.graph.num_nodes

    def blocks(self, low: int = 0, high: int | None = None) -> Iterator[RowBlock]:
        """The rows low:high in order; all without bounds."""
        high = self.num_nodes if high is None else high
        inside = self._bounds[(self._bounds > low) & (self._bounds < high)].tolist()
        for start, stop in itertools.pairwise([low, *inside, high]):
            block = self._kept.get((start, stop))
            if block is None:
                block = self._read(start, stop)
                # What came first stays: blocks are read round and round, and the one used last is needed last.
                if block.num_bytes <= self._room:
                    self._kept[start, stop] = block
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

    def _read(self, low: int, high: int) -> RowBlock:
        first, last = int(self.indptr[low]), int(self.indptr[high])
        indptr, indices = self.indptr[low : high + 1] - first, self.graph.indices.read(first, last)
        weights = None if self.graph.weights is None else self.graph.weights.read(first, last)
        if self.held is not None:
            if (low, high) not in self._held_places:
                places = self.held.find(indptr, indices, np.arange(low, high))
                self._held_places[low, high] = places.astype(np.int32)
            indptr, indices, weights = drop_entries(indptr, indices, weights, self._held_places[low, high])
        return RowBlock(low, high, indptr, indices, first, weights)
