"""Two dimensions out of many: the directions of the largest spread, and what is refused."""

import os
import sys

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.reports.projection import check_projection, project


@pytest.fixture(scope="module")
def clouds():
    """Three clouds in ten dimensions, far apart, and their numbers."""
    generator = np.random.default_rng(0)
    numbers = np.repeat([0, 1, 2], 30)
    return (20 * generator.normal(size=(3, 10))[numbers] + generator.normal(size=(90, 10))).astype(np.float32), numbers


def test_pca_keeps_the_largest_spread_and_repeats(clouds):
    vectors, _ = clouds
    places = project(vectors)
    assert places.shape == (90, 2)
    spread = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False)
    assert np.linalg.norm(places, axis=0) == pytest.approx(spread[:2], rel=1e-4)
    assert np.array_equal(places, project(vectors.copy()))


def test_one_number_or_equal_vectors_are_a_line_or_a_point():
    assert project(np.array([[1.0], [3.0]], np.float32)).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert not project(np.ones((5, 3), np.float32)).any()


@pytest.mark.parametrize("how", ["pca", "tsne", "umap"])
def test_clouds_stay_apart(clouds, how):
    if how == "umap" and not os.environ.get("L2G2G_LARGE"):
        pytest.skip("umap-learn is compiled for half a minute; L2G2G_LARGE=1 runs it")
    vectors, numbers = clouds
    places = project(vectors, how)
    centres = np.array([places[numbers == number].mean(axis=0) for number in range(3)])
    nearest = np.linalg.norm(places[:, None] - centres[None], axis=2).argmin(axis=1)
    assert (nearest == numbers).mean() > 0.95


def test_what_is_refused(monkeypatch):
    with pytest.raises(InputError, match="unknown projection 'som'; choose from pca, umap, tsne"):
        check_projection("som", 10)
    with pytest.raises(InputError, match="is too slow"):
        check_projection("tsne", 30_000)
    monkeypatch.setitem(sys.modules, "umap", None)  # as if it were not installed
    with pytest.raises(InputError, match=r"pip install 'l2g2g\[maps\]'"):
        check_projection("umap", 10)
