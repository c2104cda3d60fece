"""Pair features: what degrees, common neighbours and short paths say about a link between two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.graphs.graph_store import EdgeSource

_ENTRIES_AT_ONCE = 1 << 26  # neighbours of the nodes of some pairs, held in memory: 256 MB from a store


class FeatureRows(Protocol):
    """A graph in memory or on disk whose features can be read by rows."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""

    @property
    def num_features(self) -> int:
        """Columns; 0 without features."""

    def read_features(self, nodes: np.ndarray | slice) -> Any:
        """(len(nodes), num_features) rows, dense or CSR."""


def unit_rows(rows: Any) -> Any:
    """Rows of length 1, dense or CSR, float32; rows of zeros stay."""
    if sp.issparse(rows):
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel())
        scale = (1 / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return sp.csr_array(sp.diags_array(scale) @ rows.astype(np.float32))
    rows = np.asarray(rows, np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def feature_cosines(features: FeatureRows, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(num_pairs,) cosine of the features of the two nodes of each pair; 0 where one has none."""
    nodes, places = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    rows = unit_rows(features.read_features(nodes))
    one, other = rows[places[: len(sources)]], rows[places[len(sources) :]]
    if sp.issparse(rows):
        return np.asarray(one.multiply(other).sum(axis=1), np.float64).ravel()
    return np.einsum("ij,ij->i", one, other).astype(np.float64)


class EdgeRows(EdgeSource, Protocol):
    """A graph in memory or on disk, also read by the rows of some nodes."""

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """(num_nodes, num_nodes) the adjacency matrix, in which at least the rows of these nodes are complete."""


class NeighbourEvidence:
    """Features of pairs (s, t) that the edges of a graph give; only these edges count, so hand in those of training.

    d is the number of neighbours of a node, N(s) are the neighbours of s. All features are (num_pairs,) float64, the
    same for (s, t) and (t, s). Pairs are taken in parts whose neighbours fit into memory, each part in one or two
    passes over the rows of the graph.
    """

    def __init__(self, graph: EdgeRows, *, entries_at_once: int = _ENTRIES_AT_ONCE) -> None:
        """entries_at_once: neighbours of one part of the pairs; without any effect on the result."""
        self.graph = graph
        self.degrees = np.concatenate([np.diff(block.indptr) for block in graph.row_blocks()]).astype(np.int64)
        self._entries_at_once = entries_at_once
        self._divisors = np.maximum(self.degrees, 1).astype(np.float64)  # nodes without neighbours are passed by none

    def common_neighbours(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """|N(s) ∩ N(t)|."""
        return self._common(sources, targets, np.ones(len(self.degrees)))

    def adamic_adar(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Σ 1 / ln d_w over the common neighbours w (Adamic and Adar 2003)."""
        # A common neighbour of two nodes has at least two neighbours; of a node with itself it may have one.
        return self._common(sources, targets, 1 / np.log(np.maximum(self._divisors, 2)))

    def resource_allocation(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Σ 1 / d_w over the common neighbours w (Zhou, Lü and Zhang 2009)."""
        return self._common(sources, targets, 1 / self._divisors)

    def l3(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Σ 1 / sqrt(d_a d_b) over the paths s – a – b – t of length three (Kovács and others 2019)."""
        sources, targets, found = _pairs(sources, targets)
        factors = 1 / np.sqrt(self._divisors)
        for part, rows in self._parts(sources, targets):
            ends, sums = (sources[part], targets[part]), np.zeros(len(part))
            for block in self.graph.row_blocks():
                kernels().path_sums(*rows, *ends, block.low, block.indptr, block.indices, factors, sums)
            found[part] = sums
        return found

    def preferential_attachment(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """d_s · d_t."""
        return self.degrees[sources].astype(np.float64) * self.degrees[targets]

    def _common(self, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sum of the weights (num_nodes,) of the common neighbours."""
        sources, targets, found = _pairs(sources, targets)
        for part, rows in self._parts(sources, targets):
            found[part] = kernels().common_sums(*rows, sources[part], targets[part], weights[:, None])[:, 0]
        return found

    def _parts(
        self, sources: np.ndarray, targets: np.ndarray
    ) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
        """Places of some pairs, and (indptr, indices) of a pattern in which the rows of their nodes are complete."""
        order = np.argsort(sources, kind="stable")
        ends = np.cumsum(self.degrees[sources[order]] + self.degrees[targets[order]])
        cuts = np.flatnonzero(np.diff(ends // self._entries_at_once)) + 1
        for part in np.split(order, cuts):
            if len(part):
                pattern = self.graph.pattern_of(np.unique(np.concatenate([sources[part], targets[part]])))
                yield part, (pattern.indptr.astype(np.int64, copy=False), pattern.indices.astype(np.int32, copy=False))


def _pairs(sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Node numbers as kernels want them, and a place for one number of each pair."""
    one, other = (np.ascontiguousarray(ends, np.int64) for ends in (sources, targets))
    return one, other, np.zeros(len(one))
