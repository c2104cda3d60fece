"""Cosine decoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from l2g2g.models.decoders.base import Decoder, Factors


class CosineDecoder(Decoder):
    """score(u, v) = scale · cos(z_u, z_v) + bias: the length of a vector has no effect."""

    sees_rotation = False
    page_score = """(page, row, inner) =>
    page.cosines(row, inner).map((value) => page.decoder.scale * value + page.decoder.bias)"""

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        self.log_scale = nn.Parameter(torch.tensor(5.0).log())
        self.bias = nn.Parameter(torch.zeros(()))

    def factors(self, embedding: Tensor) -> Factors:
        """Vectors of length √scale."""
        return Factors(functional.normalize(embedding, dim=1) * torch.exp(0.5 * self.log_scale), None, self.bias)

    def page_facts(self) -> dict[str, float]:
        """Bias and scale."""
        return {"bias": float(self.bias.detach()), "scale": float(self.log_scale.detach().double().exp())}
