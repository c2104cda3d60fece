"""Clusters: planted ones are found, their number by either criterion, and their names say what is in them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.evaluation import clusters as clusters_module
from l2g2g.evaluation.clusters import find_clusters, modularity_of, name_clusters, silhouette_of

SIZES = (50, 40, 30, 20)
TRUTH = np.repeat(np.arange(4), SIZES)


@pytest.fixture(scope="module")
def vectors():
    """Four directions with some noise, and any length."""
    generator = np.random.default_rng(0)
    found = np.eye(6)[TRUTH] + 0.1 * generator.normal(size=(len(TRUTH), 6))
    return (found * generator.uniform(0.1, 10, (len(TRUTH), 1))).astype(np.float32)


@pytest.fixture(scope="module")
def edges():
    """Edges inside the four groups, each once."""
    same = TRUTH[:, None] == TRUTH[None, :]
    chance = np.random.default_rng(1).random(same.shape)
    return sp.csr_array(sp.triu(sp.csr_array(chance < np.where(same, 0.3, 0.01)), 1))


@pytest.mark.parametrize("known", [False, True])
def test_the_number_of_clusters_is_found(vectors, edges, known):
    found = find_clusters(vectors, edges=edges if known else None)
    assert found.criterion == ("modularity" if known else "silhouette")
    assert found.num_clusters == 4
    assert max(found.by_count, key=found.by_count.get) == 4
    assert found.sizes.tolist() == list(SIZES)
    assert np.array_equal(found.numbers, TRUTH)  # the largest first
    assert found.silhouette > 0.8
    assert (found.modularity is None) == (not known)
    assert found.similarity.min() > 0.8
    frame = found.to_pandas()
    assert list(frame.columns) == ["cluster", "similarity"]
    named = find_clusters(pd.DataFrame(vectors, index=[f"n{row}" for row in range(140)]), num_clusters=4)
    assert named.to_pandas().loc["n60", "cluster"] == frame.loc[60, "cluster"] == 1


def test_by_density_some_are_in_none(vectors):
    lonely = np.vstack([vectors, -np.eye(6)[:2]]).astype(np.float32)
    found = find_clusters(lonely, method="hdbscan", min_size=10)
    assert (found.criterion, found.num_clusters) == ("density", 4)
    assert found.numbers[-2:].tolist() == [-1, -1]
    assert np.isnan(found.similarity[-2:]).all()
    assert np.array_equal(found.numbers[:140][found.numbers[:140] >= 0], TRUTH[found.numbers[:140] >= 0])


def test_modularity_by_hand():
    # Two triangles joined by one edge: (3/7 + 3/7) − 2 · (7/14)².
    rows, columns = [0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]
    once = sp.csr_array((np.ones(7), (rows, columns)), shape=(6, 6))
    numbers = np.array([0, 0, 0, 1, 1, 1])
    assert modularity_of(numbers, once) == pytest.approx(6 / 7 - 0.5)
    assert modularity_of(numbers, sp.csr_array(once + once.T)) == pytest.approx(6 / 7 - 0.5)
    assert modularity_of(np.zeros(6, int), once) == pytest.approx(0)
    alone = np.full(6, -1)  # every node a cluster by itself
    assert modularity_of(alone, once) == pytest.approx(-sum(d * d for d in (2, 2, 3, 3, 2, 2)) / 14**2)
    assert modularity_of(numbers, sp.csr_array((6, 6))) == 0


def test_names_are_labels_or_typical_nodes(vectors):
    found = find_clusters(vectors, [f"n{row}" for row in range(140)], num_clusters=4)
    labels = np.array(["x"] * 50 + ["7"] * 40 + [""] * 30 + ["a", "b"] * 10, dtype=object)
    degrees = np.zeros(140, int)
    near = np.argsort(-np.where(TRUTH == 2, found.similarity, -1))[:5]  # a tenth is fewer than five
    degrees[near[3]], degrees[near[1]] = 9, 8
    names = name_clusters(found, labels, degrees)
    assert names[:2] == ["x (100 %)", "label 7 (100 %)"]
    assert names[2] == f"around n{near[3]}, n{near[1]}"
    assert names[3] in ("a (50 %)", "b (50 %)")
    again = name_clusters(found, np.full(140, "x", dtype=object))
    assert again == ["x (100 %)", "x (100 %), 2", "x (100 %), 3", "x (100 %), 4"]


def test_a_sample_gives_the_centres_of_many(vectors, monkeypatch):
    monkeypatch.setattr(clusters_module, "_FITTED_NODES", 60)
    found = find_clusters(vectors, num_clusters=4)
    assert np.array_equal(found.numbers, TRUTH)


def test_what_is_refused_and_what_is_not(vectors, monkeypatch):
    for options, message in (
        ({"method": "dbscan"}, "unknown method 'dbscan'; did you mean 'hdbscan'"),
        ({"num_clusters": 1}, "-k is 1; it must be from 2 to 139"),
        ({"num_clusters": 3, "method": "hdbscan"}, "leave -k out"),
        ({"min_size": 3}, "add --method hdbscan"),
        ({"min_size": 1, "method": "hdbscan"}, "--min-size is 1"),
    ):
        with pytest.raises(InputError, match=message):
            find_clusters(vectors, **options)
    with pytest.raises(InputError, match="2 nodes cannot be clustered"):
        find_clusters(vectors[:2])
    monkeypatch.setattr(clusters_module, "_MOST_FOR_HDBSCAN", 100)
    with pytest.raises(ResourceError, match="use kmeans"):
        find_clusters(vectors, method="hdbscan")
    alike = find_clusters(np.ones((5, 2), np.float32))
    assert alike.num_clusters >= 1
    assert silhouette_of(vectors, np.zeros(140, int)) is None
