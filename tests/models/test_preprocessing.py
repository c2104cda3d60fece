"""Compressed features against a full eigendecomposition."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.preprocessing import append_columns, compress_features, principal_map


def some_features(num_rows=200, num_features=30):
    generator = np.random.default_rng(0)
    spread = np.geomspace(10, 0.01, num_features)
    return (generator.normal(size=(num_rows, num_features)) * spread + 3).astype(np.float32)


def map_of(features, width, *, height=64, **options):
    """The map of rows that come in blocks."""
    starts = range(0, features.shape[0], height)
    return principal_map(lambda: (features[low : low + height] for low in starts), width, **options)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_columns_are_the_principal_ones_evened_out_by_the_power(power):
    features = some_features()
    mean, projection = map_of(features, 5, power=power)
    found = compress_features(features, mean, projection)
    centred = features.astype(np.float64) - features.mean(0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    values, vectors = values[::-1][:5], vectors[:, ::-1][:, :5]
    expected = centred @ vectors * values ** (-power / 2)
    expected /= np.sqrt((expected**2).sum(1).mean())
    assert np.allclose(np.abs(found), np.abs(expected), atol=2e-4)
    assert np.abs(found.mean(0)).max() < 1e-5


def test_sparse_and_dense_features_agree():
    features = some_features() * (np.random.default_rng(1).random((200, 30)) < 0.3)
    dense = compress_features(features, *map_of(features, 8))
    sparse = sp.csr_array(features)
    assert np.allclose(dense, compress_features(sparse, *map_of(sparse, 8)), atol=1e-4)


def test_width_is_bounded_by_the_features_and_constant_rows_do_no_harm():
    assert map_of(some_features(20, 4), 256)[1].shape == (4, 4)
    constant = np.full((10, 3), 2.0, np.float32)
    mean, projection = map_of(constant, 3)
    assert np.isfinite(projection).all()
    assert np.abs(compress_features(constant, mean, projection)).max() < 1


def test_blocks_make_no_difference():
    features = some_features()
    for one, other in zip(map_of(features, 6), map_of(features, 6, height=1000), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_column_stands_last(sparse):
    rows = np.array([[1, 0], [0, 2], [0, 0]], np.float32)
    found = append_columns(sp.csr_array(rows) if sparse else rows, np.array([[5], [0], [7]], np.float32))
    assert sp.issparse(found) == sparse
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray() if sparse else found, [[1, 0, 5], [0, 2, 0], [0, 0, 7]])
