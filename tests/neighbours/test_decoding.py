import numpy as np
import pytest
import torch

from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders import DECODERS, read_decoder
from l2g2g.models.decoders.factors import InnerDecoder
from l2g2g.neighbours.factors import factors_of

KINDS = list(DECODERS)


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)


def make(kind):
    model = Autoencoder(3, 6, decoder=kind, learn_bias=True)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("bias") and value.ndim == 0:
                value.fill_(0.7)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_model(kind, vectors):
    model = make(kind)
    sources, targets = np.array([0, 1, 2]), np.array([5, 6, 2])
    scores = model.decoder.score(vectors, sources, targets)
    table, ends = torch.from_numpy(vectors), (torch.from_numpy(sources), torch.from_numpy(targets))
    with torch.no_grad():
        expected = model.decoder(table, *ends)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "product"])
def test_factors_give_the_same_scores(kind, vectors):
    decoder = make(kind).decoder
    factors = factors_of(decoder, vectors)
    sources, targets = np.divmod(np.arange(900), 30)
    expected = decoder.score(vectors, sources, targets).reshape(30, 30)
    np.testing.assert_allclose(factors.left @ factors.right.T + factors.bias, expected, rtol=1e-3, atol=1e-4)
    assert factors.one_way == decoder.is_directed == (kind == "asymmetric")


def test_a_learned_decoder_has_no_factors(vectors):
    assert factors_of(make("product").decoder, vectors) is None


def test_by_default_the_inner_product(vectors):
    np.testing.assert_allclose(
        InnerDecoder().score(vectors, np.array([3]), np.array([4])), [vectors[3] @ vectors[4]], rtol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
def test_from_its_parameters(kind, vectors):
    model = make(kind)
    parameters = {name: value.numpy() for name, value in model.decoder.state_dict().items()}
    again = read_decoder(kind, parameters, 6)
    ends = np.array([0, 1, 2]), np.array([5, 6, 2])
    np.testing.assert_allclose(again.score(vectors, *ends), model.decoder.score(vectors, *ends))
