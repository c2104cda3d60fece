"""Training view: the edges of a stored graph that training may see, read from the store without writing them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.held_out import HeldOutRule
from l2g2g.graphs.store import StoredGraph


@dataclass(frozen=True)
class TrainingView:
    """Rows of a stored graph without the edges that a rule holds out.

    Attributes:
        graph: The whole graph.
        rule: Which edges are held out; None for none.
        num_edges: Edges that are left.
    """

    graph: StoredGraph
    rule: HeldOutRule | None
    num_edges: int

    @property
    def name(self) -> str:
        """What messages call the graph."""
        return self.graph.name

    @property
    def num_nodes(self) -> int:
        """Number of nodes, those without a training edge included."""
        return self.graph.num_nodes

    def row_blocks(self, num_entries: int = 1 << 22) -> Iterator[RowBlock]:
        """All rows in order; about num_entries of the whole graph at a time."""
        for block in self.graph.row_blocks(num_entries):
            if self.rule is None:
                yield block
                continue
            nodes = np.arange(block.low, block.high)
            indptr, indices, _ = self.rule.drop(block.indptr, block.indices, None, nodes)
            yield replace(block, indptr=indptr, indices=indices)

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """(num_nodes, num_nodes) pattern with the rows of some nodes only."""
        found = self.graph.pattern_of(nodes)
        if self.rule is None:
            return found
        kept = self.rule.drop(found.indptr, found.indices, None, np.arange(self.num_nodes))
        ones = np.ones(len(kept[1]), np.float32)
        return sp.csr_array((ones, kept[1], kept[0]), shape=found.shape)
