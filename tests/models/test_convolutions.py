"""Convolutions: the encoder's native passes against the same encoder in torch and float64, values and gradients."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g import core
from l2g2g.models.encoders import ENCODERS
from l2g2g.models.encoders import gcn as encoder_module
from l2g2g.models.encoding import EncoderInput, prepare_input
from l2g2g.models.features import FeatureTable
from l2g2g.models.masking import EdgeMask
from l2g2g.models.sparse import SparseMatrix, normalise_adjacency

pytestmark = pytest.mark.skipif(not core.is_built(), reason="the compiled core is not built")

NUM_ROWS = 130
# float32 sums of two propagations, relative to the largest number of a result.
TOLERANCE = 2e-5


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.slow), 2], autouse=True)
def threads(request):
    before = core.num_threads()
    core.set_num_threads(request.param)
    yield request.param
    core.set_num_threads(before)


@pytest.fixture
def passes(monkeypatch):
    """How often the native passes ran."""
    counted = []
    convolve = encoder_module.convolve

    def count(*arguments):
        counted.append(arguments)
        return convolve(*arguments)

    monkeypatch.setattr(encoder_module, "convolve", count)
    return counted


def adjacency_of(num_rows=NUM_ROWS, weighted=False, density=0.06):
    values = np.random.default_rng(0).random((num_rows, num_rows))
    upper = np.triu((values < density) * (30 * values + 0.1 if weighted else 1), 1)
    upper[:, num_rows // 2] = upper[num_rows // 2] = 0  # a node without edges
    return sp.csr_array((upper + upper.T).astype(np.float32))


def features_of(kind, num_rows=NUM_ROWS, num_columns=20, density=0.2):
    """X, sparse for all kinds but dense ones."""
    matrix = sp.csr_array(
        sp.random_array((num_rows, num_columns), density=density, rng=1, format="csr", dtype=np.float32)
    )
    matrix.data -= 0.4
    matrix.sort_indices()
    return matrix.toarray() if kind in ("dense", "float16") else matrix


def inputs_of(kind, adjacency, num_columns=20, density=0.2):
    """What an encoder sees, with the features held in some way."""
    features = features_of(kind, adjacency.shape[0], num_columns, density)
    propagation = SparseMatrix.propagation(adjacency)
    if kind == "propagated":
        product = sp.csr_array(normalise_adjacency(adjacency) @ features)
        product.sort_indices()
        return EncoderInput(propagation, SparseMatrix.from_scipy(product), propagated=True)
    table = FeatureTable.build(features, np.arange(adjacency.shape[0]), "cpu", kind if kind == "float16" else "float32")
    held = table.dropped(0.5, seed=0, epoch=1) if kind == "thinned" else table.matrix
    return EncoderInput(propagation, held, propagated=False)


def make_encoder(num_features=20, dim=16, kind="gcn", **options):
    generator = torch.Generator().manual_seed(0)
    encoder = ENCODERS[kind](num_features, dim, generator=generator, **options)
    with torch.no_grad():  # biases start at zero, where a forgotten one would not be seen
        for bias in encoder.biases:
            bias.copy_(torch.randn(bias.shape, generator=generator) / 4)
    return encoder


def value_and_gradients(encoder, inputs):
    found = encoder(inputs)
    slopes = torch.randn(found.shape, generator=torch.Generator().manual_seed(5)).to(found)
    return [found.detach(), *torch.autograd.grad((found * slopes).sum(), list(encoder.parameters()))]


def check_against_torch(encoder, inputs, passes):
    ours = value_and_gradients(encoder, inputs)
    assert len(passes) == 1
    theirs = value_and_gradients(copy.deepcopy(encoder).double(), inputs)
    assert len(passes) == 1  # float64 goes step by step in torch
    assert len(ours) == 1 + len(list(encoder.parameters()))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == torch.float32
        assert mine.shape == other.shape
        assert (mine - other).abs().max() < TOLERANCE * other.abs().max()
        assert other.abs().max() > 0.01


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize(
    ("kind", "skip"),
    [
        ("dense", False),
        ("dense", True),
        ("float16", False),
        ("float16", True),
        ("sparse", False),
        ("sparse", True),
        ("thinned", False),
        ("thinned", True),
        ("propagated", False),
    ],
)
def test_native_passes_equal_torch(kind, skip, layers, weighted, passes):
    encoder = make_encoder(layers=layers, skip=skip)
    check_against_torch(encoder, inputs_of(kind, adjacency_of(weighted=weighted)), passes)


@pytest.mark.parametrize("kind", ["dense", "sparse", "thinned"])
@pytest.mark.parametrize("skip", [False, True])
def test_native_passes_take_off_the_mean_of_the_features(kind, skip, passes):
    mean = torch.linspace(-0.3, 0.2, 20)
    encoder = make_encoder(skip=skip, feature_mean=mean, feature_scale=1.7)
    check_against_torch(encoder, inputs_of(kind, adjacency_of()), passes)


@pytest.mark.parametrize(
    ("hidden", "dim"),
    [(32, 16), (5, 3), (33, 20), (130, 1), (1, 130), (1, 1), (48, 64), (128, 8), (512, 16), (16, 512)],
)
@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_native_passes_take_every_width(hidden, dim, kind, passes):
    encoder = make_encoder(dim=dim, hidden=hidden, skip=kind != "propagated")
    with torch.no_grad():
        encoder.biases[0].abs_()  # of a single hidden number something must be left
    check_against_torch(encoder, inputs_of(kind, adjacency_of()), passes)


@pytest.mark.parametrize("num_columns", [256, 257, 400])
@pytest.mark.parametrize("kind", ["sparse", "thinned", "propagated"])
@pytest.mark.parametrize("density", [0.01, 0.1])  # two products, or one for weights and skip together
def test_native_passes_take_few_and_many_columns(num_columns, kind, density, passes):
    encoder = make_encoder(num_columns, skip=kind != "propagated")
    check_against_torch(encoder, inputs_of(kind, adjacency_of(), num_columns, density), passes)


@pytest.mark.parametrize("num_rows", [1, 2, 63, 64, 65])
@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_native_passes_take_any_number_of_rows(num_rows, kind, passes):
    adjacency = adjacency_of(num_rows, density=0.5)
    check_against_torch(make_encoder(), inputs_of(kind, adjacency, density=0.6), passes)


def test_native_passes_of_a_graph_that_threads_share(threads, passes):
    adjacency = adjacency_of(700, density=0.06)
    assert adjacency.nnz > 20_000
    check_against_torch(make_encoder(skip=True), inputs_of("sparse", adjacency), passes)


@pytest.mark.parametrize("weighted", [False, True])
def test_native_passes_over_the_visible_edges_of_a_mask(weighted, passes):
    """The propagation has gaps between its rows, and their scale is that of the epoch."""
    adjacency = adjacency_of(weighted=weighted)
    mask = EdgeMask(adjacency, np.arange(NUM_ROWS), weighted=weighted)
    propagation, _ = mask.split(0.5, 0.3, seed=0, epoch=3)
    features = inputs_of("sparse", adjacency).features
    check_against_torch(make_encoder(skip=True), EncoderInput(propagation, features, propagated=False), passes)


def test_two_heads_of_a_variational_encoder(passes):
    check_against_torch(make_encoder(dim=7, variational=True, skip=True), inputs_of("sparse", adjacency_of()), passes)


@pytest.mark.parametrize("kind", ["dense", "sparse", "propagated"])
def test_what_is_not_a_number_stays_visible(kind, passes):
    """A weight or a feature that is not a number reaches every row that reads it."""
    adjacency = adjacency_of()
    encoder = make_encoder()
    with torch.no_grad():
        encoder.weights[1][3, 2] = torch.nan
    found = encoder(inputs_of(kind, adjacency))
    assert torch.isnan(found[:, 2]).all()
    assert torch.isfinite(found[:, [0, 1, *range(3, 16)]]).all()
    gradients = torch.autograd.grad(found.sum(), list(encoder.parameters()))
    assert torch.isnan(gradients[0]).any()
    with torch.no_grad():
        encoder.weights[1][3, 2] = 0
        encoder.biases[0][5] = torch.nan
    assert torch.isnan(encoder(inputs_of(kind, adjacency))).all()
    assert len(passes) == 2


def test_the_same_bits_again():
    encoder, inputs = make_encoder(layers=3, skip=True), inputs_of("sparse", adjacency_of(700))
    for one, other in zip(value_and_gradients(encoder, inputs), value_and_gradients(encoder, inputs), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "options",
    [{"hidden": 513}, {"layers": 1}, {"kind": "linear"}, {"kind": "sage"}, {"activation": "elu"}, {"residual": True}],
    ids=str,
)
def test_other_encoders_are_left_to_torch(options, passes):
    encoder, inputs = make_encoder(**options), inputs_of("sparse", adjacency_of())
    ours = value_and_gradients(encoder, inputs)
    theirs = value_and_gradients(copy.deepcopy(encoder).double(), inputs)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).abs().max() < TOLERANCE * other.abs().max()
    assert not passes


@pytest.mark.parametrize("layers", [2, 3])
def test_dense_propagated_features_equal_torch(layers, passes):
    inputs = prepare_input(adjacency_of(), features_of("dense"))
    assert inputs.propagated
    check_against_torch(make_encoder(layers=layers), inputs, passes)


def test_dense_propagated_features_of_16_bits_are_left_to_torch(passes):
    inputs = prepare_input(adjacency_of(), features_of("dense"), storage="float16")
    assert inputs.propagated
    make_encoder()(inputs)
    assert not passes


def test_the_torch_backend_encodes_alike(usual_backend, passes):
    encoder, found = make_encoder(skip=True), []
    for backend in ("native", "torch"):
        core.set_backend(backend)
        found.append(value_and_gradients(encoder, inputs_of("thinned", adjacency_of())))
    assert len(passes) == 1
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() < TOLERANCE * other.abs().max()


def test_gradients_in_float64():
    """The reference itself, by finite differences."""
    encoder = make_encoder(6, 3, hidden=4, skip=True).double()
    adjacency = adjacency_of(12, density=0.4)
    inputs = inputs_of("sparse", adjacency, num_columns=6, density=0.5)
    names, parameters = zip(*encoder.named_parameters(), strict=True)

    def encode(*given):
        return torch.func.functional_call(encoder, dict(zip(names, given, strict=True)), (inputs,))

    assert torch.autograd.gradcheck(encode, parameters)
