"""Widening: where a partition cuts many edges, patches take in the nodes that have most edges into them.

A node that joins a patch makes its edges into that cluster visible there. Hubs join many patches, most nodes none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from l2g2g.graphs.graph import RowBlock

GOOD_CUT = 0.8  # share of the edges inside clusters from which patches stay as they are
_MOST_ROWS = 2.5  # rows of all patches for every node, its cluster included
_LEAST_SHARE = 0.1  # of the mean degree: a node with fewer edges into a cluster does not join it
_MOST_COUNTED = 1024  # edges into a cluster from which nodes are no longer told apart
_NUMBERS_AT_ONCE = 1 << 22

Blocks = Callable[[], Iterable[RowBlock]]


@dataclass(frozen=True, eq=False)
class Joined:
    """Nodes that join clusters beside their own.

    Attributes:
        clusters, nodes: (num_joined,) int64, a cluster and a node that joins it.
    """

    clusters: np.ndarray
    nodes: np.ndarray

    @classmethod
    def none(cls) -> Joined:
        """No node joins another cluster."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


def widen(blocks: Blocks, labels: np.ndarray, num_clusters: int, most_share: float) -> Joined:
    """Nodes that join further clusters: the pairs with most edges first, as long as both bounds are kept.

    blocks: gives the rows of the graph, once for each of two passes. labels: (num_nodes,) cluster of
    each node. most_share: of the nodes that a patch may hold. All patches hold at most 2.5 rows for every node.
    """
    num_nodes = len(labels)
    histogram, num_arcs = np.zeros((num_clusters, _MOST_COUNTED + 1), np.int64), 0
    for first, counts in _count_edges(blocks(), labels, num_clusters):
        own = labels[first : first + len(counts)]
        rows = np.arange(len(counts))
        num_arcs += int(counts.sum())
        counts[rows, own] = 0
        nodes, clusters = np.nonzero(counts)
        flat = clusters * (_MOST_COUNTED + 1) + np.minimum(counts[nodes, clusters], _MOST_COUNTED)
        histogram += np.bincount(flat, minlength=histogram.size).reshape(histogram.shape)
    least = max(2, math.ceil(_LEAST_SHARE * num_arcs / num_nodes))
    thresholds = _find_thresholds(histogram, np.bincount(labels, minlength=num_clusters), least, most_share, num_nodes)
    clusters_found, nodes_found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first, counts in _count_edges(blocks(), labels, num_clusters):
        counts[np.arange(len(counts)), labels[first : first + len(counts)]] = 0
        nodes, clusters = np.nonzero(np.minimum(counts, _MOST_COUNTED) >= thresholds)
        nodes_found.append(nodes + first)
        clusters_found.append(clusters.astype(np.int64))
    return Joined(np.concatenate(clusters_found), np.concatenate(nodes_found))


def _find_thresholds(
    histogram: np.ndarray, sizes: np.ndarray, least: int, most_share: float, num_nodes: int
) -> np.ndarray:
    """(num_clusters,) edges into a cluster that a node needs to join it.

    histogram: (num_clusters, most + 1) nodes outside a cluster by their edges into it. sizes: (num_clusters,).
    """
    joining = np.cumsum(histogram[:, ::-1], axis=1)[:, ::-1]  # by threshold: nodes with at least so many edges
    fits = sizes[:, None] + joining <= most_share * num_nodes
    fits[:, :least] = False
    own = np.where(fits.any(axis=1), fits.argmax(axis=1), _MOST_COUNTED + 1)
    # One threshold for all clusters, or a higher one where a patch would become too large.
    padded = np.concatenate([joining, np.zeros((len(sizes), 1), np.int64)], axis=1)
    for common in range(least, _MOST_COUNTED + 2):
        wanted = np.maximum(own, common)
        if padded[np.arange(len(sizes)), wanted].sum() <= (_MOST_ROWS - 1) * num_nodes:
            return wanted
    return np.full(len(sizes), _MOST_COUNTED + 1)


def _count_edges(blocks: Iterable[RowBlock], labels: np.ndarray, num_clusters: int) -> Iterator[tuple[int, np.ndarray]]:
    """(first node, (num_rows, num_clusters) edges into every cluster) of a few rows at a time."""
    step = max(1, _NUMBERS_AT_ONCE // num_clusters)
    for block in blocks:
        num_rows = block.high - block.low
        for low in range(0, num_rows, step):
            high = min(low + step, num_rows)
            begin, end = int(block.indptr[low]), int(block.indptr[high])
            rows = np.repeat(np.arange(high - low), np.diff(block.indptr[low : high + 1]))
            flat = rows * num_clusters + labels[block.indices[begin:end]]
            counts = np.bincount(flat, minlength=(high - low) * num_clusters)
            yield block.low + low, counts.reshape(high - low, num_clusters)
