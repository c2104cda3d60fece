"""Losses beside that of sampled pairs: over all pairs of a small graph, and the divergence of a variational encoder."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def all_pairs_loss(
    left: Tensor,
    adjacency: Tensor,
    bias: Tensor | None = None,
    right: Tensor | None = None,
    rows: Tensor | None = None,
    num_arcs: int | None = None,
) -> Tensor:
    """The original GAE loss over every ordered pair, the diagonal counted as edges (Kipf and Welling 2016).

    left, right: the two sides of the score, as in `reconstruction_loss`.
    adjacency: (num_rows, num_nodes) dense, 0 or 1, without diagonal.
    rows: (num_rows,) the nodes of its rows; None for all. num_arcs: entries of the rows of all nodes; None to count.
    Edges are weighted up by the ratio of non-edges to edges, and the mean is scaled back accordingly.
    """
    rows = torch.arange(len(adjacency), device=adjacency.device) if rows is None else rows
    target = adjacency.clone()
    target[torch.arange(len(rows), device=rows.device), rows] += 1
    num_pairs = len(left) ** 2
    num_edges = (int(adjacency.sum()) if num_arcs is None else num_arcs) + len(left)
    num_others = num_pairs - num_edges
    scores = left[rows] @ (left if right is None else right).t()
    if bias is not None:
        scores = scores + bias
    if num_others == 0:
        return functional.softplus(-scores).sum() / num_pairs
    weight = scores.new_tensor(num_others / num_edges)
    total = functional.binary_cross_entropy_with_logits(scores, target, pos_weight=weight, reduction="sum")
    return total / (2 * num_others)


def gaussian_divergence(mean: Tensor, log_deviation: Tensor, num_nodes: int) -> Tensor:
    """KL(q ‖ N(0, I)) summed over rows, divided by num_nodes twice: per node, and on the scale of the pair mean."""
    terms = 1 + 2 * log_deviation - mean.square() - torch.exp(2 * log_deviation)
    return -0.5 * terms.sum() / num_nodes**2
