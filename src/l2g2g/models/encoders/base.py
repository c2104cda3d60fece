"""Encoder: the contract of all encoders. Training, the last pass, row ranges and new nodes run the same steps.

A step, one for each propagation P: rows -> activation(P message + own + bias), with (message, own) made from the rows
times a weight by `Encoder.divide`. Where P and X are, in one block of memory, in blocks on disk or over ranks, is known
to these matrices only.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from l2g2g.graphs.graph import NewNodes
from l2g2g.models.encoding import EncoderInput, Encoding, PropagationMatrix
from l2g2g.models.features import FeatureRows
from l2g2g.models.sparse import ConstantMatrix, SparseMatrix, multiply

Activation = Literal["relu", "elu"]
ACTIVATIONS = {"relu": torch.relu, "elu": functional.elu}
# (step, message, what is added) -> P message + what is added
Propagate = Callable[[int, Tensor, Tensor | None], Tensor]


class Encoder(nn.Module, ABC):
    """Features and edges to vectors; a variational encoder has a second head for the logarithm of the deviation.

    A subclass says which weights there are (`widths`) and what a step does (`weight_of`, `divide`, `bias_of`,
    `activates`).

    Args:
        activation: What follows every layer but the last.
        skip: Add X W, so that a node's own features reach its vector unmixed with its neighbours'.
        residual: Add the hidden layers to the vector too: what one convolution finds need not pass the next.
        feature_mean: (num_features,) subtracted from every row, without making sparse features dense.
        feature_scale: Factor of the features after that.

    Attributes:
        reads_own_rows: Whether a step reads rows that are not propagated; then Â X instead of X is not enough.
        tables_per_layer: Tables that a layer holds for every node, for estimates of memory.
    """

    reads_own_rows: ClassVar[bool] = False
    tables_per_layer: ClassVar[int] = 1

    feature_mean: Tensor | None
    feature_scale: Tensor

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        hidden: int = 32,
        layers: int = 2,
        variational: bool = False,
        activation: Activation = "relu",
        skip: bool = False,
        residual: bool = False,
        feature_mean: Tensor | None = None,
        feature_scale: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.residual = residual
        self.num_layers = layers
        self.variational = variational
        widths = self.widths(num_features, hidden, layers, dim)
        self.weights = self.make_weights(widths, generator)
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(weight.shape[1])) for weight in self.weights])
        width = self.weights[-1].shape[1]
        self.skip = nn.Parameter(glorot(num_features, width, generator)) if skip else None
        self.register_buffer("feature_mean", None if feature_mean is None else feature_mean.clone())
        self.register_buffer("feature_scale", torch.tensor(feature_scale))

    def widths(self, num_features: int, hidden: int, layers: int, dim: int) -> list[int]:
        """Columns before and after every weight."""
        return [num_features, *[hidden] * (layers - 1), dim]

    def make_weights(self, widths: list[int], generator: torch.Generator | None) -> nn.ParameterList:
        """One weight for each pair of widths; the last one has two heads if variational."""
        heads = [1] * (len(widths) - 2) + [2 if self.variational else 1]
        return nn.ParameterList(
            [
                nn.Parameter(glorot(fan_in, fan_out, generator, heads=count))
                for fan_in, fan_out, count in zip(widths[:-1], widths[1:], heads, strict=True)
            ]
        )

    def weight_of(self, step: int) -> Tensor | None:
        """(width before, width after) what the rows of a step are multiplied with; None for nothing."""
        return self.weights[step]

    def divide(self, step: int, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """(message, own) of a step: what is propagated, and what is added after; None for nothing.

        rows: (num_rows, width) X, or what the step before gave, times the weight.
        """
        return rows, None

    def bias_of(self, step: int) -> Tensor | None:
        """(width,) what a step adds to every row; None for nothing."""
        return self.biases[step]

    def activates(self, step: int) -> bool:
        """Whether the activation follows a step."""
        return step < self.num_layers - 1

    def finish(self, step: int, summed: Tensor, direct: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(rows of the next step, what is added to the vectors in the end) from P message + own + bias."""
        if not self.activates(step):
            return summed, direct
        in_place = self.activation is torch.relu and not summed.requires_grad
        hidden = summed.relu_() if in_place else self.activation(summed)
        return hidden, self._add_hidden(direct, hidden) if self.residual else direct

    def propagation_of(self, symmetric: PropagationMatrix) -> ConstantMatrix:
        """Return P, (num_rows, num_rows), for the edges of Â."""
        return symmetric

    def propagation_of_new(self, new: NewNodes, known_degrees: np.ndarray) -> SparseMatrix:
        """Return the rows of P of new nodes, (num_new, num_known + num_new), in the grown graph.

        known_degrees: As in `NewNodes.propagation`.
        """
        return SparseMatrix.from_scipy(new.propagation(known_degrees))

    def forward(self, inputs: EncoderInput) -> Tensor:
        """Encode. Returns (num_rows, dim), or (num_rows, 2 dim) with mean and log-deviation if variational."""
        self._check(inputs)
        matrix = self.propagation_of(inputs.propagation)
        features = self.feature_rows(inputs.features)
        return self._run(features, lambda _, message, added: multiply(matrix, message, added), inputs.propagated)

    def begin(self, inputs: EncoderInput) -> Encoding:
        """Encode, for those who bring the gradient of the vectors themselves. Shapes as in `forward`."""
        vectors = self(inputs)
        return Encoding(vectors.detach(), lambda gradient, _: vectors.backward(gradient), holds_inputs=True)

    def encode_beside(
        self, features: Tensor | ConstantMatrix, matrix: ConstantMatrix, known: list[Tensor] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Encode rows that also read known ones, which stay what they are.

        features: X of the rows. matrix: (num_rows, num_known + num_rows) rows of this encoder's propagation.
        known: the messages of the known rows, (num_known, width) for every step; None where there are none.

        Returns:
            As `forward`, and the messages of these rows: `known` for those who come later.
        """
        messages: list[Tensor] = []

        def propagate(step: int, message: Tensor, added: Tensor | None) -> Tensor:
            messages.append(message)
            beside = message if known is None else torch.cat([known[step].to(message), message])
            return multiply(matrix, beside, added)

        return self._run(self.feature_rows(features), propagate), messages

    def feature_rows(self, features: Tensor | ConstantMatrix) -> FeatureRows:
        """scale · (X − 1 meanᵀ), the rows of the first step."""
        factor = 1.0 if self.feature_mean is None else float(self.feature_scale)
        return FeatureRows(features, self.feature_mean, factor)

    def _run(self, features: FeatureRows, propagate: Propagate, propagated: bool = False) -> Tensor:
        """All steps on all rows at once. propagated: whether the features are P X."""
        direct: Tensor | None = None
        weight, bias = self.weight_of(0), self.bias_of(0)
        assert weight is not None
        if propagated:
            rows, direct = self.finish(0, features.multiply(weight, bias), direct)
        elif self.skip is None:
            rows, direct = self._step(0, features.multiply(weight), direct, propagate)
        else:
            first, direct = features.multiply_both(weight, self.skip)
            rows, direct = self._step(0, first, direct, propagate)
            del first  # of a large graph every table counts
        for step in range(1, self.num_layers):
            weight = self.weight_of(step)
            rows, direct = self._step(step, rows if weight is None else rows @ weight, direct, propagate)
        return rows if direct is None else rows + direct

    def _step(
        self, step: int, rows: Tensor, direct: Tensor | None, propagate: Propagate
    ) -> tuple[Tensor, Tensor | None]:
        """What `finish` returns. rows: as in `divide`."""
        message, own = self.divide(step, rows)
        bias = self.bias_of(step)
        added = own if bias is None or own is None else own + bias
        return self.finish(step, propagate(step, message, bias if added is None else added), direct)

    def _check(self, inputs: EncoderInput) -> None:
        if inputs.propagated and (self.reads_own_rows or self.skip is not None or self.feature_mean is not None):
            raise ValueError(
                "an encoder with a skip, a feature mean or own rows needs X, not Â X (propagate_once=False)"
            )

    def _add_hidden(self, direct: Tensor | None, hidden: Tensor) -> Tensor:
        """A hidden layer on its direct way to the vector, beside the others."""
        spare = self.weights[-1].shape[1] - hidden.shape[1]
        padded = functional.pad(hidden, (0, spare)) if spare else hidden
        return padded if direct is None else direct + padded


def glorot(fan_in: int, fan_out: int, generator: torch.Generator | None, *, heads: int = 1) -> Tensor:
    """(fan_in, heads * fan_out) uniform start weights (Glorot and Bengio 2010), those of one head after the other."""
    bound = (6.0 / (fan_in + fan_out)) ** 0.5
    weights = torch.empty(fan_in, heads * fan_out)  # filled in place: the first torch.cat on "meta" takes seconds
    for head in weights.split(fan_out, dim=1):
        head.copy_(torch.empty(fan_in, fan_out).uniform_(-bound, bound, generator=generator))
    return weights
