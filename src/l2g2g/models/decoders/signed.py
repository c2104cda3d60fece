"""Signed decoder: an inner product in which a coordinate may count against a link."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from l2g2g.models.decoders.base import Decoder, Factors


class SignedDecoder(Decoder):
    """score(u, v) = Σ_k w_k z_uk z_vk + bias, with learned weights: half of them start at 1, the others at -1.

    A plain inner product scores every node high with itself, so nodes that are alike are linked. In a bipartite graph,
    or one whose links join unlike nodes, they are not: such a matrix has negative eigenvalues, which need a coordinate
    with a negative weight. A rotation would mix coordinates of both signs.
    """

    allows_rotation = False
    page_score = """(page, row) => {
    const scores = new Float32Array(page.lengths.length).fill(page.decoder.bias);
    for (let column = 0; column < page.width; column++) {
      const products = page.products(row, column, column + 1, column);
      for (let node = 0; node < scores.length; node++) scores[node] += page.weights[column] * products[node];
    }
    return scores;
  }"""

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        self.weights = nn.Parameter(torch.where(torch.arange(dim) < (dim + 1) // 2, 1.0, -1.0))
        self.bias = nn.Parameter(torch.zeros(()))

    def factors(self, embedding: Tensor) -> Factors:
        """The vectors, and the vectors with weighted columns."""
        return Factors(embedding, embedding * self.weights, self.bias)

    def page_facts(self) -> dict[str, float]:
        """The bias."""
        return {"bias": float(self.bias.detach())}

    def page_weights(self) -> np.ndarray:
        """The weights of the columns."""
        return self.weights.detach().cpu().numpy().astype(np.float32)
