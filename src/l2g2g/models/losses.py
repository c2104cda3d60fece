"""Losses: of sampled pairs with their gradient, over all pairs of a small graph, and the KL divergence of a VGAE.

The loss of sampled pairs is the hottest code. The native kernels (CPU, float32) and plain torch (`core.reference`, any
device) compute the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from l2g2g.core import blank_table, native, num_threads, reference
from l2g2g.models.pairs import Arcs, PairList
from l2g2g.models.sampling import NegativeDraws
from l2g2g.models.sparse import WIDEST, add_parts, runs_native

_MOST_PARTS = 8  # each part of a list has its own gradient tables
_PAIRS_PER_PART = 20_000

ScoredEdges = Arcs | PairList
NonEdges = NegativeDraws | PairList


def reconstruction_loss(
    left: Tensor, edges: ScoredEdges, non_edges: NonEdges, bias: Tensor | None = None, right: Tensor | None = None
) -> Tensor:
    """Σ weight · −log σ(±(left_u · right_v + bias)): + for edges, − for non-edges. The weights contain the means.

    left, right: (num_rows, width); right None for the left factor, so that the score is the inner product of two rows.
    Differentiable in both and in the bias.
    """
    bias = left.new_zeros(()) if bias is None else bias
    if not can_score(left):
        return reference.pair_loss(left, left if right is None else right, bias, edges.pair_list, non_edges.pair_list)
    return _PairLoss.apply(left, right, bias, edges, non_edges)


def can_score(left: Tensor) -> bool:
    """Return True if the native kernels score these rows."""
    return runs_native(left) and left.shape[1] <= WIDEST


def reconstruction_gradient(
    left: Tensor, edges: ScoredEdges, non_edges: NonEdges, bias: float
) -> tuple[float, Tensor, float]:
    """Compute `reconstruction_loss` of one factor without autograd, where `can_score`.

    Returns:
        Loss, gradient of left, derivative with respect to the bias.
    """
    loss, slope, gradients = _score_natively(left.detach().contiguous().numpy(), None, bias, edges, non_edges)
    return loss, torch.from_numpy(gradients[0]), slope


class _PairLoss(torch.autograd.Function):
    """Compute loss and gradient together, so that nothing of the size of the pairs outlives the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor | None, bias: Tensor, edges: ScoredEdges, non_edges: NonEdges
    ) -> Tensor:
        one = left.detach().contiguous().numpy()
        other = None if right is None else right.detach().contiguous().numpy()
        loss, slope, gradients = _score_natively(one, other, float(bias), edges, non_edges)
        ctx.save_for_backward(*map(torch.from_numpy, gradients), torch.scalar_tensor(slope, dtype=bias.dtype))
        ctx.has_right = right is not None
        return torch.scalar_tensor(loss, dtype=left.dtype)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        if outer != 1:
            saved = [outer * each for each in saved]
        return saved[0], saved[1] if ctx.has_right else None, saved[-1], None, None


def _score_natively(
    left: np.ndarray, right: np.ndarray | None, bias: float, edges: ScoredEdges, non_edges: NonEdges
) -> tuple[float, float, list[np.ndarray]]:
    """Return loss, derivative with respect to the bias, and gradients of left and, unless None, of right."""
    tables = [blank_table(1, *side.shape) for side in (left, right) if side is not None]  # (parts, num_rows, width)

    def score_list(pairs: PairList, sign: float) -> tuple[float, float]:
        num_parts = min(num_threads(), _MOST_PARTS, pairs.num_pairs // _PAIRS_PER_PART)
        for place, table in enumerate(tables):
            if num_parts > len(table):
                tables[place] = blank_table(num_parts, *table.shape[1:])
                tables[place][: len(table)], tables[place][len(table) :] = table, 0.0
        ends = pairs.rows, pairs.columns, pairs.weights, pairs.kind
        found: tuple[float, float] = native().score_list(*ends, left, right, bias, sign, *[*tables, None][:2])
        return found

    def first_parts() -> tuple[np.ndarray, np.ndarray | None]:
        return tables[0][0], None if right is None else tables[1][0]

    if isinstance(edges, Arcs):  # the kernel writes over the tables
        arguments = edges.csr, edges.weights, edges.kind, left, right, bias, 1.0
        loss, slope = native().score_arcs(*arguments, *first_parts())
    else:
        for table in tables:
            table.fill(0.0)
        loss, slope = score_list(edges, 1.0)
    if isinstance(non_edges, NegativeDraws) and non_edges.can_stream:
        of_left, of_right = first_parts()
        seed, epoch = non_edges.seed, non_edges.epoch
        found = non_edges.plan.score(left, right, bias, of_left, of_right, seed=seed, epoch=epoch)
    else:
        found = score_list(non_edges.pair_list, -1.0)
    return loss + found[0], slope + found[1], [add_parts(table) for table in tables]


def all_pairs_loss(
    left: Tensor,
    adjacency: Tensor,
    bias: Tensor | None = None,
    right: Tensor | None = None,
    rows: Tensor | None = None,
    num_arcs: int | None = None,
) -> Tensor:
    """Compute the GAE loss over all ordered pairs, the diagonal counted as edges (Kipf and Welling 2016).

    left, right: The factors of the score, as in `reconstruction_loss`.
    adjacency: (num_rows, num_nodes) dense, 0 or 1, without diagonal.
    rows: (num_rows,) node of each row; None for all. num_arcs: Entries of all rows of the graph; None to count them.
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
    """Return KL(q ‖ N(0, I)), summed over rows and divided by num_nodes²: per node, and to the scale of a pair mean."""
    terms = 1 + 2 * log_deviation - mean.square() - torch.exp(2 * log_deviation)
    return -0.5 * terms.sum() / num_nodes**2
