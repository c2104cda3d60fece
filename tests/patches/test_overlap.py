"""Overlap: clusters grow into patches that cover the graph, share enough nodes and hang together."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import StoredGraph, write_graph
from l2g2g.patches.overlap import count_cut_edges, make_patches, patch_graph, whole_graph
from l2g2g.patches.partition import partition


def patches_of(graph, num_clusters, method="metis", **overlap):
    labels = partition(graph.adjacency, num_clusters, method=method)
    return make_patches(graph, labels, **overlap), labels


def is_connected(patch_set):
    edges = patch_set.overlaps.edges.numpy()
    graph = sp.coo_array((np.ones(len(edges)), edges.T), shape=(patch_set.num_patches,) * 2)
    return connected_components(graph, directed=False)[0] == 1


@pytest.mark.parametrize("method", ["metis", "fennel", "random"])
@pytest.mark.parametrize("num_clusters", [2, 5, 12])
def test_every_node_is_covered_and_the_patch_graph_connected(planted, num_clusters, method):
    patch_set, labels = patches_of(planted, num_clusters, method, min_overlap=5, target_overlap=10)
    assert patch_set.num_patches == num_clusters
    for patch in range(num_clusters):
        nodes = patch_set.nodes_of(patch)
        assert (np.diff(nodes) > 0).all()
        assert set(np.flatnonzero(labels == patch)) <= set(nodes)
    assert is_connected(patch_set)
    assert patch_set.sizes.sum() == patch_set.num_rows == len(patch_set.global_nodes)
    assert patch_set.node_duplication == pytest.approx(patch_set.num_rows / planted.num_nodes)
    assert patch_set.num_joined == 0


def test_pairs_share_the_wanted_number_of_nodes(planted):
    patch_set, _ = patches_of(planted, 4, min_overlap=5, target_overlap=8)
    assert (patch_set.overlaps.sizes >= 8).all()
    assert patch_set.num_rows - planted.num_nodes <= 8 * patch_set.overlaps.num_pairs
    # The least wins where it is asked for more than the target.
    patch_set, _ = patches_of(planted, 4, min_overlap=9, target_overlap=2)
    assert (patch_set.overlaps.sizes >= 9).all()


def test_small_clusters_share_all_they_have(planted):
    labels = np.zeros(planted.num_nodes, np.int64)
    labels[:2] = 1
    patch_set = make_patches(planted, labels, min_overlap=10, target_overlap=10)
    assert patch_set.overlaps.sizes.tolist() == [10]
    labels = np.arange(6) // 3
    path = sp.csr_array(np.diag(np.ones(5, np.float32), 1) + np.diag(np.ones(5, np.float32), -1))
    patch_set = make_patches(Graph(path), labels, min_overlap=17, target_overlap=34)
    assert patch_set.overlaps.sizes.tolist() == [3]  # the cap: half of six nodes


@pytest.mark.parametrize("num_clusters", [3, 8, 20])
def test_overlaps_add_at_most_half_the_nodes(planted, num_clusters):
    patch_set, _ = patches_of(planted, num_clusters, min_overlap=129, target_overlap=258)
    assert planted.num_nodes < patch_set.num_rows <= 1.5 * planted.num_nodes
    assert is_connected(patch_set)


def test_overlaps_grow_from_the_boundary():
    # A path 0 … 9 cut in the middle: the two nearest nodes of either side are shared.
    path = sp.csr_array(np.diag(np.ones(9, np.float32), 1) + np.diag(np.ones(9, np.float32), -1))
    patch_set = make_patches(Graph(path), np.arange(10) // 5, min_overlap=4, target_overlap=4)
    assert patch_set.nodes_of(0).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert patch_set.nodes_of(1).tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert patch_set.overlaps.edges.tolist() == [[0, 1]]
    shared = patch_set.global_nodes[patch_set.overlaps.first_rows]
    assert shared.tolist() == patch_set.global_nodes[patch_set.overlaps.second_rows].tolist() == [3, 4, 5, 6]


def grow(graph, labels, giver, taker, quota):
    """The nodes that a cluster gives to another one, by the definition."""
    inside = np.flatnonzero(labels == giver)
    neighbours = {int(node): graph.adjacency[[node]].indices for node in inside}
    ties = np.array([(labels[neighbours[int(node)]] == taker).sum() for node in inside])
    order = np.argsort(-ties, kind="stable")
    queue, head = inside[order[ties[order] > 0]].tolist()[:quota], 0
    while len(queue) < quota:
        if head == len(queue):  # the search is exhausted: a new start
            queue.append(next(node for node in inside.tolist() if node not in queue))
            continue
        for node in neighbours[queue[head]].tolist():
            if node in neighbours and node not in queue and len(queue) < quota:
                queue.append(node)
        head += 1
    return queue


# A graph of 120 edges falls into pieces: its boundaries are too short.
@pytest.mark.parametrize("num_edges", [120, 400, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wanted", [1, 10, 40])
@pytest.mark.parametrize("method", ["metis", pytest.param("random", marks=pytest.mark.slow)])
def test_growth_is_its_definition_from_memory_and_from_small_blocks_of_a_store(
    num_edges, wanted, method, tmp_path, monkeypatch
):
    generator = np.random.default_rng(num_edges + wanted)
    graph = Graph.from_arcs(*generator.integers(0, 300, (2, num_edges)), num_nodes=300)
    labels = partition(graph.adjacency, 7, method=method)
    whole = StoredGraph.row_blocks
    monkeypatch.setattr(StoredGraph, "row_blocks", lambda store: whole(store, 97))
    for source in (graph, write_graph(graph, tmp_path)):
        found = make_patches(source, labels, min_overlap=wanted // 2, target_overlap=wanted)
        pairs = found.overlaps.edges.tolist()
        expected = [set(np.flatnonzero(labels == patch)) for patch in range(7)]
        for first, second in pairs:
            sizes = (labels == first).sum(), (labels == second).sum()
            size = min(wanted, 300 // (2 * len(pairs)))
            from_first = min(sizes[0], max((size + 1) // 2, size - sizes[1]))
            expected[second] |= set(grow(graph, labels, first, second, from_first))
            expected[first] |= set(grow(graph, labels, second, first, min(sizes[1], size - from_first)))
        assert [found.nodes_of(patch).tolist() for patch in range(7)] == [sorted(nodes) for nodes in expected]


def test_parts_without_an_edge_between_them_are_joined_and_reported(islands):
    labels = np.repeat([0, 1, 2], [20, 20, 24])
    patch_set = make_patches(islands, labels, min_overlap=4, target_overlap=6)
    assert patch_set.num_joined == 2
    assert is_connected(patch_set)
    assert (patch_set.overlaps.sizes >= 4).all()
    assert patch_set.overlaps.edges.tolist() == [[0, 2], [1, 2]]  # to the largest cluster
    assert set(patch_set.global_nodes.tolist()) == set(range(64))


@pytest.mark.parametrize("method", ["metis", "fennel", "random"])
def test_isolated_nodes_are_covered(islands, method):
    patch_set, _ = patches_of(islands, 6, method, min_overlap=3, target_overlap=4)
    assert set(patch_set.global_nodes.tolist()) == set(range(64))
    assert is_connected(patch_set)


def test_patch_graph_keeps_the_heaviest_pairs_and_a_spanning_tree():
    weights = np.array([[0, 9, 1, 0], [9, 0, 8, 0], [1, 8, 0, 2], [0, 0, 2, 0]])
    counts = sp.csr_array(weights)
    labels = np.repeat(np.arange(4), [4, 3, 2, 1])
    sparse_pairs, joined = patch_graph(counts, labels, mean_degree=0.0)
    assert sparse_pairs.tolist() == [[0, 1], [1, 2], [2, 3]]  # the maximum spanning tree
    assert joined == 0
    assert patch_graph(counts, labels, mean_degree=2.0)[0].tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    alone, joined = patch_graph(sp.csr_array((4, 4), dtype=np.int64), labels, mean_degree=4.0)
    assert alone.tolist() == [[0, 1], [0, 2], [0, 3]]  # a star round the largest
    assert joined == 3


def test_the_patch_graph_is_sparsified(planted):
    patch_set, _ = patches_of(planted, 20, "random", min_overlap=2, target_overlap=2, mean_degree=4.0)
    assert patch_set.overlaps.num_pairs == 40


@pytest.mark.parametrize("num_clusters", [2, 7, 40])
def test_count_cut_edges_is_a_product_of_memberships(planted, num_clusters):
    labels = partition(planted.adjacency, num_clusters, method="random")
    belongs = np.eye(num_clusters, dtype=np.int64)[labels]
    expected = belongs.T @ (planted.adjacency.toarray() != 0) @ belongs
    np.fill_diagonal(expected, 0)
    counts = count_cut_edges(planted, labels, num_clusters)
    np.testing.assert_array_equal(counts.toarray(), expected)
    assert counts.has_sorted_indices


def test_count_cut_edges_by_hand(path_of_four):
    counts = count_cut_edges(Graph(path_of_four), np.array([0, 1, 1, 2]), 3)
    assert counts.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_a_patch_is_the_induced_subgraph(planted):
    weighted = planted.adjacency.copy()
    weighted.data = np.random.default_rng(0).random(weighted.nnz).astype(np.float32)
    patch_set, _ = patches_of(planted, 5, min_overlap=6, target_overlap=9)
    block = patch_set.induce(weighted)
    assert block.shape == (patch_set.num_rows, patch_set.num_rows)
    assert block.indices.dtype == weighted.indices.dtype
    expected = sp.block_diag([weighted[nodes][:, nodes] for nodes in map(patch_set.nodes_of, range(5))], format="csr")
    assert (block != sp.csr_array(expected)).nnz == 0
    assert block.nnz == expected.nnz
    assert (np.diff(block.indices)[np.diff(np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))) == 0] > 0).all()


def test_covered_edges_against_brute_force(planted):
    for num_clusters in (2, 6, 15):
        patch_set, _ = patches_of(planted, num_clusters, "random", min_overlap=4, target_overlap=6)
        holders = [set() for _ in range(planted.num_nodes)]
        for patch in range(num_clusters):
            for node in patch_set.nodes_of(patch):
                holders[node].add(patch)
        edges = list(zip(*(ends.tolist() for ends in planted.edges()), strict=True))
        expected = [(u, v) for u, v in edges if not holders[u] & holders[v]]
        assert 0 < len(expected) < planted.num_edges
        assert patch_set.count_covered_edges(planted) == planted.num_edges - len(expected)


def test_a_whole_graph_is_one_patch(planted):
    labels = np.zeros(planted.num_nodes, np.int64)
    for patch_set in (whole_graph(planted.num_nodes), make_patches(planted, labels)):
        assert patch_set.num_patches == 1
        assert patch_set.nodes_of(0).tolist() == list(range(planted.num_nodes))
        assert patch_set.node_duplication == 1
        assert patch_set.overlaps.num_pairs == 0
        assert patch_set.count_covered_edges(planted) == planted.num_edges
        assert (patch_set.induce(planted.adjacency) != planted.adjacency).nnz == 0


def test_one_node_per_cluster_still_makes_patches(path_of_four):
    patch_set = make_patches(Graph(path_of_four), np.arange(4), min_overlap=3, target_overlap=3)
    assert is_connected(patch_set)
    assert (patch_set.overlaps.sizes >= 1).all()
