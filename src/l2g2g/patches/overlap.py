"""Overlap: cluster labels become a PatchSet, overlapping patches that know what they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from l2g2g.core import kernels
from l2g2g.graphs.block_model import sorted_distinct
from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.graph_store import GraphStore, read_ahead
from l2g2g.patches.overlap_index import OverlapIndex, index_overlaps
from l2g2g.patches.widening import GOOD_CUT, Joined, widen

_NO_DEGREE = 0.1  # stands for no edges, so that the rows of a node without any count alike


@dataclass(frozen=True, eq=False)
class PatchSet:
    """Overlapping patches of one graph, stacked patch after patch. A whole graph is one patch.

    Attributes:
        num_nodes: Nodes of the whole graph.
        global_nodes: (sum of patch sizes,) node number of every stacked row, ascending inside a patch. On several ranks
            they lie on disk, and slices of them are read.
        offsets: (num_patches + 1,) patch j owns the rows offsets[j]:offsets[j + 1].
        overlaps: Which rows of joined patches are the same node.
        num_joined: Joins that were made between patches with no edge between them.
        num_widened: Nodes that patches took in because too many edges would be cut, see `widening`.
        inside_share: Share of the edges inside clusters, before these overlap.
        row_degrees: (num_rows,) int32 edges of every row inside its patch, where patches were widened; None otherwise.
    """

    num_nodes: int
    global_nodes: np.ndarray
    offsets: np.ndarray
    overlaps: OverlapIndex
    num_joined: int = 0
    num_widened: int = 0
    inside_share: float = 1.0
    row_degrees: np.ndarray | None = None

    @property
    def num_patches(self) -> int:
        """Number of patches."""
        return len(self.offsets) - 1

    @property
    def num_rows(self) -> int:
        """Rows of the stacked patches: every node counted once per patch that holds it."""
        return len(self.global_nodes)

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole graph as one patch."""
        return self.num_patches == 1 and self.num_rows == self.num_nodes

    @property
    def is_cut_badly(self) -> bool:
        """Whether so many edges are cut that patches were widened, or would have been."""
        return self.inside_share < GOOD_CUT

    @property
    def sizes(self) -> np.ndarray:
        """(num_patches,) nodes of each patch."""
        return np.diff(self.offsets)

    @property
    def node_duplication(self) -> float:
        """Mean number of patches that hold a node."""
        return self.num_rows / self.num_nodes

    def shares_of(self, patches: np.ndarray | None = None) -> np.ndarray:
        """(num_rows,) float32 how much every row of some patches, or of all, counts in the vector of its node.

        The rows of a node add up to 1; see `row_weights`.
        """
        shares = self._row_shares
        return shares if patches is None else self._rows_of(patches, shares)

    @cached_property
    def _row_shares(self) -> np.ndarray:
        weights = self.row_weights
        totals = np.bincount(self.global_nodes, weights, minlength=self.num_nodes)
        return (weights / totals[self.global_nodes]).astype(np.float32)

    @property
    def row_weights(self) -> np.ndarray:
        """(num_rows,) float64 how much every row counts beside the others of its node.

        All count alike, but in widened patches by the square of the edges that they have there: a node sees most of its
        edges in its own patch and few in those that took it in.
        """
        return np.ones(self.num_rows) if self.row_degrees is None else np.maximum(self.row_degrees, _NO_DEGREE) ** 2.0

    def _rows_of(self, patches: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The values of the rows of some patches; a slice for consecutive ones, which needs no copy."""
        if (np.diff(patches) == 1).all():
            return values[self.offsets[patches[0]] : self.offsets[patches[-1] + 1]]
        return np.concatenate([values[self.offsets[patch] : self.offsets[patch + 1]] for patch in patches])

    def nodes_of(self, patch: int) -> np.ndarray:
        """Node numbers of one patch, ascending."""
        return self.global_nodes[self.offsets[patch] : self.offsets[patch + 1]]

    def select(self, patches: np.ndarray) -> PatchSet:
        """Some patches as a set of their own, in the order given, without overlaps."""
        nodes = self._rows_of(patches, self.global_nodes)
        degrees = None if self.row_degrees is None else self._rows_of(patches, self.row_degrees)
        offsets = np.concatenate([[0], np.cumsum(self.sizes[patches])])
        return PatchSet(self.num_nodes, nodes, offsets, OverlapIndex.none(len(patches)), row_degrees=degrees)

    def induce(self, matrix: sp.csr_array) -> sp.csr_array:
        """Block-diagonal (num_rows, num_rows) CSR: the induced submatrix of every patch."""
        indptr, indices, entries = kernels().induce(*csr_pattern(matrix), 0, self.num_nodes, *self.stacked)
        return _csr(indptr, indices, matrix.data.astype(np.float32, copy=False)[entries], self.num_rows)

    def count_arcs(self, adjacency: sp.csr_array) -> np.ndarray:
        """(num_patches,) entries of the induced submatrix of every patch."""
        bounds = kernels().induced_indptr(*csr_pattern(adjacency), 0, self.num_nodes, *self.stacked)
        return np.diff(bounds[self.offsets])

    def count_covered_edges(self, graph: GraphStore) -> int:
        """Undirected edges that lie inside at least one patch."""
        return graph.num_edges - self.count_uncovered_edges(graph.row_blocks())

    def count_uncovered_edges(self, blocks: Iterator[RowBlock]) -> int:
        """Undirected edges that lie inside no patch, of those whose first node is in some rows."""
        if self.is_whole:
            return 0
        num_cut = 0
        for block in read_ahead(blocks):
            sources, _ = kernels().cut_edges(block.indptr, block.indices, block.low, *self._patches_of_nodes)
            num_cut += len(sources)
        return num_cut

    @cached_property
    def _patches_of_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR of the patches that hold each node, ascending."""
        return _patches_of_nodes(self.global_nodes, self.offsets, self.num_nodes)

    @property
    def stacked(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and offsets as kernels take them."""
        return np.ascontiguousarray(self.global_nodes, np.int64), np.ascontiguousarray(self.offsets, np.int64)


class _AllNodes:
    """The numbers of all nodes, of which slices are made when they are asked for."""

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes

    def __len__(self) -> int:
        """Number of nodes."""
        return self.num_nodes

    def __getitem__(self, nodes: slice) -> np.ndarray:
        """Consecutive numbers."""
        return np.arange(*nodes.indices(self.num_nodes))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All numbers."""
        return np.arange(self.num_nodes, dtype=dtype)


def whole_graph_by_rows(num_nodes: int) -> PatchSet:
    """The whole graph as its only patch, without a list of its nodes in memory."""
    nodes = cast(np.ndarray, _AllNodes(num_nodes))
    return PatchSet(num_nodes, nodes, np.array([0, num_nodes]), OverlapIndex.none(1))


def whole_graph(num_nodes: int) -> PatchSet:
    """The whole graph as its only patch."""
    nodes = np.arange(num_nodes)
    return PatchSet(num_nodes, nodes, np.array([0, num_nodes]), index_overlaps([nodes], np.empty((0, 2), np.int64)))


def make_patches(
    graph: GraphStore,
    labels: np.ndarray,
    *,
    min_overlap: int = 17,
    target_overlap: int = 34,
    mean_degree: float = 4.0,
    most_share: float = 0.0,
) -> PatchSet:
    """Grow clusters into overlapping patches along a sparse, connected patch graph, in a few passes over the rows.

    labels: (num_nodes,) cluster of each node. Every pair of the patch graph shares about target_overlap nodes, at least
    min_overlap where its two clusters have them, and all overlaps together add at most half as many nodes as the graph
    has. Half of them come from either cluster: those with most edges to the other one first, then breadth first.
    most_share: of the nodes that a patch may take in where many edges are cut, see `widen`; 0 for none.
    """
    num_clusters = int(labels.max()) + 1
    if num_clusters == 1:
        return whole_graph(graph.num_nodes)
    labels = labels.astype(np.int32, copy=False)
    counts = count_cut_edges(graph, labels, num_clusters)
    inside_share = 1 - int(counts.sum()) / max(1, 2 * graph.num_edges)
    joined = Joined.none()
    if most_share and inside_share < GOOD_CUT:
        joined = widen(lambda: read_ahead(graph.row_blocks()), labels, num_clusters, most_share)
    pairs, num_joined = patch_graph(counts, labels, mean_degree)
    members, starts = group_by_label(labels, num_clusters)
    wanted = overlap_size(min_overlap, target_overlap, graph.num_nodes, len(pairs))
    quotas = _quotas(pairs, np.diff(starts), wanted)
    bounds = np.concatenate([[0], np.cumsum(quotas)])
    nodes, edge_counts = np.full(bounds[-1], -1, np.int64), np.zeros(bounds[-1], np.int64)
    for block in read_ahead(graph.row_blocks()):
        kernels().boundary_nodes(block.indptr, block.indices, block.low, labels, pairs, bounds, nodes, edge_counts)
    for place in np.unique(np.repeat(np.arange(len(quotas)), quotas)[nodes < 0]).tolist():  # the boundary is too short
        giver, own = pairs.flat[place], slice(bounds[place], bounds[place + 1])
        nodes[own] = _grow_inside(graph, labels, nodes[own], members[starts[giver] : starts[giver + 1]])
    found = _assemble_patches(labels, np.repeat(pairs[:, ::-1].ravel(), quotas), nodes, pairs, joined)
    degrees = _count_row_degrees(graph, found) if found.num_widened else None
    return replace(found, num_joined=num_joined, inside_share=inside_share, row_degrees=degrees)


def _count_row_degrees(graph: GraphStore, patch_set: PatchSet) -> np.ndarray:
    """(num_rows,) int32 edges of every row inside its patch."""
    degrees = np.zeros(patch_set.num_rows, np.int32)
    for block in read_ahead(graph.row_blocks()):
        rows = block.indptr, block.indices, block.low, graph.num_nodes
        degrees += np.diff(kernels().induced_indptr(*rows, *patch_set.stacked)).astype(np.int32)
    return degrees


def overlap_size(min_overlap: int, target_overlap: int, num_nodes: int, num_pairs: int) -> int:
    """Nodes that each pair of patches is to share: all overlaps add at most half as many nodes as the graph has."""
    return max(1, min(max(min_overlap, target_overlap), num_nodes // (2 * num_pairs)))


def _quotas(pairs: np.ndarray, sizes: np.ndarray, wanted: int) -> np.ndarray:
    """(2 num_pairs,) nodes that each cluster of each pair gives to the other one."""
    first, second = sizes[pairs[:, 0]], sizes[pairs[:, 1]]
    from_first = np.minimum(first, np.maximum((wanted + 1) // 2, wanted - second))
    from_second = np.minimum(second, wanted - from_first)
    return np.stack([from_first, from_second], axis=1).ravel()


def _grow_inside(graph: GraphStore, labels: np.ndarray, found: np.ndarray, members: np.ndarray) -> np.ndarray:
    """As many nodes of a cluster as found has places, those that are found first.

    found: nodes of the cluster, then -1 for each place that is free. These get neighbours inside the cluster, breadth
    first, then the other members in order. members: all nodes of the cluster.
    """
    queue = found[found >= 0].tolist()
    seen, rest, head = set(queue), iter(members.tolist()), 0
    while len(queue) < len(found):
        if head < len(queue):
            neighbours = graph.row_block(queue[head], queue[head] + 1).indices
            candidates = neighbours[labels[neighbours] == labels[members[0]]].tolist()
            head += 1
        else:
            candidates = [next(rest)]
        new = [node for node in candidates if node not in seen][: len(found) - len(queue)]
        seen.update(new)
        queue += new
    return np.array(queue, np.int64)


def _assemble_patches(
    labels: np.ndarray,
    added_patch: np.ndarray,
    added_node: np.ndarray,
    pairs: np.ndarray,
    joined: Joined,
) -> PatchSet:
    """The patches of clusters and the nodes that were added to them. pairs: the patches that overlap."""
    num_nodes, num_clusters = len(labels), int(labels.max()) + 1
    patch_of_row = np.concatenate([labels, added_patch, joined.clusters])
    node_of_row = np.concatenate([np.arange(num_nodes), added_node, joined.nodes])
    keys = sorted_distinct(patch_of_row.astype(np.int64) * num_nodes + node_of_row)
    global_nodes = keys % num_nodes
    offsets = np.searchsorted(keys, np.arange(num_clusters + 1, dtype=np.int64) * num_nodes)
    patch_nodes = np.split(global_nodes, offsets[1:-1])
    overlaps = index_overlaps(patch_nodes, pairs)
    return PatchSet(num_nodes, global_nodes, offsets, overlaps, num_widened=len(joined.nodes))


def count_cut_edges(graph: GraphStore, labels: np.ndarray, num_clusters: int) -> sp.csr_array:
    """(num_clusters, num_clusters) symmetric counts of the edges between clusters, zero on the diagonal."""
    counts = sp.csr_array((num_clusters, num_clusters), dtype=np.int64)
    labels = labels.astype(np.int32, copy=False)
    for block in read_ahead(graph.row_blocks()):
        clusters = group_by_label(labels[block.low : block.high], num_clusters)
        indptr, columns, values = kernels().count_between(block.indptr, block.indices, labels, *clusters)
        counts += sp.csr_array((values, columns, indptr.astype(np.int32)), shape=counts.shape)
    return counts


def csr_pattern(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """indptr and indices of a matrix in the types that kernels take."""
    return np.ascontiguousarray(matrix.indptr, np.int64), np.ascontiguousarray(matrix.indices, np.int32)


def _csr(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, size: int) -> sp.csr_array:
    """(size, size) matrix. Both index arrays are int32 where that fits: SciPy would widen the narrower one."""
    indptr = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr
    return sp.csr_array((values, indices, indptr), shape=(size, size))


def group_by_label(labels: np.ndarray, num_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """(num_nodes,) nodes by label, ascending inside one, and (num_labels + 1,) where the nodes of each label begin."""
    return np.argsort(labels, kind="stable"), np.concatenate(
        [[0], np.cumsum(np.bincount(labels, minlength=num_labels))]
    )


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


def _patches_of_nodes(global_nodes: np.ndarray, offsets: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the patches that hold each node, ascending."""
    patch_of_row = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    order = np.argsort(global_nodes, kind="stable")
    indptr = np.searchsorted(global_nodes[order], np.arange(num_nodes + 1))
    return indptr, patch_of_row[order]
