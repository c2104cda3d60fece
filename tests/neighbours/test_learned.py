import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.autoencoder import Autoencoder
from l2g2g.neighbours import index, learned
from l2g2g.neighbours.learned import nearest_learned, top_learned_links


@pytest.fixture(scope="module")
def decoder():
    return Autoencoder(3, 4, decoder="product", seed=3).decoder


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def known():
    dense = np.triu(np.random.default_rng(1).random((80, 80)) < 0.05, 1)
    return sp.csr_array((dense | dense.T).astype(np.float32))


@pytest.fixture(scope="module")
def full(decoder, vectors):
    sources, targets = np.divmod(np.arange(6400), 80)
    return decoder.score(vectors, sources, targets).reshape(80, 80).astype(np.float32)


def true_list(full, known, count):
    scores = np.where((known.toarray() > 0) | np.tri(80, dtype=bool), -np.inf, full)
    return {divmod(int(place), 80) for place in np.argsort(-scores, axis=None)[:count]}


def test_nearest_by_the_score_itself(decoder, vectors, full):
    nodes, scores = nearest_learned(decoder, vectors, np.array([3, 9]), 5)
    expected = full[[3, 9]].copy()
    expected[[0, 1], [3, 9]] = -np.inf
    np.testing.assert_array_equal(nodes, np.argsort(-expected, axis=1)[:, :5])
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :5], rtol=1e-5)


def test_with_all_pairs_as_candidates_it_is_exact(monkeypatch, decoder, vectors, known, full):
    monkeypatch.setattr(learned, "_CANDIDATES", 1000)
    found = top_learned_links(decoder, vectors, 20, known)
    assert found.recall is None
    assert set(zip(found.sources, found.targets, strict=True)) == true_list(full, known, 20)


def test_recall_says_what_is_missed(monkeypatch, decoder, vectors, known, full):
    monkeypatch.setattr(learned, "_CANDIDATES", 3)
    monkeypatch.setattr(index, "_NODES", 160)  # every node
    found = top_learned_links(decoder, vectors, 40, known)
    pairs = set(zip(found.sources.tolist(), found.targets.tolist(), strict=True))
    assert len(pairs) == 40
    reached = np.triu((full > found.scores[-1]) & (known.toarray() == 0), 1)
    truth = {tuple(pair) for pair in np.argwhere(reached).tolist()}
    assert found.recall == pytest.approx(len(truth & pairs) / len(truth))
    assert 0.3 < found.recall <= 1


def test_known_edges_are_not_among_them(decoder, vectors, known):
    found = top_learned_links(decoder, vectors, 30, known)
    assert not known.toarray()[found.sources, found.targets].any()
    assert (np.diff(found.scores) <= 0).all()
