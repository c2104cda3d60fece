"""GCN encoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from l2g2g.models.convolutions import Convolution, Network, can_convolve, convolve
from l2g2g.models.encoders.base import Encoder
from l2g2g.models.encoding import EncoderInput, Encoding, add_gradient
from l2g2g.models.sparse import SparseMatrix


class GCNEncoder(Encoder):
    """Z = Â ReLU(Â X W₁ + b₁) W₂ + b₂ … with as many layers as there are weights (Kipf and Welling 2017).

    With ReLUs in a few native passes, where the hidden layers are needed nowhere else.
    """

    _arrays: tuple[list[int], list[np.ndarray]] | None = None

    def forward(self, inputs: EncoderInput) -> Tensor:
        """As `Encoder.forward`."""
        self._check(inputs)
        network = self._network(inputs)
        if network is None:
            return super().forward(inputs)
        return convolve(network, list(self.weights), list(self.biases), self.skip)

    def begin(self, inputs: EncoderInput) -> Encoding:
        """As `Encoder.begin`, without a graph of autograd: on small graphs that takes longer than the passes."""
        self._check(inputs)
        network = self._network(inputs)
        if network is None:
            return super().begin(inputs)
        parameters, num_layers = self._all_parameters, self.num_layers
        tables = self._tables(parameters)
        skip = None if self.skip is None else tables[-1]
        convolution = Convolution(network, tables[:num_layers], tables[num_layers : 2 * num_layers], skip)

        def backward(gradient: Tensor, inputs: EncoderInput) -> None:
            of_skip, *others = convolution.gradients(self._describe(inputs), gradient.contiguous().numpy())
            for parameter, found in zip(parameters, [*others, of_skip], strict=False):
                if found is not None:
                    add_gradient(parameter, torch.from_numpy(found))

        return Encoding(torch.from_numpy(convolution.vectors), backward)

    def __getstate__(self) -> dict[str, Any]:
        """A copy has parameters in memory of its own, and makes arrays of its own."""
        return {name: value for name, value in vars(self).items() if name != "_arrays"}

    def _network(self, inputs: EncoderInput) -> Network | None:
        """Settings of the native passes; None where these do not apply."""
        plain = self.num_layers > 1 and self.activation is torch.relu and not self.residual
        if not plain or not inputs.propagation.in_one_block:
            return None
        network = self._describe(inputs)
        return network if can_convolve(network, self._all_parameters) else None

    def _describe(self, inputs: EncoderInput) -> Network:
        """Settings of the native passes, where these apply."""
        rows = self.feature_rows(inputs.features)
        propagation, features = cast(SparseMatrix, inputs.propagation), cast(Tensor | SparseMatrix, inputs.features)
        return Network(propagation, features, inputs.propagated, rows.mean, rows.factor)

    @cached_property
    def _all_parameters(self) -> list[Tensor]:
        """Weights, biases and, where there is one, skip; looking them up takes longer than a pass over a few rows."""
        return [*self.weights, *self.biases, *([] if self.skip is None else [self.skip])]

    def _tables(self, parameters: Sequence[Tensor]) -> list[np.ndarray]:
        """The parameters as arrays that share their memory, made anew only where that has moved."""
        addresses = [each.data_ptr() for each in parameters]
        if self._arrays is None or self._arrays[0] != addresses:
            self._arrays = addresses, [each.detach().contiguous().numpy() for each in parameters]
        return self._arrays[1]
