"""Sparse products against dense ones, and literals by hand."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g import core
from l2g2g.core.reference import hash_nodes
from l2g2g.models.sparse import (
    Dropout,
    SparseMatrix,
    multiply,
    normalise_adjacency,
    to_torch_csr,
)

KEY = 0x123456789ABCDEF0


def random_csr(rows, columns, density=0.3, seed=0):
    matrix = sp.random_array((rows, columns), density=density, rng=seed, format="csr", dtype=np.float32)
    matrix.sort_indices()
    return sp.csr_array(matrix)


def symmetric_pattern(num_nodes=9, seed=0, weighted=False):
    values = np.random.default_rng(seed).random((num_nodes, num_nodes))
    upper = np.triu((values < 0.4) * (values + 0.1 if weighted else 1), 1)
    return sp.csr_array((upper + upper.T).astype(np.float32))


def draw(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def dropout_of(num_rows, fraction=0.4):
    hashes = hash_nodes(np.arange(num_rows, dtype=np.int32), KEY)
    return Dropout(hashes, KEY, round(fraction * 2**32), 1 / (1 - fraction))


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.slow), 2])
def threads(request):
    before = core.num_threads()
    core.set_num_threads(request.param)
    yield request.param
    core.set_num_threads(before)


def test_normalised_path_by_hand(path_of_four):
    # Degrees with the self-loop: 2, 3, 3, 2.
    a, b, c = 1 / 2, 1 / np.sqrt(6), 1 / 3
    expected = [[a, b, 0, 0], [b, c, c, 0], [0, c, c, b], [0, 0, b, a]]
    normalised = normalise_adjacency(path_of_four)
    assert normalised.toarray() == pytest.approx(np.array(expected), abs=1e-7)
    assert normalised.dtype == np.float32
    assert normalised.indices.dtype == normalised.indptr.dtype == np.int32
    assert SparseMatrix.propagation(path_of_four).to_scipy().toarray() == pytest.approx(np.array(expected), abs=1e-7)


def test_normalised_weights_and_isolated_nodes():
    adjacency = sp.csr_array(np.array([[0, 3, 0], [3, 0, 0], [0, 0, 0]], np.float32))
    expected = np.array([[0.25, 0.75, 0], [0.75, 0.25, 0], [0, 0, 1]])
    assert normalise_adjacency(adjacency).toarray() == pytest.approx(expected)
    assert SparseMatrix.propagation(adjacency).to_scipy().toarray() == pytest.approx(expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_propagation_multiplies_like_the_normalised_adjacency(weighted, threads):
    adjacency = symmetric_pattern(50, weighted=weighted)
    propagation = SparseMatrix.propagation(adjacency)
    assert (propagation.values is None) == (not weighted)
    assert propagation.symmetric
    assert propagation.transpose is propagation
    expected = normalise_adjacency(adjacency).toarray() @ draw(50, 7).numpy()
    assert multiply(propagation, draw(50, 7)).numpy() == pytest.approx(expected, abs=1e-5)
    assert propagation.transposed_product(draw(50, 7)).numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [50, 400])  # few columns and many
def test_means_multiply_like_the_dense_matrix_and_its_transpose(weighted, size, threads):
    adjacency = symmetric_pattern(size, weighted=weighted)
    mean = SparseMatrix.propagation(adjacency).mean
    dense = adjacency.toarray()
    degrees = dense.sum(axis=1, keepdims=True)
    expected = np.divide(dense, degrees, out=np.zeros_like(dense), where=degrees > 0)
    assert not mean.symmetric
    assert np.abs(expected - expected.T).max() > 1e-3
    np.testing.assert_allclose(mean.to_scipy().toarray(), expected, atol=1e-6)
    np.testing.assert_allclose(mean.transpose.to_scipy().toarray(), expected.T, atol=1e-6)
    rows = draw(size, 7)
    assert multiply(mean, rows).numpy() == pytest.approx(expected @ rows.numpy(), abs=1e-5)
    assert mean.transposed_product(rows).numpy() == pytest.approx(expected.T @ rows.numpy(), abs=1e-5)


def test_multiply_and_its_gradient_in_float64():
    matrix = random_csr(7, 5)
    sparse = SparseMatrix.from_scipy(matrix)
    assert sparse.shape == (7, 5)
    dense = draw(5, 3, dtype=torch.float64).requires_grad_()
    added = draw(3, dtype=torch.float64, seed=1).requires_grad_()
    expected = torch.from_numpy(matrix.toarray()).double() @ dense + added
    assert torch.allclose(multiply(sparse, dense, added), expected, atol=1e-14)
    assert torch.autograd.gradcheck(lambda x, y: multiply(sparse, x, y), (dense, added))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SparseMatrix.from_scipy(symmetric_pattern(), symmetric=True),
        lambda: SparseMatrix.propagation(symmetric_pattern(weighted=True)),
        lambda: SparseMatrix.propagation(symmetric_pattern(weighted=True)).mean,
        lambda: SparseMatrix.from_scipy(random_csr(9, 9)).with_dropout(dropout_of(9)),
    ],
    ids=["symmetric", "propagation", "mean", "thinned"],
)
def test_gradients_in_float64(make):
    dense, rows = draw(9, 2, dtype=torch.float64).requires_grad_(), draw(9, 2, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: multiply(make(), x, y), (dense, rows))


# Few columns: the gradient goes through the matrix; many: by its transpose. Beyond 512: in slices of the width.
@pytest.mark.parametrize(
    ("num_columns", "width", "num_added"),
    [
        *itertools.product([7, 256, 257, 600], [1, 2, 16, 31, 130, 512, 513, 1100], [0]),
        *itertools.product([7, 257], [2, 16, 513], [1, 40]),
    ],
)
@pytest.mark.parametrize("thinned", [False, True])
def test_product_and_gradients_are_the_dense_ones(num_columns, width, thinned, num_added):
    matrix = random_csr(40, num_columns, seed=width)
    matrix.data[: matrix.indptr[3]] = 0
    sparse = SparseMatrix.from_scipy(matrix)
    if thinned:
        sparse = sparse.with_dropout(dropout_of(40))
    plain = torch.from_numpy(sparse.to_scipy().toarray()).double()
    assert thinned == (not torch.equal(plain, torch.from_numpy(matrix.toarray()).double()))
    inputs = [draw(num_columns, width).requires_grad_()]
    if num_added:
        inputs.append(draw(*((width,) if num_added == 1 else (40, width)), seed=1).requires_grad_())
    found = multiply(sparse, *inputs)
    expected = plain @ inputs[0].double() + (inputs[1].double() if num_added else 0)
    assert torch.allclose(found.double(), expected, atol=1e-4)
    outer = draw(40, width, seed=2)
    gradients = [torch.autograd.grad((each * outer).sum(), inputs) for each in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_threads_change_nothing_but_rounding(threads):
    matrix = random_csr(3000, 90, density=0.1)
    sparse = SparseMatrix.from_scipy(matrix)
    assert matrix.nnz > 20_000
    dense, outer = draw(90, 16).requires_grad_(), draw(3000, 16, seed=1)
    found = multiply(sparse, dense)
    assert found.detach().numpy() == pytest.approx(matrix.toarray() @ dense.detach().numpy(), abs=1e-4)
    (gradient,) = torch.autograd.grad(found, dense, outer)
    assert gradient.numpy() == pytest.approx(matrix.toarray().T @ outer.numpy(), abs=1e-3)


def test_the_torch_backend_gives_the_same(usual_backend):
    matrices = [
        SparseMatrix.from_scipy(random_csr(30, 12)),
        SparseMatrix.from_scipy(random_csr(30, 12)).with_dropout(dropout_of(30)),
        SparseMatrix.propagation(symmetric_pattern(12)),
    ]
    for sparse in matrices:
        found = []
        for backend in ("auto", "torch"):
            core.set_backend(backend)
            dense = draw(12, 5).requires_grad_()
            product = multiply(sparse, dense, torch.ones(5))
            found.append((product.detach(), *torch.autograd.grad(product.square().sum(), dense)))
        for one, other in zip(*found, strict=True):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_what_dropout_leaves_out_depends_on_row_and_column_alone():
    matrix = random_csr(30, 12, density=0.8)
    dropout = dropout_of(30)
    whole = SparseMatrix.from_scipy(matrix).with_dropout(dropout).to_scipy().toarray()
    some = Dropout(dropout.node_hashes[10:20], dropout.key, dropout.threshold, dropout.factor)
    part = SparseMatrix.from_scipy(sp.csr_array(matrix[10:20])).with_dropout(some).to_scipy().toarray()
    assert (part == whole[10:20]).all()
    kept = whole[matrix.toarray() != 0] != 0
    assert 0.45 < kept.mean() < 0.75
    assert whole[whole != 0] == pytest.approx(matrix.toarray()[whole != 0] / 0.6, rel=1e-6)


def test_dropout_of_a_symmetric_matrix_has_the_gradient_of_its_transpose():
    """Entries are left out by (row, column), so that what is left is not symmetric any more."""
    thinned = SparseMatrix.from_scipy(symmetric_pattern(20), symmetric=True).with_dropout(dropout_of(20))
    plain = torch.from_numpy(thinned.to_scipy().toarray())
    assert not torch.equal(plain, plain.t())
    dense, outer = draw(20, 4).requires_grad_(), draw(20, 4, seed=1)
    found = multiply(thinned, dense)
    (gradient,) = torch.autograd.grad(found, dense, outer)
    assert torch.allclose(found, plain @ dense, atol=1e-5)
    assert torch.allclose(gradient, plain.t() @ outer, atol=1e-5)


def test_a_propagation_has_no_dropout():
    with pytest.raises(ValueError, match="features"):
        SparseMatrix.propagation(symmetric_pattern(20)).with_dropout(dropout_of(20))


def test_rows_with_gaps_between_them():
    """Entries that no row has, as a mask leaves them, count nothing."""
    starts, ends = np.array([0, 3, 5]), np.array([2, 3, 6])
    indices = np.array([1, 2, 0, 2, 1, 0, 2], np.int32)
    sparse = SparseMatrix(starts, ends, indices, np.arange(1, 8, dtype=np.float32), 3)
    expected = np.array([[0, 1, 2], [0, 0, 0], [6, 0, 0]], np.float32)
    assert (sparse.to_scipy().toarray() == expected).all()
    assert (multiply(sparse, torch.eye(3)).numpy() == expected).all()
    assert (sparse.transposed_product(torch.eye(3)).numpy() == expected.T).all()


def test_multiply_takes_tables_and_gradients_that_are_not_contiguous():
    matrix = random_csr(4, 4)
    for dtype in (torch.float32, torch.float64):
        dense = draw(3, 4, dtype=dtype).t().requires_grad_()
        found = multiply(SparseMatrix.from_scipy(matrix), dense)
        assert torch.allclose(found, torch.from_numpy(matrix.toarray()).to(dtype) @ dense, atol=1e-6)
        (gradient,) = torch.autograd.grad((found.t() @ torch.arange(4.0, dtype=dtype)).sum(), dense)
        expected = torch.from_numpy(matrix.toarray().T).to(dtype) @ torch.arange(4.0, dtype=dtype)
        assert torch.allclose(gradient, expected[:, None].expand(4, 3), atol=1e-6)


def test_matrices_without_entries():
    nothing = SparseMatrix.from_scipy(sp.csr_array((4, 3), dtype=np.float32))
    assert (multiply(nothing, torch.ones(3, 2)).numpy() == np.zeros((4, 2))).all()
    assert (nothing.transposed_product(torch.ones(4, 2)).numpy() == np.zeros((3, 2))).all()


def test_csr_shares_memory_with_scipy():
    matrix = random_csr(4, 4)
    tensor = to_torch_csr(matrix)
    matrix.data[0] = 42
    assert float(tensor.values()[0]) == 42
