"""Decoder: a small learned score of a pair, on the elementwise product of its two vectors."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn
from torch.nn import functional

from l2g2g.models.sparse import PairPattern, csr_tensor


class ProductDecoder(nn.Module):
    """score(u, v) = w · ReLU((z_u ∘ z_v) W + b) + c: symmetric, and free to weigh the coordinates.

    It says more than an inner product and costs a dense layer per pair; neighbour search by inner product no
    longer ranks as it does.
    """

    def __init__(self, dim: int, hidden: int = 64, generator: torch.Generator | None = None) -> None:
        super().__init__()
        bound, out_bound = (6.0 / (dim + hidden)) ** 0.5, (6.0 / (hidden + 1)) ** 0.5
        self.weight = nn.Parameter(torch.empty(dim, hidden).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.out_weight = nn.Parameter(torch.empty(hidden).uniform_(-out_bound, out_bound, generator=generator))
        self.out_bias = nn.Parameter(torch.zeros(()))

    def forward(self, products: Tensor) -> Tensor:
        """(num_pairs, dim) elementwise products -> (num_pairs,) scores."""
        return torch.relu(products @ self.weight + self.bias) @ self.out_weight + self.out_bias

    def loss(self, embedding: Tensor, edges: PairPattern, non_edges: PairPattern) -> Tensor:
        """Σ weight · −log σ(±score), as `reconstruction_loss` has it for inner products."""
        return self._part(embedding, edges, -1.0) + self._part(embedding, non_edges, 1.0)

    def score(self, embedding: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """Scores of given pairs, in slices so that memory stays small."""
        parts = [
            self(embedding[u] * embedding[v])
            for u, v in zip(sources.split(1 << 16), targets.split(1 << 16), strict=True)
        ]
        return torch.cat(parts) if parts else embedding.new_zeros(0)

    def _part(self, embedding: Tensor, pattern: PairPattern, sign: float) -> Tensor:
        counts = pattern.indptr.diff()
        rows = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        columns, weights = pattern.indices.long(), pattern.weights
        if pattern.transpose is None:  # every pair stands in it twice; once is enough
            upper = rows < columns
            rows, columns = rows[upper], columns[upper]
            weights = 2 * (weights if weights.dim() == 0 else weights[upper])
        scores = self(select_rows(embedding, rows) * select_rows(embedding, columns))
        return (functional.softplus(sign * scores) * weights).sum()


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
