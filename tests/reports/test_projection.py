"""Two dimensions out of many: neighbours that stay, the directions of the largest spread, and what is refused."""

import sys

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from l2g2g.errors import InputError
from l2g2g.reports.projection import check_projection, default_projection, neighbours_kept, project, project_tsne


@pytest.fixture(scope="module")
def clouds():
    """Thirty clouds of forty nodes in ten dimensions, and their numbers."""
    generator = np.random.default_rng(0)
    numbers = np.repeat(np.arange(30), 40)
    vectors = 2 * generator.normal(size=(30, 10))[numbers] + 0.7 * generator.normal(size=(1200, 10))
    return vectors.astype(np.float32), numbers


def share_of_same(places, numbers):
    """Share of the 15 nearest on the map that are of the same cloud."""
    nearest = NearestNeighbors(n_neighbors=16).fit(places).kneighbors(places, return_distance=False)[:, 1:]
    return float((numbers[nearest] == numbers[:, None]).mean())


def test_pca_keeps_the_largest_spread_and_repeats(clouds):
    vectors, _ = clouds
    places = project(vectors)
    assert places.shape == (1200, 2)
    spread = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False)
    assert np.linalg.norm(places, axis=0) == pytest.approx(spread[:2], rel=1e-4)
    assert np.array_equal(places, project(vectors.copy()))


@pytest.mark.slow
def test_tsne_keeps_neighbours_and_repeats(clouds):
    vectors, numbers = clouds
    places = project(vectors, "tsne")
    assert (places.shape, places.dtype) == ((1200, 2), np.float32)
    assert share_of_same(places, numbers) > 0.95
    assert share_of_same(places, numbers) > 1.5 * share_of_same(project(vectors), numbers)
    assert np.array_equal(places, project(vectors.copy(), "tsne"))


@pytest.mark.slow
def test_what_is_kept_is_counted(clouds):
    vectors, _ = clouds
    order = np.arange(1200)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert neighbours_kept(vectors, project(vectors, "tsne")) > 1.5 * neighbours_kept(vectors, project(vectors))
    places = np.random.default_rng(0).normal(size=(1200, 2))
    expected = []
    for row in range(1200):
        true = np.argsort(-(units @ units[row]) + 9 * (order == row))[:15]
        near = np.argsort(((places - places[row]) ** 2).sum(1) + 9e9 * (order == row))[:15]
        expected.append(len(set(true) & set(near)) / 15)
    assert neighbours_kept(vectors, places) == pytest.approx(np.mean(expected), abs=1e-3)


@pytest.mark.slow
def test_most_nodes_are_placed_by_a_sample(clouds):
    vectors, numbers = clouds
    places = project_tsne(vectors, laid_out=300)
    assert places.shape == (1200, 2)
    assert share_of_same(places, numbers) > 0.9


@pytest.mark.slow
def test_one_number_or_equal_vectors_are_a_line_or_a_point():
    assert project(np.array([[1.0], [3.0]], np.float32)).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    for how in ("pca", "tsne"):
        assert not project(np.ones((20, 3), np.float32), how).any()
    assert project(np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), "tsne").shape == (2, 2)
    assert np.isfinite(project(np.eye(12, dtype=np.float32), "tsne")).all()
    some = np.vstack([np.zeros((5, 3)), np.random.default_rng(0).normal(size=(30, 3))]).astype(np.float32)
    assert np.isfinite(project(some, "tsne")).all()  # vectors without a direction among others


def test_what_is_refused(monkeypatch):
    with pytest.raises(InputError, match="unknown projection 'som'; choose from tsne, pca"):
        check_projection("som")
    assert default_projection() == "tsne"
    monkeypatch.setitem(sys.modules, "openTSNE", None)  # as if it were not installed
    assert default_projection() == "pca"
    with pytest.raises(InputError, match="pip install openTSNE"):
        check_projection("tsne")
