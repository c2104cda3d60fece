"""Overlap: cluster labels become a PatchSet, overlapping patches that know what they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from l2g2g.graphs.block_model import sorted_distinct
from l2g2g.patches.overlap_index import OverlapIndex, index_overlaps


@dataclass(frozen=True, eq=False)
class PatchSet:
    """Overlapping patches of one graph, stacked patch after patch. A whole graph is one patch.

    Attributes:
        num_nodes: Nodes of the whole graph.
        global_nodes: (sum of patch sizes,) node number of every stacked row, ascending inside a patch.
        offsets: (num_patches + 1,) patch j owns the rows offsets[j]:offsets[j + 1].
        overlaps: Which rows of joined patches are the same node.
        num_joined: Joins that were made between patches with no edge between them.
    """

    num_nodes: int
    global_nodes: np.ndarray
    offsets: np.ndarray
    overlaps: OverlapIndex
    num_joined: int = 0

    @property
    def num_patches(self) -> int:
        """Number of patches."""
        return len(self.offsets) - 1

    @property
    def num_rows(self) -> int:
        """Rows of the stacked patches: every node counted once per patch that holds it."""
        return len(self.global_nodes)

    @property
    def sizes(self) -> np.ndarray:
        """(num_patches,) nodes of each patch."""
        return np.diff(self.offsets)

    @property
    def node_duplication(self) -> float:
        """Mean number of patches that hold a node."""
        return self.num_rows / self.num_nodes

    def nodes_of(self, patch: int) -> np.ndarray:
        """Node numbers of one patch, ascending."""
        return self.global_nodes[self.offsets[patch] : self.offsets[patch + 1]]

    def select(self, patches: np.ndarray) -> PatchSet:
        """Some patches as a set of their own, in the order given, without overlaps."""
        first, last = self.offsets[patches[0]], self.offsets[patches[-1] + 1]
        nodes = self.global_nodes[first:last]
        if (np.diff(patches) != 1).any():  # consecutive ones need no copy
            nodes = np.concatenate([self.nodes_of(patch) for patch in patches])
        offsets = np.concatenate([[0], np.cumsum(self.sizes[patches])])
        nothing = index_overlaps([np.empty(0, np.int64)] * len(patches), np.empty((0, 2), np.int64))
        return PatchSet(self.num_nodes, nodes, offsets, nothing)

    def induce(self, matrix: sp.csr_array) -> sp.csr_array:
        """Block-diagonal (num_rows, num_rows) CSR: the induced submatrix of every patch."""
        indptr, indices, data = _induce(
            matrix.indptr, matrix.indices, matrix.data, self.global_nodes, self.offsets, self.num_nodes
        )
        return sp.csr_array((data, indices, indptr), shape=(self.num_rows, self.num_rows))

    def count_arcs(self, adjacency: sp.csr_array) -> np.ndarray:
        """(num_patches,) entries of the induced submatrix of every patch."""
        return _count_arcs(adjacency.indptr, adjacency.indices, self.global_nodes, self.offsets, self.num_nodes)

    def count_covered_edges(self, adjacency: sp.csr_array) -> int:
        """Undirected edges that lie inside at least one patch."""
        return adjacency.nnz // 2 - len(self.cut_edges(adjacency)[0])

    def cut_edges(self, adjacency: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Edges that no patch holds, as (sources, targets) with source < target."""
        held_indptr, held = _patches_of_nodes(self.global_nodes, self.offsets, self.num_nodes)
        return _find_cut_edges(adjacency.indptr, adjacency.indices, held_indptr, held)


def whole_graph(num_nodes: int) -> PatchSet:
    """The whole graph as its only patch."""
    nodes = np.arange(num_nodes)
    return PatchSet(num_nodes, nodes, np.array([0, num_nodes]), index_overlaps([nodes], np.empty((0, 2), np.int64)))


