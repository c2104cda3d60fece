"""GCN encoder."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from l2g2g.models.convolutions import Network, can_convolve, convolve
from l2g2g.models.encoder_input import EncoderInput
from l2g2g.models.encoders.base import Encoder
from l2g2g.models.sparse import SparseMatrix


class GCNEncoder(Encoder):
    """Z = Â ReLU(Â X W₁ + b₁) W₂ + b₂ … with as many layers as there are weights (Kipf and Welling 2017)."""

    def forward(self, inputs: EncoderInput) -> Tensor:
        """As `Encoder.forward`; with ReLUs in a few native passes, where the hidden layers are needed nowhere else."""
        self._check(inputs)
        in_one_block = inputs.propagation.in_one_block
        if in_one_block and len(self.weights) > 1 and self.activation is torch.relu and not self.residual:
            rows = self.feature_rows(inputs.features)
            propagation, features = cast(SparseMatrix, inputs.propagation), cast(Tensor | SparseMatrix, inputs.features)
            network = Network(propagation, features, inputs.propagated, rows.mean, rows.factor)
            weights, biases, skip = list(self.weights), list(self.biases), self.skip
            if can_convolve(network, weights + biases + ([] if skip is None else [skip])):
                return convolve(network, weights, biases, skip)
        return super().forward(inputs)
