import numpy as np

from l2g2g.neighbours.factors import ScoreFactors, factors_by, search_exactly


def test_by_hand():
    vectors = np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 2.0], [3.0, 1.0]])
    nodes, scores = search_exactly(factors_by(vectors, "inner"), np.array([0, 2]), 2)
    assert nodes.tolist() == [[3, 1], [3, 0]]
    assert scores.tolist() == [[3.0, 0.5], [2.0, 0.0]]


def test_the_same_as_a_full_sort(monkeypatch):
    monkeypatch.setattr("l2g2g.neighbours.factors._BLOCK_ROWS", 7)
    monkeypatch.setattr("l2g2g.neighbours.factors._BLOCK_COLUMNS", 13)
    vectors = np.random.default_rng(0).normal(size=(100, 5)).astype(np.float32)
    full = vectors @ vectors.T
    np.fill_diagonal(full, -np.inf)
    nodes, scores = search_exactly(factors_by(vectors, "inner"), np.arange(100), 9)
    np.testing.assert_array_equal(nodes, np.argsort(-full, axis=1, kind="stable")[:, :9])
    np.testing.assert_allclose(scores, -np.sort(-full, axis=1)[:, :9], rtol=1e-5)


def test_equal_scores_come_in_the_order_of_the_nodes(monkeypatch):
    monkeypatch.setattr("l2g2g.neighbours.factors._BLOCK_COLUMNS", 4)
    nodes, _ = search_exactly(factors_by(np.ones((9, 2)), "cosine"), np.array([2]), 5)
    assert nodes.tolist() == [[0, 1, 3, 4, 5]]


def test_left_and_right_and_bias():
    left, right = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[5.0, 7.0], [2.0, 3.0]])
    nodes, scores = search_exactly(ScoreFactors(left, right, bias=-1.0, one_way=True), np.array([0, 1]), 1)
    assert nodes.tolist() == [[1], [0]]
    assert scores.tolist() == [[1.0], [6.0]]
