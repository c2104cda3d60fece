"""Sparse products and pair losses against dense autograd, and literals by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import softplus

from l2g2g.models.sampling import transpose_pattern
from l2g2g.models.sparse import (
    PairPattern,
    SparseMatrix,
    multiply,
    normalise_adjacency,
    pair_loss,
    score_pairs,
    to_torch_csr,
)


def random_csr(rows, columns, density=0.3, seed=0):
    matrix = sp.csr_array(sp.random(rows, columns, density, random_state=np.random.default_rng(seed), format="csr"))
    matrix.sort_indices()
    return matrix


def symmetric_pattern(num_nodes=9, seed=0):
    upper = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < 0.4, 1)
    return sp.csr_array((upper | upper.T).astype(np.float64))


def pattern_of(matrix, weights, with_transpose):
    indptr, indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    transpose = tuple(map(torch.from_numpy, transpose_pattern(indptr, indices))) if with_transpose else None
    return PairPattern(torch.from_numpy(indptr), torch.from_numpy(indices), weights, transpose)


def dense_loss(embedding, matrix, weights, sign, bias):
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    scores = (embedding[rows] * embedding[matrix.indices.astype(np.int64)]).sum(1) + bias
    return (weights * softplus(-sign * scores)).sum()


def test_normalised_path_by_hand(path_of_four):
    # Degrees with the self-loop: 2, 3, 3, 2.
    a, b, c = 1 / 2, 1 / np.sqrt(6), 1 / 3
    expected = [[a, b, 0, 0], [b, c, c, 0], [0, c, c, b], [0, 0, b, a]]
    normalised = normalise_adjacency(path_of_four)
    assert normalised.toarray() == pytest.approx(np.array(expected), abs=1e-7)
    assert normalised.dtype == np.float32
    assert normalised.indices.dtype == normalised.indptr.dtype == np.int32


def test_normalised_weights_and_isolated_nodes():
    adjacency = sp.csr_array(np.array([[0, 3, 0], [3, 0, 0], [0, 0, 0]], np.float32))
    assert normalise_adjacency(adjacency).toarray() == pytest.approx(
        np.array([[0.25, 0.75, 0], [0.75, 0.25, 0], [0, 0, 1]])
    )


def test_multiply_and_its_gradient():
    matrix = random_csr(7, 5)
    sparse = SparseMatrix.from_scipy(matrix)
    assert sparse.shape == (7, 5)
    dense = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(multiply(sparse, dense), torch.from_numpy(matrix.toarray()) @ dense, atol=1e-14)
    assert torch.autograd.gradcheck(lambda x: multiply(sparse, x), (dense,))


def test_multiply_symmetric_reuses_its_matrix():
    sparse = SparseMatrix.from_scipy(symmetric_pattern(), symmetric=True)
    assert sparse.transposed is sparse.matrix
    dense = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: multiply(sparse, x), (dense,))


def test_multiply_takes_gradients_that_are_not_contiguous():
    sparse = SparseMatrix.from_scipy(random_csr(4, 4))
    dense = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    (multiply(sparse, dense).t() @ torch.arange(4.0, dtype=torch.float64)).sum().backward()
    expected = torch.from_numpy(sparse.matrix.to_dense().numpy().T) @ torch.arange(4.0, dtype=torch.float64)
    assert torch.allclose(dense.grad, expected[:, None].expand(4, 3))


def test_csr_shares_memory_with_scipy():
    matrix = random_csr(4, 4)
    tensor = to_torch_csr(matrix)
    matrix.data[0] = 42
    assert float(tensor.values()[0]) == 42


def test_scores_by_hand():
    pattern = pattern_of(sp.csr_array(np.array([[0, 1], [1, 1]])), torch.tensor(1.0), False)
    left = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert score_pairs(left, left, pattern).tolist() == [11.0, 11.0, 25.0]


@pytest.mark.parametrize("scalar", [True, False], ids=["one weight", "a weight per pair"])
@pytest.mark.parametrize("is_edge", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_pair_loss_against_dense_autograd(symmetric, is_edge, scalar):
    matrix = symmetric_pattern() if symmetric else random_csr(9, 9)
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor(0.3, dtype=torch.float64)
    if not scalar:
        weights = torch.rand(matrix.nnz, dtype=torch.float64, generator=generator)
        if symmetric:  # a pair weighs the same in both directions, as within one patch
            half = sp.csr_array((weights.numpy(), matrix.indices, matrix.indptr), shape=matrix.shape)
            weights = torch.from_numpy(sp.csr_array(half + half.T).data)
    pattern = pattern_of(matrix, weights, with_transpose=not symmetric)
    embedding = torch.randn(9, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    bias = torch.tensor(-0.7, dtype=torch.float64, requires_grad=True)
    sign = 1.0 if is_edge else -1.0
    loss = pair_loss(embedding, pattern, is_edge=is_edge, bias=bias)
    expected = dense_loss(embedding, matrix, weights, sign, bias)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-12)
    own = torch.autograd.grad(3 * loss, (embedding, bias))
    reference = torch.autograd.grad(3 * expected, (embedding, bias))
    for mine, other in zip(own, reference, strict=True):
        assert torch.allclose(mine, other, atol=1e-12)
        assert mine.abs().max() > 0.01
    assert torch.autograd.gradcheck(lambda z, b: pair_loss(z, pattern, is_edge=is_edge, bias=b), (embedding, bias))


def test_pair_loss_by_hand_and_without_bias():
    pattern = pattern_of(sp.csr_array(np.array([[0, 1], [1, 0]])), torch.tensor(0.5), False)
    embedding = torch.tensor([[1.0, 0.0], [2.0, 5.0]])  # inner product 2
    expected = np.log1p(np.exp(-2.0))
    assert float(pair_loss(embedding, pattern, is_edge=True)) == pytest.approx(expected)
    assert float(pair_loss(embedding, pattern, is_edge=False)) == pytest.approx(expected + 2)


def test_pair_loss_does_not_overflow():
    pattern = pattern_of(sp.csr_array(np.array([[0, 1], [1, 0]])), torch.tensor(0.5), False)
    embedding = torch.tensor([[1e4], [1e4]], requires_grad=True)
    loss = pair_loss(embedding, pattern, is_edge=False)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(1e8)
    assert torch.isfinite(embedding.grad).all()


def test_an_empty_pattern_costs_nothing():
    pattern = pattern_of(sp.csr_array((3, 3)), torch.tensor(1.0), False)
    embedding = torch.randn(3, 2, requires_grad=True)
    loss = pair_loss(embedding, pattern, is_edge=True)
    loss.backward()
    assert float(loss.detach()) == 0
    assert (embedding.grad == 0).all()
