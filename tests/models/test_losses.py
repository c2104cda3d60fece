"""Losses: by both routes against dense autograd, and by hand on a few nodes."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import softplus

from l2g2g import core
from l2g2g.models.decoders import DECODERS
from l2g2g.models.losses import all_pairs_loss, gaussian_divergence, reconstruction_loss
from l2g2g.models.pairs import Arcs, PairList

# float64 takes the torch route, float32 the native one where it is built.
TOLERANCES = {torch.float64: 1e-7, torch.float32: 2e-6}
ONE = np.ones(1, np.float32)


def arcs_of(matrix, weights, kind="all"):
    indptr = matrix.indptr.astype(np.int64)
    return Arcs(indptr[:-1], indptr[1:], matrix.indices.astype(np.int32), np.asarray(weights, np.float32), kind)


def list_of(matrix, weights, kind="all"):
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    return PairList(rows, matrix.indices.astype(np.int32), np.asarray(weights, np.float32), kind)


def no_pairs():
    return PairList(np.empty(0, np.int32), np.empty(0, np.int32), ONE)


def one_sided(left, pairs, *, is_edge, bias=None, right=None):
    """The loss of one list or pattern alone."""
    both = (pairs, no_pairs()) if is_edge else (no_pairs(), pairs)
    return reconstruction_loss(left, *both, bias, right)


def random_matrix(num_nodes, symmetric, seed=0, density=0.4):
    drawn = np.random.default_rng(seed).random((num_nodes, num_nodes)) < density
    upper = np.triu(drawn, 1)
    matrix = sp.csr_array((upper | upper.T if symmetric else drawn).astype(np.float64))
    matrix.sort_indices()
    return matrix


def weights_of(matrix, kind, symmetric, generator):
    """(weights, weight of every entry); a pair weighs the same in both directions where it stands in both."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    if kind == "all":
        return np.full(1, 0.3, np.float32), np.full(matrix.nnz, np.float32(0.3))
    if kind == "row":
        weights = np.full(matrix.shape[0], 0.7) if symmetric else generator.random(matrix.shape[0])
        return weights.astype(np.float32), weights.astype(np.float32)[rows]
    weights = generator.random(matrix.shape).astype(np.float32)
    each = (weights + weights.T if symmetric else weights)[rows, matrix.indices]
    return each, each


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("kind", ["all", "row", "pair"])
@pytest.mark.parametrize("is_edge", [True, False])
# Arcs ask for a score with one side here; only edges come as arcs.
@pytest.mark.parametrize(("two_sides", "as_arcs"), [(False, True), (False, False), (True, False)])
def test_loss_and_gradients_are_those_of_dense_autograd(two_sides, as_arcs, is_edge, kind, dtype):
    if as_arcs and not is_edge:
        pytest.skip("non-edges are a list")
    matrix, generator = random_matrix(9, as_arcs), torch.Generator().manual_seed(0)
    weights, each = weights_of(matrix, kind, as_arcs, np.random.default_rng(1))
    pairs = (arcs_of if as_arcs else list_of)(matrix, weights, kind)
    given = [torch.randn(9, 4, dtype=dtype, generator=generator, requires_grad=True) for _ in range(1 + two_sides)]
    bias = torch.tensor(-0.7, dtype=dtype, requires_grad=True)
    rows = np.repeat(np.arange(9), np.diff(matrix.indptr))
    scores = (given[0][rows] * given[-1][matrix.indices.astype(np.int64)]).sum(1) + bias
    expected = (torch.from_numpy(each).to(dtype) * softplus(-scores if is_edge else scores)).sum()

    def loss_of(left, bias, right=None):
        return one_sided(left, pairs, is_edge=is_edge, bias=bias, right=right)

    arguments = (given[0], bias, *given[1:])
    loss = loss_of(*arguments)
    assert loss.dtype == dtype
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=TOLERANCES[dtype])
    own, reference = (torch.autograd.grad(3 * value, arguments) for value in (loss, expected))
    for mine, other in zip(own, reference, strict=True):
        assert torch.allclose(mine, other, atol=10 * TOLERANCES[dtype])
        assert mine.abs().max() > 0.01
    if dtype == torch.float64:
        assert torch.autograd.gradcheck(loss_of, arguments)


