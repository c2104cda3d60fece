"""Decoders: how likely two nodes are joined, by their vectors.

A decoder is one file with one class, see `base.Decoder`, and one line in `DECODERS`. Settings, training, search,
evaluation, saved files and reports ask its attributes and methods; none of them knows a decoder by name.
"""

from __future__ import annotations

import numpy as np

from l2g2g.models.decoders.asymmetric import AsymmetricDecoder
from l2g2g.models.decoders.base import Decoder
from l2g2g.models.decoders.cosine import CosineDecoder
from l2g2g.models.decoders.distance import DistanceDecoder
from l2g2g.models.decoders.inner import InnerDecoder
from l2g2g.models.decoders.product import ProductDecoder

DECODERS: dict[str, type[Decoder]] = {
    "inner": InnerDecoder,
    "cosine": CosineDecoder,
    "distance": DistanceDecoder,
    "product": ProductDecoder,
    "asymmetric": AsymmetricDecoder,
}


def read_decoder(name: str, parameters: dict[str, np.ndarray], dim: int) -> Decoder:
    """The decoder of a finished run from its parameters by name.

    Raises:
        KeyError, RuntimeError or ValueError where they do not fit.
    """
    return DECODERS[name].from_parameters(parameters, dim)
