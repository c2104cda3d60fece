"""Decoders whose score is an inner product of two factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from l2g2g.core import score_inner_products
from l2g2g.models.decoders.base import Decoder, Factors
from l2g2g.models.encoding import add_gradient
from l2g2g.models.losses import NonEdges, ScoredEdges, can_score, reconstruction_gradient


class FactorDecoder(Decoder):
    """score(u, v) = left_u · right_v + bias. A subclass defines `factors`."""

    bias: nn.Parameter | None

    def page_facts(self) -> dict[str, float]:
        """Return the bias, and the scale where there is one."""
        facts = {"bias": 0.0 if self.bias is None else float(self.bias.detach())}
        log_scale = dict(self.named_parameters()).get("log_scale")
        return facts if log_scale is None else {**facts, "scale": float(log_scale.detach().double().exp())}


class InnerDecoder(FactorDecoder):
    """score(u, v) = z_u · z_v + bias.

    Without a learned bias (the paper) orthogonal vectors cannot express the small edge probability of the background.
    """

    sees_rotation = False
    page_score = "(page, row, inner) => inner.map((value) => value + page.decoder.bias)"

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        self.bias = nn.Parameter(torch.zeros(())) if learn_bias else None

    def factors(self, embedding: Tensor) -> Factors:
        """Return the vectors themselves."""
        return Factors(embedding, None, self.bias)

    def gradient(self, embedding: Tensor, edges: ScoredEdges, non_edges: NonEdges) -> tuple[float, Tensor]:
        """Compute `Decoder.gradient`, without an autograd graph where the native kernels run."""
        if not can_score(embedding):
            return super().gradient(embedding, edges, non_edges)
        loss, gradient, slope = reconstruction_gradient(embedding, edges, non_edges, self.page_facts()["bias"])
        if self.bias is not None:
            add_gradient(self.bias, self.bias.detach().new_tensor(slope))
        return loss, gradient

    def score(self, vectors: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return (num_pairs,) float64 scores, summed in float64."""
        return score_inner_products(vectors, sources, targets) + self.page_facts()["bias"]

    @classmethod
    def arguments_of(cls, parameters: dict[str, np.ndarray]) -> dict[str, Any]:
        """Return `learn_bias`."""
        return {"learn_bias": "bias" in parameters}


class CosineDecoder(FactorDecoder):
    """score(u, v) = scale · cos(z_u, z_v) + bias: the length of a vector has no effect."""

    sees_rotation = False
    page_score = """(page, row, inner) =>
    page.cosines(row, inner).map((value) => page.decoder.scale * value + page.decoder.bias)"""

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        self.log_scale = nn.Parameter(torch.tensor(5.0).log())
        self.bias = nn.Parameter(torch.zeros(()))

    def factors(self, embedding: Tensor) -> Factors:
        """Return the vectors scaled to length √scale."""
        return Factors(functional.normalize(embedding, dim=1) * torch.exp(0.5 * self.log_scale), None, self.bias)


class DistanceDecoder(FactorDecoder):
    """score(u, v) = bias − scale · |z_u − z_v|²: near nodes are likely joined.

    This is the inner product of [√2 y, −|y|², 1] and [√2 y, 1, −|y|²] with y = √scale (z − centre). Distances do not
    depend on the centre; subtracting it keeps the squares small and their difference exact.
    """

    sees_rotation = False
    page_score = """(page, row, inner) => inner.map((value, node) =>
    page.decoder.bias - page.decoder.scale * (page.lengths[row] ** 2 + page.lengths[node] ** 2 - 2 * value))"""

    def __init__(self, dim: int = 0, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__(dim)
        # Nodes at distance 0.7 start with an edge probability of one half: far and near nodes are both in reach.
        self.log_scale = nn.Parameter(torch.tensor(2.0))
        self.bias = nn.Parameter(torch.tensor(4.0))

    def factors(self, embedding: Tensor) -> Factors:
        """Return factors with two columns more than the embedding."""
        centred = (embedding - embedding.detach().mean(dim=0)) * torch.exp(0.5 * self.log_scale)
        squares = centred.square().sum(dim=1, keepdim=True)
        ones = torch.ones_like(squares)
        twice = centred * 2**0.5
        return Factors(torch.cat([twice, -squares, ones], dim=1), torch.cat([twice, ones, -squares], dim=1), self.bias)


class SignedDecoder(FactorDecoder):
    """score(u, v) = Σ_k w_k z_uk z_vk + bias with learned weights: half of them start at 1, the others at −1.

    A plain inner product scores every node high with itself, so that similar nodes are linked. In a bipartite graph, or
    one whose links join unlike nodes, they are not: the adjacency matrix has negative eigenvalues, which need
    coordinates with a negative weight. A rotation would mix coordinates of both signs.
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
        """Return the vectors, and the vectors with weighted columns."""
        return Factors(embedding, embedding * self.weights, self.bias)

    def page_weights(self) -> np.ndarray:
        """Return the weights of the columns."""
        return self.weights.detach().cpu().numpy().astype(np.float32)


class AsymmetricDecoder(FactorDecoder):
    """score(u → v) = s_u · t_v + bias for directed graphs, where z = [s | t]: the node as a source and as a target.

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
        """Return the first and the second half of the columns."""
        half = embedding.shape[1] // 2
        return Factors(embedding[:, :half], embedding[:, half:], self.bias)
