"""Partition: a Graph becomes a cluster label per node, deterministic for a seed."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp
from numba import njit

from l2g2g.errors import InputError

PartitionMethod = Literal["metis", "fennel", "random"]


def partition(
    adjacency: sp.csr_array,
    num_clusters: int,
    *,
    method: PartitionMethod = "metis",
    seed: int = 0,
    fennel_passes: int = 1,
) -> np.ndarray:
    """Cut a graph into clusters. Returns (num_nodes,) int64 labels; no cluster is empty.

    adjacency: (num_nodes, num_nodes) symmetric CSR without diagonal.

    Example:
        >>> two_triangles = sp.block_diag([np.ones((3, 3)) - np.eye(3)] * 2, format="csr")
        >>> labels = partition(sp.csr_array(two_triangles), 2)
        >>> len(set(labels[:3])), len(set(labels[3:])), labels[0] != labels[3]
        (1, 1, np.True_)
    """
    num_nodes = adjacency.shape[0]
    check_num_clusters(num_clusters, num_nodes)
    if num_clusters == 1:
        return np.zeros(num_nodes, np.int64)
    if method == "metis":
        labels = _metis(adjacency, num_clusters, seed)
    elif method == "fennel":
        labels = fennel(adjacency.indptr, adjacency.indices, num_clusters, fennel_passes)
    elif method == "random":
        labels = np.random.default_rng([seed, 0xA]).permutation(np.arange(num_nodes) % num_clusters)
    else:
        raise InputError(f"unknown partition '{method}'; choose metis, fennel or random")
    return fill_empty_clusters(labels.astype(np.int64), num_clusters)


def check_num_clusters(num_clusters: int, num_nodes: int) -> None:
    """Refuse fewer clusters than one, or more than nodes."""
    if num_clusters < 1:
        raise InputError(f"{num_clusters} patches were asked for; at least 1 is needed")
    if num_clusters > num_nodes:
        raise InputError(f"{num_clusters} patches were asked for but the graph has only {num_nodes} nodes")


def _metis(adjacency: sp.csr_array, num_clusters: int, seed: int) -> np.ndarray:
    import pymetis

    # METIS reads CSR as it is; columns must be sorted lists per row, which Graph guarantees.
    _, labels = pymetis.part_graph(
        num_clusters,
        pymetis.CSRAdjacency(adjacency.indptr, adjacency.indices),
        options=pymetis.Options(seed=seed & 0x7FFFFFFF),
    )
    return np.asarray(labels)


@njit(cache=True)
def fennel(indptr: np.ndarray, indices: np.ndarray, num_clusters: int, num_passes: int) -> np.ndarray:
    """FENNEL: stream the nodes in their own order, each to the cluster with most neighbours less a price for its load.

    The price is alpha γ |S|^(γ-1) with γ = 3/2 and alpha = M k^(γ-1) / N^γ (Tsourakakis et al. 2014).
    A cluster that holds 1.1 N / k nodes takes no more. Later passes move each node again.
    """
    num_nodes = len(indptr) - 1
    num_edges = len(indices) / 2.0
    alpha = num_edges * np.sqrt(num_clusters) / num_nodes**1.5
    limit = -(-11 * num_nodes // (10 * num_clusters))  # ⌈1.1 N / k⌉ in whole numbers: 1.1 has no exact float
    labels = np.full(num_nodes, -1, np.int64)
    loads = np.zeros(num_clusters, np.int64)
    neighbours = np.zeros(num_clusters, np.int64)
    for _ in range(num_passes):
        for node in range(num_nodes):
            if labels[node] >= 0:
                loads[labels[node]] -= 1
            neighbours[:] = 0
            for entry in range(indptr[node], indptr[node + 1]):
                label = labels[indices[entry]]
                if label >= 0:
                    neighbours[label] += 1
            best, best_score = -1, -np.inf
            for cluster in range(num_clusters):
                if loads[cluster] >= limit:
                    continue
                score = neighbours[cluster] - 1.5 * alpha * np.sqrt(loads[cluster])
                if score > best_score:
                    best, best_score = cluster, score
            labels[node] = best
            loads[best] += 1
    return labels


def fill_empty_clusters(labels: np.ndarray, num_clusters: int) -> np.ndarray:
    """Give every empty cluster half of the largest one, so that all num_clusters labels occur."""
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=num_clusters)
    for empty in np.flatnonzero(sizes == 0):
        largest = int(sizes.argmax())
        members = np.flatnonzero(labels == largest)
        moved = members[: len(members) // 2]
        labels[moved] = empty
        sizes[empty], sizes[largest] = len(moved), len(members) - len(moved)
    return labels
