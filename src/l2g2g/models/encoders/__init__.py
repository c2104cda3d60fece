"""Encoders: features and edges to vectors.

An encoder is one file with one class, see `base.Encoder`, and one line in `ENCODERS`.
"""

from __future__ import annotations

from l2g2g.models.encoders.base import Encoder
from l2g2g.models.encoders.gcn import GCNEncoder
from l2g2g.models.encoders.linear import LinearEncoder
from l2g2g.models.encoders.sage import SageEncoder

ENCODERS: dict[str, type[Encoder]] = {"gcn": GCNEncoder, "sage": SageEncoder, "linear": LinearEncoder}
