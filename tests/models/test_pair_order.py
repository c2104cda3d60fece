"""Pair order: the same pairs, bins of columns one after the other, and only where that pays."""

import numpy as np
import pytest
from numba import njit

from l2g2g.models.pair_kernel import Sums
from l2g2g.models.pair_order import STRETCH, blank_starts, order_by_column


@njit
def ordered(rows, columns):
    new_rows, new_columns = np.zeros_like(rows), np.zeros_like(columns)
    paid = order_by_column(new_rows, new_columns, rows, columns, blank_starts())
    return paid, new_rows, new_columns


def random_pairs(spread, count=5000, lowest=1000):
    generator = np.random.default_rng(0)
    columns = generator.integers(lowest, lowest + spread, count).astype(np.int32)
    columns[:2] = lowest, lowest + spread - 1
    return np.sort(generator.integers(0, 300, count)).astype(np.int32), columns


@pytest.mark.parametrize("spread", [20_000, 65_536, 65_537, 200_000])
def test_the_same_pairs_bin_by_bin(spread):
    rows, columns = random_pairs(spread)
    paid, new_rows, new_columns = ordered(rows, columns)
    assert paid
    pairs, new_pairs = (sorted(zip(*both, strict=True)) for both in ((rows, columns), (new_rows, new_columns)))
    assert pairs == new_pairs
    # 256 bins at most and no fewer than 128: whatever comes later is at most a bin's width before what was there.
    assert (np.maximum.accumulate(new_columns) - new_columns).max() <= spread / 128
    assert (np.maximum.accumulate(columns) - columns).max() > spread / 2


@pytest.mark.parametrize("spread", [100, 16_384, 8 * STRETCH + 1], ids=["tiny", "in the cache", "too far apart"])
def test_nothing_is_done_where_it_does_not_pay(spread):
    paid, new_rows, new_columns = ordered(*random_pairs(spread))
    assert not paid
    assert not new_rows.any()
    assert not new_columns.any()


@pytest.mark.parametrize("num_parts", [1, 2])
@pytest.mark.parametrize("by_row", [False, True])
def test_a_long_list_gives_the_sums_of_its_pairs(num_parts, by_row):
    # Two stretches and a bit, far ends everywhere: against float64 and one pair after the other.
    num_rows, num_pairs = 20_000, 2 * STRETCH + 77
    generator = np.random.default_rng(1)
    table = generator.normal(size=(num_rows, 4)).astype(np.float32)
    rows = np.sort(generator.integers(0, num_rows, num_pairs)).astype(np.int32)
    columns = generator.integers(0, num_rows, num_pairs).astype(np.int32)
    weights = generator.random((num_rows, 1), np.float32) if by_row else np.array([0.5], np.float32)
    bounds = np.arange(num_parts + 1) * num_pairs // num_parts
    sums = Sums.empty(table, None, num_parts)
    sums = sums.add_pairs(table, table, rows, columns, weights, bounds, bias=0.1, sign=-1.0)
    exact, each = table.astype(np.float64), weights[rows, 0] if by_row else np.full(num_pairs, 0.5)
    scores = (exact[rows] * exact[columns]).sum(1) + 0.1
    slopes = each / (1 + np.exp(-scores))
    wanted = np.zeros_like(exact)
    np.add.at(wanted, rows, slopes[:, None] * exact[columns])
    np.add.at(wanted, columns, slopes[:, None] * exact[rows])
    assert sums.loss.sum() == pytest.approx((each * np.logaddexp(0, scores)).sum(), rel=1e-5)
    assert sums.bias.sum() == pytest.approx(slopes.sum(), rel=1e-5)
    assert np.allclose(sums.gradients()[0], wanted, atol=1e-4, rtol=1e-4)
