"""Product decoder: a small learned score of a pair, on the elementwise product of its two vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from l2g2g.core import blank_table, native
from l2g2g.models.decoders.base import Decoder
from l2g2g.models.losses import NonEdges, ScoredEdges
from l2g2g.models.sparse import runs_native

_SLICE = 4096  # pairs whose products stay in the second-level cache
_PAIRS_PER_SLICE = 1 << 16  # of scores without gradient


class ProductDecoder(Decoder):
    """score(u, v) = a Σ_k s_k z_uk z_vk + w · ELU((z_u ∘ z_v) W + b) + c: symmetric, and free to weigh the coordinates.

    The signs s are 1 unless coordinates were put beside the trained ones, see `runs.direct`.

    The inner product makes the first epochs count, the rest says more than it can. Costs a dense layer per pair;
    neighbour search by inner product no longer ranks as it does.
    """

    has_factors = False
    page_score = """(page, row, node) => {
    // weights: W row by row, then b, then w, then s.
    const { weights, width } = page, { hidden, innerWeight, bias } = page.decoder;
    const first = page.vectorOf(row), second = page.vectorOf(node), biases = width * hidden, outer = biases + hidden;
    const signs = outer + hidden;
    let score = bias;
    const sums = weights.slice(biases, outer);
    for (let column = 0; column < width; column++) {
      const product = first[column] * second[column];
      score += innerWeight * weights[signs + column] * product;
      for (let unit = 0; unit < hidden; unit++) sums[unit] += product * weights[column * hidden + unit];
    }
    for (let unit = 0; unit < hidden; unit++) {
      score += weights[outer + unit] * (sums[unit] > 0 ? sums[unit] : Math.expm1(sums[unit]));
    }
    return score;
  }"""

    def __init__(
        self, dim: int, *, learn_bias: bool = True, generator: torch.Generator | None = None, hidden: int = 64
    ) -> None:
        super().__init__(dim)
        bound, out_bound = (6.0 / (dim + hidden)) ** 0.5, (6.0 / (hidden + 1)) ** 0.5
        self.weight = nn.Parameter(torch.empty(dim, hidden).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.out_weight = nn.Parameter(torch.empty(hidden).uniform_(-out_bound, out_bound, generator=generator))
        self.out_bias = nn.Parameter(torch.zeros(()))
        self.inner_weight = nn.Parameter(torch.ones(()))
        self.signs: Tensor
        self.register_buffer("signs", torch.ones(dim))

    def forward(self, embedding: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """(num_pairs,) scores of pairs of rows, in slices so that memory stays small."""
        slices = zip(sources.split(_PAIRS_PER_SLICE), targets.split(_PAIRS_PER_SLICE), strict=True)
        parts = [self.score_products(embedding[u] * embedding[v]) for u, v in slices]
        return torch.cat(parts) if parts else embedding.new_zeros(0)

    def score_products(self, products: Tensor) -> Tensor:
        """(num_pairs, dim) elementwise products -> (num_pairs,) scores."""
        hidden = functional.elu(products @ self.weight + self.bias)
        return hidden @ self.out_weight + self.out_bias + self.inner_weight * (products @ self.signs)

    def loss(self, embedding: Tensor, edges: ScoredEdges, non_edges: NonEdges) -> Tensor:
        """Σ weight · −log σ(±score), as `reconstruction_loss` has it for inner products."""
        lists = (edges.pair_list, -1.0), (non_edges.pair_list, 1.0)
        rows, columns = (np.concatenate([getattr(pairs, end) for pairs, _ in lists]) for end in ("rows", "columns"))
        slopes = torch.from_numpy(np.concatenate([sign * pairs.pair_weights for pairs, sign in lists]))
        if runs_native(embedding):
            ends = np.ascontiguousarray(rows), np.ascontiguousarray(columns)
            return _ProductLoss.apply(embedding.contiguous(), *self._parameters_in_order(), self.signs, *ends, slopes)
        device = embedding.device
        one, other = (torch.from_numpy(each).long().to(device) for each in (rows, columns))
        return self.plain_loss(embedding, one, other, slopes.to(device, embedding.dtype))

    def plain_loss(self, embedding: Tensor, rows: Tensor, columns: Tensor, slopes: Tensor) -> Tensor:
        """The same by autograd, for any device. slopes: sign · weight of every pair."""
        scores = self.score_products(embedding.index_select(0, rows) * embedding.index_select(0, columns))
        return (functional.softplus(slopes.sign() * scores) * slopes.abs()).sum()

    @classmethod
    def arguments_of(cls, parameters: dict[str, np.ndarray]) -> dict[str, Any]:
        """The width of the hidden layer."""
        return {"hidden": parameters["weight"].shape[1]}

    @classmethod
    def most_pairs(cls, num_nodes: int) -> int:
        """A pair costs a hundred times more than an inner product."""
        return max(12_000, num_nodes // 2)

    def page_facts(self) -> dict[str, float]:
        """Scalars, and the width of the hidden layer."""
        scalars = {"bias": float(self.out_bias.detach()), "innerWeight": float(self.inner_weight.detach())}
        return {**scalars, "hidden": len(self.bias)}

    def page_weights(self) -> np.ndarray:
        """W row by row, then b, then w, then s."""
        parts = self.weight, self.bias, self.out_weight, self.signs
        return np.concatenate([part.detach().cpu().numpy().ravel() for part in parts]).astype(np.float32)

    def _parameters_in_order(self) -> tuple[Tensor, ...]:
        return self.weight, self.bias, self.out_weight, self.out_bias, self.inner_weight


class _ProductLoss(torch.autograd.Function):
    """Loss and gradients of a ProductDecoder in one pass over slices of pairs that stay in the cache (CPU)."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        embedding: Tensor,
        weight: Tensor,
        bias: Tensor,
        out_weight: Tensor,
        out_bias: Tensor,
        inner_weight: Tensor,
        signs: Tensor,
        rows: np.ndarray,
        columns: np.ndarray,
        slopes: Tensor,
    ) -> Tensor:
        table, gradient = embedding.detach().numpy(), torch.zeros_like(embedding)
        of_weight, of_bias, of_out_weight = (torch.zeros_like(each) for each in (weight, bias, out_weight))
        of_out_bias, of_inner, loss = (embedding.new_zeros(()) for _ in range(3))
        for low in range(0, len(rows), _SLICE):
            here = slice(low, low + _SLICE)
            ends = rows[here], columns[here]
            memory = blank_table(len(ends[0]), table.shape[1])
            native().multiply_ends(table, *ends, memory)
            products = torch.from_numpy(memory)
            before = torch.addmm(bias, products, weight)
            hidden = functional.elu(before)
            inner = products @ signs
            scores = hidden @ out_weight + out_bias + inner_weight * inner
            signed = scores * slopes[here].sign()
            loss += torch.dot(functional.softplus(signed), slopes[here].abs())
            slope = signed.sigmoid_() * slopes[here]
            of_out_weight += slope @ hidden
            of_out_bias += slope.sum()
            of_inner += slope @ inner
            # The derivative of ELU is 1 above zero and ELU + 1 below.
            inside = torch.outer(slope, out_weight).mul_(hidden.clamp_(max=0).add_(1))
            of_weight += products.t() @ inside
            of_bias += inside.sum(0)
            of_products = torch.outer(slope * inner_weight, signs).addmm_(inside, weight.t())
            native().spread_to_ends(gradient.numpy(), table, *ends, of_products.contiguous().numpy())
        ctx.save_for_backward(gradient, of_weight, of_bias, of_out_weight, of_out_bias, of_inner)
        return loss

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, outer: Tensor) -> tuple[Tensor | None, ...]:
        return (*(outer * saved for saved in ctx.saved_tensors), None, None, None, None)  # type: ignore[attr-defined]
