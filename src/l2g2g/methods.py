"""Methods: the rows of the paper's comparison as settings of one loop. A whole graph is one patch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Alignment = Literal["never", "after", "during"]
PairChoice = Literal["sampled", "all", "subgraph"]
Scope = Literal["inside", "global"]
AlignGradient = Literal["held", "through"]
Schedule = Literal["constant", "linear"]


@dataclass(frozen=True)
class Method:
    """What distinguishes a method.

    Attributes:
        uses_patches: Whether the graph is cut; otherwise it is one patch.
        share_encoder: Whether one encoder serves all patches (an option of L2G2G).
        alignment: When patches are synchronised: never, once after training, or during it.
        pairs: Pairs of the loss: all edges with as many non-edges, every pair, or FastGAE's subgraph.
        variational: Whether the encoder is variational.
    """

    uses_patches: bool
    share_encoder: bool
    alignment: Alignment
    pairs: PairChoice = "sampled"
    variational: bool = False


METHODS: dict[str, Method] = {
    "gae": Method(uses_patches=False, share_encoder=True, alignment="never"),
    "fastgae": Method(uses_patches=False, share_encoder=True, alignment="never", pairs="subgraph"),
    "gae+l2g": Method(uses_patches=True, share_encoder=False, alignment="after"),
    "l2g2g": Method(uses_patches=True, share_encoder=True, alignment="during"),
    "vgae": Method(uses_patches=False, share_encoder=True, alignment="never", variational=True),
    "vl2g2g": Method(uses_patches=True, share_encoder=True, alignment="during", variational=True),
}
