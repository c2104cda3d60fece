"""Pair loss: how badly inner products tell edges from non-edges, and the gradient, in one go. The hottest code.

Two routes give the same: a compiled pass over a list of pairs (CPU, float32), and sampled and plain sparse
products of torch for any device, which is also the reference.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, get_num_threads

from l2g2g.models.pair_kernel import Sums
from l2g2g.models.pair_patterns import PairPattern
from l2g2g.models.sparse import csr_tensor

_MOST_PARTS = 8  # every thread sums into a table of its own


def reconstruction_loss(
    left: Tensor,
    edges: PairPattern,
    non_edges: PairPattern,
    bias: Tensor | None = None,
    right: Tensor | None = None,
    sections: np.ndarray | None = None,
) -> Tensor:
    """Σ weight · −log σ(±(left_u · right_v + bias)): + for edges, − for non-edges. The means are in the weights.

    left, right: (num_rows, width); without a right one both sides are the left one, so that the score of an embedding
    is the inner product. Differentiable in both and in the bias.
    sections: (num_sections + 1,) first row of each stretch of rows that no pair leaves; sums are made of each, and then
    of these.
    """
    if bias is None:
        bias = left.new_zeros(())
    sides = (left.contiguous(), None if right is None else right.contiguous())
    return _PairLoss.apply(*sides, bias, edges, non_edges, sections)


class _PairLoss(torch.autograd.Function):
    """Loss and gradient at once, so that nothing of the size of a pattern outlives the forward."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        left: Tensor,
        right: Tensor | None,
        bias: Tensor,
        edges: PairPattern,
        non_edges: PairPattern,
        sections: np.ndarray | None,
    ) -> Tensor:
        compiled = left.device.type == "cpu" and left.dtype == torch.float32
        found = (
            _loss_compiled(left, right, bias, edges, non_edges, sections)
            if compiled
            else loss_by_products(left, right, bias, edges, non_edges)
        )
        loss, *gradients = found
        ctx.save_for_backward(*gradients)  # type: ignore[arg-type]
        return loss

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, outer: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        if outer.device.type == "cpu" and outer == 1:  # the loss itself is differentiated: nothing to multiply
            return (*saved, None, None, None)
        return (*(None if gradient is None else outer * gradient for gradient in saved), None, None, None)


Gradients = tuple[Tensor, Tensor, Tensor | None, Tensor]


def _loss_compiled(
    left: Tensor,
    right: Tensor | None,
    bias: Tensor,
    edges: PairPattern,
    non_edges: PairPattern,
    sections: np.ndarray | None = None,
) -> Gradients:
    """(loss, gradients of left, right and bias) by the compiled pass."""
    one = left.numpy()
    other = one if right is None else right.numpy()
    num_parts = min(get_num_threads(), _MOST_PARTS)
    apart = num_parts == 1 and sections is not None
    num_parts = len(sections) - 1 if apart and sections is not None else num_parts
    sums = Sums.empty(one, None if right is None else other, num_parts, apart=apart)
    for pattern, sign in ((edges, 1.0), (non_edges, -1.0)):
        rows, columns, weights = (part.numpy() for part in pattern.listed)
        bounds = np.arange(num_parts + 1) * len(rows) // num_parts
        if apart and sections is not None:
            bounds = np.searchsorted(rows, sections.astype(rows.dtype))
        sums = sums.add_pairs(one, other, rows, columns, weights, bounds, bias=float(bias), sign=sign)
    of_left, of_right = sums.gradients()
    return (
        left.new_tensor(sums.loss.astype(np.float32).sum()),
        torch.from_numpy(of_left),
        None if of_right is None else torch.from_numpy(of_right),
        bias.new_tensor(sums.bias.astype(np.float32).sum()),
    )


def loss_by_products(
    left: Tensor, right: Tensor | None, bias: Tensor, edges: PairPattern, non_edges: PairPattern
) -> Gradients:
    """The same by sparse products, for any device and precision."""
    other = left if right is None else right
    loss, of_bias = left.new_zeros(()), torch.zeros_like(bias)
    of_left, of_right = torch.zeros_like(left), torch.zeros_like(other)
    shape = (len(left), len(other))
    for pattern, sign in ((edges, 1.0), (non_edges, -1.0)):
        signed = score_pairs(left, other, pattern).add_(bias).mul_(-sign)
        weights = pattern.entry_weights
        loss += (torch.nn.functional.softplus(signed) * weights).sum()
        slope = signed.sigmoid_().mul_(weights).mul_(-sign)
        of_bias += slope.sum()
        slopes = csr_tensor(pattern.indptr, pattern.indices, slope, shape)
        of_left += slopes @ other
        if not pattern.twice:
            indptr, indices, order = pattern.transpose
            slopes = csr_tensor(indptr, indices, slope[order], shape)
        of_right += slopes @ left
    return (loss, of_left + of_right, None, of_bias) if right is None else (loss, of_left, of_right, of_bias)


def score_pairs(left: Tensor, right: Tensor, pattern: PairPattern) -> Tensor:
    """Inner products left_u · right_v of all pairs in the pattern. Returns (num_entries,)."""
    values = torch.zeros(pattern.num_pairs, dtype=left.dtype, device=left.device)
    where = csr_tensor(pattern.indptr, pattern.indices, values, (len(left), len(right)))
    return torch.sparse.sampled_addmm(where, left, right.t(), beta=0.0).values()
