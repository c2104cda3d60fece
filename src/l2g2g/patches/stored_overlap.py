"""Stored overlap: as `overlap.make_patches`, over the rows of a graph on disk, which is never in memory as a whole.

Two passes over the rows: one counts the edges between clusters, one finds for every pair of the patch graph the nodes
with most edges to the other side. Only where these are too few are further rows read, one by one.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.read_ahead import read_ahead
from l2g2g.patches.overlap import PatchSet, assemble_patches, group_by_label, overlap_size, patch_graph, whole_graph
from l2g2g.patches.widening import Joined


def make_stored_patches(
    graph: GraphStore,
    labels: np.ndarray,
    *,
    min_overlap: int = 17,
    target_overlap: int = 34,
    mean_degree: float = 4.0,
    joined: Joined | None = None,
) -> PatchSet:
    """Grow clusters into overlapping patches: the patches that `make_patches` would make in memory."""
    num_clusters = int(labels.max()) + 1
    if num_clusters == 1:
        return whole_graph(graph.num_nodes)
    pairs, num_joined = patch_graph(count_stored_cut_edges(graph, labels, num_clusters), labels, mean_degree)
    wanted = overlap_size(min_overlap, target_overlap, graph.num_nodes, len(pairs))
    members, starts = group_by_label(labels, num_clusters)
    givers, takers, quotas = _sides(pairs, np.diff(starts), wanted)
    boundary, bounds = _find_boundaries(graph, labels, givers, takers, quotas, num_clusters)
    added_patch, added_node = [], []
    for side in range(len(givers)):
        nodes = boundary[bounds[side] : bounds[side + 1]].tolist()
        if len(nodes) < quotas[side]:
            inside = members[starts[givers[side]] : starts[givers[side] + 1]]
            nodes = _search_on(graph, labels, nodes, int(quotas[side]), inside)
        added_node.append(np.array(nodes, np.int64))
        added_patch.append(np.full(len(nodes), takers[side], np.int64))
    added = np.concatenate(added_patch), np.concatenate(added_node)
    return assemble_patches(labels, *added, pairs, num_joined, joined)


def count_stored_cut_edges(graph: GraphStore, labels: np.ndarray, num_clusters: int) -> sp.csr_array:
    """(num_clusters, num_clusters) symmetric counts of the edges between clusters, zero on the diagonal."""
    counts = sp.csr_array((num_clusters, num_clusters), dtype=np.int64)
    labels = labels.astype(np.int32, copy=False)
    for block in read_ahead(graph.row_blocks()):
        clusters = group_by_label(labels[block.low : block.high], num_clusters)
        indptr, columns, values = kernels().count_between(block.indptr, block.indices, labels, *clusters)
        counts += sp.csr_array((values, columns, indptr.astype(np.int32)), shape=counts.shape)
    return counts


def _sides(pairs: np.ndarray, sizes: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both sides of every pair: (num_sides,) the cluster that gives nodes, the one that takes them, and how many."""
    first, second = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    from_first = np.minimum(first, np.maximum((wanted + 1) // 2, wanted - second))
    from_second = np.minimum(second, wanted - from_first)
    return pairs.ravel(), pairs[:, ::-1].ravel(), np.stack([from_first, from_second], axis=1).ravel()


def _find_boundaries(
    graph: GraphStore,
    labels: np.ndarray,
    givers: np.ndarray,
    takers: np.ndarray,
    quotas: np.ndarray,
    num_clusters: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(num_found,) nodes of the givers by their edges to the takers, most first, and (num_sides + 1,) their bounds."""
    pairs = givers * num_clusters + takers
    by_pair = np.argsort(pairs)
    sides, nodes, ties = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    for block in read_ahead(graph.row_blocks()):
        rows = np.repeat(np.arange(block.high - block.low), np.diff(block.indptr))
        giver, taker = labels[block.low + rows].astype(np.int64), labels[block.indices]
        place = np.minimum(np.searchsorted(pairs, giver * num_clusters + taker, sorter=by_pair), len(pairs) - 1)
        wanted = pairs[by_pair[place]] == giver * num_clusters + taker
        more, edges = np.unique(by_pair[place[wanted]] * (block.high - block.low) + rows[wanted], return_counts=True)
        sides = np.concatenate([sides, more // (block.high - block.low)])
        nodes = np.concatenate([nodes, more % (block.high - block.low) + block.low])
        ties = np.concatenate([ties, edges])
        best = np.lexsort((nodes, -ties, sides))  # of equals the first node
        sides = sides[best]
        kept = np.arange(len(sides)) - np.searchsorted(sides, sides) < quotas[sides]
        sides, nodes, ties = sides[kept], nodes[best][kept], ties[best][kept]
    return nodes, np.searchsorted(sides, np.arange(len(givers) + 1))


def _search_on(graph: GraphStore, labels: np.ndarray, queue: list[int], quota: int, inside: np.ndarray) -> list[int]:
    """Lengthen a queue of nodes to quota: neighbours in the cluster, breadth first, then whoever is next in it."""
    giver = labels[inside[0]]
    seen = set(queue)
    head = next_start = 0
    while len(queue) < quota:
        if head >= len(queue):
            candidates = [int(inside[next_start])]
            next_start += 1
        else:
            neighbours = graph.row_block(queue[head], queue[head] + 1).indices
            candidates = neighbours[labels[neighbours] == giver].tolist()
            head += 1
        for node in candidates:
            if node not in seen and len(queue) < quota:
                seen.add(node)
                queue.append(node)
    return queue
