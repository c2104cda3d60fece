"""Patches, of any graph and partition: every node in one, neighbours overlap, and the patch graph hangs together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from l2g2g.graphs.graph import Graph
from l2g2g.patches.overlap import make_patches
from l2g2g.patches.partition import partition

BOUNDED = settings(max_examples=25, deadline=None, derandomize=True)


@st.composite
def cut_graphs(draw):
    """(graph, labels): up to 60 nodes, perhaps in several components or alone, in 2 to 6 clusters."""
    num_nodes = draw(st.integers(12, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_arcs = draw(st.integers(1, 4 * num_nodes))
    sources, targets = generator.integers(0, num_nodes, (2, num_arcs))
    sources, targets = np.append(sources, 0), np.append(targets, 1)
    graph = Graph.from_arcs(sources, targets, num_nodes=num_nodes)
    method = draw(st.sampled_from(["metis", "fennel", "random"]))
    return graph, partition(graph.adjacency, draw(st.integers(2, 6)), method=method, seed=draw(st.integers(0, 99)))


def patch_nodes(patch_set):
    return np.split(patch_set.global_nodes, patch_set.offsets[1:-1])


@pytest.mark.slow
@BOUNDED
@given(cut=cut_graphs(), overlap=st.integers(1, 6))
def test_every_node_is_in_the_patch_of_its_cluster(cut, overlap):
    graph, labels = cut
    patches = patch_nodes(make_patches(graph, labels, min_overlap=overlap, target_overlap=2 * overlap))
    assert len(patches) == labels.max() + 1
    for cluster, nodes in enumerate(patches):
        assert (np.diff(nodes) > 0).all()  # in order, none twice
        assert np.isin(np.flatnonzero(labels == cluster), nodes).all()


@BOUNDED
@given(cut=cut_graphs(), overlap=st.integers(1, 6))
def test_the_patch_graph_is_connected_and_its_pairs_share_nodes(cut, overlap):
    graph, labels = cut
    patch_set = make_patches(graph, labels, min_overlap=overlap, target_overlap=2 * overlap)
    patches, index = patch_nodes(patch_set), patch_set.overlaps
    edges, size = index.edges.numpy(), patch_set.num_patches
    pattern = coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(size, size))
    assert connected_components(pattern, directed=False)[0] == 1
    for (first, second), count in zip(edges.tolist(), index.sizes.tolist(), strict=True):
        assert count == len(np.intersect1d(patches[first], patches[second])) >= 1


@BOUNDED
@given(cut=cut_graphs())
def test_overlaps_add_at_most_half_of_the_nodes_and_one_for_every_side_of_a_pair(cut):
    graph, labels = cut
    patch_set = make_patches(graph, labels, min_overlap=3, target_overlap=6)
    num_pairs = len(patch_set.overlaps.edges)
    assert patch_set.num_rows - graph.num_nodes <= max(graph.num_nodes // 2, 2 * num_pairs)


@BOUNDED
@given(cut=cut_graphs(), overlap=st.integers(1, 6))
def test_covered_edges_are_those_inside_a_patch(cut, overlap):
    graph, labels = cut
    patch_set = make_patches(graph, labels, min_overlap=overlap, target_overlap=overlap)
    patches = [set(nodes.tolist()) for nodes in patch_nodes(patch_set)]
    edges = zip(*(part.tolist() for part in graph.edges()), strict=True)
    inside = sum(any(u in nodes and v in nodes for nodes in patches) for u, v in edges)
    assert patch_set.count_covered_edges(graph) == inside
