"""How well aligned patches agree on their shared nodes, by patch, by pair and by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from l2g2g.patches.overlap_index import OverlapIndex


@dataclass(frozen=True, eq=False)
class Residuals:
    """Root mean square distances after alignment, as NumPy arrays or tensors like the input.

    Attributes:
        per_patch: (num_patches,) between the patch's copy of a shared node and the mean of all copies.
        per_pair: (num_pairs,) between the two copies of the nodes that a pair shares.
        per_node: (num_nodes,) between the copies of a node and their mean; 0 for nodes of one patch.
        pairs: (num_pairs, 2) the patches of each pair.
        before, after: the root mean square over all pairs, with patches as they came and as they were aligned.
    """

    per_patch: Any
    per_pair: Any
    per_node: Any
    pairs: Any
    before: float
    after: float


def pair_distances(aligned: Tensor, overlaps: OverlapIndex) -> Tensor:
    """Squared distances (num_shared,) in float64 between the two copies of every shared node."""
    return (aligned[overlaps.first_rows].double() - aligned[overlaps.second_rows].double()).square().sum(1)


def root_mean_by(squares: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """(num_groups,) root of the mean square of each group, 0 for an empty one. squares, groups: (num_values,)."""
    zeros = torch.zeros(num_groups, dtype=squares.dtype, device=squares.device)
    counts = torch.bincount(groups, minlength=num_groups).clamp(min=1)
    return (zeros.index_add(0, groups, squares) / counts).sqrt()
