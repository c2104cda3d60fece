"""Record graph: what a record keeps of a graph in memory or on disk: ids, labels, degrees, edges, some pairs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.non_edges import sample_non_edges
from l2g2g.graphs.splits import Pairs
from l2g2g.graphs.store import StoredGraph

AnyGraph = Graph | StoredGraph


def degrees_of(graph: AnyGraph) -> np.ndarray:
    """(num_nodes,) int32 number of neighbours."""
    found = graph.degrees if isinstance(graph, Graph) else np.diff(graph.indptr.read())
    return found.astype(np.int32)


def ids_of(graph: AnyGraph) -> np.ndarray | None:
    """(num_nodes,) ids; None where a node is its row number."""
    return graph.node_ids if isinstance(graph, Graph) else graph.read_node_ids()


def classes_of(graph: AnyGraph) -> tuple[list[str] | None, np.ndarray | None]:
    """Names of the classes, and the (num_nodes,) int32 class of each node; None where there are none."""
    labels = graph.labels if isinstance(graph, Graph) else graph.read_labels()
    if labels is None:
        return None, None
    classes, codes = np.unique(labels, return_inverse=True)
    return [str(name) for name in classes.tolist()], codes.astype(np.int32)


def upper_edges(graph: AnyGraph) -> sp.csr_array:
    """The pattern of the upper triangle: every edge once."""
    if isinstance(graph, Graph):
        upper = sp.csr_array(sp.triu(graph.adjacency, 1))
        upper.sort_indices()
        indptr, indices = upper.indptr, upper.indices
    else:
        counts, parts = [np.zeros(1, np.int64)], []
        for block in graph.row_blocks():
            rows = np.repeat(np.arange(block.low, block.high), np.diff(block.indptr))
            above = block.indices > rows
            counts.append(np.bincount(rows[above] - block.low, minlength=block.high - block.low))
            parts.append(block.indices[above])
        indptr, indices = np.cumsum(np.concatenate(counts)), np.concatenate(parts)
    return sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(graph.num_nodes, graph.num_nodes))


def sample_pairs(graph: AnyGraph, count: int, generator: np.random.Generator) -> Pairs | None:
    """Some edges, and as many pairs that are none; None where every pair is an edge."""
    num_others = graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges
    if num_others == 0:
        return None
    count = min(count, graph.num_edges)
    if isinstance(graph, Graph):
        edges = np.stack(graph.edges(), axis=1).astype(np.int64)
        chosen = edges[generator.permutation(len(edges))[:count]]
    else:
        places = np.sort(generator.integers(0, 2 * graph.num_edges, count))
        sources = np.searchsorted(graph.indptr.read(), places, side="right") - 1
        chosen = np.stack([sources, graph.indices.take(places)], axis=1)
    return Pairs(chosen, sample_non_edges(graph, min(count, num_others), generator))
