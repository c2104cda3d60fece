"""Distance decoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from l2g2g.models.decoders.base import Decoder, Factors


class DistanceDecoder(Decoder):
    """score(u, v) = bias − scale · |z_u − z_v|²: near means joined.

    It is the inner product of [√2 y, −|y|², 1] and [√2 y, 1, −|y|²] with y = √scale (z − centre). No distance depends
    on the centre; subtracting it keeps the squares small, and so their difference exact.
    """

    sees_rotation = False
    page_score = """(page, row, inner) => inner.map((value, node) =>
    page.decoder.bias - page.decoder.scale * (page.lengths[row] ** 2 + page.lengths[node] ** 2 - 2 * value))"""

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        # A start from which both ends of the probability are near: nodes at distance 0.7 are joined with one half.
        self.log_scale = nn.Parameter(torch.tensor(2.0))
        self.bias = nn.Parameter(torch.tensor(4.0))

    def factors(self, embedding: Tensor) -> Factors:
        """Two columns more than the embedding has."""
        centred = (embedding - embedding.detach().mean(dim=0)) * torch.exp(0.5 * self.log_scale)
        squares = centred.square().sum(dim=1, keepdim=True)
        ones = torch.ones_like(squares)
        twice = centred * 2**0.5
        return Factors(torch.cat([twice, -squares, ones], dim=1), torch.cat([twice, ones, -squares], dim=1), self.bias)

    def page_facts(self) -> dict[str, float]:
        """Bias and scale."""
        return {"bias": float(self.bias.detach()), "scale": float(self.log_scale.detach().double().exp())}
