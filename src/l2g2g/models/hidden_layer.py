"""Hidden layer: ReLU(S D + b) W, from a constant sparse matrix to the input of the next propagation.

Compiled in one pass for float32 on the CPU; by torch's own operations otherwise, which is also the reference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from l2g2g.models import layer_kernel
from l2g2g.models.sparse import SparseMatrix, multiply, transposed_product


def hidden_layer(sparse: SparseMatrix, dense: Tensor, bias: Tensor, weight: Tensor) -> Tensor:
    """ReLU(S D + b) W. sparse: (rows, columns), dense: (columns, hidden), weight: (hidden, width) -> (rows, width)."""
    compiled = dense.device.type == "cpu" and dense.dtype == torch.float32 and layer_kernel.fits(*weight.shape)
    if compiled:
        return _HiddenLayer.apply(sparse, dense, bias, weight)
    return torch.relu(multiply(sparse, dense, bias)) @ weight


class _HiddenLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, sparse: SparseMatrix, dense: Tensor, bias: Tensor, weight: Tensor
    ) -> Tensor:
        tables = [each.detach().contiguous().numpy() for each in (dense, bias, weight)]
        found = layer_kernel.forward(*sparse.arrays, *tables, sections=sparse.sections)
        hidden, product = (torch.from_numpy(each) for each in found)
        ctx.sparse, ctx.num_columns = sparse, len(dense)  # type: ignore[attr-defined]
        ctx.save_for_backward(hidden, weight)
        return product

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sparse: SparseMatrix = ctx.sparse  # type: ignore[attr-defined]
        tables = (each.contiguous().numpy() for each in (*ctx.saved_tensors, gradient))  # type: ignore[attr-defined]
        through = sparse.transposed is None
        num_columns: int = ctx.num_columns  # type: ignore[attr-defined]
        gradients = layer_kernel.backward(
            *sparse.arrays, num_columns, *tables, through=through, sections=sparse.sections
        )
        of_dense, of_bias, of_weight = (torch.from_numpy(each) for each in gradients)
        return None, of_dense if through else transposed_product(sparse, of_dense), of_bias, of_weight
