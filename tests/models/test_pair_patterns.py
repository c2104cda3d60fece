"""Pair patterns: transposes and unions that hold every pair with its weight, and weights as the edges have them."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models.pair_patterns import PairPattern, join_patterns, rows_of, values_at, weigh_pairs


def random_matrix(seed, size=7, density=0.3):
    matrix = sp.csr_array(sp.random(size, size, density, random_state=np.random.default_rng(seed), format="csr"))
    matrix.sort_indices()
    return matrix


def pattern_of(matrix, weights=None):
    indptr, indices = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    return PairPattern(indptr, indices, torch.from_numpy(matrix.data) if weights is None else weights)


def dense(pattern):
    total = torch.zeros(len(pattern.indptr) - 1, len(pattern.indptr) - 1, dtype=torch.float64)
    values = pattern.weights.double().expand(pattern.num_pairs)
    return total.index_put_((rows_of(pattern.indptr), pattern.indices.long()), values, accumulate=True)


def dense_transpose(pattern):
    indptr, indices, order = pattern.transpose
    total = torch.zeros(len(indptr) - 1, len(indptr) - 1, dtype=torch.float64)
    values = pattern.weights.double().expand(pattern.num_pairs)[order.long()]
    return total.index_put_((rows_of(indptr), indices.long()), values, accumulate=True)


def test_a_directed_pattern_knows_its_transpose():
    pattern = pattern_of(random_matrix(0))
    assert torch.equal(dense_transpose(pattern), dense(pattern).t())


def test_transpose_by_hand():
    # Entries (0, 2), (0, 1), (1, 2), (1, 2), (2, 0): unsorted columns and a repeated pair, as draws have them.
    indptr, columns = torch.tensor([0, 2, 4, 5], dtype=torch.int32), torch.tensor([2, 1, 2, 2, 0], dtype=torch.int32)
    new_indptr, rows, order = PairPattern(indptr, columns, torch.tensor(1.0)).transpose
    assert new_indptr.tolist() == [0, 1, 2, 5]
    assert rows.tolist() == [2, 0, 0, 1, 1]
    assert order.tolist() == [4, 1, 0, 2, 3]


def test_of_a_pair_that_stands_twice_one_is_scored():
    matrix = random_matrix(4, size=9)
    matrix = sp.csr_array(matrix + matrix.T)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    indptr, indices = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    rows, columns, weights = PairPattern(indptr, indices, torch.tensor(1.0), twice=True).listed
    scored = list(zip(rows.tolist(), columns.tolist(), strict=True))
    assert scored == list(zip(*map(list, np.triu(matrix.toarray(), 1).nonzero()), strict=True))
    assert weights == 2
    rows, columns, weights = PairPattern(indptr, indices, torch.tensor(1.0)).listed
    assert (len(rows), weights) == (matrix.nnz, 1)
    assert torch.equal(columns, indices)


def test_joined_patterns_hold_all_pairs_with_their_weights():
    first, second = random_matrix(1), random_matrix(2)
    joined = join_patterns(pattern_of(first), pattern_of(second, torch.tensor(0.5, dtype=torch.float64)))
    expected = first.toarray() + 0.5 * (second.toarray() != 0)
    assert dense(joined).numpy() == pytest.approx(expected)
    assert torch.equal(dense_transpose(joined), dense(joined).t())
    assert joined.num_pairs == first.nnz + second.nnz


def test_values_of_a_part_of_the_entries():
    matrix = random_matrix(3, size=20)
    part = matrix.copy()
    part.data[np.random.default_rng(0).random(part.nnz) < 0.5] = 0
    part.eliminate_zeros()
    indptr, indices = (torch.from_numpy(each.astype(np.int32)) for each in (part.indptr, part.indices))
    assert 0 < part.nnz < matrix.nnz
    assert (values_at(matrix, indptr, indices).numpy() == part.data).all()


def test_weights_add_up_to_the_share_of_every_patch():
    values = torch.tensor([1.0, 3.0, 5.0, 5.0, 10.0])
    weights = weigh_pairs(values, np.array([0, 2, 2, 5]), np.array([0.4, 0.1, 0.5]))
    assert weights.tolist() == pytest.approx([0.1, 0.3, 0.125, 0.125, 0.25])
