"""Inner product decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from l2g2g.core import score_inner_products
from l2g2g.models.decoders.base import Decoder, Factors
from l2g2g.models.encoding import add_gradient
from l2g2g.models.pair_loss import NonEdges, ScoredEdges, can_score, reconstruction_gradient


class InnerDecoder(Decoder):
    """score(u, v) = z_u · z_v + bias.

    Without a learned bias (the paper) an edge probability of the sparse background cannot be expressed by orthogonal
    vectors.
    """

    sees_rotation = False
    page_score = "(page, row, inner) => inner.map((value) => value + page.decoder.bias)"

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        self.bias = nn.Parameter(torch.zeros(())) if learn_bias else None

    def factors(self, embedding: Tensor) -> Factors:
        """The vectors themselves."""
        return Factors(embedding, None, self.bias)

    def gradient(self, embedding: Tensor, edges: ScoredEdges, non_edges: NonEdges) -> tuple[float, Tensor]:
        """As `Decoder.gradient`, without a graph of autograd where the native kernels run."""
        if not can_score(embedding):
            return super().gradient(embedding, edges, non_edges)
        bias = 0.0 if self.bias is None else float(self.bias.detach())
        loss, gradient, slope = reconstruction_gradient(embedding, edges, non_edges, bias)
        if self.bias is not None:
            add_gradient(self.bias, self.bias.detach().new_tensor(slope))
        return loss, gradient

    def score(self, vectors: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs,) float64 scores, summed in float64."""
        return score_inner_products(vectors, sources, targets) + self.page_facts()["bias"]

    @classmethod
    def arguments_of(cls, parameters: dict[str, np.ndarray]) -> dict[str, Any]:
        """Whether there is a bias."""
        return {"learn_bias": "bias" in parameters}

    def page_facts(self) -> dict[str, float]:
        """The bias."""
        return {"bias": 0.0 if self.bias is None else float(self.bias.detach())}
