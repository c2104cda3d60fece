"""Spectral vectors of graphs whose eigenvectors are known."""

import numpy as np
import pytest

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import write_graph
from l2g2g.models.spectral import spectral_vectors

# A star of four leaves: eigenvalues 1 and -1, the others 0.
STAR = Graph.from_arcs([0, 0, 0, 0], [1, 2, 3, 4])


def test_a_star_is_told_by_two_signed_columns():
    spectral = spectral_vectors(STAR, 2)
    assert sorted(spectral.signs.tolist()) == [-1, 1]
    sources, targets = np.array([0, 1, 0]), np.array([1, 2, 0])
    # D^(-1/2) A D^(-1/2) itself: 1 / sqrt(4 · 1) between the centre and a leaf, nothing elsewhere.
    np.testing.assert_allclose(spectral.inner(sources, targets), [0.5, 0, 0], atol=1e-4)
    # Both columns have length sqrt(1/2) at the centre and sqrt(1/8) at a leaf: rows (±a, a) and (a, a).
    np.testing.assert_allclose(spectral.cosine(sources, targets), [1, 0, 0], atol=1e-4)


def test_a_node_without_neighbours_has_no_vector():
    graph = Graph.from_arcs([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=6)
    spectral = spectral_vectors(graph, 2)
    assert (spectral.vectors[4:] == 0).all()
    assert spectral.cosine(np.array([4]), np.array([0])).tolist() == [0]


def test_the_largest_eigenvalues_by_magnitude_from_memory_and_from_a_store(tmp_path):
    generator = np.random.default_rng(0)
    graph = Graph.from_arcs(*generator.integers(0, 80, (2, 300)), num_nodes=80)
    degrees = np.maximum(graph.degrees, 1)
    matrix = graph.adjacency.toarray() > 0
    matrix = matrix / np.sqrt(degrees) / np.sqrt(degrees)[:, None]
    values, vectors = np.linalg.eigh(matrix)
    best = np.argsort(-np.abs(values))[:5]
    expected = (vectors[:, best] * values[best]) @ vectors[:, best].T
    sources, targets = np.divmod(np.arange(80 * 80), 80)
    for source in (graph, write_graph(graph, tmp_path / "store")):
        spectral = spectral_vectors(source, 5, seed=2)
        assert spectral.vectors.shape == (80, 5)
        np.testing.assert_allclose(spectral.inner(sources, targets).reshape(80, 80), expected, atol=2e-3)


@pytest.mark.parametrize("dim", [1, 16])
def test_more_columns_than_nodes(dim):
    assert spectral_vectors(Graph.from_arcs([0, 1], [1, 2]), dim).vectors.shape == (3, 1)
    assert spectral_vectors(Graph.from_arcs([0], [1]), dim).vectors.shape == (2, 1)
