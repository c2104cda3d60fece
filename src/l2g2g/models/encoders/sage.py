"""GraphSAGE encoder with means."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from l2g2g.models.encoders.base import Encoder
from l2g2g.models.propagation import MEAN


class SageEncoder(Encoder):
    """h_i' = W_self h_i + W_neigh mean_{j ∈ N(i)} h_j + b (Hamilton, Ying and Leskovec 2017).

    `weights` are W_neigh. The mean is over the visible neighbours, 0 where there are none, and weighted where edges
    have weights.
    """

    propagation = MEAN
    reads_own_rows = True
    tables_per_layer = 2

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        hidden: int = 32,
        layers: int = 2,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_features, dim, hidden=hidden, layers=layers, generator=generator, **options)
        self.self_weights = self.make_weights(self.widths(num_features, hidden, layers, dim), generator)

    def weight_of(self, step: int) -> Tensor | None:
        """Both weights side by side: one pass over the rows."""
        return torch.cat([self.weights[step], self.self_weights[step]], dim=1)

    def divide(self, step: int, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """The neighbours' part is propagated, the node's own is added."""
        message, own = rows.chunk(2, dim=1)
        return message, own
