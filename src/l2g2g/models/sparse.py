"""Sparse: products and pair losses on CSR, with their gradients. The only hot code.

torch's own autograd for sparse matrices would build gradients of the matrices themselves; here the
matrices are constant, so each backward is again one plain product.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

# torch says so once per process; users can do nothing about it.
warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)


def to_torch_csr(matrix: sp.csr_array, device: torch.device | str = "cpu") -> Tensor:
    """A torch CSR tensor that shares memory with a scipy CSR matrix (on the CPU)."""
    return csr_tensor(
        torch.from_numpy(matrix.indptr).to(device),
        torch.from_numpy(matrix.indices).to(device),
        torch.from_numpy(matrix.data).to(device),
        matrix.shape,
    )


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR tensor without the cost of checking its invariants again."""
    return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A constant sparse matrix and its transpose, both CSR; a symmetric one is its own transpose."""

    matrix: Tensor
    transposed: Tensor

    @classmethod
    def from_scipy(
        cls,
        matrix: sp.csr_array,
        device: torch.device | str = "cpu",
        *,
        symmetric: bool = False,
        transposed: sp.csr_array | None = None,
    ) -> SparseMatrix:
        """Take over a scipy CSR matrix; its transpose is computed unless it is given or the matrix symmetric."""
        forward = to_torch_csr(matrix, device)
        if transposed is not None:
            return cls(forward, to_torch_csr(transposed, device))
        return cls(forward, forward if symmetric else to_torch_csr(sp.csr_array(matrix.T.tocsr()), device))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return tuple(self.matrix.shape)  # type: ignore[return-value]


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, sparse: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.sparse = sparse  # type: ignore[attr-defined]
        return sparse.matrix @ dense

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[None, Tensor]:
        return None, ctx.sparse.transposed @ gradient.contiguous()  # type: ignore[attr-defined]


def multiply(sparse: SparseMatrix, dense: Tensor) -> Tensor:
    """Sparse times dense. sparse: (rows, columns), dense: (columns, width) -> (rows, width)."""
    return _Multiply.apply(sparse, dense)


def normalise_adjacency(adjacency: sp.csr_array) -> sp.csr_array:
    """Â = D^(-1/2) (A + I) D^(-1/2), the propagation of a graph convolution. D counts the self-loop."""
    with_loops = sp.csr_array(adjacency + sp.eye_array(adjacency.shape[0], dtype=adjacency.dtype, format="csr"))
    with_loops.sort_indices()
    indptr, indices = with_loops.indptr, with_loops.indices
    if with_loops.nnz < 2**31:
        indptr, indices = indptr.astype(np.int32, copy=False), indices.astype(np.int32, copy=False)
    scale = 1.0 / np.sqrt(np.add.reduceat(with_loops.data.astype(np.float64), indptr[:-1]))
    rows = np.repeat(scale, np.diff(indptr))
    data = (with_loops.data * rows * scale[indices]).astype(adjacency.dtype)
    return sp.csr_array((data, indices, indptr), shape=adjacency.shape)


@dataclass(frozen=True, eq=False)
class PairPattern:
    """Node pairs (row, column) to be scored, as a CSR pattern.

    Attributes:
        indptr, indices: (num_rows + 1,) and (num_pairs,) int32.
        weights: Weight of every pair in the loss: a scalar, or (num_pairs,).
        transpose: (indptr, indices, order) of the transposed pattern, where order[e] is the place of its
            entry e in this pattern. None for a symmetric pattern (each pair stands in it twice).
    """

    indptr: Tensor
    indices: Tensor
    weights: Tensor
    transpose: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def num_pairs(self) -> int:
        """Entries of the pattern."""
        return len(self.indices)


def score_pairs(left: Tensor, right: Tensor, pattern: PairPattern) -> Tensor:
    """Inner products left_u · right_v of all pairs in the pattern. Returns (num_pairs,)."""
    shape = (len(left), len(right))
    values = torch.zeros(pattern.num_pairs, dtype=left.dtype, device=left.device)
    sampled = torch.sparse.sampled_addmm(
        csr_tensor(pattern.indptr, pattern.indices, values, shape), left, right.t(), beta=0.0
    )
    return sampled.values()


class _PairLoss(torch.autograd.Function):
    """Loss and gradient in one go, so that nothing of the size of the pattern outlives the forward."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        left: Tensor,
        right: Tensor | None,
        bias: Tensor,
        pattern: PairPattern,
        sign: float,
    ) -> Tensor:
        other = left if right is None else right
        scores = score_pairs(left, other, pattern).add_(bias)
        signed = scores.mul_(-sign)
        loss = (torch.nn.functional.softplus(signed) * pattern.weights).sum()
        slope = signed.sigmoid_().mul_(pattern.weights).mul_(-sign)
        shape = (len(left), len(left))
        slopes = csr_tensor(pattern.indptr, pattern.indices, slope, shape)
        gradient, other_gradient = slopes @ other, None
        if right is None and pattern.transpose is None:
            gradient *= 2
        else:
            if pattern.transpose is not None:
                indptr, indices, order = pattern.transpose
                slopes = csr_tensor(indptr, indices, slope[order], shape)
            other_gradient = slopes @ left
        if right is None and other_gradient is not None:
            gradient += other_gradient
            other_gradient = None
        ctx.save_for_backward(gradient, other_gradient, slope.sum())  # type: ignore[arg-type]
        return loss

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, outer: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor, None, None]:
        gradient, other_gradient, bias_gradient = ctx.saved_tensors  # type: ignore[attr-defined]
        right = None if other_gradient is None else outer * other_gradient
        return outer * gradient, right, outer * bias_gradient, None, None


def pair_loss(
    left: Tensor,
    pattern: PairPattern,
    *,
    is_edge: bool,
    bias: Tensor | None = None,
    right: Tensor | None = None,
) -> Tensor:
    """Σ weight · −log σ(±(left_u · right_v + bias)) over the pairs of a pattern: + for edges, − for non-edges.

    left, right: (num_rows, width); without a right one both sides are the left one. Differentiable in both and in
    the bias. A pattern without transpose asks for a score that is the same in both directions.
    """
    if bias is None:
        bias = left.new_zeros(())
    sides = (left.contiguous(), None if right is None else right.contiguous())
    return _PairLoss.apply(*sides, bias, pattern, 1.0 if is_edge else -1.0)
