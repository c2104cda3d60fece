"""Encoders: features and edges to vectors.

An encoder is one file with one class, see `base.Encoder`, and one line in `ENCODERS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from l2g2g.models.class_table import ClassTable

if TYPE_CHECKING:
    from l2g2g.models.encoders.base import Encoder

ENCODERS: ClassTable[Encoder] = ClassTable(
    "l2g2g.models.encoders",
    {
        "gcn": ("gcn.GCNEncoder", "graph convolutions"),
        "sage": ("sage.SageEncoder", "GraphSAGE-mean"),
        "linear": ("linear.LinearEncoder", "no hidden layer"),
    },
)
