"""The learned decoder against its formula, pair by pair."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from l2g2g.models.decoder import ProductDecoder, _ProductLoss, select_rows
from l2g2g.models.pair_patterns import PairPattern


@pytest.fixture
def decoder():
    return ProductDecoder(3, hidden=5, generator=torch.Generator().manual_seed(0)).double()


def by_hand(decoder, embedding, pairs, sign):
    losses = []
    for u, v in pairs:
        hidden = functional.elu((embedding[u] * embedding[v]) @ decoder.weight + decoder.bias)
        inner = decoder.inner_weight * (embedding[u] @ embedding[v])
        losses.append(functional.softplus(sign * (hidden @ decoder.out_weight + decoder.out_bias + inner)))
    return torch.stack(losses).mean()


def test_loss_is_the_mean_over_pairs(decoder):
    embedding = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    # Edges 0-1, 1-2 in both directions; non-edges 0-3, 2-3, 0-2 once each.
    edges = PairPattern(
        torch.tensor([0, 1, 3, 4, 4], dtype=torch.int32),
        torch.tensor([1, 0, 2, 1], dtype=torch.int32),
        torch.tensor(0.25, dtype=torch.float64),
        twice=True,
    )
    indptr, columns = np.array([0, 2, 2, 3, 3], np.int32), np.array([2, 3, 3], np.int32)
    weight = torch.tensor(1 / 3, dtype=torch.float64)
    non_edges = PairPattern(torch.from_numpy(indptr), torch.from_numpy(columns), weight)
    found = decoder.loss(embedding, edges, non_edges).detach()
    expected = by_hand(decoder, embedding, [(0, 1), (1, 2)], -1) + by_hand(
        decoder, embedding, [(0, 2), (0, 3), (2, 3)], 1
    )
    assert float(found) == pytest.approx(float(expected.detach()), abs=1e-12)


def test_selected_rows_have_the_gradient_of_indexing():
    matrix = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    numbers = torch.tensor([4, 0, 4, 2, 0, 4])
    assert torch.autograd.gradcheck(lambda given: select_rows(given, numbers), (matrix,))


def test_scores_are_symmetric_and_sliced_alike(decoder):
    embedding = torch.randn(6, 3, dtype=torch.float64)
    u, v = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])
    forward, backward = decoder.score(embedding, u, v), decoder.score(embedding, v, u)
    assert torch.equal(forward, backward)
    assert torch.allclose(forward, decoder(embedding[u] * embedding[v]))


def test_one_pass_has_the_loss_and_gradients_of_autograd(decoder, monkeypatch):
    monkeypatch.setattr("l2g2g.models.decoder._SLICE", 7)
    generator = torch.Generator().manual_seed(3)
    embedding = torch.randn(9, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    rows, columns = torch.randint(0, 9, (2, 25), generator=generator)
    slopes = torch.randn(25, dtype=torch.float64, generator=generator)
    inputs = [embedding, *decoder._parameters_in_order()]
    one_pass = _ProductLoss.apply(*inputs, rows, columns, slopes)
    plain = decoder.plain_loss(embedding, rows, columns, slopes)
    assert float(one_pass.detach()) == pytest.approx(float(plain.detach()), rel=1e-12)
    found, expected = torch.autograd.grad(2 * one_pass, inputs), torch.autograd.grad(2 * plain, inputs)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)
