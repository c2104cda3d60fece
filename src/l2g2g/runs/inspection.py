"""Inspection: measurements of a trained model while its graph is in memory, for the record of the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.residuals import Residuals
from l2g2g.alignment.streaming import SharedNodes, compare_copies
from l2g2g.alignment.synchronise import Frame
from l2g2g.evaluation.separation import ScoredPairs
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.overlap_index import OverlapIndex


@dataclass(frozen=True)
class Inspection:
    """scored: the validation pairs with their scores, by vectors that have not seen them; None where there are none.

    residuals: how far patches disagree about the nodes they share; None for one patch.
    link_model: how scores become probabilities, see `LinkModel.to_dict`; None where nothing was fitted.
    """

    scored: ScoredPairs | None = None
    residuals: Residuals | None = None
    link_model: dict[str, Any] | None = None


def patch_residuals(stacked: Tensor, patch_set: PatchSet, frame: Frame) -> Residuals:
    """Residuals of aligned patches as NumPy arrays. stacked: (num_rows, dim), patch after patch."""
    overlaps = patch_set.overlaps
    rows = torch.unique(torch.cat([overlaps.first_rows, overlaps.second_rows]))
    first, second = (torch.searchsorted(rows, part) for part in (overlaps.first_rows, overlaps.second_rows))
    shared = SharedNodes(
        stacked[rows],
        torch.searchsorted(rows, torch.from_numpy(patch_set.offsets)),
        torch.from_numpy(np.asarray(patch_set.global_nodes))[rows],
        OverlapIndex(overlaps.num_patches, overlaps.edges, overlaps.pointers, first, second),
    )
    found = compare_copies(shared, frame, patch_set.num_patches, patch_set.num_nodes)
    arrays = {name: getattr(found, name).numpy() for name in ("per_patch", "per_pair", "per_node", "pairs")}
    return replace(found, **arrays)
