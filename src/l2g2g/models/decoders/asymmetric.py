"""Asymmetric decoder, for directed graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from l2g2g.models.decoders.base import Decoder, Factors


class AsymmetricDecoder(Decoder):
    """score(u → v) = s_u · t_v + bias, where a vector is [s | t]: the node as a source, and as a target.

    A rotation would mix sources and targets.
    """

    is_directed = True
    allows_rotation = False
    dim_multiple = 2
    page_score = """(page, row) =>
    page.products(row, 0, page.width / 2, page.width / 2).map((value) => value + page.decoder.bias)"""

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        self.bias = nn.Parameter(torch.zeros(()))

    def factors(self, embedding: Tensor) -> Factors:
        """The first half of the columns, and the second."""
        half = embedding.shape[1] // 2
        return Factors(embedding[:, :half], embedding[:, half:], self.bias)

    def page_facts(self) -> dict[str, float]:
        """The bias."""
        return {"bias": float(self.bias.detach())}
