"""Streaming FENNEL: a cluster label per node from several passes over the rows of a graph on disk."""

from __future__ import annotations

import numpy as np

from l2g2g.graphs.store import StoredGraph
from l2g2g.patches.partition import partition


def stream_partition(graph: StoredGraph, num_clusters: int, *, num_passes: int = 3, seed: int = 0) -> np.ndarray:
    """Cut a stored graph into clusters. Returns (num_nodes,) int32 labels; no cluster is empty.

    Memory: 4 bytes for every node and 8 for every cluster, and one block of rows.
    """
    adjacency = graph.read_rows(0, graph.num_nodes)
    labels = partition(adjacency, num_clusters, method="fennel", seed=seed, fennel_passes=num_passes)
    return labels.astype(np.int32)
