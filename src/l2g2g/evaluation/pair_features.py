"""Pair features: what degrees, common neighbours and short paths say about a link between two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.graphs.non_edges import EdgeSource

_ENTRIES_AT_ONCE = 1 << 26  # neighbours of the nodes of some pairs, held in memory: 256 MB from a store


class EdgeRows(EdgeSource, Protocol):
    """A graph in memory or on disk, also read by the rows of some nodes."""

    def pattern_of(self, nodes: np.ndarray) -> sp.csr_array:
        """(num_nodes, num_nodes) the adjacency matrix, in which at least the rows of these nodes are complete."""


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Features of pairs (s, t), (num_pairs,) float64 each; d is the number of neighbours, N(s) are those of s.

    Attributes:
        source_degrees, target_degrees: d_s and d_t.
        common_neighbours: |N(s) ∩ N(t)|.
        adamic_adar: Σ 1 / ln d_w over the common neighbours w (Adamic and Adar 2003).
        resource_allocation: Σ 1 / d_w over the common neighbours w (Zhou, Lü and Zhang 2009).
        l3: Σ 1 / sqrt(d_a d_b) over the paths s – a – b – t (Kovács and others 2019).
    """

    source_degrees: np.ndarray
    target_degrees: np.ndarray
    common_neighbours: np.ndarray
    adamic_adar: np.ndarray
    resource_allocation: np.ndarray
    l3: np.ndarray

    @property
    def preferential_attachment(self) -> np.ndarray:
        """d_s · d_t."""
        return self.source_degrees * self.target_degrees


class NeighbourEvidence:
    """The pair features that the edges of a graph give. Only these edges count: hand in those of the training.

    Pairs are taken in parts whose neighbours fit into memory; each part reads the graph twice.
    """

    def __init__(self, graph: EdgeRows, *, entries_at_once: int = _ENTRIES_AT_ONCE) -> None:
        """entries_at_once: neighbours of one part of the pairs; without any effect on the result."""
        self.graph = graph
        self.degrees = np.concatenate([np.diff(block.indptr) for block in graph.row_blocks()]).astype(np.int64)
        self._entries_at_once = entries_at_once

    def of_pairs(self, sources: np.ndarray, targets: np.ndarray) -> PairFeatures:
        """Features of some pairs. sources, targets: (num_pairs,) node numbers."""
        sources, targets = (np.ascontiguousarray(ends, np.int64) for ends in (sources, targets))
        degrees = np.maximum(self.degrees, 1).astype(np.float64)
        # A common neighbour of two nodes has two neighbours; those with one are never summed.
        logs = 1 / np.log(np.maximum(degrees, 2))
        weights = np.stack([np.ones_like(degrees), logs, 1 / degrees], axis=1)
        factors = 1 / np.sqrt(degrees)
        common, paths = np.zeros((len(sources), 3)), np.zeros(len(sources))
        for part in self._parts(sources, targets):
            ends = sources[part], targets[part]
            pattern = self.graph.pattern_of(np.unique(np.concatenate(ends)))
            rows = pattern.indptr.astype(np.int64, copy=False), pattern.indices.astype(np.int32, copy=False)
            common[part] = kernels().common_sums(*rows, *ends, weights)
            sums = np.zeros(len(part))
            for block in self.graph.row_blocks():
                kernels().path_sums(*rows, *ends, block.low, block.indptr, block.indices, factors, sums)
            paths[part] = sums
        source_degrees, target_degrees = (self.degrees[ends].astype(np.float64) for ends in (sources, targets))
        return PairFeatures(source_degrees, target_degrees, *common.T, paths)

    def _parts(self, sources: np.ndarray, targets: np.ndarray) -> Iterator[np.ndarray]:
        """Places of the pairs, source after source, parts of which have a bounded number of neighbours."""
        order = np.argsort(sources, kind="stable")
        ends = np.cumsum(self.degrees[sources[order]] + self.degrees[targets[order]])
        part = ends // self._entries_at_once
        cuts = np.flatnonzero(np.diff(part)) + 1
        yield from (places for places in np.split(order, cuts) if len(places))