@pytest.mark.parametrize("width", [1, 3, 16, 17, 64, 130, 600])
@pytest.mark.parametrize("threads", [1, 2])
def test_native_and_torch_routes_agree(width, threads):
    """Edges as arcs and non-edges as a list of several parts, rows without pairs at both ends."""
    generator = torch.Generator().manual_seed(width)
    edges, others = random_matrix(60, True, 1), random_matrix(60, False, 2, 0.2)
    keep = np.ones(60)
    keep[[0, 30, 58, 59]] = 0
    edges, others = (sp.csr_array(sp.diags_array(keep) @ each @ sp.diags_array(keep)) for each in (edges, others))
    for each in (edges, others):
        each.eliminate_zeros()
    repeats = 70 if width == 16 else 1  # more pairs than one part has
    listed = list_of(others, np.random.default_rng(0).random(others.nnz), "pair")
    listed = PairList(*(np.tile(part, repeats) for part in (listed.rows, listed.columns, listed.weights)), "pair")
    assert repeats == 1 or listed.num_pairs > 2 * 20_000
    left, right = (torch.randn(60, width, generator=generator) / width**0.5 for _ in range(2))
    before = core.num_threads()
    core.set_num_threads(threads)
    try:
        for pair, sides in (((arcs_of(edges, [0.01]), listed), (left,)), ((listed, listed), (left, right))):
            results = []
            for dtype in (torch.float32, torch.float64):
                inputs = [part.to(dtype).requires_grad_() for part in (*sides, torch.tensor(0.3))]
                loss = reconstruction_loss(inputs[0], *pair, inputs[-1], inputs[1] if len(sides) == 2 else None)
                results.append([loss.detach(), *torch.autograd.grad(loss, inputs)])
            for mine, other in zip(*results, strict=True):
                assert torch.allclose(mine.double(), other, atol=1e-5 * repeats, rtol=1e-5)
    finally:
        core.set_num_threads(before)


def test_the_torch_backend_computes_float32_too(usual_backend):
    edges, others = arcs_of(random_matrix(20, True), [0.1]), list_of(random_matrix(20, False, 3), [0.2])
    left = torch.randn(20, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found = []
    for backend in ("auto", "torch"):
        core.set_backend(backend)
        loss = reconstruction_loss(left, edges, others)
        found.append((loss.detach(), *torch.autograd.grad(loss, left)))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)


