"""Encoders: features and edges to vectors.

An encoder is one file with one class, see `base.Encoder`, and one line in `components.ENCODERS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from l2g2g import components

if TYPE_CHECKING:
    from l2g2g.components import ClassTable
    from l2g2g.models.encoders.base import Encoder

ENCODERS: ClassTable[Encoder] = components.ENCODERS
