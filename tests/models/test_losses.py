"""Losses: by hand on a few nodes."""

import math

import pytest
import torch

from l2g2g.models.losses import all_pairs_loss, gaussian_divergence


def softplus(x):
    return math.log1p(math.exp(x))


def test_all_pairs_on_three_nodes():
    # z = 1, 2, -1 on a line; one edge {0, 1}; scores z_u z_v. Edges with the diagonal: 5 of 9 pairs, 4 others.
    embedding = torch.tensor([[1.0], [2.0], [-1.0]], dtype=torch.float64)
    adjacency = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.float64)
    edges = [1.0, 4.0, 1.0, 2.0, 2.0]
    others = [-1.0, -1.0, -2.0, -2.0]
    total = sum(4 / 5 * softplus(-score) for score in edges) + sum(softplus(score) for score in others)
    norm = 9 / (2 * 4)
    assert float(all_pairs_loss(embedding, adjacency)) == pytest.approx(norm * total / 9, rel=1e-12)
    bias = torch.tensor(0.5, dtype=torch.float64)
    total = sum(4 / 5 * softplus(-score - 0.5) for score in edges) + sum(softplus(score + 0.5) for score in others)
    assert float(all_pairs_loss(embedding, adjacency, bias)) == pytest.approx(norm * total / 9, rel=1e-12)


def test_all_pairs_of_a_complete_graph_have_no_other_side():
    embedding = torch.tensor([[1.0], [2.0]])
    adjacency = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    expected = (softplus(-1) + softplus(-4) + 2 * softplus(-2)) / 4
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
