"""Decoders: how likely two nodes are joined, by their vectors.

A decoder is one file with one class, see `base.Decoder`, and one line in `components.DECODERS`. Settings, training,
search, evaluation, saved files and reports ask its attributes and methods; none of them knows a decoder by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from l2g2g import components

if TYPE_CHECKING:
    import numpy as np

    from l2g2g.components import ClassTable
    from l2g2g.models.decoders.base import Decoder

DECODERS: ClassTable[Decoder] = components.DECODERS


def read_decoder(name: str, parameters: dict[str, np.ndarray], dim: int) -> Decoder:
    """The decoder of a finished run from its parameters by name.

    Raises:
        KeyError, RuntimeError or ValueError where they do not fit.
    """
    return DECODERS[name].from_parameters(parameters, dim)
