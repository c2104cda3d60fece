"""Decoder: the contract of all decoders, and the two factors of those that are inner products."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from l2g2g.models.losses import NonEdges, ScoredEdges, all_pairs_loss, reconstruction_loss

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


class Decoder(nn.Module, ABC):
    """A score of two vectors, whose sigmoid is the probability of an edge.

    A subclass has the arguments dim, learn_bias and generator, and defines `factors`. One whose score is no inner
    product of two factors sets `has_factors` to False and defines `forward` and `loss` instead.

    Attributes:
        has_factors: Whether the score is an inner product of two factors. Only then all pairs can be scored at once,
            and neighbours be searched by it; otherwise candidates are found by inner products and ranked by the score.
        is_directed: Whether score(u, v) and score(v, u) differ. Needs a directed graph.
        sees_rotation: Whether a rotation of all vectors together changes scores.
        allows_rotation: Whether patches may be aligned by rotations in training.
        dim_multiple: The dimension must be a multiple of this.
        page_score: JavaScript for the page of a run, None where it cannot score links. With factors: a function of
            (page, row, inner) that returns the scores of a node with all nodes, where inner are its inner products.
            Without: a function of (page, row, node) that returns one score. page has `decoder` (what `page_facts`
            returned), `weights` (what `page_weights` returned), `width`, `lengths`, `products`, `cosines` and
            `vectorOf`, see map_partners.js.
    """

    has_factors: ClassVar[bool] = True
    is_directed: ClassVar[bool] = False
    sees_rotation: ClassVar[bool] = True
    allows_rotation: ClassVar[bool] = True
    dim_multiple: ClassVar[int] = 1
    page_score: ClassVar[str | None] = None

    @abstractmethod
    def __init__(self, dim: int, *, learn_bias: bool = True, generator: torch.Generator | None = None) -> None:
        super().__init__()

    def factors(self, embedding: Tensor) -> Factors | None:
        """The two factors whose inner product is the score; None where there are none. embedding: (num_rows, dim)."""
        return None

    def forward(self, embedding: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """(num_pairs,) scores of pairs of rows. embedding: (num_rows, dim)."""
        return self._factors(embedding).score(sources, targets)

    def loss(self, embedding: Tensor, edges: ScoredEdges, non_edges: NonEdges) -> Tensor:
        """Σ weight · −log σ(±score) over edges (+) and non-edges (−). embedding: (num_rows, dim)."""
        factors = self._factors(embedding)
        return reconstruction_loss(factors.left, edges, non_edges, factors.bias, factors.right)

    def gradient(self, embedding: Tensor, edges: ScoredEdges, non_edges: NonEdges) -> tuple[float, Tensor]:
        """(loss, its gradient (num_rows, dim)); that of the parameters is added to them. embedding: (num_rows, dim)."""
        vectors = embedding.detach().requires_grad_()
        loss = self.loss(vectors, edges, non_edges)
        loss.backward()
        assert vectors.grad is not None
        return float(loss.detach()), vectors.grad

    def all_pairs_loss(
        self, embedding: Tensor, adjacency: Tensor, rows: Tensor | None = None, num_arcs: int | None = None
    ) -> Tensor:
        """The loss over every pair of the embedding, or over those of some rows; see `losses.all_pairs_loss`."""
        factors = self._factors(embedding)
        return all_pairs_loss(factors.left, adjacency, factors.bias, factors.right, rows, num_arcs)

    def score(self, vectors: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs,) float64 scores. vectors: (num_nodes, dim); sources, targets: (num_pairs,) node numbers."""
        with torch.no_grad():
            return self(*(self.as_tensor(part) for part in (vectors, sources, targets))).double().cpu().numpy()

    def as_tensor(self, array: np.ndarray) -> Tensor:
        """An array on the device of the parameters; it is only read."""
        parameter = next(self.parameters(), None)
        with warnings.catch_warnings():  # vectors of a file may be mapped read-only
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor if parameter is None else tensor.to(parameter.device)

    @classmethod
    def from_parameters(cls, parameters: dict[str, np.ndarray], dim: int) -> Decoder:
        """The decoder with these parameters, by the names of its `state_dict`.

        KeyError, RuntimeError or ValueError where they do not fit.
        """
        if dim % cls.dim_multiple:
            raise ValueError(f"{dim} dimensions are not a multiple of {cls.dim_multiple}")
        decoder = cls(dim, **cls.arguments_of(parameters))
        decoder.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in parameters.items()})
        return decoder

    @classmethod
    def arguments_of(cls, parameters: dict[str, np.ndarray]) -> dict[str, Any]:
        """Arguments that a decoder with these parameters was made with, beside dim."""
        return {}

    @classmethod
    def most_pairs(cls, num_nodes: int) -> int:
        """Edges that an epoch scores at most by default: so many say enough for one step."""
        return max(100_000, 2 * num_nodes)

    def page_facts(self) -> dict[str, float]:
        """Numbers that `page_score` reads."""
        return {}

    def page_weights(self) -> np.ndarray | None:
        """(any size,) float32 weights that `page_score` reads; None for none."""
        return None

    def _factors(self, embedding: Tensor) -> Factors:
        factors = self.factors(embedding)
        if factors is None:
            raise ValueError("the decoder's score is no inner product of two factors; score sampled pairs with it")
        return factors
