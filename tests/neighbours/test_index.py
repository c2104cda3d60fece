import sys

import numpy as np
import pytest

from l2g2g.errors import InputError, ResourceError
from l2g2g.neighbours.factors import ScoreFactors, factors_by, search_exactly
from l2g2g.neighbours.index import NeighbourIndex


@pytest.fixture(scope="module")
def vectors():
    """Lengths that differ a hundredfold: hubs and leaves."""
    generator = np.random.default_rng(0)
    lengths = np.exp(generator.normal(size=(1500, 1)))
    return (generator.normal(size=(1500, 8)) * lengths).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "inner"])
def test_it_finds_nearly_all(vectors, metric):
    factors = factors_by(vectors, metric)
    index = NeighbourIndex.build(factors, threads=1)
    rows = np.arange(0, 1500, 7)
    true_nodes, _ = search_exactly(factors, rows, 10)
    nodes, scores = index.search(rows, 10)
    assert (nodes != rows[:, None]).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    found = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(nodes, true_nodes, strict=True)])
    assert found > 0.95
    assert index.recall(10, num_samples=300) > 0.95


def test_recall_notices_a_bad_index(vectors):
    factors = factors_by(vectors, "cosine")
    index = NeighbourIndex.build(
        factors_by(vectors[::-1].copy(), "cosine"), threads=1
    )  # other nodes under the same numbers
    index.factors = factors
    assert index.recall(10, num_samples=100) < 0.3


def test_sources_ask_and_targets_answer():
    generator = np.random.default_rng(1)
    factors = ScoreFactors(generator.normal(size=(400, 4)), generator.normal(size=(400, 4)), bias=2.0, one_way=True)
    rows = np.arange(400)
    nodes, scores = NeighbourIndex.build(factors, threads=1).search(rows, 3)
    np.testing.assert_allclose(
        scores[:, 0], np.einsum("id,id->i", factors.left, factors.right[nodes[:, 0]]) + 2, rtol=1e-5
    )
    true_nodes, _ = search_exactly(factors, rows, 3)
    assert (nodes == true_nodes).mean() > 0.95


def test_more_neighbours_than_the_index_reaches_are_found_exactly(vectors):
    factors = factors_by(vectors[:40], "cosine")
    nodes, _ = NeighbourIndex.build(factors, threads=1).search(np.array([0]), 39)
    assert sorted(nodes[0]) == list(range(1, 40))


def test_nothing_asked_nothing_found(vectors):
    nodes, scores = NeighbourIndex.build(factors_by(vectors[:40], "cosine"), threads=1).search(np.empty(0, np.int64), 3)
    assert nodes.shape == scores.shape == (0, 3)


def test_kept_in_a_file(vectors, tmp_path):
    factors = factors_by(vectors, "cosine")
    index = NeighbourIndex.build(factors, threads=1)
    index.save(tmp_path / "index")
    again = NeighbourIndex.load(tmp_path / "index", factors, threads=1)
    np.testing.assert_array_equal(again.search(np.arange(50), 5)[0], index.search(np.arange(50), 5)[0])


@pytest.mark.parametrize("other", [lambda table: table[:100], lambda table: table[:, :5], lambda table: table[::-1]])
def test_an_index_of_other_vectors_is_refused(vectors, tmp_path, other):
    NeighbourIndex.build(factors_by(vectors, "cosine"), threads=1).save(tmp_path / "index")
    with pytest.raises(InputError, match="another embedding"):
        NeighbourIndex.load(tmp_path / "index", factors_by(other(vectors), "cosine"))
    with pytest.raises(InputError, match="or metric"):
        NeighbourIndex.load(tmp_path / "index", factors_by(vectors, "inner"))


def test_a_damaged_file_is_not_opened(vectors, tmp_path):
    factors, path = factors_by(vectors, "cosine"), tmp_path / "index"
    NeighbourIndex.build(factors, threads=1).save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        NeighbourIndex.load(path, factors)
    (tmp_path / "index.json").write_text("no JSON")
    with pytest.raises(InputError, match=r"index\.json"):
        NeighbourIndex.load(path, factors)
    (tmp_path / "index.json").unlink()
    with pytest.raises(InputError, match="no such file"):
        NeighbourIndex.load(path, factors)


def test_without_usearch_the_remedy_is_named(monkeypatch, vectors):
    monkeypatch.setitem(sys.modules, "usearch", None)
    with pytest.raises(ResourceError, match=r"l2g2g\[neighbours\]"):
        NeighbourIndex.build(factors_by(vectors, "cosine"))
