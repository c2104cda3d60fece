"""Patch cache: what is read is what was written, in its precision."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models.features import FeatureTable
from l2g2g.patches.store import unit_weights
from l2g2g.training.pair_source import PatchEdges
from l2g2g.training.patch_cache import PatchCache

NODES = np.array([4, 7, 9])


def adjacency(data):
    return sp.csr_array((data, np.array([1, 0, 2, 1], np.int32), np.array([0, 1, 3, 4], np.int32)), shape=(3, 3))


@pytest.mark.parametrize("storage", ["float32", "float16", "bfloat16"])
def test_dense_features_keep_their_bits_and_batches_are_told_apart(tmp_path, storage):
    cache = PatchCache(tmp_path)
    tables = [
        FeatureTable.build(np.random.default_rng(seed).normal(size=(3, 5)).astype(np.float32), NODES, "cpu", storage)
        for seed in range(3)
    ]
    for batch, table in enumerate(tables):
        cache.write_features(batch, table)
    for batch in (2, 0, 1):
        found = cache.read_features(batch)
        assert found.matrix.dtype == tables[batch].matrix.dtype
        assert torch.equal(found.matrix, tables[batch].matrix)
        assert (found.nodes == NODES).all()


@pytest.mark.parametrize("values", [np.ones(4, np.float32), np.arange(1, 5, dtype=np.float32)])
def test_sparse_features_and_edges_return_with_and_without_weights(tmp_path, values):
    cache = PatchCache(tmp_path)
    features = FeatureTable.build(adjacency(values), NODES, "cpu")
    weights = unit_weights(4) if (values == 1).all() else values
    cache.write_features(0, features)
    assert not cache.has_edges(0)
    cache.write_edges(0, PatchEdges(adjacency(weights), adjacency(2 * values)))
    cache.write_edges(1, PatchEdges(adjacency(3 * values)))
    assert cache.has_edges(0)
    cache.prefetch(0)
    matrix = cache.read_features(0).matrix
    for name in ("starts", "ends", "indices"):
        assert (getattr(matrix, name) == getattr(features.matrix, name)).all()
    assert (matrix.values is None) == (features.matrix.values is None) == bool((values == 1).all())
    assert matrix.values is None or (matrix.values == values).all()
    edges = cache.read_edges(0)
    assert (edges.adjacency.toarray() == adjacency(values).toarray()).all()
    assert (edges.arcs.toarray() == adjacency(2 * values).toarray()).all()
    assert cache.read_edges(1).arcs is None


def test_the_file_has_no_name_and_a_patch_may_have_no_edge(tmp_path):
    cache = PatchCache(tmp_path)
    cache.write_edges(0, PatchEdges(sp.csr_array((3, 3), dtype=np.float32)))
    assert cache.read_edges(0).adjacency.nnz == 0
    assert list(tmp_path.iterdir()) == []
