"""Autoencoder: one encoder for all patches or one each, and the decoder's few parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from l2g2g.models.encoder import Encoder, EncoderInput, EncoderKind
from l2g2g.models.randomness import Purpose, torch_generator


class Autoencoder(nn.Module):
    """Encoders and an inner-product decoder σ(z_u · z_v + bias).

    Args:
        num_encoders: 1 for an encoder shared by all patches, or one per patch.
        learn_bias: Whether the decoder has a learned bias; without it an edge probability of the
            sparse background cannot be expressed by orthogonal vectors.
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
        self.bias = nn.Parameter(torch.zeros(())) if learn_bias else None

    @property
    def shares_encoder(self) -> bool:
        """Whether all patches run through one encoder."""
        return len(self.encoders) == 1

    def encode(self, inputs: EncoderInput, patch: int = 0) -> tuple[Tensor, Tensor | None]:
        """(mean, log-deviation) of the rows, each (num_rows, dim); no log-deviation unless variational."""
        encoder = self.encoders[0 if self.shares_encoder else patch]
        output = encoder(inputs)
        if not self.variational:
            return output, None
        mean, log_deviation = output.split(self.dim, dim=1)
        return mean, log_deviation.clamp(max=10)
