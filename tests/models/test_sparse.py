"""Sparse products against dense ones, and literals by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models.sparse import SparseMatrix, multiply, normalise_adjacency, to_torch_csr


def random_csr(rows, columns, density=0.3, seed=0):
    matrix = sp.csr_array(sp.random(rows, columns, density, random_state=np.random.default_rng(seed), format="csr"))
    matrix.sort_indices()
    return matrix


def symmetric_pattern(num_nodes=9, seed=0):
    upper = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < 0.4, 1)
    return sp.csr_array((upper | upper.T).astype(np.float64))


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
