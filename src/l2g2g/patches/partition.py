"""Partition: a graph becomes a cluster label per node, deterministic for a seed, the same from memory and from disk."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.graph_store import GraphStore, read_ahead
from l2g2g.options import check_choice

METHODS = ("metis", "fennel", "streaming", "random")
# Where neighbours have near ids, clusters form slowly: SBM-Large keeps 0.59 of its edges after five passes and 0.70
# after eight. In a random order three passes do most of it (benchmarks/streaming_partition.py).
DEFAULT_PASSES = 10
_METIS_PER_ARC, _METIS_PER_NODE = 120, 400  # METIS itself, and the graph: yelp-like took 134 for each arc in all


def partition(
    adjacency: sp.csr_array, num_clusters: int, *, method: str = "metis", seed: int = 0, fennel_passes: int = 1
) -> np.ndarray:
    """`partition_graph` of a matrix, (num_nodes, num_nodes) symmetric CSR without diagonal.

    Example:
        >>> two_triangles = sp.block_diag([np.ones((3, 3)) - np.eye(3)] * 2, format="csr")
        >>> labels = partition(sp.csr_array(two_triangles), 2)
        >>> len(set(labels[:3])), len(set(labels[3:])), labels[0] != labels[3]
        (1, 1, np.True_)
    """
    return partition_graph(Graph(adjacency), num_clusters, method=method, seed=seed, fennel_passes=fennel_passes)


def partition_graph(
    graph: GraphStore,
    num_clusters: int,
    *,
    method: str = "metis",
    seed: int = 0,
    fennel_passes: int = 1,
    memory_bytes: int | None = None,
) -> np.ndarray:
    """Cut a graph into clusters. Returns (num_nodes,) int32 labels; no cluster is empty.

    Args:
        graph: The graph.
        num_clusters: Number of clusters.
        method: metis, the only one that needs the whole graph in memory; fennel, in fennel_passes passes;
            streaming, FENNEL in passes until hardly a node moves; or random.
        seed: Of metis and random.
        fennel_passes: Of fennel.
        memory_bytes: What this may take; None for no limit. METIS is refused where it needs more.
    """
    check_choice("partition", method, METHODS)
    num_nodes = graph.num_nodes
    check_num_clusters(num_clusters, num_nodes)
    if num_clusters == 1:
        return np.zeros(num_nodes, np.int32)
    if method == "streaming":
        return stream_partition(graph, num_clusters, num_passes=DEFAULT_PASSES)
    if method == "fennel":
        return stream_partition(graph, num_clusters, num_passes=fennel_passes, least_moved=0)
    if method == "random":
        labels = np.random.default_rng([seed, 0xA]).permutation(np.arange(num_nodes) % num_clusters)
    else:
        needed = metis_memory(graph)
        if memory_bytes is not None and needed > memory_bytes:
            raise ResourceError(
                f"{graph.name}: METIS needs about {needed / 1e6:,.0f} MB and {memory_bytes / 1e6:,.0f} MB may be used; "
                f"use --partition streaming, or allow more memory"
            )
        labels = _metis(*_read_pattern(graph), num_clusters, seed)
    return fill_empty_clusters(labels.astype(np.int32), num_clusters)


def metis_memory(graph: GraphStore) -> int:
    """Bytes that METIS takes for a graph."""
    return 2 * _METIS_PER_ARC * graph.num_edges + _METIS_PER_NODE * graph.num_nodes


def check_num_clusters(num_clusters: int, num_nodes: int) -> None:
    """Refuse fewer clusters than one, or more than nodes."""
    if num_clusters < 1:
        raise InputError(f"{num_clusters} patches were asked for; at least 1 is needed")
    if num_clusters > num_nodes:
        raise InputError(f"{num_clusters} patches were asked for but the graph has only {num_nodes} nodes")


def _read_pattern(graph: GraphStore) -> tuple[np.ndarray, np.ndarray]:
    """indptr and indices of all rows in memory."""
    block = graph.row_block(0, graph.num_nodes)
    return block.indptr.astype(np.int32) if len(block.indices) < 2**31 else block.indptr, block.indices


def _metis(indptr: np.ndarray, indices: np.ndarray, num_clusters: int, seed: int) -> np.ndarray:
    import pymetis

    # METIS reads CSR as it is; columns must be sorted lists per row, which Graph guarantees.
    _, labels = pymetis.part_graph(
        num_clusters, pymetis.CSRAdjacency(indptr, indices), options=pymetis.Options(seed=seed & 0x7FFFFFFF)
    )
    return np.asarray(labels)


def stream_partition(
    graph: GraphStore, num_clusters: int, *, num_passes: int = DEFAULT_PASSES, least_moved: float = 0.002
) -> np.ndarray:
    """FENNEL: stream the nodes in their own order, each to the cluster with most neighbours less a price for its load.

    Returns (num_nodes,) int32 labels; no cluster is empty, and nothing is drawn. Later passes move each node again. See
    `FennelState` for price and limit. Memory: 4 bytes for every node, a few for every cluster, and one block of rows. A
    node is tried only with the clusters of its neighbours and the least loaded one: of all clusters without a neighbour
    that one has the lowest price, so none better is missed.

    num_passes: at most so many. least_moved: no further pass once one has moved a smaller share of the nodes.
    """
    check_num_clusters(num_clusters, graph.num_nodes)
    if num_clusters == 1:
        return np.zeros(graph.num_nodes, np.int32)
    state = FennelState(graph.num_nodes, graph.num_edges, num_clusters)
    for _ in range(num_passes):
        num_moved = 0
        for block in read_ahead(graph.row_blocks()):
            num_moved += state.assign(block.indptr, block.indices, block.low)
        if num_moved < least_moved * graph.num_nodes:
            break
    return fill_empty_clusters(state.labels, num_clusters)


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
