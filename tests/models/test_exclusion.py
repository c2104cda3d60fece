import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from l2g2g.models.exclusion import build_filters, find_suspects, is_excluded

NUM_ROWS = 400


@njit
def _suspects(filters, indptr, rows, columns):
    return [find_suspects(filters, indptr, rows, columns, start, len(rows)) for start in range(0, len(rows), 16)]


def _asked(kind):
    """(suspect, excluded), both (num_pairs,) bool, of random pairs and of all excluded ones."""
    generator = np.random.default_rng(0)
    pattern = sp.csr_array(sp.random_array((NUM_ROWS, NUM_ROWS), density=0.06, rng=generator))
    pattern.sort_indices()
    indptr, excluded = pattern.indptr.astype(kind), pattern.indices.astype(np.int32)
    known = np.repeat(np.arange(NUM_ROWS), np.diff(indptr)), excluded
    rows, columns = (np.concatenate([one, generator.integers(0, NUM_ROWS, 20_000)]).astype(np.int32) for one in known)
    rows, columns = (each[: len(each) // 16 * 16] for each in (rows, columns))
    found = np.array(_suspects(build_filters(indptr, excluded), indptr, rows, columns), np.int64)
    return (found[:, None] >> np.arange(16) & 1).reshape(-1) == 1, pattern.toarray()[rows, columns] != 0


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_every_excluded_column_is_a_suspect(kind):
    suspect, excluded = _asked(kind)
    assert excluded.sum() > 1000
    assert suspect[excluded].all()


def test_few_allowed_columns_are_suspects():
    suspect, excluded = _asked(np.int32)
    assert suspect[~excluded].mean() < 0.01


@pytest.mark.parametrize("count", [1, 7, 15])
def test_of_fewer_than_sixteen_all_are_suspects_and_nobody_else(count):
    indptr, excluded = np.array([0, 1], np.int32), np.zeros(1, np.int32)
    rows, columns = np.zeros(16 + count, np.int32), np.full(16 + count, 5, np.int32)
    first, last = _suspects(build_filters(indptr, excluded), indptr, rows, columns)
    assert (first, last) == (0, 2**count - 1)


def test_a_search_finds_what_is_there_and_nothing_else():
    excluded = np.array([1, 4, 9], np.int32)
    assert [bool(is_excluded(column, excluded)) for column in range(10)] == [i in (1, 4, 9) for i in range(10)]
