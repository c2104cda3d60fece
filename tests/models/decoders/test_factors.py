"""Decoders that are inner products of two sides: against their formulas, and under motions of the embedding."""

import numpy as np
import pytest
import torch

from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders.factors import (
    AsymmetricDecoder,
    CosineDecoder,
    DistanceDecoder,
    InnerDecoder,
    SignedDecoder,
)
from l2g2g.models.pairs import Arcs, PairList


def random_rotation(size, seed=0):
    return torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(seed)).double()).Q


@pytest.fixture
def embedding():
    return torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def all_scores(decoder, embedding):
    sides = decoder.factors(embedding)
    rows, columns = torch.meshgrid(torch.arange(len(embedding)), torch.arange(len(embedding)), indexing="ij")
    return sides.score(rows.ravel(), columns.ravel()).reshape(len(embedding), -1).detach()


def test_cosine_is_scale_times_cosine_plus_bias(embedding):
    decoder = CosineDecoder().double()
    with torch.no_grad():
        decoder.bias.fill_(-0.4)
        decoder.log_scale.fill_(0.7)
    lengths = embedding.norm(dim=1)
    expected = np.exp(0.7) * (embedding @ embedding.t()) / torch.outer(lengths, lengths) - 0.4
    assert torch.allclose(all_scores(decoder, embedding), expected, atol=1e-12)


def test_cosine_of_a_zero_vector_is_the_bias(embedding):
    embedding[0] = 0
    assert (all_scores(CosineDecoder().double(), embedding)[0] == 0).all()


def test_distance_is_bias_minus_scaled_square(embedding):
    decoder = DistanceDecoder().double()
    with torch.no_grad():
        decoder.log_scale.fill_(-0.3)
    squares = (embedding[:, None] - embedding[None]).square().sum(dim=2)
    assert torch.allclose(all_scores(decoder, embedding), 4.0 - np.exp(-0.3) * squares, atol=1e-12)


def test_distance_is_exact_far_from_the_origin(embedding):
    # In float32 the squares would be 1e6 and their differences off by whole numbers.
    near, far = (all_scores(DistanceDecoder(), (embedding + shift).float()) for shift in (0, 1000))
    assert torch.allclose(near, far, rtol=1e-3, atol=0.02)


def test_signed_weighs_the_columns(embedding):
    decoder = SignedDecoder(4).double()
    assert decoder.weights.tolist() == [1, 1, -1, -1]
    with torch.no_grad():
        decoder.weights.copy_(torch.tensor([2.0, 0.5, -1.0, 0.0]))
        decoder.bias.fill_(0.3)
    expected = embedding @ torch.diag(torch.tensor([2.0, 0.5, -1.0, 0.0]).double()) @ embedding.t() + 0.3
    assert torch.allclose(all_scores(decoder, embedding), expected, atol=1e-12)


def test_asymmetric_reads_the_two_halves(embedding):
    scores = all_scores(AsymmetricDecoder().double(), embedding)
    assert torch.allclose(scores, embedding[:, :2] @ embedding[:, 2:].t(), atol=1e-12)
    assert not torch.allclose(scores, scores.t(), atol=0.1)


@pytest.mark.parametrize("decoder", [InnerDecoder().double(), CosineDecoder().double(), DistanceDecoder().double()])
def test_rotations_change_no_symmetric_score(decoder, embedding):
    before = all_scores(decoder, embedding)
    assert torch.allclose(all_scores(decoder, embedding @ random_rotation(4)), before, atol=1e-12)
    assert torch.allclose(before, before.t(), atol=1e-12)


@pytest.mark.parametrize("decoder", [InnerDecoder().double(), CosineDecoder().double(), AsymmetricDecoder().double()])
def test_translations_change_all_but_distances(decoder, embedding):
    shift = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    difference = all_scores(decoder, embedding + shift) - all_scores(decoder, embedding)
    assert (difference - difference.mean()).abs().max() > 0.1
    distances = DistanceDecoder().double()
    assert torch.allclose(all_scores(distances, embedding + shift), all_scores(distances, embedding), atol=1e-12)


def test_rotations_of_both_halves_alike_change_no_asymmetric_score(embedding):
    decoder, turn = AsymmetricDecoder().double(), random_rotation(2)
    before = all_scores(decoder, embedding)
    assert torch.allclose(all_scores(decoder, embedding @ torch.block_diag(turn, turn)), before, atol=1e-12)
    # One rotation of all coordinates mixes sources and targets: such an alignment must not be used.
    assert not torch.allclose(all_scores(decoder, embedding @ random_rotation(4)), before, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["inner", "cosine", "distance"])
def test_losses_are_those_of_the_scores(kind, embedding, dtype):
    # Edges 0-1 and 1-2 in both directions; non-edges 3-4 and 5-6 once.
    model = Autoencoder(2, 4, decoder=kind, learn_bias=True).to(dtype)
    embedding = embedding.to(dtype).requires_grad_()
    starts, ends = np.array([0, 1, 3, 4, 4, 4, 4]), np.array([1, 3, 4, 4, 4, 4, 4])
    edges = Arcs(starts, ends, np.array([1, 0, 2, 1], np.int32), np.full(1, 0.25, np.float32))
    far_ends = np.array([3, 5], np.int32), np.array([4, 6], np.int32)
    non_edges = PairList(*far_ends, np.full(1, 0.5, np.float32))
    found = model.pair_loss(embedding, edges, non_edges)
    positive = model.decoder.factors(embedding).score(torch.tensor([0, 1]), torch.tensor([1, 2]))
    negative = model.decoder.factors(embedding).score(torch.tensor([3, 5]), torch.tensor([4, 6]))
    softplus = torch.nn.functional.softplus
    expected = softplus(-positive).mean() + softplus(negative).mean()
    wanted = (embedding, *model.decoder.parameters())
    for mine, other in zip(torch.autograd.grad(found, wanted), torch.autograd.grad(expected, wanted), strict=True):
        assert torch.allclose(mine, other, atol=1e-12 if dtype == torch.float64 else 1e-4)


@pytest.mark.parametrize("kind", ["cosine", "distance"])
def test_all_pairs_are_scored_by_the_decoder(kind, embedding):
    model = Autoencoder(2, 4, decoder=kind).double()
    adjacency = torch.zeros(7, 7, dtype=torch.float64)
    adjacency[0, 1] = adjacency[1, 0] = 1
    scores = all_scores(model.decoder, embedding)
    target = adjacency + torch.eye(7, dtype=torch.float64)
    num_edges, num_others = 9, 40
    weights = 1 + target * (num_others / num_edges - 1)
    losses = torch.nn.functional.softplus(torch.where(target > 0, -scores, scores))
    expected = float((weights * losses).mean()) * 49 / (2 * num_others)
    assert float(model.all_pairs_loss(embedding, adjacency).detach()) == pytest.approx(expected, rel=1e-12)


def test_the_product_decoder_has_no_sides(embedding):
    with pytest.raises(ValueError, match="score sampled pairs"):
        Autoencoder(2, 4, decoder="product").double().all_pairs_loss(embedding, torch.zeros(7, 7))
