"""Decoding: the scores of a decoder as inner products that can be searched."""

from __future__ import annotations

import numpy as np
import torch

from l2g2g.models.decoders.base import Decoder
from l2g2g.neighbours.factors import ScoreFactors


def factors_of(decoder: Decoder, embedding: np.ndarray) -> ScoreFactors | None:
    """The two factors whose inner products are the decoder's scores; None where it has none."""
    with torch.no_grad():
        factors = decoder.factors(decoder.as_tensor(embedding))
    if factors is None:
        return None
    left = factors.left.cpu().numpy()
    right = left if factors.right is None else factors.right.cpu().numpy()
    bias = 0.0 if factors.bias is None else float(factors.bias.detach())
    return ScoreFactors(left, right, bias, one_way=decoder.is_directed)
