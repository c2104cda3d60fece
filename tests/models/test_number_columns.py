"""Number columns: every column counts, whatever its scale; new nodes are read like those of training."""

import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models import number_columns
from l2g2g.models.number_columns import NumberScale


@pytest.fixture
def table():
    """Years, incomes with a heavy tail, a share, and a class."""
    generator = np.random.default_rng(0)
    columns = [generator.integers(18, 90, 500), np.exp(generator.normal(10, 2, 500)), generator.random(500) / 1000]
    return np.stack([*columns, generator.integers(0, 2, 500)], axis=1).astype(np.float32)


def test_columns_have_one_scale_and_classes_stay(table):
    scale = NumberScale.fit([table])
    rows = scale.apply(table)
    assert rows.dtype == np.float32
    assert ((rows**2).sum(axis=1) < 1).all()
    rows = rows / np.sqrt(1 - (rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    spreads = rows[:, :3].std(axis=0)
    assert spreads.max() < 2.5 * spreads.min()
    assert np.abs(np.median(rows[:, :3], axis=0)).max() < 1e-3
    np.testing.assert_allclose(rows[:, 3], table[:, 3], atol=1e-4)
    assert (table.std(axis=0) > 1e5).any()  # the rows as they were are unchanged


def test_rows_of_blocks_and_sparse_rows_are_read_alike(table, monkeypatch):
    whole = NumberScale.fit([table])
    parts = NumberScale.fit([sp.csr_array(part) for part in np.array_split(table, 7)])
    np.testing.assert_array_equal(parts.centres, whole.centres)
    np.testing.assert_array_equal(parts.spreads, whole.spreads)
    np.testing.assert_array_equal(whole.apply(sp.csr_array(table)), whole.apply(table))
    monkeypatch.setattr(number_columns, "_MOST_ROWS", 200)
    few = NumberScale.fit([table])
    np.testing.assert_array_equal(few.centres, np.median(table[::4], axis=0) * (few.spreads > 0))
    in_parts = NumberScale.fit(np.array_split(table, 7))
    np.testing.assert_array_equal(in_parts.centres, few.centres)


def test_blocks_are_not_kept_in_memory(monkeypatch):
    """From disk every block is a copy, and a sample that refers to all of them is the whole table."""
    monkeypatch.setattr(number_columns, "_MOST_ROWS", 50)
    read, at_once = list[weakref.ref[np.ndarray]](), list[int]()

    def blocks():
        for _ in range(20):
            rows = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
            read.append(weakref.ref(rows))
            yield rows
            del rows
            at_once.append(sum(each() is not None for each in read))

    assert NumberScale.fit(blocks()) is not None
    assert max(at_once) <= 1  # the one that the caller still names


def test_what_says_nothing_does_no_harm():
    assert NumberScale.fit([np.eye(4, dtype=np.float32)]) is None
    table = np.array([[5.0, 0.0], [5.0, 0.0], [5.0, 0.0], [5.0, 7.0]], np.float32)
    rows = NumberScale.fit([table]).apply(table)
    assert np.isfinite(rows).all()
    np.testing.assert_array_equal(rows[:, 0], 0)
    assert rows[3, 1] > rows[0, 1]
