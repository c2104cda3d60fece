"""Partition: a Graph becomes a cluster label per node, deterministic for a seed."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
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


def fennel(indptr: np.ndarray, indices: np.ndarray, num_clusters: int, num_passes: int) -> np.ndarray:
    """FENNEL: stream the nodes in their own order, each to the cluster with most neighbours less a price for its load.

    Returns (num_nodes,) int32 labels. Later passes move each node again. See `FennelState` for price and limit.
    """
    state = FennelState(len(indptr) - 1, len(indices) / 2, num_clusters)
    rows = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(indices, np.int32)
    for _ in range(num_passes):
        state.assign(*rows, 0)
    return state.labels


class FennelState:
    """Labels and loads while nodes are streamed, block by block.

    The price of a cluster S is alpha γ |S|^(γ-1) with γ = 3/2 and alpha = M k^(γ-1) / N^γ (Tsourakakis et al. 2014).
    A cluster that holds 1.1 N / k nodes takes no more.

    Attributes:
        labels: (num_nodes,) int32, -1 for nodes that have not come yet.
        loads: (num_clusters,) int64 nodes of each cluster.
    """

    def __init__(self, num_nodes: int, num_edges: float, num_clusters: int) -> None:
        self.labels: np.ndarray = np.full(num_nodes, -1, np.int32)
        self.loads: np.ndarray = np.zeros(num_clusters, np.int64)
        self._alpha = num_edges * math.sqrt(num_clusters) / num_nodes**1.5
        self._limit = -(-11 * num_nodes // (10 * num_clusters))  # ⌈1.1 N / k⌉ in whole numbers: 1.1 has no exact float

    def assign(self, indptr: np.ndarray, indices: np.ndarray, first_node: int) -> int:
        """Give every node of a block of rows its best cluster; returns how many were somewhere else before.

        indptr, indices: int64 and int32 CSR pattern of the nodes from first_node on.
        """
        return kernels().fennel(indptr, indices, first_node, self.labels, self.loads, self._alpha, self._limit)


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
