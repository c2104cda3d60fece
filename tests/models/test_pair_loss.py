"""The pair loss by both routes against dense autograd, and literals by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import softplus

from l2g2g.models.pair_loss import _loss_compiled, loss_by_products, reconstruction_loss, score_pairs
from l2g2g.models.pair_patterns import PairPattern

# float64 takes the route of sparse products, float32 the compiled one.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6}


def pattern_of(matrix, weights, twice):
    indptr, indices = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    return PairPattern(indptr, indices, weights, twice)


def empty_pattern(num_nodes):
    return pattern_of(sp.csr_array((num_nodes, num_nodes)), torch.tensor(1.0), False)


def one_sided(left, pattern, *, is_edge, bias=None, right=None):
    """The loss of one pattern alone."""
    pair = (pattern, empty_pattern(len(left)))
    return reconstruction_loss(left, *(pair if is_edge else pair[::-1]), bias, right)


def random_matrix(num_nodes, symmetric, seed=0, density=0.4):
    drawn = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    upper = np.triu(drawn, 1)
    matrix = sp.csr_array((upper | upper.T if symmetric else drawn).astype(np.float64))
    matrix.sort_indices()
    return matrix


def random_weights(matrix, symmetric, scalar, dtype, generator):
    if scalar:
        return torch.tensor(0.3, dtype=dtype)
    weights = torch.rand(matrix.nnz, dtype=dtype, generator=generator)
    if symmetric:  # a pair weighs the same in both directions, as within one patch
        half = sp.csr_array((weights.numpy(), matrix.indices, matrix.indptr), shape=matrix.shape)
        weights = torch.from_numpy(sp.csr_array(half + half.T).data)
    return weights


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("scalar", [True, False], ids=["one weight", "a weight per pair"])
@pytest.mark.parametrize("is_edge", [True, False])
# A pattern that holds every pair twice asks for a score with one side.
@pytest.mark.parametrize(("two_sides", "symmetric"), [(False, True), (False, False), (True, False)])
def test_loss_and_gradients_are_those_of_dense_autograd(two_sides, symmetric, is_edge, scalar, dtype):
    matrix, generator = random_matrix(9, symmetric), torch.Generator().manual_seed(0)
    weights = random_weights(matrix, symmetric, scalar, dtype, generator)
    pattern = pattern_of(matrix, weights, symmetric)
    given = [torch.randn(9, 4, dtype=dtype, generator=generator, requires_grad=True) for _ in range(1 + two_sides)]
    bias = torch.tensor(-0.7, dtype=dtype, requires_grad=True)
    rows = np.repeat(np.arange(9), np.diff(matrix.indptr))
    scores = (given[0][rows] * given[-1][matrix.indices.astype(np.int64)]).sum(1) + bias
    expected = (weights * softplus(-scores if is_edge else scores)).sum()

    def loss_of(left, bias, right=None):
        return one_sided(left, pattern, is_edge=is_edge, bias=bias, right=right)

    arguments = (given[0], bias, *given[1:])
    loss = loss_of(*arguments)
    assert loss.dtype == dtype
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=TOLERANCES[dtype])
    own, reference = (torch.autograd.grad(3 * each, arguments) for each in (loss, expected))
    for mine, other in zip(own, reference, strict=True):
        assert torch.allclose(mine, other, atol=10 * TOLERANCES[dtype])
        assert mine.abs().max() > 0.01
    if dtype == torch.float64:
        assert torch.autograd.gradcheck(loss_of, arguments)


@pytest.mark.parametrize("width", [1, 3, 16, 17, 64, 130])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_compiled_route_is_that_of_products(width, threads, monkeypatch):
    # More pairs than a block holds, rows without pairs at both ends, and both routes on the same float32 tables.
    generator = torch.Generator().manual_seed(width)
    edges, others = random_matrix(60, True, 1), random_matrix(60, False, 2, 0.2)
    for matrix in (edges, others):
        keep = np.ones(60)
        keep[[0, 30, 58, 59]] = 0
        kept = sp.diags_array(keep) @ matrix @ sp.diags_array(keep)
        matrix.data[:] = np.asarray(kept[matrix.nonzero()]).reshape(-1)
        matrix.eliminate_zeros()
    weights = torch.rand(others.nnz, generator=generator)
    patterns = pattern_of(edges, torch.tensor(0.01), True), pattern_of(others, weights, False)
    assert patterns[0].num_pairs > 512
    left, right = (torch.randn(60, width, generator=generator) / width**0.5 for _ in range(2))
    monkeypatch.setattr("l2g2g.models.pair_loss.get_num_threads", lambda: threads)
    for sides in ((left, None), (left, right)):
        ours = _loss_compiled(*sides, torch.tensor(0.3), patterns[1], patterns[1])
        theirs = loss_by_products(*sides, torch.tensor(0.3), patterns[1], patterns[1])
        if sides[1] is None:
            ours = (*ours, *_loss_compiled(*sides, torch.tensor(0.3), *patterns))
            theirs = (*theirs, *loss_by_products(*sides, torch.tensor(0.3), *patterns))
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine is None) == (other is None)
            assert mine is None or torch.allclose(mine, other, atol=1e-5, rtol=1e-5)


def test_scores_by_hand():
    pattern = pattern_of(sp.csr_array(np.array([[0, 1], [1, 1]])), torch.tensor(1.0), False)
    left = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert score_pairs(left, left, pattern).tolist() == [11.0, 11.0, 25.0]


def test_one_pair_by_hand():
    pattern = pattern_of(sp.csr_array(np.array([[0, 1], [1, 0]])), torch.tensor(0.5), True)
    embedding = torch.tensor([[1.0, 0.0], [2.0, 5.0]])  # inner product 2
    expected = np.log1p(np.exp(-2.0))
    assert float(one_sided(embedding, pattern, is_edge=True)) == pytest.approx(expected)
    assert float(one_sided(embedding, pattern, is_edge=False)) == pytest.approx(expected + 2)


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 3.0, 9.0, 100.0])
def test_the_compiled_loss_is_exact_to_float32_at_every_score(size):
    scores = torch.linspace(-size, size, 1001)
    table = torch.cat([scores, torch.ones(1)])[:, None]
    pairs = sp.csr_array((np.ones(1001), (np.arange(1001), np.full(1001, 1001))), shape=(1002, 1002))
    for is_edge, sign in ((True, -1.0), (False, 1.0)):
        pattern = pattern_of(pairs, torch.tensor(1.0), False)
        loss, of_left, _, _ = _loss_compiled(
            table, None, torch.zeros(()), *((pattern, empty_pattern(1002))[:: 1 if is_edge else -1])
        )
        wanted = softplus(sign * scores.double())
        assert float(loss) == pytest.approx(float(wanted.sum()), rel=1e-6)
        slopes = sign * torch.sigmoid(sign * scores.double())
        assert torch.allclose(of_left[:1001, 0].double(), slopes, rtol=max(2e-6, 1e-7 * size), atol=2e-38)


def test_large_scores_do_not_overflow():
    pattern = pattern_of(sp.csr_array(np.array([[0, 1], [1, 0]])), torch.tensor(0.5), True)
    embedding = torch.tensor([[1e4], [1e4]], requires_grad=True)
    loss = one_sided(embedding, pattern, is_edge=False)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(1e8)
    assert torch.isfinite(embedding.grad).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("is_edge", [True, False])
def test_a_vector_that_is_not_finite_is_seen_in_the_loss(bad, is_edge):
    embedding = torch.ones(60, 16)
    embedding[33] = bad
    pattern = pattern_of(random_matrix(60, True), torch.tensor(1.0), True)
    both = reconstruction_loss(embedding, pattern, pattern)
    assert not torch.isfinite(both)
    if np.isnan(bad):
        assert torch.isnan(one_sided(embedding, pattern, is_edge=is_edge))


def test_an_empty_pattern_costs_nothing():
    embedding = torch.randn(3, 2, requires_grad=True)
    loss = reconstruction_loss(embedding, empty_pattern(3), empty_pattern(3))
    loss.backward()
    assert float(loss.detach()) == 0
    assert (embedding.grad == 0).all()


def test_reconstruction_is_mean_over_edges_plus_mean_over_non_edges():
    embedding = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]])
    edges = pattern_of(sp.csr_array(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])), torch.tensor(0.5), True)
    others = pattern_of(sp.csr_array(np.array([[0, 0, 0], [0, 0, 0], [0, 1, 0]])), torch.tensor(1.0), False)
    expected = np.log1p(np.exp(-2)) + np.log1p(np.exp(-1))
    assert float(reconstruction_loss(embedding, edges, others)) == pytest.approx(expected)
    expected = np.log1p(np.exp(-3)) + np.log(2)
    assert float(reconstruction_loss(embedding, edges, others, torch.tensor(1.0))) == pytest.approx(expected)
