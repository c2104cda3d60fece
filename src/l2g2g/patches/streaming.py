"""Streaming FENNEL: a cluster label per node from several passes over the rows of a graph on disk."""

from __future__ import annotations

import numpy as np
from numba import njit

from l2g2g.graphs.read_ahead import read_ahead
from l2g2g.graphs.store import StoredGraph
from l2g2g.patches.partition import check_num_clusters, fill_empty_clusters

# Where neighbours have near ids, clusters form slowly: SBM-Large keeps 0.59 of its edges after five passes and 0.70
# after eight. In a random order three passes do most of it (benchmarks/streaming_partition.py).
DEFAULT_PASSES = 10


def stream_partition(
    graph: StoredGraph, num_clusters: int, *, num_passes: int = DEFAULT_PASSES, least_moved: float = 0.002
) -> np.ndarray:
    """Cut a stored graph into clusters. Returns (num_nodes,) int32 labels; no cluster is empty.

    The labels are those of `partition.fennel` after as many passes; nothing is drawn. Memory: 4 bytes for every node,
    a few for every cluster, and one block of rows. A node is tried only with the clusters of its neighbours and the
    least loaded one: of all clusters without a neighbour that one has the lowest price, so none better is missed.

    num_passes: at most so many. least_moved: no further pass once one has moved a smaller share of the nodes.
    """
    check_num_clusters(num_clusters, graph.num_nodes)
    labels: np.ndarray = np.full(graph.num_nodes, -1, np.int32)
    if num_clusters == 1:
        return np.zeros_like(labels)
    alpha = graph.num_edges * np.sqrt(num_clusters) / graph.num_nodes**1.5
    limit = -(-11 * graph.num_nodes // (10 * num_clusters))  # ⌈1.1 N / k⌉
    loads = Loads(num_clusters)
    for _ in range(num_passes):
        num_moved = 0
        for block in read_ahead(graph.row_blocks()):
            num_moved += _assign(block.indptr, block.indices, block.low, labels, loads.loads, loads.tree, alpha, limit)
        if num_moved < least_moved * graph.num_nodes:
            break
    return fill_empty_clusters(labels, num_clusters)


class Loads:
    """Nodes of each cluster, and a tree over the clusters that leads to the least loaded one.

    Leaf c of the tree is cluster c; every inner place holds the less loaded of the two below it, the first of equals.
    """

    def __init__(self, num_clusters: int) -> None:
        self.loads: np.ndarray = np.zeros(num_clusters, np.int64)
        size = 1 << (num_clusters - 1).bit_length()
        self.tree: np.ndarray = np.full(2 * size, -1, np.int32)
        self.tree[size : size + num_clusters] = np.arange(num_clusters)
        for place in range(size - 1, 0, -1):
            self.tree[place] = self.tree[2 * place]  # all are empty, the first counts


@njit(cache=True, nogil=True)
def _change_load(cluster: int, change: int, loads: np.ndarray, tree: np.ndarray) -> None:
    loads[cluster] += change
    place = (len(tree) // 2 + cluster) // 2
    while place >= 1:
        left, right = tree[2 * place], tree[2 * place + 1]
        tree[place] = right if right >= 0 and loads[right] < loads[left] else left
        place //= 2


@njit(cache=True, nogil=True)
def _longest(indptr: np.ndarray) -> int:
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    return longest


@njit(cache=True, nogil=True)
def _assign(
    indptr: np.ndarray,
    indices: np.ndarray,
    low: int,
    labels: np.ndarray,
    loads: np.ndarray,
    tree: np.ndarray,
    alpha: float,
    limit: int,
) -> int:
    """Move every node of a block to the cluster with most of its neighbours less the price of its load.

    Returns how many nodes were somewhere else before.
    """
    num_moved = 0
    neighbours = np.zeros(len(loads), np.int64)
    touched = np.empty(len(loads), np.int32)
    around = np.empty(_longest(indptr), np.int32)
    for row in range(len(indptr) - 1):
        node = low + row
        if labels[node] >= 0:
            _change_load(labels[node], -1, loads, tree)
        first, degree = indptr[row], indptr[row + 1] - indptr[row]
        for place in range(degree):  # without a branch, so that the processor waits for many labels at once
            around[place] = labels[indices[first + place]]
        num_touched = 0
        for place in range(degree):
            label = around[place]
            if label >= 0:
                if neighbours[label] == 0:
                    touched[num_touched] = label
                    num_touched += 1
                neighbours[label] += 1
        best = tree[1]
        best_score = neighbours[best] - 1.5 * alpha * np.sqrt(loads[best])
        for place in range(num_touched):
            cluster = touched[place]
            if loads[cluster] < limit:
                score = neighbours[cluster] - 1.5 * alpha * np.sqrt(loads[cluster])
                if score > best_score or (score == best_score and cluster < best):
                    best, best_score = cluster, score
        for place in range(num_touched):
            neighbours[touched[place]] = 0
        num_moved += labels[node] != best
        labels[node] = best
        _change_load(best, 1, loads, tree)
    return num_moved
