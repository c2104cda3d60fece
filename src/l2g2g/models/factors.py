"""Factors: decoders whose score is an inner product of transformed vectors, so that all of them share one hot path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

_PAIRS_PER_SLICE = 1 << 18


@dataclass(frozen=True, eq=False)
class Factors:
    """score(u, v) = left_u · right_v + bias.

    Attributes:
        left: (num_rows, width).
        right: (num_rows, width); None where it is the left one, which makes the score symmetric.
        bias: A scalar; None for 0.
    """

    left: Tensor
    right: Tensor | None = None
    bias: Tensor | None = None

    def score(self, sources: Tensor, targets: Tensor) -> Tensor:
        """(num_pairs,) scores of given pairs, in slices so that memory stays small."""
        right = self.left if self.right is None else self.right
        slices = zip(sources.split(_PAIRS_PER_SLICE), targets.split(_PAIRS_PER_SLICE), strict=True)
        parts = [(self.left[u] * right[v]).sum(dim=1) for u, v in slices]
        scores = torch.cat(parts) if parts else self.left.new_zeros(0)
        return scores if self.bias is None else scores + self.bias


class FactorDecoder(nn.Module, ABC):
    """A decoder that is told by its factors."""

    @abstractmethod
    def factors(self, embedding: Tensor) -> Factors:
        """The two sides of the score. embedding: (num_rows, dim)."""

    def score(self, embedding: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """(num_pairs,) scores of given pairs."""
        return self.factors(embedding).score(sources, targets)


class CosineDecoder(FactorDecoder):
    """score(u, v) = scale · cos(z_u, z_v) + bias: the length of a vector says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(5.0).log())
        self.bias = nn.Parameter(torch.zeros(()))

    def factors(self, embedding: Tensor) -> Factors:
        """Vectors of length √scale."""
        return Factors(functional.normalize(embedding, dim=1) * torch.exp(0.5 * self.log_scale), None, self.bias)


class DistanceDecoder(FactorDecoder):
    """score(u, v) = bias − scale · |z_u − z_v|²: near means joined.

    It is the inner product of [√2 y, −|y|², 1] and [√2 y, 1, −|y|²] with y = √scale (z − centre). No distance knows
    the centre; taking it away keeps the squares small, and so their difference exact.
    """

    def __init__(self) -> None:
        super().__init__()
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


class AsymmetricDecoder(FactorDecoder):
    """score(u → v) = s_u · t_v + bias, where a vector is [s | t]: how it sends, and how it receives."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def factors(self, embedding: Tensor) -> Factors:
        """The first half of the columns, and the second."""
        half = embedding.shape[1] // 2
        return Factors(embedding[:, :half], embedding[:, half:], self.bias)
