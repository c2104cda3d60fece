"""Losses beside that of sampled pairs: over all pairs of a small graph, and the divergence of a variational encoder."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def all_pairs_loss(left: Tensor, adjacency: Tensor, bias: Tensor | None = None, right: Tensor | None = None) -> Tensor:
    """The original GAE loss over every ordered pair, the diagonal counted as edges (Kipf and Welling 2016).

    left, right: the two sides of the score, as in `reconstruction_loss`.
    adjacency: (num_nodes, num_nodes) dense, 0 or 1, without diagonal.
    Edges are weighted up by the ratio of non-edges to edges, and the mean is scaled back accordingly.
    """
    target = adjacency + torch.eye(len(adjacency), dtype=adjacency.dtype, device=adjacency.device)
    num_pairs = target.numel()
    num_edges = target.sum()
    num_others = num_pairs - num_edges
    scores = left @ (left if right is None else right).t()
    if bias is not None:
        scores = scores + bias
    if num_others == 0:
        return functional.softplus(-scores).mean()
    norm = num_pairs / (2 * num_others)
    return norm * functional.binary_cross_entropy_with_logits(scores, target, pos_weight=num_others / num_edges)


def gaussian_divergence(mean: Tensor, log_deviation: Tensor, num_nodes: int) -> Tensor:
    """KL(q ‖ N(0, I)) summed over rows, divided by num_nodes twice: per node, and on the scale of the pair mean."""
    terms = 1 + 2 * log_deviation - mean.square() - torch.exp(2 * log_deviation)
    return -0.5 * terms.sum() / num_nodes**2
