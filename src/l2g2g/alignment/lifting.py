"""Out of wrong local optima: rotations are given a few spare dimensions to turn in, and are then flattened again.

An orthogonal map cannot become a reflection by small steps, and with noise whole regions of patches get stuck half a
turn away from the others. With S_i of size (dim, dim + spare) the way around is open (Burer and Monteiro; Boumal's
staircase), and nearly every start finds the optimum. What pairs ask is weighed here by direction: a direction in which
two patches hardly agree has a small singular value, which the orthogonal factor R_ij would hide.
"""

from __future__ import annotations

import torch
from torch import Tensor

from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.alignment.pairs import PairMoments
from l2g2g.alignment.patch_tree import PatchForest
from l2g2g.alignment.polar import polar_factor
from l2g2g.alignment.rotations import refine_rotations, retract

_SPARE = 3
_TOLERANCE, _MAX_STEPS = 3e-3, 50
_NUDGE, _SEED = 0.1, 0


def correlations(moments: PairMoments) -> Tensor:
    """Z_iᵀ Z_j over the spreads (num_pairs, dim, dim): the rotation R_ij, scaled by how sure each direction is."""
    spreads = (moments.first_spreads * moments.second_spreads).sqrt().clamp(min=1e-300)
    return moments.covariances * (moments.covariances.shape[-1] / spreads)[:, None, None]


def lift_rotations(
    rotations: Tensor, edges: Tensor, votes: Tensor, laplacian: PatchLaplacian, forest: PatchForest
) -> Tensor:
    """Improve a start by a detour through dim + 3 dimensions.

    Args:
        rotations: (num_patches, dim, dim) the start; a small keyed nudge takes it off the flat subspace.
        edges: (num_pairs, 2) pairs i < j.
        votes: (num_pairs, dim, dim) what each pair asks for, see `correlations`.
        laplacian: of the same pairs and weights.
        forest: for the components, each of which is flattened on its own.

    Returns:
        (num_patches, dim, dim) orthogonal matrices.
    """
    dim = votes.shape[-1]
    size = dim + _SPARE
    # Votes padded by zeros ask nothing of the spare dimensions, so that the same refinement serves.
    padded = votes.new_zeros(len(votes), size, size)
    padded[:, :dim, :dim] = votes
    start = torch.eye(size, dtype=votes.dtype, device=votes.device).repeat(len(rotations), 1, 1)
    start[:, :dim, :dim] = rotations
    generator = torch.Generator().manual_seed(_SEED)
    nudge = _NUDGE * torch.randn(start.shape, generator=generator, dtype=votes.dtype).to(votes.device)
    start = retract(start, nudge - nudge.mT)
    lifted = refine_rotations(start, edges, padded, laplacian, tolerance=_TOLERANCE, max_steps=_MAX_STEPS)
    rows = lifted.rotations[:, :dim]
    # Flat again: the dim directions that hold most of each component, then the nearest orthogonal matrices.
    held = votes.new_zeros(forest.num_components, size, size).index_add(0, forest.components, rows.mT @ rows)
    directions = torch.linalg.eigh(held)[1][:, :, -dim:]
    return polar_factor(rows @ directions[forest.components])
