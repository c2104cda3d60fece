"""The learned decoder against its formula, pair by pair."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from l2g2g import core
from l2g2g.models.decoders.product import ProductDecoder
from l2g2g.models.pairs import Arcs, PairList


@pytest.fixture
def decoder():
    decoder = ProductDecoder(3, hidden=5, generator=torch.Generator().manual_seed(0)).double()
    decoder.signs[1] = -1
    return decoder


def by_hand(decoder, embedding, pairs, sign):
    losses = []
    for u, v in pairs:
        hidden = functional.elu((embedding[u] * embedding[v]) @ decoder.weight + decoder.bias)
        inner = decoder.inner_weight * (embedding[u] @ (decoder.signs * embedding[v]))
        losses.append(functional.softplus(sign * (hidden @ decoder.out_weight + decoder.out_bias + inner)))
    return torch.stack(losses).mean()


def test_loss_is_the_mean_over_pairs(decoder):
    embedding = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    # Edges 0-1, 1-2 in both directions; non-edges 0-3, 2-3, 0-2 once each.
    starts, ends = np.array([0, 1, 3, 4]), np.array([1, 3, 4, 4])
    edges = Arcs(starts, ends, np.array([1, 0, 2, 1], np.int32), np.full(1, 0.25, np.float32))
    rows, columns = np.array([0, 0, 2], np.int32), np.array([2, 3, 3], np.int32)
    non_edges = PairList(rows, columns, np.full(1, 1 / 3, np.float32))
    found = decoder.loss(embedding, edges, non_edges).detach()
    expected = by_hand(decoder, embedding, [(0, 1), (1, 2)], -1) + by_hand(
        decoder, embedding, [(0, 2), (0, 3), (2, 3)], 1
    )
    assert float(found) == pytest.approx(float(expected.detach()), rel=1e-7)


def test_scores_are_symmetric_and_sliced_alike(decoder):
    embedding = torch.randn(6, 3, dtype=torch.float64)
    u, v = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])
    forward, backward = decoder(embedding, u, v), decoder(embedding, v, u)
    assert torch.equal(forward, backward)
    assert torch.allclose(forward, decoder.score_products(embedding[u] * embedding[v]))


def random_lists(generator, num_rows, count):
    """(edges, non-edges): lists in which pairs repeat and rows meet themselves, with weights of every kind."""
    rows, columns, others, far = generator.integers(0, num_rows, (4, count)).astype(np.int32)
    edges = PairList(rows, columns, generator.random(count).astype(np.float32), "pair")
    return edges, PairList(others, far, generator.random(num_rows).astype(np.float32), "row")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dim", "hidden", "count"), [(3, 5, 25), (16, 64, 60), (40, 7, 3000)])
def test_one_pass_has_the_loss_and_gradients_of_autograd(dim, hidden, count, threads, monkeypatch):
    monkeypatch.setattr("l2g2g.models.decoders.product._SLICE", 7 if count < 100 else 1500)
    decoder = ProductDecoder(dim, hidden=hidden, generator=torch.Generator().manual_seed(0))
    wide = ProductDecoder(dim, hidden=hidden, generator=torch.Generator().manual_seed(0)).double()
    decoder.signs[-1] = wide.signs[-1] = -1
    edges, non_edges = random_lists(np.random.default_rng(0), 9, count)
    embedding = torch.randn(9, dim, generator=torch.Generator().manual_seed(3)) / dim**0.5
    before = core.num_threads()
    core.set_num_threads(threads)
    try:
        results = []
        for model, given in ((decoder, embedding), (wide, embedding.double())):
            inputs = [given.requires_grad_(), *model.parameters()]
            loss = model.loss(given, edges, non_edges)
            results.append([loss.detach(), *torch.autograd.grad(2 * loss, inputs)])
    finally:
        core.set_num_threads(before)
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours.double(), theirs, rtol=1e-4, atol=1e-6 * count)


@pytest.mark.slow
def test_gradients_in_float64(decoder):
    edges, non_edges = random_lists(np.random.default_rng(1), 6, 10)
    embedding = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: decoder.loss(given, edges, non_edges), (embedding,))
