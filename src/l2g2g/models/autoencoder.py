"""Autoencoder: one encoder for all patches or one each, and the decoder's few parameters."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from l2g2g.models.decoder import ProductDecoder
from l2g2g.models.encoder import Encoder, EncoderInput, EncoderKind
from l2g2g.models.losses import reconstruction_loss
from l2g2g.models.randomness import Purpose, torch_generator
from l2g2g.models.sparse import PairPattern

DecoderKind = Literal["inner", "product"]


class Autoencoder(nn.Module):
    """Encoders and a decoder: σ(z_u · z_v + bias), or a small learned one on z_u ∘ z_v.

    Args:
        num_encoders: 1 for an encoder shared by all patches, or one per patch.
        learn_bias: Whether the decoder has a learned bias; without it an edge probability of the
            sparse background cannot be expressed by orthogonal vectors.
        decoder: inner (the inner product), or product (learned).
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        num_encoders: int = 1,
        hidden: int = 32,
        layers: int = 2,
        kind: EncoderKind = "gcn",
        variational: bool = False,
        learn_bias: bool = False,
        decoder: DecoderKind = "inner",
        skip: bool = False,
        feature_mean: Tensor | None = None,
        feature_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.variational = variational
        self.encoders = nn.ModuleList(
            [
                Encoder(
                    num_features,
                    dim,
                    hidden=hidden,
                    layers=layers,
                    kind=kind,
                    variational=variational,
                    skip=skip,
                    feature_mean=feature_mean,
                    feature_scale=feature_scale,
                    generator=torch_generator(seed, Purpose.INITIAL_WEIGHTS, patch=index),
                )
                for index in range(num_encoders)
            ]
        )
        inner = decoder == "inner"
        self.bias = nn.Parameter(torch.zeros(())) if learn_bias and inner else None
        generator = torch_generator(seed, Purpose.INITIAL_WEIGHTS, patch=-1 & 0xFFFFFFFF)
        self.decoder = None if inner else ProductDecoder(dim, generator=generator)

    @property
    def shares_encoder(self) -> bool:
        """Whether all patches run through one encoder."""
        return len(self.encoders) == 1

    def pair_loss(self, embedding: Tensor, edges: PairPattern, non_edges: PairPattern) -> Tensor:
        """How badly the decoder tells edges from non-edges. embedding: (num_rows, dim)."""
        if self.decoder is not None:
            return self.decoder.loss(embedding, edges, non_edges)
        return reconstruction_loss(embedding, edges, non_edges, self.bias)

    def encode(self, inputs: EncoderInput, patch: int = 0) -> tuple[Tensor, Tensor | None]:
        """(mean, log-deviation) of the rows, each (num_rows, dim); no log-deviation unless variational."""
        encoder = self.encoders[0 if self.shares_encoder else patch]
        output = encoder(inputs)
        if not self.variational:
            return output, None
        mean, log_deviation = output.split(self.dim, dim=1)
        return mean, log_deviation.clamp(max=10)
