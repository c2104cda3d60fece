"""Linear encoder."""

from __future__ import annotations

from torch import Tensor

from l2g2g.models.encoders.base import Encoder


class LinearEncoder(Encoder):
    """Z = Â^layers X W + b: no hidden layer."""

    def widths(self, num_features: int, hidden: int, layers: int, dim: int) -> list[int]:
        """One weight."""
        return [num_features, dim]

    def weight_of(self, step: int) -> Tensor | None:
        """Only the first step has a weight."""
        return self.weights[0] if step == 0 else None

    def bias_of(self, step: int) -> Tensor | None:
        """Only the last step has a bias."""
        return self.biases[0] if step == self.num_layers - 1 else None

    def activates(self, step: int) -> bool:
        """Never."""
        return False
