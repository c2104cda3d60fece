"""Encoder: the formula in dense matrices, however features and propagation are held."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoders import ENCODERS
from l2g2g.models.encoding import prepare_input
from l2g2g.models.sparse import SparseMatrix, normalise_adjacency


def make_encoder(num_features, dim=3, kind="gcn", **options):
    encoder = ENCODERS[kind](num_features, dim, generator=torch_generator(0, Purpose.INITIAL_WEIGHTS), **options)
    with torch.no_grad():  # biases start at zero, where a forgotten one would not be seen
        for bias in encoder.biases:
            bias.copy_(torch.linspace(-1, 1, len(bias)))
    return encoder


@pytest.fixture(scope="module")
def dense_features(planted):
    return np.random.default_rng(0).normal(size=(planted.num_nodes, 6)).astype(np.float32)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_gcn_against_dense_matrices(planted, dense_features, layers):
    propagation = torch.from_numpy(normalise_adjacency(planted.adjacency).toarray())
    encoder = make_encoder(6, hidden=5, layers=layers)
    assert [tuple(weight.shape) for weight in encoder.weights] == {
        1: [(6, 3)],
        2: [(6, 5), (5, 3)],
        3: [(6, 5), (5, 5), (5, 3)],
    }[layers]
    expected = torch.from_numpy(dense_features)
    for number, (weight, bias) in enumerate(zip(encoder.weights, encoder.biases, strict=True)):
        expected = propagation @ (torch.relu(expected) if number else expected) @ weight + bias
    found = encoder(prepare_input(planted.adjacency, dense_features))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_linear_against_dense_matrices(planted, dense_features, layers):
    propagation = torch.from_numpy(normalise_adjacency(planted.adjacency).toarray())
    encoder = make_encoder(6, layers=layers, kind="linear")
    assert len(encoder.weights) == 1
    expected = torch.linalg.matrix_power(propagation, layers) @ torch.from_numpy(dense_features) @ encoder.weights[0]
    assert torch.allclose(
        encoder(prepare_input(planted.adjacency, dense_features)), expected + encoder.biases[0], atol=1e-5
    )


def mean_matrix(adjacency):
    dense = adjacency.toarray()
    degrees = dense.sum(axis=1, keepdims=True)
    return torch.from_numpy(np.divide(dense, degrees, out=np.zeros_like(dense), where=degrees > 0))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_sage_against_dense_matrices(planted, dense_features, layers):
    mean, encoder = mean_matrix(planted.adjacency), make_encoder(6, hidden=5, layers=layers, kind="sage")
    expected = torch.from_numpy(dense_features)
    for number, (weight, own, bias) in enumerate(
        zip(encoder.weights, encoder.self_weights, encoder.biases, strict=True)
    ):
        rows = torch.relu(expected) if number else expected
        expected = mean @ rows @ weight + rows @ own + bias
    found = encoder(prepare_input(planted.adjacency, dense_features, propagate_once=False))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_of_sage_pass_the_transpose(backend, weighted):
    """A star: the mean of the centre is over four leaves, that of a leaf is the centre, and node 5 has no neighbour."""
    dense = np.zeros((6, 6), np.float32)
    dense[0, 1:5] = dense[1:5, 0] = [1, 2, 3, 4] if weighted else 1
    features = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    encoder = make_encoder(4, kind="sage", layers=2, hidden=5, skip=True)
    outer = torch.from_numpy(np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32))
    mean, rows = mean_matrix(sp.csr_array(dense)), torch.from_numpy(features)
    assert not torch.allclose(mean, mean.t())
    first = torch.relu(mean @ rows @ encoder.weights[0] + rows @ encoder.self_weights[0] + encoder.biases[0])
    expected = mean @ first @ encoder.weights[1] + first @ encoder.self_weights[1] + encoder.biases[1]
    expected = expected + rows @ encoder.skip
    found = encoder(prepare_input(sp.csr_array(dense), features, propagate_once=False))
    ours = torch.autograd.grad((found * outer).sum(), list(encoder.parameters()))
    assert torch.allclose(found, expected, atol=1e-5)
    theirs = torch.autograd.grad((expected * outer).sum(), list(encoder.parameters()))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_sage_needs_the_features_themselves(planted, dense_features):
    with pytest.raises(ValueError, match="needs X"):
        make_encoder(6, kind="sage")(prepare_input(planted.adjacency, dense_features))


@pytest.mark.parametrize("kind", ["gcn", "linear"])
@pytest.mark.parametrize("sparse", [True, False])
def test_propagating_once_or_every_time_is_the_same(planted, kind, sparse):
    features = planted.features if sparse else planted.features.toarray()
    encoder = make_encoder(4, kind=kind)
    once = prepare_input(planted.adjacency, features, propagate_once=True)
    every = prepare_input(planted.adjacency, features, propagate_once=False)
    assert (once.propagated, every.propagated) == (True, False)
    results = [encoder(inputs) for inputs in (once, every)]
    assert torch.allclose(*results, atol=1e-5)
    gradients = [torch.autograd.grad(result.square().sum(), list(encoder.parameters())) for result in results]
    for first, second in zip(*gradients, strict=True):
        assert torch.allclose(first, second, rtol=1e-4, atol=1e-4)


def test_sparse_and_dense_features_are_the_same(planted):
    wide = sp.csr_array(
        sp.random(planted.num_nodes, 500, 0.01, random_state=np.random.default_rng(0), dtype=np.float32)
    )
    wide.sort_indices()
    encoder = make_encoder(500)
    kept_sparse = prepare_input(planted.adjacency, wide)
    assert isinstance(kept_sparse.features, SparseMatrix)
    dense = prepare_input(planted.adjacency, wide.toarray())
    assert isinstance(dense.features, torch.Tensor)
    results = [encoder(inputs) for inputs in (kept_sparse, dense)]
    assert torch.allclose(*results, atol=1e-5)
    gradients = [torch.autograd.grad(result.square().sum(), list(encoder.parameters())) for result in results]
    for first, second in zip(*gradients, strict=True):
        assert torch.allclose(first, second, rtol=1e-4, atol=1e-4)


def test_features_with_unsorted_columns_read_alike(path_of_four):
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    features = sp.csr_array(matrix)
    for row in range(4):
        part = slice(features.indptr[row], features.indptr[row + 1])
        features.indices[part] = features.indices[part][::-1]
        features.data[part] = features.data[part][::-1]
    features.has_sorted_indices = False
    encoder = make_encoder(3)
    results = [encoder(prepare_input(path_of_four, held, propagate_once=False)) for held in (features, matrix)]
    assert torch.allclose(*results, atol=1e-5)


def test_blocks_do_not_see_each_other(path_of_four):
    both = sp.csr_array(sp.block_diag([path_of_four, path_of_four], format="csr"))
    features = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    encoder = make_encoder(3)
    together = encoder(prepare_input(both, features))
    apart = [encoder(prepare_input(path_of_four, part)) for part in (features[:4], features[4:])]
    assert torch.allclose(together, torch.cat(apart), atol=1e-6)


@pytest.mark.parametrize("kind", ["gcn", "linear"])
@pytest.mark.parametrize("variational", [False, True], ids=["plain", "variational"])
def test_a_skip_adds_the_features_themselves(planted, dense_features, kind, variational):
    """Z + X W, on both heads of a variational encoder."""
    inputs = prepare_input(planted.adjacency, dense_features, propagate_once=False)
    with_skip, without = (make_encoder(6, kind=kind, variational=variational, skip=skip) for skip in (True, False))
    for first, second in zip(with_skip.weights, without.weights, strict=True):
        assert torch.equal(first, second)
    assert with_skip.skip.shape == (6, 6 if variational else 3)
    expected = without(inputs) + torch.from_numpy(dense_features) @ with_skip.skip
    assert torch.allclose(with_skip(inputs), expected, atol=1e-5)
    assert without.skip is None
    (gradient,) = torch.autograd.grad(with_skip(inputs).sum(), [with_skip.skip])
    column_sums = torch.from_numpy(dense_features.sum(0))
    assert torch.allclose(gradient, column_sums[:, None].expand_as(gradient), atol=1e-3)


@pytest.mark.parametrize("options", [{"skip": True}, {"feature_mean": torch.ones(6)}], ids=["skip", "mean"])
def test_propagated_features_are_refused_where_the_features_themselves_are_needed(planted, dense_features, options):
    inputs = prepare_input(planted.adjacency, dense_features)
    assert inputs.propagated
    with pytest.raises(ValueError, match=r"needs X, not Â X \(propagate_once=False\)"):
        make_encoder(6, **options)(inputs)


def test_variational_heads(path_of_four):
    features = np.eye(4, dtype=np.float32)
    model = Autoencoder(4, 3, hidden=5, variational=True, seed=1)
    inputs = prepare_input(path_of_four, features)
    mean, log_deviation = model.encode(inputs)
    assert mean.shape == log_deviation.shape == (4, 3)
    assert not torch.allclose(mean, log_deviation)
    assert torch.equal(torch.cat([mean, log_deviation], 1), model.encoders[0](inputs))
    with torch.no_grad():
        model.encoders[0].biases[-1].fill_(1e3)
    assert float(model.encode(inputs)[1].detach().max()) == 10  # exp of it stays finite
    plain, nothing = Autoencoder(4, 3, seed=1).encode(inputs)
    assert plain.shape == (4, 3)
    assert nothing is None


def test_encoders_are_shared_or_really_apart(path_of_four):
    inputs = prepare_input(path_of_four, np.eye(4, dtype=np.float32))
    shared = Autoencoder(4, 3, seed=0)
    assert shared.shares_encoder
    assert torch.equal(shared.encode(inputs, 0)[0], shared.encode(inputs, 5)[0])
    apart = Autoencoder(4, 3, num_encoders=3, seed=0)
    assert not apart.shares_encoder
    assert not torch.equal(apart.encode(inputs, 0)[0], apart.encode(inputs, 1)[0])
    assert torch.equal(apart.encode(inputs, 0)[0], shared.encode(inputs, 0)[0])
    weights = {id(parameter) for encoder in apart.encoders for parameter in encoder.parameters()}
    assert len(weights) == 3 * 4


def test_initial_weights_follow_the_seed_within_glorot_bounds():
    first, again, other = (Autoencoder(20, 16, seed=seed).encoders[0].weights for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    bound = (6 / (20 + 32)) ** 0.5
    assert 0.9 * bound < float(first[0].detach().abs().max()) <= bound


def test_a_bias_of_the_decoder_is_an_option():
    assert Autoencoder(4, 3).decoder.bias is None
    assert float(Autoencoder(4, 3, learn_bias=True).decoder.bias.detach()) == 0


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("options", [{}, {"skip": True}, {"activation": "elu"}, {"variational": True}])
def test_the_way_back_of_an_encoding_is_that_of_autograd(planted, dense_features, kind, options):
    encoder = make_encoder(6, hidden=5, kind=kind, **options)
    inputs = prepare_input(planted.adjacency, dense_features, propagate_once=False)
    vectors = encoder(inputs)
    gradient = torch.linspace(-1, 1, vectors.numel()).view_as(vectors)
    vectors.backward(gradient)
    expected = [parameter.grad.clone() for parameter in encoder.parameters()]
    encoding = encoder.begin(inputs)
    assert torch.equal(encoding.vectors, vectors.detach())
    assert not encoding.vectors.requires_grad
    encoding.backward(gradient, inputs)  # comes on top
    for parameter, once in zip(encoder.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, once + once)


def test_a_copy_of_an_encoder_reads_its_own_parameters(planted, dense_features):
    inputs = prepare_input(planted.adjacency, dense_features, propagate_once=False)
    encoder = make_encoder(6, hidden=5)
    before = encoder.begin(inputs).vectors
    copied = copy.deepcopy(encoder)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert not copied.begin(inputs).vectors.any()
    assert torch.equal(encoder.begin(inputs).vectors, before)
