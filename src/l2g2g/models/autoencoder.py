"""Autoencoder: one encoder for all patches or one each, and a decoder."""

from __future__ import annotations

from torch import Tensor, nn

from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.models.decoders import DECODERS
from l2g2g.models.encoders import ENCODERS
from l2g2g.models.encoders.base import Activation, Encoder
from l2g2g.models.encoding import EncoderInput, Encoding
from l2g2g.models.losses import NonEdges, ScoredEdges


class Autoencoder(nn.Module):
    """Encoders and a decoder.

    Args:
        num_encoders: 1 for an encoder shared by all patches, or one per patch.
        kind: A name in `ENCODERS`.
        learn_bias: Whether the inner-product decoder has a learned bias; the others always have one.
        decoder: A name in `DECODERS`.
    """

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        num_encoders: int = 1,
        hidden: int = 32,
        layers: int = 2,
        kind: str = "gcn",
        variational: bool = False,
        learn_bias: bool = False,
        decoder: str = "inner",
        activation: Activation = "relu",
        skip: bool = False,
        residual: bool = False,
        feature_mean: Tensor | None = None,
        feature_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.variational = variational
        self.encoders = nn.ModuleList(
            [
                ENCODERS[kind](
                    num_features,
                    dim,
                    hidden=hidden,
                    layers=layers,
                    variational=variational,
                    activation=activation,
                    skip=skip,
                    residual=residual,
                    feature_mean=feature_mean,
                    feature_scale=feature_scale,
                    generator=torch_generator(seed, Purpose.INITIAL_WEIGHTS, patch=index),
                )
                for index in range(num_encoders)
            ]
        )
        generator = torch_generator(seed, Purpose.INITIAL_WEIGHTS, patch=-1 & 0xFFFFFFFF)
        self.decoder = DECODERS[decoder](dim, learn_bias=learn_bias, generator=generator)

    @property
    def shares_encoder(self) -> bool:
        """Whether all patches run through one encoder."""
        return len(self.encoders) == 1

    def pair_loss(self, embedding: Tensor, edges: ScoredEdges, non_edges: NonEdges) -> Tensor:
        """How badly the decoder tells edges from non-edges. embedding: (num_rows, dim)."""
        return self.decoder.loss(embedding, edges, non_edges)

    def pair_gradient(self, embedding: Tensor, edges: ScoredEdges, non_edges: NonEdges) -> tuple[float, Tensor]:
        """(loss, its gradient (num_rows, dim)); that of the decoder's parameters is added to them."""
        return self.decoder.gradient(embedding, edges, non_edges)

    def all_pairs_loss(
        self, embedding: Tensor, adjacency: Tensor, rows: Tensor | None = None, num_arcs: int | None = None
    ) -> Tensor:
        """The loss over every pair of the embedding, or over those of some rows; see `losses.all_pairs_loss`."""
        return self.decoder.all_pairs_loss(embedding, adjacency, rows, num_arcs)

    def encoder_of(self, patch: int) -> Encoder:
        """The encoder of a patch: the shared one, or its own."""
        encoder = self.encoders[0 if self.shares_encoder else patch]
        assert isinstance(encoder, Encoder)
        return encoder

    def encode(self, inputs: EncoderInput, patch: int = 0) -> tuple[Tensor, Tensor | None]:
        """(mean, log-deviation) of the rows, each (num_rows, dim); no log-deviation unless variational."""
        return self.split(self.encoder_of(patch)(inputs))

    def begin(self, inputs: EncoderInput, patch: int = 0) -> Encoding:
        """The output of the encoder of a patch, to be taken apart by `split`, and its backward pass."""
        return self.encoder_of(patch).begin(inputs)

    def split(self, output: Tensor) -> tuple[Tensor, Tensor | None]:
        """(mean, log-deviation), as in `encode`. output: (num_rows, width) of an encoder."""
        if not self.variational:
            return output, None
        mean, log_deviation = output.split(self.dim, dim=1)
        return mean, log_deviation.clamp(max=10)
