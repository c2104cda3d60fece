"""Products of features: those of plain torch, and gradients that two processes with a section each would add up to."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models.feature_product import multiply_features
from l2g2g.models.sparse import SparseMatrix, ThinnedMatrix


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def make(kind, low=0, high=30):
    """Some rows of a table of 30, as one section or, if these are all of them, as two."""
    wide = {"sparse": 7, "many columns": 300, "thinned": 7, "dense": 7}[kind]
    table = draw(30, wide) * (draw(wide, 30).t() > 0.8)
    sections = np.array([0, 17, 30]) if high - low == 30 else None
    if kind == "dense":
        return table[low:high], sections, table[low:high]
    rows = sp.csr_array(table[low:high].numpy())
    matrix = SparseMatrix.from_scipy(rows, sections=sections)
    if kind != "thinned":
        return matrix, sections, table[low:high]
    counts = (sp.csr_array(table.numpy()).data > 0).astype(np.uint8)  # a rule that every process follows
    start = (table[:low] != 0).sum().item()
    kept = counts[start : start + rows.nnz]
    plain = sp.csr_array((rows.data * kept * 2, rows.indices, rows.indptr), shape=rows.shape)
    return ThinnedMatrix(matrix, kept, 2.0), sections, torch.from_numpy(plain.toarray())


def gradients(kind, low=0, high=30):
    features, sections, plain = make(kind, low, high)
    weight, bias = draw(plain.shape[1], 5).requires_grad_(), draw(5).requires_grad_()
    mean, scale = draw(plain.shape[1]), torch.tensor(1.7)
    product = multiply_features(features, weight, bias, mean=mean, scale=scale, sections=sections)
    found = torch.autograd.grad((product * draw(30, 5)[low:high]).sum(), (weight, bias))
    expected = 1.7 * (plain - mean) @ weight + bias
    wanted = torch.autograd.grad((expected * draw(30, 5)[low:high]).sum(), (weight, bias))
    return (product, *found), (expected, *wanted)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", ["dense", "sparse", "many columns", "thinned"])
def test_values_and_gradients_are_those_of_autograd(kind):
    for found, wanted in zip(*gradients(kind), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse", "many columns", "thinned"])
def test_two_processes_with_a_section_each_find_the_same_bits(kind):
    (product, *both), (first, *one), (second, *other) = (
        gradients(kind, *bounds)[0] for bounds in ((0, 30), (0, 17), (17, 30))
    )
    assert torch.equal(product, torch.cat([first, second]))
    for total, mine, yours in zip(both, one, other, strict=True):
        assert torch.equal(total, mine + yours)


def test_dense_rows_have_a_gradient_too():
    rows, weight = draw(30, 4).requires_grad_(), draw(4, 3)
    product = multiply_features(rows, weight, sections=np.array([0, 11, 30]))
    (found,) = torch.autograd.grad((product * draw(30, 3)).sum(), rows)
    torch.testing.assert_close(found, draw(30, 3) @ weight.t())
