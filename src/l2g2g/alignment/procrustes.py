"""The orthogonal Procrustes map of every pair of patches, and what to do where its shared nodes leave it open."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from l2g2g.alignment.pairs import PairMoments
from l2g2g.alignment.polar import Route, newton_schulz, polar_by_svd, polar_factor

# Weight of an estimate in the directions that the shared nodes leave open; it decides those and no others.
_COMPLETION = 1e-6


class AlignmentWarning(UserWarning):
    """The alignment is finite but rests on thin evidence: a rank-deficient overlap, a disconnected patch graph."""


@dataclass(frozen=True, eq=False)
class PairwiseMaps:
    """Procrustes maps of all pairs.

    Attributes:
        relative: (num_pairs, dim, dim) R_ij with Z_i R_ij ≈ Z_j on the centred shared nodes. Where these do not
            span all dimensions R_ij is a partial isometry, zero in the open directions, and asks nothing there.
        deficient: (num_deficient,) int64 such pairs.
    """

    relative: Tensor
    deficient: Tensor

    def completed(self, rotations: Tensor, edges: Tensor) -> Tensor:
        """Return orthogonal maps (num_pairs, dim, dim), open directions filled from rotations (num_patches, ...)."""
        if len(self.deficient) == 0:
            return self.relative
        first, second = edges[self.deficient].T
        estimate = rotations[first] @ rotations[second].mT
        filled = polar_factor(self.relative[self.deficient] + _COMPLETION * estimate)
        return self.relative.index_copy(0, self.deficient, filled)


def procrustes_maps(moments: PairMoments, sizes: Tensor, route: Route, warn: bool = True) -> PairwiseMaps:
    """Solve min ‖Z_i R − Z_j‖ over orthogonal R for all pairs at once: the polar factor of Z_iᵀ Z_j.

    Args:
        moments: of the shared nodes.
        sizes: (num_pairs,) number of shared nodes; at most dim of them never determine a map.
        route: "svd" or "newton-schulz".
        warn: report pairs that share more than dim nodes and are rank deficient all the same.
    """
    covariances = moments.covariances
    dim = covariances.shape[-1]
    with torch.no_grad():
        norms = torch.linalg.matrix_norm(covariances)
        floors = torch.maximum(moments.noise_floors, 50 * dim * torch.finfo(torch.float64).eps * norms)
    if route == "svd":
        relative, singular_values = polar_by_svd(covariances, floors)
        thin = singular_values[:, -1] <= floors
    else:
        relative = newton_schulz(covariances)
        gram = relative.detach().mT @ relative.detach()
        thin = (gram.diagonal(dim1=1, dim2=2).sum(1) - dim).abs() > 1e-6
        singular_values = None
    if warn and bool((thin & (sizes > dim)).any()):
        _warn_rank_deficient((thin & (sizes > dim)).nonzero()[:, 0], covariances, singular_values)
    return PairwiseMaps(relative, (thin | (sizes <= dim)).nonzero()[:, 0])


def _warn_rank_deficient(pairs: Tensor, covariances: Tensor, singular_values: Tensor | None) -> None:
    """Name the number of pairs and the singular values of the first."""
    if singular_values is None:
        singular_values = torch.linalg.svdvals(covariances[pairs[:1]].detach())
        values = singular_values[0].tolist()
    else:
        values = singular_values[pairs[0]].tolist()
    shown = ", ".join(f"{value:.2g}" for value in values[:8]) + (", ..." if len(values) > 8 else "")
    warnings.warn(
        f"{len(pairs)} pair(s) of patches share nodes that span too few dimensions to fix a rotation; the open "
        f"directions follow the other pairs or the previous frame. Pair number {int(pairs[0])} has the singular "
        f"values {shown}",
        AlignmentWarning,
        stacklevel=4,
    )
