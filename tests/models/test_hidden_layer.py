"""Hidden layer: the compiled pass against torch's own operations, forward and backward."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models import layer_kernel
from l2g2g.models.hidden_layer import hidden_layer
from l2g2g.models.sparse import SparseMatrix


def random_sparse(num_rows, num_columns, density=0.1, seed=0):
    matrix = sp.random_array((num_rows, num_columns), density=density, rng=seed, dtype=np.float32)
    return sp.csr_array(matrix, dtype=np.float32)


def tensors(num_columns, hidden, width, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = (num_columns, hidden), (hidden,), (hidden, width)
    return [torch.randn(*shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def value_and_gradients(sparse, parts):
    output = hidden_layer(sparse, *parts)
    slopes = torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(output)
    (output * slopes).sum().backward()
    return [output.detach(), *(part.grad for part in parts)]


@pytest.mark.parametrize("num_rows", [1, 3, 64, 203])
@pytest.mark.parametrize(("hidden", "width"), [(32, 16), (5, 3), (16, 40), (1, 1), (33, 20)])
@pytest.mark.parametrize("num_columns", [7, 300])  # the gradient goes through the matrix here, and by its transpose
def test_compiled_and_torch_agree(num_rows, hidden, width, num_columns):
    matrix = random_sparse(num_rows, num_columns)
    assert layer_kernel.fits(hidden, width)
    narrow = SparseMatrix.from_scipy(matrix)
    wide = SparseMatrix.from_scipy(matrix.astype(np.float64))
    assert (narrow.transposed is None) == (num_columns == 7)
    ours = value_and_gradients(narrow, tensors(num_columns, hidden, width, torch.float32))
    theirs = value_and_gradients(wide, tensors(num_columns, hidden, width, torch.float64))
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).abs().max() < 1e-4 * (1 + other.abs().max())  # sums in which much cancels


def test_threads_change_nothing_but_rounding():
    sparse = SparseMatrix.from_scipy(random_sparse(500, 9))
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(value_and_gradients(sparse, tensors(9, 32, 16, torch.float32)))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert (one - two).abs().max() < 1e-4 * (1 + two.abs().max())


def test_what_is_not_a_number_stays_one():
    parts = tensors(9, 32, 16, torch.float32)
    with torch.no_grad():
        parts[0][4, 7] = torch.nan
    matrix = random_sparse(50, 9, density=0.5)
    output = hidden_layer(SparseMatrix.from_scipy(matrix), *parts)
    assert (torch.isnan(output).any(1).numpy() == (matrix.toarray()[:, 4] != 0)).all()


def test_wide_weights_are_left_to_torch():
    assert not layer_kernel.fits(256, 128)
    sparse = SparseMatrix.from_scipy(random_sparse(20, 9))
    dense, bias, weight = tensors(9, 256, 128, torch.float32)
    expected = torch.relu(sparse.matrix @ dense + bias) @ weight
    assert torch.allclose(hidden_layer(sparse, dense, bias, weight), expected, atol=1e-3)
