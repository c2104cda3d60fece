"""Pairs: lists, arcs and their weights hold the same pairs."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.pairs import Arcs, PairList, row_entries
from l2g2g.training.pair_source import weigh_pairs


def dense(pairs, num_rows=7):
    total = np.zeros((num_rows, num_rows))
    np.add.at(total, (pairs.rows, pairs.columns), pairs.pair_weights)
    return total


def random_list(seed, kind="pair"):
    generator = np.random.default_rng(seed)
    rows, columns = generator.integers(0, 7, (2, 12)).astype(np.int32)
    weights = generator.random({"all": 1, "row": 7, "pair": 12}[kind]).astype(np.float32)
    return PairList(rows, columns, weights, kind)


def test_weights_of_every_kind_by_hand():
    rows, columns = np.array([2, 0, 2], np.int32), np.array([1, 1, 0], np.int32)
    for kind, weights, expected in (
        ("all", [0.5], [0.5, 0.5, 0.5]),
        ("row", [1, 2, 3], [3, 1, 3]),
        ("pair", [7, 8, 9], [7, 8, 9]),
    ):
        pairs = PairList(rows, columns, np.array(weights, np.float32), kind)
        assert pairs.pair_weights.tolist() == expected
        assert pairs.pair_list is pairs
        assert pairs.num_pairs == 3


@pytest.mark.parametrize("kind", ["all", "row", "pair"])
def test_chosen_pairs_keep_their_weights(kind):
    pairs, chosen = random_list(0, kind), np.arange(12) % 3 == 0
    some = pairs.select(chosen)
    assert some.num_pairs == 4
    assert (some.rows == pairs.rows[chosen]).all()
    assert (some.columns == pairs.columns[chosen]).all()
    assert (some.pair_weights == pairs.pair_weights[chosen]).all()


@pytest.mark.parametrize("kind", ["all", "row", "pair"])
def test_joined_lists_hold_all_pairs_with_their_weights(kind):
    first, second = random_list(1, kind), random_list(2)
    joined = first.join(second)
    assert joined.num_pairs == 24
    assert dense(joined) == pytest.approx(dense(first) + dense(second))


def symmetric_matrix():
    matrix = sp.random_array((7, 7), density=0.3, rng=0, format="csr", dtype=np.float32)
    matrix = sp.csr_array(matrix + matrix.T)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


@pytest.mark.parametrize("kind", ["all", "row", "pair"])
def test_of_arcs_every_pair_is_listed_once_with_twice_the_weight(kind):
    matrix = symmetric_matrix()
    indptr = matrix.indptr.astype(np.int64)
    weights = {"all": np.full(1, 0.2), "row": np.full(7, 0.2), "pair": matrix.data}[kind].astype(np.float32)
    listed = Arcs(indptr[:-1], indptr[1:], matrix.indices, weights, kind).pair_list
    pattern = matrix.toarray() if kind == "pair" else 0.2 * (matrix.toarray() != 0)
    assert dense(listed) == pytest.approx(2 * np.triu(pattern))
    assert (listed.rows < listed.columns).all()
    assert listed.rows.dtype == listed.columns.dtype == np.int32


def test_entries_between_the_rows_are_not_listed():
    """Rows 0: entries 1 and 2 of three; row 1: none of two; row 2: all."""
    starts, ends = np.array([1, 3, 5]), np.array([3, 3, 7])
    rows, entries = row_entries(starts, ends)
    assert rows.tolist() == [0, 0, 2, 2]
    assert entries.tolist() == [1, 2, 5, 6]
    indices = np.array([9, 1, 2, 9, 9, 0, 1], np.int32)
    listed = Arcs(starts, ends, indices, np.arange(7, dtype=np.float32), "pair").pair_list
    assert listed.rows.tolist() == [0, 0]
    assert listed.columns.tolist() == [1, 2]
    assert listed.pair_weights.tolist() == [2, 4]


def test_weights_add_up_to_the_share_of_every_patch():
    values, patch = np.array([1.0, 3.0, 5.0, 5.0, 10.0]), np.array([0, 0, 2, 2, 2])
    weights = weigh_pairs(values, patch, np.array([0.4, 0.1, 0.5]))
    assert weights.tolist() == pytest.approx([0.1, 0.3, 0.125, 0.125, 0.25])
