import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.neighbours import search
from l2g2g.neighbours.search import nearest


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(600, 6)).astype(np.float32)


def test_exact_for_few(vectors):
    found = nearest(vectors, [3, 5], k=4)
    assert found.nodes.shape == (2, 4)
    assert found.recall is None


def test_an_index_for_many(monkeypatch, vectors):
    monkeypatch.setattr(search, "_BUILD_COST", 100)
    found = nearest(vectors, np.arange(600), k=4, threads=1)
    assert found.recall is not None
    assert found.recall > 0.9
    exact = nearest(vectors, np.arange(600), k=4, method="exact")
    assert exact.recall is None
    assert (found.nodes == exact.nodes).mean() > 0.9


def test_no_more_neighbours_than_there_are(vectors):
    assert nearest(vectors[:5], [0], k=10).nodes.shape == (1, 4)


@pytest.mark.parametrize(
    ("rows", "k", "message"), [([0], 0, "at least 1"), ([600], 1, "from 0 to 599"), ([-1], 1, "from 0 to 599")]
)
def test_what_cannot_be_asked(vectors, rows, k, message):
    with pytest.raises(InputError, match=message):
        nearest(vectors, rows, k)


def test_one_node_has_no_neighbours():
    with pytest.raises(InputError, match="two nodes or more"):
        nearest(np.ones((1, 2)), [0])
