import numpy as np
import pytest
import torch

from l2g2g.models.autoencoder import Autoencoder
from l2g2g.neighbours.decoding import LinkDecoder

KINDS = ["inner", "cosine", "distance", "product", "asymmetric"]


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
    scores = LinkDecoder.of(model).score(vectors, sources, targets)
    table, ends = torch.from_numpy(vectors), (torch.from_numpy(sources), torch.from_numpy(targets))
    with torch.no_grad():
        expected = model.decoder.score(table, *ends) if kind == "product" else model.factors(table).score(*ends)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "product"])
def test_sides_give_the_same_scores(kind, vectors):
    decoder = LinkDecoder.of(make(kind))
    sides = decoder.sides(vectors)
    sources, targets = np.divmod(np.arange(900), 30)
    expected = decoder.score(vectors, sources, targets).reshape(30, 30)
    np.testing.assert_allclose(sides.left @ sides.right.T + sides.bias, expected, rtol=1e-3, atol=1e-4)
    assert sides.one_way == decoder.one_way == (kind == "asymmetric")


def test_a_learned_decoder_has_no_sides(vectors):
    assert LinkDecoder.of(make("product")).sides(vectors) is None


def test_by_default_the_inner_product(vectors):
    np.testing.assert_allclose(
        LinkDecoder().score(vectors, np.array([3]), np.array([4])), [vectors[3] @ vectors[4]], rtol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
def test_from_its_parameters(kind, vectors):
    model = make(kind)
    kept = {"bias": model.bias.detach().numpy()} if kind == "inner" else model.decoder.state_dict()
    again = LinkDecoder.from_parameters(kind, {name: np.asarray(value) for name, value in kept.items()}, 6)
    ends = np.array([0, 1, 2]), np.array([5, 6, 2])
    np.testing.assert_allclose(again.score(vectors, *ends), LinkDecoder.of(model).score(vectors, *ends))
