"""Record graph: what a record keeps of a graph in memory or on disk: ids, labels, degrees, edges, some pairs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.non_edges import sample_non_edges
from l2g2g.graphs.splits import Pairs
from l2g2g.graphs.stored_ids import node_ids_of


def degrees_of(graph: GraphStore) -> np.ndarray:
    """(num_nodes,) int32 number of neighbours."""
    return graph.degrees.astype(np.int32)


def ids_of(graph: GraphStore) -> np.ndarray | None:
    """(num_nodes,) ids; None where a node is its row number."""
    ids = node_ids_of(graph)
    return None if ids is None else ids[:]


def classes_of(graph: GraphStore) -> tuple[list[str] | None, np.ndarray | None]:
    """Names of the classes, and the (num_nodes,) int32 class of each node; None where there are none."""
    labels = graph.labels
    if labels is None:
        return None, None
    classes, codes = np.unique(labels, return_inverse=True)
    return [str(name) for name in classes.tolist()], codes.astype(np.int32)


def upper_edges(graph: GraphStore) -> sp.csr_array:
    """The pattern of the upper triangle: every edge once."""
    counts, parts = [np.zeros(1, np.int64)], []
    for block in graph.row_blocks():
        sources, targets, _ = block.upper()
        counts.append(np.bincount(sources - block.low, minlength=block.high - block.low))
        parts.append(targets.astype(np.int32))
    indptr, indices = np.cumsum(np.concatenate(counts)), np.concatenate(parts)
    return sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(graph.num_nodes, graph.num_nodes))


def sample_pairs(graph: GraphStore, count: int, generator: np.random.Generator) -> Pairs | None:
    """Some edges, and as many pairs that are none; None where every pair is an edge."""
    num_others = graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges
    if num_others == 0:
        return None
    count = min(count, graph.num_edges)
    places = np.sort(generator.permutation(graph.num_edges)[:count])
    chosen, first = [], 0
    for block in graph.row_blocks():
        sources, targets, _ = block.upper()
        here = places[(places >= first) & (places < first + len(sources))] - first
        chosen.append(np.stack([sources[here], targets[here]], axis=1))
        first += len(sources)
    return Pairs(np.concatenate(chosen), sample_non_edges(graph, min(count, num_others), generator))
