"""Convolutions: a GCN encoder with ReLUs and its gradient, in a few native passes over the rows (CPU, float32).

Z = Â (… ReLU(Â X W₀ + b₀) W₁ …) + b + X W_skip. The factors D^(-1/2) of Â are applied by the passes before and after
each product, ReLU and the next weights in the pass of the product before them.
`encoders.GCNEncoder` says the same in torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.core import blank_table, native, num_parts, zero_table
from l2g2g.models.features import FeatureRows
from l2g2g.models.sparse import (
    SparseMatrix,
    add_parts,
    multiply_table,
    multiply_transposed_table,
    runs_native,
    scale_rows,
    sum_rows,
)

_WIDEST = 512
_FEW_COLUMNS = 256  # as in `sparse`


@dataclass(frozen=True, eq=False)
class Network:
    """Settings of a pass beside its parameters.

    Attributes:
        propagation: (num_rows, num_rows) Â.
        features: (num_rows, num_features) X, or Â X where `propagated`.
        propagated: Whether the first propagation is already in the features.
        mean, factor: What is subtracted from every row of X, and what the rest is multiplied with; None for nothing.
    """

    propagation: SparseMatrix
    features: Tensor | SparseMatrix
    propagated: bool
    mean: Tensor | None
    factor: float


def can_convolve(network: Network, parameters: Sequence[Tensor]) -> bool:
    """Whether these passes can do it: float32 on the CPU, widths that kernels take."""
    dense = [network.features] if network.propagated and isinstance(network.features, Tensor) else []
    if not runs_native(*parameters, *dense):
        return False
    return all(part.shape[-1] <= _WIDEST for part in parameters)


def convolve(network: Network, weights: Sequence[Tensor], biases: Sequence[Tensor], skip: Tensor | None) -> Tensor:
    """(num_rows, width) vectors, differentiable in the parameters. At least two weights."""
    return _Convolve.apply(network, len(weights), skip, *weights, *biases)


class Convolution:
    """One pass through the network, forward and backward. It keeps the hidden layers, and not the network.

    Args:
        weights, biases, skip: The parameters as arrays, skip None for none. At least two weights.

    Attributes:
        vectors: (num_rows, width) float32.
    """

    def __init__(
        self,
        network: Network,
        weights: Sequence[np.ndarray],
        biases: Sequence[np.ndarray],
        skip: np.ndarray | None,
    ) -> None:
        self._weights, self._has_skip = weights, skip is not None
        self._hidden: list[np.ndarray] = []
        propagation, core = network.propagation, native()
        scale, loops = propagation.row_scale, propagation.loops
        added = biases[-1][None]
        if network.propagated:
            left, table, first_scale, first_loops = _left(network.features), weights[0], None, False
        else:
            table, own = _rows(network).project(weights[0], skip, scale, biases[-1])
            added = added if own is None else own
            left, first_scale, first_loops = propagation.csr, scale, loops
        for bias, outer in zip(biases[:-1], weights[1:], strict=True):
            inner = blank_table(len(propagation.starts), table.shape[1])
            out = blank_table(len(inner), outer.shape[1])
            core.forward_layer(left, table, bias, outer, inner, out, first_scale, first_loops, scale)
            self._hidden.append(inner)
            left, table, first_scale, first_loops = propagation.csr, out, scale, loops
        self.vectors = multiply_table(propagation, table, added, is_scaled=True)

    def gradients(self, network: Network, own: np.ndarray) -> list[np.ndarray | None]:
        """Gradients of skip (None where there is none), weights and biases, in this order.

        network: as before. own: (num_rows, width) that of the vectors.
        """
        weights, core = self._weights, native()
        propagation, num_layers = network.propagation, len(weights)
        of_weights: list[np.ndarray | None] = [None] * num_layers
        of_biases: list[np.ndarray | None] = [None] * num_layers
        of_biases[-1] = sum_rows(own)
        # The gradient passes through the last product inside the layer before it.
        outer = own if propagation.column_scale is None else scale_rows(own, propagation.column_scale)
        product = {"through": propagation.csr, "through_scale": propagation.row_scale, "loops": propagation.loops}
        for layer in reversed(range(num_layers - 1)):
            inner = self._hidden[layer]
            by_features = layer == 0 and network.propagated
            factor = network.features if by_features else propagation
            scatters = by_features and (isinstance(factor, Tensor) or factor.num_columns <= _FEW_COLUMNS)
            parts, width = num_parts(inner.size), inner.shape[1]
            of_bias, of_weight = zero_table(parts, width), zero_table(parts, width, outer.shape[1])
            of_sums = None if scatters else blank_table(*inner.shape)
            of_table = zero_table(parts, factor.shape[1], width) if scatters else None
            turned = np.ascontiguousarray(weights[layer + 1].T)
            scale = None if by_features else propagation.row_scale
            gradients = of_bias, of_weight, of_sums, of_table
            core.backward_layer(_left(factor), inner, outer, turned, *gradients, scale, **product)
            product = {}
            of_biases[layer], of_weights[layer + 1] = add_parts(of_bias), add_parts(of_weight)
            if of_table is not None:
                of_weights[0] = add_parts(of_table)
                continue
            assert of_sums is not None
            if by_features:
                assert isinstance(factor, SparseMatrix)
                of_weights[0] = multiply_transposed_table(factor, of_sums)
            else:
                outer = multiply_table(propagation, of_sums, is_scaled=True)
        of_skip = None
        if not network.propagated:
            of_weights[0], of_skip = _rows(network).gradients(outer, own if self._has_skip else None)
        return [of_skip, *of_weights, *of_biases]


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, network: Network, num_layers: int, skip: Tensor | None, *parameters: Tensor) -> Tensor:
        tables = [part.detach().contiguous().numpy() for part in parameters]
        own = None if skip is None else skip.detach().contiguous().numpy()
        ctx.network, ctx.convolution = network, Convolution(network, tables[:num_layers], tables[num_layers:], own)
        return torch.from_numpy(ctx.convolution.vectors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        found = ctx.convolution.gradients(ctx.network, gradient.contiguous().numpy())
        return (None, None, *(None if each is None else torch.from_numpy(each) for each in found))


def _rows(network: Network) -> FeatureRows:
    """The rows that the first weights are multiplied with."""
    return FeatureRows(network.features, network.mean, network.factor)


def _left(matrix: Tensor | SparseMatrix) -> Any:
    """The left factor of a layer as the native kernels take it."""
    return matrix.numpy() if isinstance(matrix, Tensor) else matrix.csr
