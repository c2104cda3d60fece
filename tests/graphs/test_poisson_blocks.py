"""Block models with mixed membership: drawn with exactly the probabilities that they tell."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.block_model import PoissonBlockModel

MEMBERSHIPS = sp.csr_array(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
RATES = np.array([[0.6, 0.1], [0.1, 0.8]])


def test_edge_probability_by_hand():
    model = PoissonBlockModel(MEMBERSHIPS, RATES)
    rates = np.array([2 * 0.6, 0.1, 0.5 * 0.6 + 0.5 * 0.1, 0.5 * 0.1 + 0.5 * 0.8])
    found = model.edge_probability([0, 0, 0, 2, 3], [1, 2, 3, 3, 3])
    assert found == pytest.approx([*(1 - np.exp(-rates)), 0.0])


@pytest.mark.slow
def test_edges_fall_as_often_as_the_model_says():
    model, num_draws = PoissonBlockModel(MEMBERSHIPS, RATES), 3000
    generator = np.random.default_rng(0)
    first, second = np.triu_indices(4, 1)
    counts = np.zeros(len(first))
    for _ in range(num_draws):
        sources, targets = model.draw_edges(generator)
        counts += np.isin(first * 4 + second, sources * 4 + targets)
    expected = model.edge_probability(first, second)
    error = np.sqrt(expected * (1 - expected) / num_draws)
    assert (np.abs(counts / num_draws - expected) < 4.5 * error).all()


def test_the_number_of_edges_can_be_asked_for():
    memberships = sp.csr_array(np.kron(np.eye(3), np.ones((30, 1))))
    model = PoissonBlockModel(memberships, np.eye(3) + 0.1).scaled_to(400)
    assert model.num_events == pytest.approx(400)
    graph = model.sample(1, num_edges=250)
    assert (graph.num_nodes, graph.num_edges) == (90, 250)
    assert graph.block_model is model
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert (model.sample(1, num_edges=250).adjacency != graph.adjacency).nnz == 0
    with pytest.raises(InputError, match="5,000 wanted"):
        model.sample(1, num_edges=5000)


def test_what_is_no_model_is_refused():
    with pytest.raises(InputError, match="symmetric"):
        PoissonBlockModel(MEMBERSHIPS, np.array([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(InputError, match="one row per block"):
        PoissonBlockModel(MEMBERSHIPS, np.eye(3))
    with pytest.raises(InputError, match="not negative"):
        PoissonBlockModel(MEMBERSHIPS, -np.eye(2))
    with pytest.raises(InputError, match="drew no edge"):
        PoissonBlockModel(MEMBERSHIPS, np.zeros((2, 2))).sample()
