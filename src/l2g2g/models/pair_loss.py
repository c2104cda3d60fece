"""Pair loss: how badly inner products tell edges from non-edges, and the gradient, in one go. The hottest code.

Two routes give the same: the native kernels (CPU, float32), and the reference in plain torch for any device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.core import blank_table, native, num_threads, reference
from l2g2g.models.pairs import Arcs, PairList
from l2g2g.models.sampling import NegativeDraws
from l2g2g.models.sparse import runs_native

_MOST_PARTS = 8  # every part of a list has gradient tables of its own
_PAIRS_PER_PART = 20_000
_WIDEST = 512

ScoredEdges = Arcs | PairList
NonEdges = NegativeDraws | PairList


def reconstruction_loss(
    left: Tensor, edges: ScoredEdges, non_edges: NonEdges, bias: Tensor | None = None, right: Tensor | None = None
) -> Tensor:
    """Σ weight · −log σ(±(left_u · right_v + bias)): + for edges, − for non-edges. The means are in the weights.

    left, right: (num_rows, width); without a right one both sides are the left one, so that the score of an embedding
    is the inner product. Differentiable in both and in the bias.
    """
    bias = left.new_zeros(()) if bias is None else bias
    if not can_score(left):
        return reference.pair_loss(left, left if right is None else right, bias, edges.listed, non_edges.listed)
    return _PairLoss.apply(left, right, bias, edges, non_edges)


def can_score(left: Tensor) -> bool:
    """Whether the native kernels score these rows."""
    return runs_native(left) and left.shape[1] <= _WIDEST


def reconstruction_gradient(
    left: Tensor, edges: ScoredEdges, non_edges: NonEdges, bias: float
) -> tuple[float, Tensor, float]:
    """(loss, gradient of left, derivative by the bias) of `reconstruction_loss` of one table, where `can_score`."""
    sums = GradientSums(left.detach().contiguous().numpy(), None, bias)
    sums.add_edges(edges)
    sums.add_non_edges(non_edges)
    return sums.loss, torch.from_numpy(sums.gradients()[0]), sums.slope


class _PairLoss(torch.autograd.Function):
    """Loss and gradient at once, so that nothing of the size of the pairs outlives the forward."""

    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor | None, bias: Tensor, edges: ScoredEdges, non_edges: NonEdges
    ) -> Tensor:
        one = left.detach().contiguous().numpy()
        other = None if right is None else right.detach().contiguous().numpy()
        sums = GradientSums(one, other, float(bias))
        sums.add_edges(edges)
        sums.add_non_edges(non_edges)
        gradients = [torch.from_numpy(table) for table in sums.gradients()]
        ctx.save_for_backward(*gradients, torch.scalar_tensor(sums.slope, dtype=bias.dtype))
        ctx.has_right = right is not None
        return torch.scalar_tensor(sums.loss, dtype=left.dtype)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        if outer != 1:
            saved = [outer * each for each in saved]
        return saved[0], saved[1] if ctx.has_right else None, saved[-1], None, None


class GradientSums:
    """The loss of pairs and its gradient as they are added up by the native kernels.

    Args:
        left, right: (num_rows, width) float32; right None: both sides are the left one.
        bias: Added to every score.
    """

    def __init__(self, left: np.ndarray, right: np.ndarray | None, bias: float) -> None:
        self.left, self.right, self.bias = left, right, bias
        self.loss = self.slope = 0.0
        self._tables = [blank_table(1, *side.shape) for side in (left, right) if side is not None]
        self._is_empty = True

    def add_edges(self, edges: ScoredEdges) -> None:
        """Add pairs that are edges."""
        if isinstance(edges, Arcs):
            of_left, of_right = self._first_tables()
            weights = edges.weights, edges.kind
            sides = self.left, self.right
            found = native().score_arcs(edges.csr, *weights, *sides, self.bias, 1.0, of_left, of_right)
            self._is_empty = False
            self._count(found)
        else:
            self._add_list(edges, 1.0)

    def add_non_edges(self, non_edges: NonEdges) -> None:
        """Add pairs that are not."""
        if isinstance(non_edges, NegativeDraws) and non_edges.can_stream:
            self._begin(1)
            of_left, of_right = self._first_tables()
            sides = self.left, self.right, self.bias, of_left, of_right
            self._count(non_edges.plan.score(*sides, seed=non_edges.seed, epoch=non_edges.epoch))
        else:
            self._add_list(non_edges.listed, -1.0)

    def gradients(self) -> list[np.ndarray]:
        """(num_rows, width) of the left side and, where there is one, of the right one."""
        for table in self._tables:
            for part in table[1:]:
                table[0] += part
        return [table[0] for table in self._tables]

    def _add_list(self, pairs: PairList, sign: float) -> None:
        self._begin(max(1, min(num_threads(), _MOST_PARTS, pairs.num_pairs // _PAIRS_PER_PART)))
        tables = [*self._tables, None][:2]
        ends = pairs.rows, pairs.columns, pairs.weights, pairs.kind
        self._count(native().score_list(*ends, self.left, self.right, self.bias, sign, *tables))

    def _begin(self, num_parts: int) -> None:
        """Have at least so many tables, those that are new filled with zeros."""
        for place, table in enumerate(self._tables):
            if num_parts > len(table):
                larger = blank_table(num_parts, *table.shape[1:])
                larger[: len(table)] = table
                larger[len(table) :] = 0.0
                self._tables[place] = larger
            if self._is_empty:
                self._tables[place][0] = 0.0
        self._is_empty = False

    def _first_tables(self) -> tuple[np.ndarray, np.ndarray | None]:
        return self._tables[0][0], None if self.right is None else self._tables[1][0]

    def _count(self, found: tuple[float, float]) -> None:
        self.loss += found[0]
        self.slope += found[1]
