"""Streaming FENNEL: a cluster label per node from several passes over the rows of a graph on disk."""

from __future__ import annotations

import numpy as np

from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.read_ahead import read_ahead
from l2g2g.patches.partition import FennelState, check_num_clusters, fill_empty_clusters

# Where neighbours have near ids, clusters form slowly: SBM-Large keeps 0.59 of its edges after five passes and 0.70
# after eight. In a random order three passes do most of it (benchmarks/streaming_partition.py).
DEFAULT_PASSES = 10


def stream_partition(
    graph: GraphStore, num_clusters: int, *, num_passes: int = DEFAULT_PASSES, least_moved: float = 0.002
) -> np.ndarray:
    """Cut a stored graph into clusters. Returns (num_nodes,) int32 labels; no cluster is empty.

    The labels are those of `partition.fennel` after as many passes; nothing is drawn. Memory: 4 bytes for every node,
    a few for every cluster, and one block of rows. A node is tried only with the clusters of its neighbours and the
    least loaded one: of all clusters without a neighbour that one has the lowest price, so none better is missed.

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
