"""Structure: columns for graphs without features."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.sparse import normalise_adjacency
from l2g2g.models.structure import blend_structure, structural_features


def test_structural_features_are_finite_and_of_the_size_of_features(planted):
    columns = structural_features(planted.adjacency, 16)
    assert columns.shape == (planted.num_nodes, 17)
    assert columns.dtype == np.float32
    assert np.isfinite(columns).all()
    assert columns[:, -1].mean() == pytest.approx(0, abs=1e-5)
    assert columns[:, -1].std() == pytest.approx(1, abs=1e-5)


def test_leading_columns_are_eigenvectors(planted):
    # Four blocks: four large eigenvalues, well apart from the rest.
    columns = structural_features(planted.adjacency, 12, iterations=20)[:, :4].astype(np.float64)
    values, vectors = np.linalg.eigh(normalise_adjacency(planted.adjacency).toarray().astype(np.float64))
    leading = vectors[:, np.argsort(-np.abs(values))[:4]]
    directions = np.linalg.qr(columns)[0]
    cosines = np.linalg.svd(directions.T @ leading, compute_uv=False)
    assert cosines.min() > 0.999


def test_structure_tells_blocks_apart(planted):
    columns = structural_features(planted.adjacency, 4)[:, :4]
    centres = np.stack([columns[planted.labels == block].mean(0) for block in range(4)])
    nearest = np.linalg.norm(columns[:, None] - centres, axis=2).argmin(1)
    assert (nearest == planted.labels).mean() > 0.95


def test_structure_follows_its_seed_and_copes_with_isolated_nodes_and_few_nodes(islands, path_of_four):
    first, again = (structural_features(islands.adjacency, 8, seed=1) for _ in range(2))
    assert (first == again).all()
    assert np.isfinite(first).all()
    assert structural_features(path_of_four, 64).shape == (4, 5)
    regular = sp.csr_array(np.ones((5, 5), np.float32) - np.eye(5, dtype=np.float32))
    assert np.isfinite(structural_features(regular, 3)).all()  # all degrees equal: no deviation to divide by


@pytest.mark.parametrize("sparse", [False, True])
def test_blended_columns_spread_rows_as_much_as_the_features_do(planted, sparse):
    generator = np.random.default_rng(0)
    features = (generator.random((planted.num_nodes, 40)) * (generator.random((planted.num_nodes, 40)) < 0.2)).astype(
        "f4"
    )
    structure = structural_features(planted.adjacency, 8)
    blended = blend_structure(sp.csr_array(features) if sparse else features, structure)
    assert sp.issparse(blended) == sparse
    found = blended.toarray() if sparse else blended
    assert found.shape == (planted.num_nodes, 49)
    assert found.dtype == np.float32
    assert (found[:, :40] == features).all()
    spread = [np.square(part - part.mean(0)).sum() for part in (found[:, :40], found[:, 40:])]
    assert spread[0] == pytest.approx(spread[1], rel=1e-3)
    ratio = found[:, 40:] / structure
    assert ratio.std() < 1e-4 * ratio.mean()
