"""Stored partition: a cluster label per node of a graph on disk, by any method that memory allows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.patches.partition import partition
from l2g2g.patches.streaming import DEFAULT_PASSES, stream_partition

STORED_METHODS = ("metis", "fennel", "streaming", "random")
_METIS_PER_ARC, _METIS_PER_NODE = 120, 400  # METIS itself, and the graph: yelp-like took 134 for each arc in all


def metis_memory(graph: GraphStore) -> int:
    """Bytes that METIS takes for a graph."""
    return 2 * _METIS_PER_ARC * graph.num_edges + _METIS_PER_NODE * graph.num_nodes


def partition_stored(
    graph: GraphStore,
    num_clusters: int,
    *,
    method: str = "streaming",
    seed: int = 0,
    fennel_passes: int = 1,
    memory_bytes: int | None = None,
) -> np.ndarray:
    """Cut a stored graph into clusters. Returns (num_nodes,) int32 labels; no cluster is empty.

    Args:
        graph: The graph.
        num_clusters: Number of clusters.
        method: metis, the only one that needs the whole graph in memory; fennel, in fennel_passes passes;
            streaming, FENNEL in passes until hardly a node moves; or random.
        seed: Of metis and random.
        fennel_passes: Of fennel.
        memory_bytes: What this may take; None for no limit. METIS is refused where it needs more.
    """
    if method == "streaming":
        return stream_partition(graph, num_clusters, num_passes=DEFAULT_PASSES)
    if method == "fennel":
        return stream_partition(graph, num_clusters, num_passes=fennel_passes, least_moved=0)
    if method == "metis":
        needed = metis_memory(graph)
        if memory_bytes is not None and needed > memory_bytes:
            raise ResourceError(
                f"{graph.name}: METIS needs about {needed / 1e6:,.0f} MB and {memory_bytes / 1e6:,.0f} MB may be used; "
                f"use --partition streaming, or allow more memory"
            )
        return partition(read_pattern(graph), num_clusters, seed=seed).astype(np.int32)
    if method == "random":
        generator = np.random.default_rng([seed, 0xA])
        return generator.permutation(np.arange(graph.num_nodes) % num_clusters).astype(np.int32)
    raise InputError(f"unknown partition '{method}'; choose {', '.join(STORED_METHODS)}")


def read_pattern(graph: GraphStore) -> sp.csr_array:
    """(num_nodes, num_nodes) all rows in memory, with weights 1 that take none."""
    blocks = list(graph.row_blocks())
    indices = np.concatenate([block.indices for block in blocks])
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(block.indptr) for block in blocks]))])
    if len(indices) < 2**31:
        indptr = indptr.astype(np.int32)
    ones = np.broadcast_to(np.float32(1.0), len(indices))
    return sp.csr_array((ones, indices, indptr), shape=(graph.num_nodes, graph.num_nodes))
