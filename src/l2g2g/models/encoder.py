"""Encoder: graph convolutions, linear or not, variational or not, over stacked patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from l2g2g.graphs.graph import Features
from l2g2g.models.convolutions import Network, can_convolve, convolve
from l2g2g.models.features import STORAGE, FeatureRows
from l2g2g.models.sparse import SparseMatrix, multiply, normalise_adjacency

EncoderKind = Literal["gcn", "linear"]
Activation = Literal["relu", "elu"]
ACTIVATIONS = {"relu": torch.relu, "elu": functional.elu}


@dataclass(frozen=True, eq=False)
class EncoderInput:
    """What an encoder sees of some stacked patches.

    Attributes:
        propagation: (num_rows, num_rows) Â, block-diagonal over the patches.
        features: (num_rows, num_features) X, or Â X where `propagated`.
        propagated: Whether the first propagation is already in the features.
    """

    propagation: SparseMatrix
    features: Tensor | SparseMatrix
    propagated: bool


def prepare_input(
    adjacency: sp.csr_array,
    features: Features,
    *,
    device: torch.device | str = "cpu",
    propagate_once: bool = True,
    held: Tensor | SparseMatrix | None = None,
    storage: str = "float32",
    weighted: bool | None = None,
) -> EncoderInput:
    """Normalise the adjacency and, where it is cheaper, compute Â X once and for all.

    adjacency: (num_rows, num_rows) block-diagonal CSR. features: (num_rows, num_features).
    held: the same features as tensors, where they are there already; used unless Â X is.
    storage: in what dense features are held. weighted: whether edges have other weights than 1; None to look.
    """
    propagated = propagate_once and _precomputing_pays(adjacency, features)
    if propagated:
        features, held = normalise_adjacency(adjacency) @ features, None
        if sp.issparse(features) and features.nnz > 0.25 * np.prod(features.shape):
            features = features.toarray()
    if held is None and sp.issparse(features):
        features = sp.csr_array(features)
        features.sort_indices()
        held = SparseMatrix.from_scipy(features, device)
    elif held is None:
        held = torch.from_numpy(np.ascontiguousarray(features)).to(device, STORAGE[storage])
    return EncoderInput(SparseMatrix.propagation(adjacency, device, weighted=weighted), held, propagated)


def _precomputing_pays(adjacency: sp.csr_array, features: Features) -> bool:
    """Â X has the cost of its own entries; X and Â apart have theirs together."""
    if not sp.issparse(features):
        return True
    per_row = features.nnz / features.shape[0]
    degree = adjacency.nnz / adjacency.shape[0] + 1
    width = features.shape[1]
    # Each propagated row joins `degree` rows of `per_row` entries; collisions bound it by the width.
    filled = min(width, width * (1 - (1 - min(1.0, per_row / width)) ** degree))
    return filled <= per_row + degree


class Encoder(nn.Module):
    """Z = Â ReLU(Â X W₁) W₂ … with as many layers as there are widths; linear: Z = Â^layers X W.

    A variational encoder has a second head for the logarithm of the standard deviation.

    Args:
        activation: What follows every layer but the last.
        skip: Add X W, so that a node's own features reach its vector unmixed with its neighbours'.
        residual: Add the hidden layers to the vector too: what one convolution finds need not pass the next.
        feature_mean: (num_features,) subtracted from every row, without making sparse features dense.
        feature_scale: Factor of the features after that.
    """

    feature_mean: Tensor | None
    feature_scale: Tensor

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        hidden: int = 32,
        layers: int = 2,
        kind: EncoderKind = "gcn",
        variational: bool = False,
        activation: Activation = "relu",
        skip: bool = False,
        residual: bool = False,
        feature_mean: Tensor | None = None,
        feature_scale: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.activation = ACTIVATIONS[activation]
        self.residual = residual
        self.num_layers = layers
        widths = [num_features, dim] if kind == "linear" else [num_features, *[hidden] * (layers - 1), dim]
        heads = [1] * (len(widths) - 2) + [2 if variational else 1]
        self.variational = variational
        self.weights = nn.ParameterList(
            [
                nn.Parameter(torch.cat([_glorot(fan_in, fan_out, generator) for _ in range(count)], dim=1))
                for fan_in, fan_out, count in zip(widths[:-1], widths[1:], heads, strict=True)
            ]
        )
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(weight.shape[1])) for weight in self.weights])
        width = self.weights[-1].shape[1]
        self.skip = nn.Parameter(_glorot(num_features, width, generator)) if skip else None
        self.register_buffer("feature_mean", None if feature_mean is None else feature_mean.clone())
        self.register_buffer("feature_scale", torch.tensor(feature_scale))

    def forward(self, inputs: EncoderInput) -> Tensor:
        """Encode. Returns (num_rows, dim), or (num_rows, 2 dim) with mean and log-deviation if variational."""
        if inputs.propagated and (self.skip is not None or self.feature_mean is not None):
            raise ValueError("an encoder with a skip or a feature mean needs X, not Â X (propagate_once=False)")
        if self._has_hidden_relu:
            rows = self._rows(inputs.features)
            network = Network(inputs.propagation, inputs.features, inputs.propagated, rows.mean, rows.factor)
            weights, biases, skip = list(self.weights), list(self.biases), self.skip
            if can_convolve(network, weights + biases + ([] if skip is None else [skip])):
                return convolve(network, weights, biases, skip)
        propagations = self.num_layers if self.kind == "linear" else 1
        if propagations == inputs.propagated:
            hidden, own = self._rows(inputs.features).multiply(self.weights[0], self.biases[0]), None
        else:
            hidden, own = self.project(inputs.features)
        for left in reversed(range(propagations - inputs.propagated)):
            hidden = multiply(inputs.propagation, hidden, None if left else self.biases[0])
        for weight, bias in zip(list(self.weights)[1:], list(self.biases)[1:], strict=True):
            hidden = self.activation(hidden)
            if self.residual:
                own = self._add_hidden(own, hidden)
            hidden = multiply(inputs.propagation, hidden @ weight, bias)
        return hidden if own is None else hidden + own

    def encode_beside(self, inputs: EncoderInput, known: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        """Encode rows that also read known ones, which stay what they are.

        inputs: X of the rows; its propagation is (num_rows, num_known + num_rows). known: what every propagation reads
        of the known rows, (num_known, width) each; None where there are none: then this is `forward`, step by step.

        Returns:
            As `forward`, and what every propagation read of these rows: `known` for those who come later.
        """
        hidden, own = self.project(inputs.features)
        read = []
        for layer in range(self.num_layers):
            read.append(hidden)
            last, linear = layer == self.num_layers - 1, self.kind == "linear"
            beside = hidden if known is None else torch.cat([known[layer].to(hidden), hidden])
            bias = self.biases[0 if linear else layer] if last or not linear else None
            hidden = multiply(inputs.propagation, beside, bias)
            if last or linear:
                continue
            hidden = self.activation(hidden)
            if self.residual:
                own = self._add_hidden(own, hidden)
            hidden = hidden @ self.weights[layer + 1]
        return hidden if own is None else hidden + own, read

    def _add_hidden(self, own: Tensor | None, hidden: Tensor) -> Tensor:
        """A hidden layer on its direct way to the vector, beside the others."""
        spare = self.weights[-1].shape[1] - hidden.shape[1]
        padded = functional.pad(hidden, (0, spare)) if spare else hidden
        return padded if own is None else own + padded

    @property
    def _has_hidden_relu(self) -> bool:
        """Whether hidden layers are needed for nothing but the next one, and nothing but ReLUs."""
        return len(self.weights) > 1 and self.activation is torch.relu and not self.residual

    def project(self, features: Tensor | SparseMatrix) -> tuple[Tensor, Tensor | None]:
        """X times the weights of the first layer and of the skip."""
        rows = self._rows(features)
        return rows.multiply(self.weights[0]), None if self.skip is None else rows.multiply(self.skip)

    def _rows(self, features: Tensor | SparseMatrix) -> FeatureRows:
        """scale · (X − 1 meanᵀ)."""
        factor = 1.0 if self.feature_mean is None else float(self.feature_scale)
        return FeatureRows(features, self.feature_mean, factor)


def _glorot(fan_in: int, fan_out: int, generator: torch.Generator | None) -> Tensor:
    bound = (6.0 / (fan_in + fan_out)) ** 0.5
    return torch.empty(fan_in, fan_out).uniform_(-bound, bound, generator=generator)