def test_arcs_under_a_score_with_two_sides_that_is_symmetric():
    """The distance decoder: left_u · right_v = left_v · right_u."""
    embedding = torch.randn(30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    arcs, others = arcs_of(random_matrix(30, True), [0.1]), list_of(random_matrix(30, False, 1), [0.2])
    results = []
    for dtype in (torch.float32, torch.float64):
        given = embedding.to(dtype).requires_grad_()
        squares, ones = given.square().sum(1, keepdim=True), torch.ones(30, 1, dtype=dtype)
        sides = torch.cat([given * 2**0.5, -squares, ones], 1), torch.cat([given * 2**0.5, ones, -squares], 1)
        loss = reconstruction_loss(sides[0], arcs, others, None, sides[1])
        results.append((loss.detach().double(), torch.autograd.grad(loss, given)[0].double()))
    for mine, other in zip(*results, strict=True):
        assert torch.allclose(mine, other, rtol=1e-4, atol=1e-4)


def test_one_pair_by_hand():
    matrix = sp.csr_array(np.array([[0, 1], [1, 0]]))
    embedding = torch.tensor([[1.0, 0.0], [2.0, 5.0]])  # inner product 2
    expected = np.log1p(np.exp(-2.0))
    assert float(one_sided(embedding, arcs_of(matrix, [0.5]), is_edge=True)) == pytest.approx(expected)
    once = PairList(np.array([0], np.int32), np.array([1], np.int32), ONE)
    assert float(one_sided(embedding, once, is_edge=True)) == pytest.approx(expected)
    assert float(one_sided(embedding, once, is_edge=False)) == pytest.approx(expected + 2)


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 3.0, 9.0, 100.0])
@pytest.mark.parametrize("is_edge", [True, False])
def test_the_loss_is_exact_to_float32_at_every_score(size, is_edge):
    scores = torch.linspace(-size, size, 1001)
    table = torch.cat([scores, torch.ones(1)])[:, None].requires_grad_()
    pairs = PairList(np.arange(1001, dtype=np.int32), np.full(1001, 1001, np.int32), ONE)
    loss, sign = one_sided(table, pairs, is_edge=is_edge), -1.0 if is_edge else 1.0
    wanted = softplus(sign * scores.double())
    assert float(loss.detach()) == pytest.approx(float(wanted.sum()), rel=1e-6)
    slopes = sign * torch.sigmoid(sign * scores.double())
    (gradient,) = torch.autograd.grad(loss, table)
    assert torch.allclose(gradient[:1001, 0].double(), slopes, rtol=max(2e-6, 1e-7 * size), atol=2e-38)


def test_large_scores_do_not_overflow():
    embedding = torch.tensor([[1e4], [1e4]], requires_grad=True)
    once = PairList(np.array([0], np.int32), np.array([1], np.int32), ONE)
    loss = one_sided(embedding, once, is_edge=False)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(1e8)
    assert torch.isfinite(embedding.grad).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("is_edge", [True, False])
@pytest.mark.parametrize("width", [5, 16])
def test_a_vector_that_is_not_finite_is_seen_in_the_loss(bad, is_edge, width):
    embedding = torch.ones(60, width)
    embedding[33] = bad
    arcs, listed = arcs_of(random_matrix(60, True), ONE), list_of(random_matrix(60, False), ONE)
    assert not torch.isfinite(reconstruction_loss(embedding, arcs, listed))
    if np.isnan(bad):
        assert torch.isnan(one_sided(embedding, arcs if is_edge else listed, is_edge=is_edge))


def test_no_pairs_cost_nothing():
    embedding = torch.randn(3, 2, requires_grad=True)
    for edges in (no_pairs(), arcs_of(sp.csr_array((3, 3)), ONE)):
        loss = reconstruction_loss(embedding, edges, no_pairs())
        (gradient,) = torch.autograd.grad(loss, embedding)
        assert float(loss.detach()) == 0
        assert (gradient == 0).all()


def test_reconstruction_is_mean_over_edges_plus_mean_over_non_edges():
    embedding = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]])
    edges = arcs_of(sp.csr_array(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])), [0.5])
    others = list_of(sp.csr_array(np.array([[0, 0, 0], [0, 0, 0], [0, 1, 0]])), ONE)
    expected = np.log1p(np.exp(-2)) + np.log1p(np.exp(-1))
    assert float(reconstruction_loss(embedding, edges, others)) == pytest.approx(expected)
    expected = np.log1p(np.exp(-3)) + np.log(2)
    assert float(reconstruction_loss(embedding, edges, others, torch.tensor(1.0))) == pytest.approx(expected)


