"""Training graph: a graph on disk without the edges that are held out, which are left out wherever rows are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.graph import Cleaning, EdgeModel, Features, Graph, RowBlock
from l2g2g.graphs.held_out import HeldOutRule, drop_entries

if TYPE_CHECKING:
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.graphs.store import StoredGraph


class TrainingGraph:
    """What training may see of a stored graph; a `GraphStore`.

    Args:
        whole: The graph with all its edges.
        rule: Which of them are held out.
        num_edges: How many are left.
    """

    def __init__(self, whole: StoredGraph, rule: HeldOutRule, num_edges: int) -> None:
        self.whole, self.rule, self.num_edges = whole, rule, num_edges
        self._held_places: dict[tuple[int, int], np.ndarray] = {}  # found once: every edge has to be looked at

    @property
    def name(self) -> str:
        """That of the whole graph."""
        return self.whole.name

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.whole.num_nodes

    @property
    def num_features(self) -> int:
        """Number of feature columns, 0 without features."""
        return self.whole.num_features

    @property
    def weighted(self) -> bool:
        """Whether edge weights were given."""
        return self.whole.weighted

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return self.whole.directed

    @property
    def cleaning(self) -> Cleaning:
        """What was changed on the way in."""
        return self.whole.cleaning

    @property
    def columns(self) -> FeatureColumns | None:
        """What the columns of the feature table became."""
        return self.whole.columns

    @property
    def block_model(self) -> EdgeModel | None:
        """The model that generated the whole graph, where this process knows it."""
        return self.whole.block_model

    @property
    def resident(self) -> bool:
        """Whether all of it is in memory: no."""
        return False

    @property
    def num_arcs(self) -> int | None:
        """Number of arcs of the whole graph; None for an undirected one."""
        return self.whole.num_arcs

    @property
    def stored(self) -> StoredGraph:
        """The store that it is read from."""
        return self.whole

    @property
    def has_sparse_features(self) -> bool:
        """Whether features are CSR."""
        return self.whole.has_sparse_features

    @property
    def entries_per_row(self) -> float:
        """As in `GraphStore`."""
        return self.whole.entries_per_row

    @property
    def labels(self) -> np.ndarray | None:
        """(num_nodes,) class of each node, where known."""
        return self.whole.labels

    @cached_property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) number of neighbours in training."""
        return np.concatenate([np.diff(block.indptr) for block in self.row_blocks()])

    def row_blocks(
        self, num_entries: int = 1 << 22, *, weights: bool = False, directions: bool = False
    ) -> Iterator[RowBlock]:
        """All rows in order, about num_entries of the entries of the whole graph at a time."""
        for block in self.whole.row_blocks(num_entries, weights=weights, directions=directions):
            yield self._drop(block)

    def row_start(self, row: int) -> int:
        """Entries of the whole graph before a row: those held out are among them."""
        return self.whole.row_start(row)

    def row_bounds(self, num_entries: int) -> np.ndarray:
        """(num_blocks + 1,) rows at which blocks of about num_entries entries begin and end."""
        return self.whole.row_bounds(num_entries)

    def row_block(self, low: int, high: int) -> RowBlock:
        """Rows low:high of the adjacency matrix, with weights where there are some."""
        return self._drop(self.whole.row_block(low, high))

    def _drop(self, block: RowBlock) -> RowBlock:
        here = (block.low, block.high)
        if here not in self._held_places:
            places = self.rule.find(block.indptr, block.indices, np.arange(*here))
            self._held_places[here] = places.astype(np.int32)
        parts, held = (block.indptr, block.indices, block.weights), self._held_places[here]
        indptr, indices, values = drop_entries(*parts, held)
        ways = (None if part is None else np.delete(part, held) for part in (block.directions, block.arc_weights))
        directions, arc_weights = ways
        left: dict[str, Any] = {"weights": values, "directions": directions, "arc_weights": arc_weights}
        return replace(block, indptr=indptr, indices=indices, **left)

    def read_adjacency_of(self, nodes: np.ndarray) -> sp.csr_array:
        """(len(nodes), num_nodes) rows of the adjacency matrix, in the order of nodes."""
        rows = self.whole.read_adjacency_of(nodes)
        indptr, indices, data = self.rule.drop(rows.indptr, rows.indices, rows.data, np.asarray(nodes))
        return sp.csr_array((data, indices, indptr), shape=rows.shape)

    def read_directions_of(self, nodes: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Directions and weights of the arcs of the entries of `read_adjacency_of`."""
        directions, weights = self.whole.read_directions_of(nodes)
        if directions is None:
            return None, None
        rows = self.whole.read_adjacency_of(nodes)
        held = self.rule.find(rows.indptr, rows.indices, np.asarray(nodes))
        return np.delete(directions, held), None if weights is None else np.delete(weights, held)

    def read_features(self, nodes: np.ndarray | slice) -> Features:
        """(len(nodes), num_features) feature rows, dense or CSR."""
        return self.whole.read_features(nodes)

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """(num_nodes, num_nodes) the adjacency matrix with the rows of some nodes only, and with weights 1."""
        rows = self.whole.pattern_of(nodes)
        indptr, indices, data = self.rule.drop(rows.indptr, rows.indices, rows.data, np.arange(self.num_nodes))
        return sp.csr_array((data, indices, indptr), shape=rows.shape)

    def without(self, rule: HeldOutRule | None, num_edges: int) -> GraphStore:
        """A graph of which edges are held out already: nothing more is."""
        assert rule is None
        return self

    def to_graph(self) -> Graph:
        """The training graph in memory."""
        return self.whole.to_graph().without(self.rule, self.num_edges)
