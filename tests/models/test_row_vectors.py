"""Row vectors: every operation against numpy, for widths that are whole vectors and for others."""

import numpy as np
import pytest
from numba import njit

from l2g2g.models.row_vectors import (
    add_outer,
    as_rows,
    blank_table,
    dot,
    dot_sixteen,
    keep_positive,
    project,
    zero_table,
)

WIDTHS = [1, 3, 8, 16, 21, 32, 48]


def table(num_rows, width, seed=0):
    filled = blank_table(num_rows, width)
    filled[:] = np.random.default_rng(seed).normal(size=filled.shape)
    return filled


@njit
def _dots(target, left, rows, right, columns):
    dot_sixteen(target, 2, left, rows, right, columns, 5)
    for pair in range(21):
        target[20 + pair] = dot(left, rows[pair], right, columns[pair])


@njit
def _project_four(target, factors, weights):
    project(target, 1, factors, 2, weights, 4)


@njit
def _add_outer_three(sums, left, right):
    add_outer(sums, left, right, 1, 3)


@njit
def _gate(target, source):
    for row in range(len(target)):
        keep_positive(target, row, source, row)


@pytest.mark.parametrize("shape", [(3, 16), (1, 1), (2, 5, 16)])
def test_tables_begin_with_a_line_of_the_cache(shape):
    assert zero_table(*shape).ctypes.data % 64 == 0
    assert zero_table(*shape).shape == shape
    assert not zero_table(*shape).any()


@pytest.mark.parametrize("width", WIDTHS)
def test_scores_one_by_one_and_sixteen_at_once(width):
    left, right = table(30, width), table(40, width, seed=1)
    generator = np.random.default_rng(2)
    rows, columns = (generator.integers(0, size, 21).astype(np.int32) for size in (30, 40))
    target = np.zeros(41, np.float32)
    _dots(target, as_rows(left), rows, as_rows(right), columns)
    expected = (left[rows] * right[columns]).sum(1)
    assert np.allclose(target[2:18], expected[5:], atol=1e-5)
    assert np.allclose(target[20:], expected, atol=1e-5)
    assert not target[[0, 1, 18, 19]].any()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("inner", [1, 7, 32])
def test_products_with_small_tables(width, inner):
    factors, weights, target = table(8, inner), table(inner, width, seed=1), zero_table(8, width)
    _project_four(as_rows(target), as_rows(factors), as_rows(weights))
    assert np.allclose(target[1:5], factors[2:6] @ weights, atol=1e-4)
    assert not target[[0, 5, 6, 7]].any()
    sums, right = zero_table(inner, width), table(8, width, seed=3)
    _add_outer_three(as_rows(sums), as_rows(factors), as_rows(right))
    assert np.allclose(sums, factors[1:4].T @ right[1:4], atol=1e-4)


@pytest.mark.parametrize("width", WIDTHS)
def test_only_positive_places_are_kept(width):
    target, source = table(9, width), table(9, width, seed=1)
    source[0] = 0.0
    expected = np.where(source > 0, target, 0)
    _gate(as_rows(target), as_rows(source))
    assert (target == expected).all()
