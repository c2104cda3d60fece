"""Decoding: how likely a pair is an edge, by the decoder that the vectors were trained with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from l2g2g.evaluation.links import score_inner_products
from l2g2g.models.autoencoder import FACTOR_DECODERS, Autoencoder
from l2g2g.models.decoder import ProductDecoder
from l2g2g.models.factors import AsymmetricDecoder, FactorDecoder
from l2g2g.neighbours.sides import Sides


@dataclass(frozen=True, eq=False)
class LinkDecoder:
    """Scores of pairs, whose sigmoid is a probability; by default the inner product, as for vectors of unknown origin.

    Attributes:
        module: A decoder of the model; None for inner products.
        bias: Added to inner products.
    """

    module: ProductDecoder | FactorDecoder | None = None
    bias: float = 0.0

    @classmethod
    def of(cls, model: Autoencoder) -> LinkDecoder:
        """The decoder of a trained model."""
        return cls(model.decoder, 0.0 if model.bias is None else float(model.bias.detach()))

    @classmethod
    def from_parameters(cls, kind: str, parameters: dict[str, np.ndarray], dim: int) -> LinkDecoder:
        """The decoder of a run that is over, from its parameters by name; see `reports.record`.

        Where they do not fit: KeyError, RuntimeError or ValueError.
        """
        if kind == "inner":
            return cls(None, float(parameters.get("bias", 0.0)))
        hidden = parameters["weight"].shape[1] if kind == "product" else 0
        module = ProductDecoder(dim, hidden) if kind == "product" else FACTOR_DECODERS[kind]()
        module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in parameters.items()})
        return cls(module)

    @property
    def one_way(self) -> bool:
        """Whether u → v and v → u have different scores."""
        return isinstance(self.module, AsymmetricDecoder)

    def score(self, embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs,) float64 scores. embedding: (num_nodes, dim); sources, targets: (num_pairs,) node numbers."""
        if self.module is None:
            return score_inner_products(embedding, sources, targets) + self.bias
        device = next(self.module.parameters()).device
        with torch.no_grad():
            parts = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (embedding, sources, targets))
            return self.module.score(*parts).double().cpu().numpy()

    def sides(self, embedding: np.ndarray) -> Sides | None:
        """The two sides whose inner products are the scores; None for a learned decoder that has none."""
        if self.module is None:
            table = np.ascontiguousarray(embedding, dtype=np.float32)
            return Sides(table, table, self.bias)
        if isinstance(self.module, ProductDecoder):
            return None
        with torch.no_grad():
            device = next(self.module.parameters()).device
            factors = self.module.factors(torch.from_numpy(np.ascontiguousarray(embedding)).to(device))
        left = factors.left.cpu().numpy()
        right = left if factors.right is None else factors.right.cpu().numpy()
        bias = 0.0 if factors.bias is None else float(factors.bias.detach())
        return Sides(left, right, bias, one_way=self.one_way)
