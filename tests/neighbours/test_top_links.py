import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.neighbours import top_links as module
from l2g2g.neighbours.factors import ScoreFactors, factors_by
from l2g2g.neighbours.top_links import sigmoid, top_links


def random_known(num_nodes, density, seed=0, directed=False):
    dense = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    np.fill_diagonal(dense, False)
    return sp.csr_array((dense if directed else dense | dense.T).astype(np.float32))


def by_full_sort(factors, count, known):
    scores = factors.left.astype(np.float64) @ factors.right.T
    scores[known.toarray() > 0] = -np.inf
    np.fill_diagonal(scores, -np.inf)
    if not factors.one_way:
        scores[np.tril_indices(len(scores))] = -np.inf
    best = np.argsort(-scores, axis=None, kind="stable")[:count]
    best = best[np.isfinite(scores.ravel()[best])]
    return [divmod(int(place), len(scores)) for place in best], scores.ravel()[best]


def pairs_of(found):
    return list(zip(found.sources.tolist(), found.targets.tolist(), strict=True))


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(module, "_GROUP", 16)
    monkeypatch.setattr(module, "_FIRST_TILES", 3)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("metric", ["inner", "cosine"])
@pytest.mark.parametrize("count", [1, 20, 500])
def test_the_same_as_a_full_sort(metric, count):
    generator = np.random.default_rng(count)
    vectors = generator.normal(size=(200, 4)) * np.exp(generator.normal(size=(200, 1)))
    known = random_known(200, 0.1)
    factors = factors_by(vectors, metric)
    found = top_links(factors, count, known)
    pairs, scores = by_full_sort(factors, count, known)
    assert pairs_of(found) == pairs
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5)
    assert found.recall is None


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("one_way", [True, False])
def test_two_tables(one_way):
    generator = np.random.default_rng(0)
    table = generator.normal(size=(150, 3))
    # A difference of squares: another right side, and yet a symmetric score.
    signs = np.array([1.0, -1.0, 1.0])
    right = generator.normal(size=(150, 3)) if one_way else table * signs
    factors = ScoreFactors(table, right, bias=-3.0, one_way=one_way)
    known = random_known(150, 0.2, directed=one_way)
    found = top_links(factors, 60, known)
    pairs, scores = by_full_sort(factors, 60, known)
    assert pairs_of(found) == pairs
    np.testing.assert_allclose(found.scores, scores - 3, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("small_groups")
def test_most_pairs_are_never_scored():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(2000, 4)) * np.exp(generator.normal(size=(2000, 1)))
    found = top_links(factors_by(vectors, "inner"), 10, random_known(2000, 0.001))
    assert found.scored_fraction < 0.05


@pytest.mark.usefixtures("small_groups")
def test_equal_scores_come_in_the_order_of_the_nodes():
    known = sp.csr_array((np.ones(2), ([0, 1], [1, 0])), shape=(40, 40))
    found = top_links(factors_by(np.ones((40, 2)), "inner"), 4, known)
    assert pairs_of(found) == [(0, 2), (0, 3), (0, 4), (0, 5)]


def test_fewer_where_there_are_fewer():
    known = sp.csr_array(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=np.float32))
    found = top_links(factors_by(np.eye(3), "inner"), 10, known)
    assert sorted(pairs_of(found)) == [(0, 2), (1, 2)]
    full = sp.csr_array(1 - np.eye(3, dtype=np.float32))
    assert pairs_of(top_links(factors_by(np.eye(3), "inner"), 10, full)) == []


@pytest.mark.slow
@pytest.mark.usefixtures("small_groups")
def test_where_it_ends_early_the_recall_is_estimated():
    vectors = np.random.default_rng(0).normal(size=(1000, 6))
    factors, known = factors_by(vectors, "cosine"), random_known(1000, 0.01)
    found = top_links(factors, 2000, known, max_products=1e6)
    true_pairs, _ = by_full_sort(factors, 2000, known)
    true_recall = len(set(true_pairs) & set(pairs_of(found))) / 2000
    assert 0.02 < true_recall < 0.9
    # What is missed is counted by the threshold of the list that was found, which is below the true one.
    threshold = found.scores[-1]
    _, all_scores = by_full_sort(factors, 10**6, known)
    assert found.recall == pytest.approx(2000 / (all_scores >= threshold).sum(), rel=0.15)
    assert found.recall <= true_recall + 0.05


def test_what_cannot_be_asked():
    with pytest.raises(InputError, match="at least 1"):
        top_links(factors_by(np.eye(3), "inner"), 0, sp.csr_array((3, 3)))
    with pytest.raises(InputError, match="must be equal"):
        top_links(factors_by(np.eye(3), "inner"), 1, sp.csr_array((4, 4)))


def test_sigmoid_does_not_overflow():
    np.testing.assert_allclose(sigmoid(np.array([-1000.0, 0.0, 1000.0])), [0, 0.5, 1])
