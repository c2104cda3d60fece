"""Candidates: the best pairs by common neighbours and by spectrum, edges left out."""

import numpy as np

from l2g2g.evaluation.pair_features import NeighbourEvidence
from l2g2g.graphs.graph import Graph
from l2g2g.models.spectral import spectral_vectors
from l2g2g.neighbours.learned import _by_neighbours, candidate_links


def random_graph(seed=0):
    return Graph.from_arcs(*np.random.default_rng(seed).integers(0, 90, (2, 250)), num_nodes=90)


def all_pairs(graph):
    sources, targets = np.triu_indices(graph.num_nodes, 1)
    free = ~(graph.adjacency.toarray() > 0)[sources, targets]
    return sources[free], targets[free]


def test_the_pairs_of_highest_resource_allocation():
    graph = random_graph()
    sources, targets = all_pairs(graph)
    scores = NeighbourEvidence(graph).resource_allocation(sources, targets)
    found = _by_neighbours(graph.adjacency, 20)
    own = NeighbourEvidence(graph).resource_allocation(*found)
    np.testing.assert_allclose(np.sort(own), np.sort(scores)[-20:], rtol=1e-5)


def test_candidates_are_distinct_ordered_and_no_edges():
    graph = random_graph(1)
    spectral = spectral_vectors(graph, 4)
    given = np.array([5, 80]), np.array([2, 1])
    sources, targets = candidate_links(given, spectral, graph.adjacency, 30)
    assert (sources < targets).all()
    assert len(set(zip(sources.tolist(), targets.tolist(), strict=True))) == len(sources) >= 30
    pairs = set(zip(sources.tolist(), targets.tolist(), strict=True))
    assert {(2, 5), (1, 80)} <= pairs
    ours = [pair for pair in pairs if pair not in {(2, 5), (1, 80)}]
    assert not any(graph.adjacency[pair] for pair in ours)
    best = np.argmax(spectral.inner(*all_pairs(graph)))
    assert tuple(int(ends[best]) for ends in all_pairs(graph)) in pairs
