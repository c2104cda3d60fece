"""Stored overlap: as `overlap.make_patches`, over the rows of a graph on disk, which is never in memory as a whole.

Two passes over the rows: one counts the edges between clusters, one finds for every pair of the patch graph the nodes
with most edges to the other side. Only where these are too few are further rows read, one by one.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numba import njit

from l2g2g.graphs.read_ahead import read_ahead
from l2g2g.graphs.store import StoredGraph
from l2g2g.patches.overlap import PatchSet, assemble_patches, overlap_size, patch_graph, whole_graph

_MOST_DENSE_CLUSTERS = 4096


def make_stored_patches(
    graph: StoredGraph,
    labels: np.ndarray,
    *,
    min_overlap: int = 17,
    target_overlap: int = 34,
    mean_degree: float = 4.0,
) -> PatchSet:
    """Grow clusters into overlapping patches: the patches that `make_patches` would make in memory."""
    num_clusters = int(labels.max()) + 1
    if num_clusters == 1:
        return whole_graph(graph.num_nodes)
    pairs, num_joined = patch_graph(count_stored_cut_edges(graph, labels, num_clusters), labels, mean_degree)
    wanted = overlap_size(min_overlap, target_overlap, graph.num_nodes, len(pairs))
    members = np.argsort(labels, kind="stable").astype(np.int32)
    starts = np.searchsorted(labels[members], np.arange(num_clusters + 1))
    givers, takers, quotas = _sides(pairs, np.diff(starts), wanted)
    boundary, lengths = _find_boundaries(graph, labels, givers, takers, quotas, num_clusters)
    added_patch, added_node = [], []
    for side in range(len(givers)):
        nodes = boundary[side, : lengths[side]].tolist()
        if len(nodes) < quotas[side]:
            inside = members[starts[givers[side]] : starts[givers[side] + 1]]
            nodes = _search_on(graph, labels, nodes, int(quotas[side]), inside)
        added_node.append(np.array(nodes, np.int64))
        added_patch.append(np.full(len(nodes), takers[side], np.int64))
    return assemble_patches(labels, np.concatenate(added_patch), np.concatenate(added_node), pairs, num_joined)


def count_stored_cut_edges(graph: StoredGraph, labels: np.ndarray, num_clusters: int) -> sp.csr_array:
    """(num_clusters, num_clusters) symmetric counts of the edges between clusters, zero on the diagonal."""
    if num_clusters <= _MOST_DENSE_CLUSTERS:
        dense = np.zeros((num_clusters, num_clusters), np.int64)
        for block in read_ahead(graph.row_blocks()):
            _count_between(block.indptr, block.indices, block.low, labels, dense)
        return sp.csr_array(dense + dense.T)
    counts = sp.csr_array((num_clusters, num_clusters), dtype=np.int64)
    for block in read_ahead(graph.row_blocks()):
        rows = np.repeat(labels[block.low : block.high], np.diff(block.indptr))
        columns = labels[block.indices]
        between = rows != columns
        ones = np.ones(int(between.sum()), np.int64)
        counts += sp.coo_array((ones, (rows[between], columns[between])), shape=counts.shape).tocsr()
    return counts


def _sides(pairs: np.ndarray, sizes: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both sides of every pair: (num_sides,) the cluster that gives nodes, the one that takes them, and how many."""
    first, second = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    from_first = np.minimum(first, np.maximum((wanted + 1) // 2, wanted - second))
    from_second = np.minimum(second, wanted - from_first)
    return pairs.ravel(), pairs[:, ::-1].ravel(), np.stack([from_first, from_second], axis=1).ravel()


def _find_boundaries(
    graph: StoredGraph,
    labels: np.ndarray,
    givers: np.ndarray,
    takers: np.ndarray,
    quotas: np.ndarray,
    num_clusters: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(num_sides, most) nodes of the giver by their edges to the taker, most first, and how many of them there are."""
    by_giver = np.argsort(givers, kind="stable")
    side_starts = np.searchsorted(givers[by_giver], np.arange(num_clusters + 1))
    nodes: np.ndarray = np.full((len(givers), max(1, int(quotas.max()))), -1, np.int32)
    ties = np.zeros_like(nodes)
    lengths = np.zeros(len(givers), np.int64)
    for block in read_ahead(graph.row_blocks()):
        _rank_boundary(
            block.indptr,
            block.indices,
            block.low,
            labels,
            by_giver,
            side_starts,
            takers,
            quotas,
            nodes,
            ties,
            lengths,
        )
    return nodes, lengths


def _search_on(graph: StoredGraph, labels: np.ndarray, queue: list[int], quota: int, inside: np.ndarray) -> list[int]:
    """Lengthen a queue of nodes to quota: neighbours in the cluster, breadth first, then whoever is next in it."""
    giver = labels[inside[0]]
    seen = set(queue)
    head = next_start = 0
    while len(queue) < quota:
        if head >= len(queue):
            candidates = [int(inside[next_start])]
            next_start += 1
        else:
            neighbours = graph.read_rows(queue[head], queue[head] + 1).indices
            candidates = neighbours[labels[neighbours] == giver].tolist()
            head += 1
        for node in candidates:
            if node not in seen and len(queue) < quota:
                seen.add(node)
                queue.append(node)
    return queue


@njit(cache=True, nogil=True)
def _count_between(indptr: np.ndarray, indices: np.ndarray, low: int, labels: np.ndarray, counts: np.ndarray) -> None:
    """Add every edge between two clusters, once."""
    for row in range(len(indptr) - 1):
        label = labels[low + row]
        for entry in range(indptr[row], indptr[row + 1]):
            if indices[entry] > low + row and labels[indices[entry]] != label:
                counts[label, labels[indices[entry]]] += 1


@njit(cache=True, nogil=True)
def _rank_boundary(
    indptr: np.ndarray,
    indices: np.ndarray,
    low: int,
    labels: np.ndarray,
    by_giver: np.ndarray,
    side_starts: np.ndarray,
    takers: np.ndarray,
    quotas: np.ndarray,
    nodes: np.ndarray,
    ties: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Keep the best nodes of every side. Nodes come in ascending order, so equals stay behind those before them."""
    edges_to = np.zeros(len(side_starts) - 1, np.int32)
    for row in range(len(indptr) - 1):
        giver = labels[low + row]
        for entry in range(indptr[row], indptr[row + 1]):
            edges_to[labels[indices[entry]]] += 1
        for place in range(side_starts[giver], side_starts[giver + 1]):
            side = by_giver[place]
            count = edges_to[takers[side]]
            last = lengths[side]
            if count == 0 or (last == quotas[side] and (last == 0 or ties[side, last - 1] >= count)):
                continue
            if last < quotas[side]:
                lengths[side] = last + 1
            else:
                last -= 1
            while last > 0 and ties[side, last - 1] < count:
                ties[side, last] = ties[side, last - 1]
                nodes[side, last] = nodes[side, last - 1]
                last -= 1
            ties[side, last] = count
            nodes[side, last] = low + row
        for entry in range(indptr[row], indptr[row + 1]):
            edges_to[labels[indices[entry]]] = 0
