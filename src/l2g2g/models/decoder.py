"""Decoder: a small learned score of a pair, on the elementwise product of its two vectors."""

from __future__ import annotations

import numpy as np
import torch
from numba import get_num_threads, njit, prange
from torch import Tensor, nn
from torch.nn import functional

from l2g2g.models.pair_patterns import PairPattern, spread_weights
from l2g2g.models.sparse import csr_tensor

_SLICE = 4096  # pairs whose products stay in the second-level cache


class ProductDecoder(nn.Module):
    """score(u, v) = a z_u · z_v + w · ELU((z_u ∘ z_v) W + b) + c: symmetric, and free to weigh the coordinates.

    The inner product makes the first epochs count, the rest says more than it can. Costs a dense layer per pair;
    neighbour search by inner product no longer ranks as it does.
    """

    def __init__(self, dim: int, hidden: int = 64, generator: torch.Generator | None = None) -> None:
        super().__init__()
        bound, out_bound = (6.0 / (dim + hidden)) ** 0.5, (6.0 / (hidden + 1)) ** 0.5
        self.weight = nn.Parameter(torch.empty(dim, hidden).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.out_weight = nn.Parameter(torch.empty(hidden).uniform_(-out_bound, out_bound, generator=generator))
        self.out_bias = nn.Parameter(torch.zeros(()))
        self.inner_weight = nn.Parameter(torch.ones(()))

    def forward(self, products: Tensor) -> Tensor:
        """(num_pairs, dim) elementwise products -> (num_pairs,) scores."""
        hidden = functional.elu(products @ self.weight + self.bias)
        return hidden @ self.out_weight + self.out_bias + self.inner_weight * products.sum(1)

    def loss(self, embedding: Tensor, edges: PairPattern, non_edges: PairPattern) -> Tensor:
        """Σ weight · −log σ(±score), as `reconstruction_loss` has it for inner products."""
        parts = [_list_pairs(edges, -1.0), _list_pairs(non_edges, 1.0)]
        rows, columns, slopes = (torch.cat(kind) for kind in zip(*parts, strict=True))
        if embedding.device.type == "cpu":
            return _ProductLoss.apply(embedding.contiguous(), *self._parameters_in_order(), rows, columns, slopes)
        return self.plain_loss(embedding, rows, columns, slopes)

    def plain_loss(self, embedding: Tensor, rows: Tensor, columns: Tensor, slopes: Tensor) -> Tensor:
        """The same by autograd, for any device. slopes: sign · weight of every pair."""
        scores = self(select_rows(embedding, rows) * select_rows(embedding, columns))
        return (functional.softplus(slopes.sign() * scores) * slopes.abs()).sum()

    def score(self, embedding: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """Scores of given pairs, in slices so that memory stays small."""
        parts = [
            self(embedding[u] * embedding[v])
            for u, v in zip(sources.split(1 << 16), targets.split(1 << 16), strict=True)
        ]
        return torch.cat(parts) if parts else embedding.new_zeros(0)

    def _parameters_in_order(self) -> tuple[Tensor, ...]:
        return self.weight, self.bias, self.out_weight, self.out_bias, self.inner_weight


def _list_pairs(pattern: PairPattern, sign: float) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, columns, sign · weight) of every pair, once."""
    rows, columns, weights = pattern.listed
    return rows.long(), columns.long(), sign * spread_weights(weights, rows)


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
        rows: Tensor,
        columns: Tensor,
        slopes: Tensor,
    ) -> Tensor:
        table, gradient = embedding.numpy(), torch.zeros_like(embedding)
        of_weight, of_bias, of_out_weight = (torch.zeros_like(each) for each in (weight, bias, out_weight))
        of_out_bias, of_inner, loss = (embedding.new_zeros(()) for _ in range(3))
        ones = embedding.new_ones(embedding.shape[1])
        num_parts = max(1, min(get_num_threads(), embedding.shape[1] // 16))
        for low in range(0, len(rows), _SLICE):
            here = slice(low, low + _SLICE)
            ends = rows[here].numpy(), columns[here].numpy()
            products = torch.from_numpy(_multiply_ends(table, *ends))
            before = torch.addmm(bias, products, weight)
            hidden = functional.elu(before)
            inner = products @ ones
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
            of_products = torch.addmm((slope * inner_weight)[:, None], inside, weight.t())
            _spread_to_ends(gradient.numpy(), table, *ends, of_products.numpy(), num_parts)
        ctx.save_for_backward(gradient, of_weight, of_bias, of_out_weight, of_out_bias, of_inner)
        return loss

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, outer: Tensor) -> tuple[Tensor | None, ...]:
        return (*(outer * saved for saved in ctx.saved_tensors), None, None, None)  # type: ignore[attr-defined]


@njit(cache=True, parallel=True)
def _multiply_ends(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    products = np.empty((len(rows), table.shape[1]), table.dtype)
    for pair in prange(len(rows)):
        first, second = table[rows[pair]], table[columns[pair]]
        for place in range(table.shape[1]):
            products[pair, place] = first[place] * second[place]
    return products


@njit(cache=True, parallel=True)
def _spread_to_ends(
    gradient: np.ndarray,
    table: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    of_products: np.ndarray,
    num_parts: int,
) -> None:
    """Add the gradient of z_u ∘ z_v to both ends. Threads share out the coordinates, so the sums have one order."""
    width = table.shape[1]
    for part in prange(num_parts):
        low, high = part * width // num_parts, (part + 1) * width // num_parts
        for pair in range(len(rows)):
            first, second = rows[pair], columns[pair]
            for place in range(low, high):
                slope = of_products[pair, place]
                gradient[first, place] += slope * table[second, place]
                gradient[second, place] += slope * table[first, place]


class _SelectRows(torch.autograd.Function):
    """Rows by number. The gradient is a sparse product: adding rows one by one is ten times slower on a CPU."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, matrix: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(numbers)
        ctx.num_rows = len(matrix)  # type: ignore[attr-defined]
        return matrix.index_select(0, numbers)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (numbers,) = ctx.saved_tensors  # type: ignore[attr-defined]
        num_rows: int = ctx.num_rows  # type: ignore[attr-defined]
        if gradient.device.type != "cpu":
            total = gradient.new_zeros(num_rows, gradient.shape[1])
            return total.index_add_(0, numbers, gradient), None
        indptr, order = _group(numbers.numpy(), num_rows)
        ones = gradient.new_ones(len(order))
        selection = csr_tensor(torch.from_numpy(indptr), torch.from_numpy(order), ones, (num_rows, len(order)))
        return selection @ gradient.contiguous(), None


def select_rows(matrix: Tensor, numbers: Tensor) -> Tensor:
    """matrix[numbers], differentiable in the matrix. matrix: (num_rows, width), numbers: (count,)."""
    return _SelectRows.apply(matrix, numbers)


@njit(cache=True)
def _group(numbers: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the positions at which each number occurs."""
    indptr = np.zeros(num_rows + 1, np.int32)
    for number in numbers:
        indptr[number + 1] += 1
    indptr = np.cumsum(indptr).astype(np.int32)
    place = indptr[:-1].copy()
    order = np.empty(len(numbers), np.int32)
    for position in range(len(numbers)):
        order[place[numbers[position]]] = position
        place[numbers[position]] += 1
    return indptr, order
