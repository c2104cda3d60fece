"""Linear encoder."""

from __future__ import annotations

from torch import Tensor

from l2g2g.models.encoders.base import Encoder, times
from l2g2g.models.features import FeatureRows


class LinearEncoder(Encoder):
    """Z = Â^layers X W + b: no hidden layer."""

    def widths(self, num_features: int, hidden: int, layers: int, dim: int) -> list[int]:
        """One weight."""
        return [num_features, dim]

    def project(self, step: int, rows: FeatureRows | Tensor) -> tuple[Tensor, Tensor | None]:
        """Only the first step has a weight."""
        return times(rows, self.weights[0]) if step == 0 else _as_tensor(rows), None

    def bias_of(self, step: int) -> Tensor | None:
        """Only the last step has a bias."""
        return self.biases[0] if step == self.num_layers - 1 else None

    def activates(self, step: int) -> bool:
        """Never."""
        return False


def _as_tensor(rows: FeatureRows | Tensor) -> Tensor:
    assert isinstance(rows, Tensor)
    return rows