def make_patches(
    adjacency: sp.csr_array,
    labels: np.ndarray,
    *,
    min_overlap: int = 17,
    target_overlap: int = 34,
    mean_degree: float = 4.0,
) -> PatchSet:
    """Grow clusters into overlapping patches along a sparse, connected patch graph.

    adjacency: (num_nodes, num_nodes) symmetric CSR. labels: (num_nodes,) cluster of each node.
    Every pair of the patch graph shares about target_overlap nodes, at least min_overlap where its two
    clusters have them, and all overlaps together add at most half as many nodes as the graph has.
    """
    num_nodes = len(labels)
    num_clusters = int(labels.max()) + 1
    if num_clusters == 1:
        return whole_graph(num_nodes)
    pairs, num_joined = patch_graph(count_cut_edges(adjacency, labels, num_clusters), labels, mean_degree)
    wanted = overlap_size(min_overlap, target_overlap, num_nodes, len(pairs))
    members = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[members], np.arange(num_clusters + 1))
    added_patch, added_node = _grow(adjacency.indptr, adjacency.indices, labels, members, starts, pairs, wanted)
    return assemble_patches(labels, added_patch, added_node, pairs, num_joined)


def overlap_size(min_overlap: int, target_overlap: int, num_nodes: int, num_pairs: int) -> int:
    """Nodes that each pair of patches is to share: all overlaps add at most half as many nodes as the graph has."""
    return max(1, min(max(min_overlap, target_overlap), num_nodes // (2 * num_pairs)))


def assemble_patches(
    labels: np.ndarray, added_patch: np.ndarray, added_node: np.ndarray, pairs: np.ndarray, num_joined: int
) -> PatchSet:
    """The patches of clusters and the nodes that were added to them. pairs: the patches that overlap."""
    num_nodes, num_clusters = len(labels), int(labels.max()) + 1
    patch_of_row = np.concatenate([labels, added_patch])
    node_of_row = np.concatenate([np.arange(num_nodes), added_node])
    keys = sorted_distinct(patch_of_row.astype(np.int64) * num_nodes + node_of_row)
    global_nodes = keys % num_nodes
    offsets = np.searchsorted(keys, np.arange(num_clusters + 1, dtype=np.int64) * num_nodes)
    patch_nodes = np.split(global_nodes, offsets[1:-1])
    return PatchSet(num_nodes, global_nodes, offsets, index_overlaps(patch_nodes, pairs), num_joined)


def count_cut_edges(adjacency: sp.csr_array, labels: np.ndarray, num_clusters: int) -> sp.csr_array:
    """(num_clusters, num_clusters) symmetric counts of the edges between clusters, zero on the diagonal."""
    members = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[members], np.arange(num_clusters + 1))
    indptr, columns, counts = _count_cut(adjacency.indptr, adjacency.indices, labels, members, starts)
    return sp.csr_array((counts, columns, indptr), shape=(num_clusters, num_clusters))


def patch_graph(counts: sp.csr_array, labels: np.ndarray, mean_degree: float) -> tuple[np.ndarray, int]:
    """Pairs of patches to overlap: a maximum spanning tree, then the heaviest pairs up to mean_degree.

    Components of clusters with no edge between them are joined to the component of the largest cluster.
    Returns (num_pairs, 2) pairs i < j, sorted, and how many joins had to be made.
    """
    num_clusters = counts.shape[0]
    sizes = np.bincount(labels, minlength=num_clusters)
    # Small integers so that heavier is smaller, and ties fall the same way on every machine.
    negated = counts.astype(np.float64)
    negated.data = 1.0 / negated.data
    tree = minimum_spanning_tree(negated).tocoo()
    chosen = {(min(i, j), max(i, j)) for i, j in zip(tree.row.tolist(), tree.col.tolist(), strict=True)}
    num_components, component = connected_components(counts, directed=False)
    heaviest = [int(np.flatnonzero(component == c)[sizes[component == c].argmax()]) for c in range(num_components)]
    hub = int(component[sizes.argmax()])
    for c, cluster in enumerate(heaviest):
        if c != hub:
            chosen.add((min(heaviest[hub], cluster), max(heaviest[hub], cluster)))
    upper = sp.triu(counts, k=1).tocoo()
    for entry in np.lexsort((upper.col, upper.row, -upper.data)):
        if 2 * len(chosen) >= mean_degree * num_clusters:
            break
        chosen.add((int(upper.row[entry]), int(upper.col[entry])))
    return np.array(sorted(chosen), np.int64), num_components - 1


@njit(cache=True)
def _count_cut(
    indptr: np.ndarray, indices: np.ndarray, labels: np.ndarray, members: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSR of the edges from each cluster to every other, cluster by cluster: no array as long as the edges."""
    num_clusters = len(starts) - 1
    new_indptr = np.zeros(num_clusters + 1, np.int32)
    columns, values = np.empty(0, np.int32), np.empty(0, np.int64)
    counts = np.zeros(num_clusters, np.int64)
    touched = np.empty(num_clusters, np.int32)
    for fill in range(2):  # first how many, then which
        for cluster in range(num_clusters):
            num_touched = 0
            for place in range(starts[cluster], starts[cluster + 1]):
                node = members[place]
                for entry in range(indptr[node], indptr[node + 1]):
                    other = labels[indices[entry]]
                    if other != cluster:
                        if counts[other] == 0:
                            touched[num_touched] = other
                            num_touched += 1
                        counts[other] += 1
            if fill == 0:
                new_indptr[cluster + 1] = new_indptr[cluster] + num_touched
            else:
                columns[new_indptr[cluster] : new_indptr[cluster + 1]] = np.sort(touched[:num_touched])
                for position in range(new_indptr[cluster], new_indptr[cluster + 1]):
                    values[position] = counts[columns[position]]
            for position in range(num_touched):
                counts[touched[position]] = 0
        if fill == 0:
            columns, values = np.empty(new_indptr[-1], np.int32), np.empty(new_indptr[-1], np.int64)
    return new_indptr, columns, values


@njit(cache=True)
def _grow(
    indptr: np.ndarray,
    indices: np.ndarray,
    labels: np.ndarray,
    members: np.ndarray,
    starts: np.ndarray,
    pairs: np.ndarray,
    wanted: int,
) -> tuple[np.ndarray, np.ndarray]:
    """For each pair take about wanted nodes from the boundary, half from either side, breadth first."""
    added_patch = np.empty(2 * len(pairs) * wanted, np.int64)
    added_node = np.empty(2 * len(pairs) * wanted, np.int64)
    num_added = 0
    stamp = np.full(len(labels), -1, np.int64)
    for pair in range(len(pairs)):
        first, second = pairs[pair]
        first_size = starts[first + 1] - starts[first]
        second_size = starts[second + 1] - starts[second]
        from_first = min(first_size, max((wanted + 1) // 2, wanted - second_size))
        from_second = min(second_size, wanted - from_first)
        for side in range(2):
            giver, taker = (first, second) if side == 0 else (second, first)
            quota = from_first if side == 0 else from_second
            queue = _boundary_first(
                indptr,
                indices,
                labels,
                members[starts[giver] : starts[giver + 1]],
                giver,
                taker,
                quota,
                stamp,
                2 * pair + side,
            )
            for node in queue:
                added_patch[num_added] = taker
                added_node[num_added] = node
                num_added += 1
    return added_patch[:num_added], added_node[:num_added]


@njit(cache=True)
def _boundary_first(
    indptr: np.ndarray,
    indices: np.ndarray,
    labels: np.ndarray,
    giver_nodes: np.ndarray,
    giver: int,
    taker: int,
    quota: int,
    stamp: np.ndarray,
    mark: int,
) -> np.ndarray:
    """Up to quota nodes of the giver: those with most edges to the taker, then their neighbours, and so on."""
    ties = np.zeros(len(giver_nodes), np.int64)
    for position in range(len(giver_nodes)):
        node = giver_nodes[position]
        for entry in range(indptr[node], indptr[node + 1]):
            if labels[indices[entry]] == taker:
                ties[position] += 1
    order = np.argsort(-ties, kind="mergesort")
    queue = np.empty(quota, np.int64)
    length = 0
    next_seed = 0
    head = 0
    while length < quota:
        if next_seed < len(order) and (ties[order[next_seed]] > 0 or head >= length):
            node = giver_nodes[order[next_seed]]  # the boundary, or a new start where the search is exhausted
            next_seed += 1
            if stamp[node] != mark:
                stamp[node] = mark
                queue[length] = node
                length += 1
            continue
        node = queue[head]
        head += 1
        for entry in range(indptr[node], indptr[node + 1]):
            other = indices[entry]
            if labels[other] == giver and stamp[other] != mark and length < quota:
                stamp[other] = mark
                queue[length] = other
                length += 1
    return queue


@njit(cache=True)
def _count_arcs(
    indptr: np.ndarray, indices: np.ndarray, global_nodes: np.ndarray, offsets: np.ndarray, num_nodes: int
) -> np.ndarray:
    counts = np.zeros(len(offsets) - 1, np.int64)
    patch_of_node = np.full(num_nodes, -1, np.int64)
    for patch in range(len(counts)):
        nodes = global_nodes[offsets[patch] : offsets[patch + 1]]
        patch_of_node[nodes] = patch
        for node in nodes:
            for entry in range(indptr[node], indptr[node + 1]):
                counts[patch] += patch_of_node[indices[entry]] == patch
    return counts


@njit(cache=True)
def _induce(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    global_nodes: np.ndarray,
    offsets: np.ndarray,
    num_nodes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    num_rows = len(global_nodes)
    row_of_node = np.full(num_nodes, -1, np.int64)
    counts = np.zeros(num_rows + 1, indptr.dtype)
    for patch in range(len(offsets) - 1):
        low, high = offsets[patch], offsets[patch + 1]
        for row in range(low, high):
            row_of_node[global_nodes[row]] = row
        for row in range(low, high):
            node = global_nodes[row]
            for entry in range(indptr[node], indptr[node + 1]):
                if row_of_node[indices[entry]] >= low:  # rows of earlier patches are smaller
                    counts[row + 1] += 1
    new_indptr = np.cumsum(counts).astype(indptr.dtype)
    new_indices = np.empty(new_indptr[-1], indices.dtype)
    new_data = np.empty(new_indptr[-1], data.dtype)
    row_of_node[:] = -1
    position = 0
    for patch in range(len(offsets) - 1):
        low, high = offsets[patch], offsets[patch + 1]
        for row in range(low, high):
            row_of_node[global_nodes[row]] = row
        for row in range(low, high):
            node = global_nodes[row]
            for entry in range(indptr[node], indptr[node + 1]):
                column = row_of_node[indices[entry]]
                if column >= low:
                    new_indices[position] = column
                    new_data[position] = data[entry]
                    position += 1
    return new_indptr, new_indices, new_data


def _patches_of_nodes(global_nodes: np.ndarray, offsets: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the patches that hold each node, ascending."""
    patch_of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.argsort(global_nodes, kind="stable")
    indptr = np.searchsorted(global_nodes[order], np.arange(num_nodes + 1))
    return indptr, patch_of_row[order]


@njit(cache=True)
def _find_cut_edges(
    indptr: np.ndarray, indices: np.ndarray, held_indptr: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    num_cut = 0
    sources = np.empty(len(indices) // 2, indices.dtype)
    targets = np.empty(len(indices) // 2, indices.dtype)
    for node in range(len(indptr) - 1):
        for entry in range(indptr[node], indptr[node + 1]):
            other = indices[entry]
            if other <= node:
                continue
            a, b = held_indptr[node], held_indptr[other]
            together = False
            while a < held_indptr[node + 1] and b < held_indptr[other + 1] and not together:
                if held[a] == held[b]:
                    together = True
                elif held[a] < held[b]:
                    a += 1
                else:
                    b += 1
            if not together:
                sources[num_cut] = node
                targets[num_cut] = other
                num_cut += 1
    return sources[:num_cut], targets[:num_cut]
