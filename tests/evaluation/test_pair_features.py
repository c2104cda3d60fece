"""Pair features against numbers computed by hand on a graph of seven nodes, in parts and from a store."""

import math

import numpy as np
import pytest

from l2g2g.evaluation.pair_features import NeighbourEvidence
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_edges, split_links
from l2g2g.graphs.store import TrainingGraph, write_graph

# 0 – 1, 0 – 2, 1 – 2, 1 – 3, 2 – 3, 3 – 4, 4 – 5; node 6 alone. Degrees 2, 3, 3, 3, 2, 1, 0.
GRAPH = Graph.from_arcs([0, 0, 1, 1, 2, 3, 4], [1, 2, 2, 3, 3, 4, 5], num_nodes=7)
SOURCES, TARGETS = np.array([0, 0, 5, 0, 1, 6]), np.array([3, 4, 3, 5, 4, 0])
EXPECTED = {
    # 0 and 3 share 1 and 2; 5 and 3 share 4; 1 and 4 share 3.
    "common_neighbours": [2, 0, 1, 0, 1, 0],
    "adamic_adar": [2 / math.log(3), 0, 1 / math.log(2), 0, 1 / math.log(3), 0],
    "resource_allocation": [2 / 3, 0, 1 / 2, 0, 1 / 3, 0],
    # 0-1-2-3 and 0-2-1-3; 0-1-3-4 and 0-2-3-4; 5-4-?-3: none; none; 1-2-3-4; none.
    "l3": [2 / 3, 2 / 3, 0, 0, 1 / 3, 0],
    "preferential_attachment": [6, 4, 3, 2, 6, 0],
}


@pytest.mark.parametrize("feature", EXPECTED)
@pytest.mark.parametrize("entries_at_once", [1, 1000])
def test_features_by_hand(backend, feature, entries_at_once):
    evidence = NeighbourEvidence(GRAPH, entries_at_once=entries_at_once)
    found = getattr(evidence, feature)
    np.testing.assert_allclose(found(SOURCES, TARGETS), EXPECTED[feature], rtol=1e-12)
    np.testing.assert_allclose(found(TARGETS, SOURCES), EXPECTED[feature], rtol=1e-12)
    assert found(SOURCES[:0], TARGETS[:0]).shape == (0,)


def random_graph(num_nodes=300, num_arcs=2000, seed=0):
    hubs = np.random.default_rng(seed).random((2, num_arcs)) ** 3
    return Graph.from_arcs(*(hubs * num_nodes).astype(int), num_nodes=num_nodes)


@pytest.mark.parametrize("feature", EXPECTED)
def test_a_held_out_edge_never_enters_a_feature(feature, tmp_path):
    """From a store, features are those of the training edges: the same as of a graph that never had the others."""
    graph = random_graph()
    split = split_edges(graph, seed=3)
    train = split_links(graph, seed=3).train
    stored = write_graph(graph, tmp_path / "store")
    view = TrainingGraph(stored, split.rule, split.num_edges)
    sources, targets, _ = split.test.endpoints()
    expected = getattr(NeighbourEvidence(train), feature)(sources, targets)
    assert (expected > 0).any()
    found = getattr(NeighbourEvidence(view, entries_at_once=500), feature)(sources, targets)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    whole = getattr(NeighbourEvidence(graph), feature)(sources, targets)
    assert (whole != expected).any()


def test_paths_are_the_entries_of_a_product_of_matrices():
    graph = random_graph(seed=1)
    evidence = NeighbourEvidence(graph)
    scaled = graph.adjacency / np.sqrt(np.maximum(evidence.degrees, 1))
    product = (scaled @ graph.adjacency / np.sqrt(np.maximum(evidence.degrees, 1)) @ graph.adjacency).toarray()
    sources, targets = np.divmod(np.arange(graph.num_nodes**2), graph.num_nodes)
    np.testing.assert_allclose(evidence.l3(sources, targets), product.ravel(), rtol=1e-5, atol=1e-9)