@pytest.mark.parametrize("kind", DECODERS)
def test_the_gradient_of_a_decoder_is_that_of_autograd(kind, backend):
    decoder = DECODERS[kind](4, learn_bias=True, generator=torch.Generator().manual_seed(0))
    edges, others = (list_of(random_matrix(12, False, seed), np.full(1, 0.1, np.float32)) for seed in (0, 1))
    vectors = torch.randn(12, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    expected = decoder.loss(vectors, edges, others)
    expected.backward()
    own = [parameter.grad.clone() for parameter in decoder.parameters()]
    loss, gradient = decoder.gradient(vectors.detach(), edges, others)  # comes on top
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    assert torch.allclose(gradient, vectors.grad, rtol=1e-5, atol=1e-6)
    for parameter, once in zip(decoder.parameters(), own, strict=True):
        assert torch.allclose(parameter.grad, 2 * once, rtol=1e-5, atol=1e-6)


def log1p_exp(x):
    return math.log1p(math.exp(x))


def test_all_pairs_on_three_nodes():
    # z = 1, 2, -1 on a line; one edge {0, 1}; scores z_u z_v. Edges with the diagonal: 5 of 9 pairs, 4 others.
    embedding = torch.tensor([[1.0], [2.0], [-1.0]], dtype=torch.float64)
    adjacency = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float64)
    edges = [1.0, 4.0, 1.0, 2.0, 2.0]
    others = [-1.0, -1.0, -2.0, -2.0]
    total = sum(4 / 5 * log1p_exp(-score) for score in edges) + sum(log1p_exp(score) for score in others)
    norm = 9 / (2 * 4)
    assert float(all_pairs_loss(embedding, adjacency)) == pytest.approx(norm * total / 9, rel=1e-12)
    bias = torch.tensor(0.5, dtype=torch.float64)
    total = sum(4 / 5 * log1p_exp(-score - 0.5) for score in edges) + sum(log1p_exp(score + 0.5) for score in others)
    assert float(all_pairs_loss(embedding, adjacency, bias)) == pytest.approx(norm * total / 9, rel=1e-12)


def test_all_pairs_of_a_complete_graph_have_no_other_side():
    embedding = torch.tensor([[1.0], [2.0]])
    adjacency = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    expected = (log1p_exp(-1) + log1p_exp(-4) + 2 * log1p_exp(-2)) / 4
    assert float(all_pairs_loss(embedding, adjacency)) == pytest.approx(expected)


def test_divergence_is_zero_at_the_prior_and_positive_elsewhere():
    zero = torch.zeros(4, 3, dtype=torch.float64)
    assert float(gaussian_divergence(zero, zero, 4)) == 0
    # KL(N(1, 1) ‖ N(0, 1)) = 1/2 per coordinate, KL(N(0, e²) ‖ N(0, 1)) = (e² − 1)/2 − 1.
    assert float(gaussian_divergence(zero + 1, zero, 4)) == pytest.approx(12 * 0.5 / 16)
    assert float(gaussian_divergence(zero, zero + 1, 4)) == pytest.approx(12 * ((math.e**2 - 1) / 2 - 1) / 16)
    assert float(gaussian_divergence(zero, zero - 1, 4)) > 0


def test_divergence_is_torchs_own():
    generator = torch.Generator().manual_seed(0)
    mean, log_deviation = (torch.randn(5, 2, generator=generator) for _ in range(2))
    ours = torch.distributions.Normal(mean, log_deviation.exp())
    prior = torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    expected = torch.distributions.kl_divergence(ours, prior).sum() / 25
    assert float(gaussian_divergence(mean, log_deviation, 5)) == pytest.approx(float(expected), rel=1e-5)


def test_all_pairs_by_slices_of_rows_are_all_pairs():
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, 9, 4, generator=generator)
    adjacency = (torch.rand(9, 9, generator=generator) < 0.4).float().fill_diagonal_(0)
    bias, num_arcs = torch.tensor(0.3), int(adjacency.sum())
    parts = [torch.arange(0, 4), torch.arange(4, 9)]
    total = sum(all_pairs_loss(left, adjacency[rows], bias, right, rows, num_arcs) for rows in parts)
    assert float(total) == pytest.approx(float(all_pairs_loss(left, adjacency, bias, right)), rel=1e-6)
