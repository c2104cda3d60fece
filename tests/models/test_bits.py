"""Features as bits: chosen where they are dense zeros and one value a row, and the same products as by entries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g import core
from l2g2g.models import bits
from l2g2g.models.sparse import Dropout, SparseMatrix

pytestmark = pytest.mark.skipif(not core.is_built(), reason="the native core is not built")


def features(density=0.4, num_rows=50, num_columns=200):
    generator = np.random.default_rng(3)
    dense = (generator.random((num_rows, num_columns)) < density).astype(np.float32)
    dense[7] = 0
    return dense


def matrix_of(dense):
    return SparseMatrix.from_scipy(sp.csr_array(dense))


def products(matrix, num_rows, num_columns):
    generator = torch.Generator().manual_seed(1)
    table, other, added = (torch.randn(size, 16, generator=generator) for size in (num_columns, num_rows, num_rows))
    return matrix.product(table, added), matrix.product(table, added[0]), matrix.transposed_product(other)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
def test_products_by_bits_equal_products_by_entries(monkeypatch, normalised, dropped):
    dense = features()
    if normalised:
        dense /= np.maximum(1, np.linalg.norm(dense, axis=1, keepdims=True))
    hashes = core.hash_nodes(np.arange(50, dtype=np.int32), 99)
    dropout = Dropout(hashes, 99, 2**31, 2.0)

    def found():
        matrix = matrix_of(dense).with_dropout(dropout) if dropped else matrix_of(dense)
        return matrix.bits is not None, products(matrix, 50, 200)

    by_bits, own = found()
    monkeypatch.setattr(bits, "_LEAST_DENSITY", 2.0)
    by_entries, expected = found()
    assert by_bits
    assert not by_entries
    for one, other in zip(own, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dense", "reason"),
    [
        (features(0.1), "few entries"),
        (features() * np.arange(1, 201), "several values in a row"),
        (np.ones((50, 2), np.float32), "mostly padding"),
        (np.zeros((5, 0), np.float32), "no columns"),
    ],
)
def test_other_features_are_not_packed(dense, reason):
    assert matrix_of(dense).bits is None, reason


def test_an_entry_that_stands_twice_is_not_packed():
    twice = sp.csr_array((np.ones(4, np.float32), np.array([0, 0, 1, 2]), np.array([0, 4])), shape=(1, 3))
    packed = bits.BitRows.pack(np.array([0]), np.array([4]), twice.indices.astype(np.int32), None, 3)
    assert packed is None


def test_rows_are_packed_in_parts(monkeypatch):
    whole = matrix_of(features()).bits
    monkeypatch.setattr(bits, "_ROWS", 8)
    parts = matrix_of(features()).bits
    np.testing.assert_array_equal(parts.bits, whole.bits)


def test_graphs_are_not_packed():
    complete = sp.csr_array(np.ones((40, 40), np.float32) - np.eye(40, dtype=np.float32))
    assert SparseMatrix.propagation(complete).bits is None
    assert SparseMatrix.from_scipy(complete, symmetric=True).bits is None
