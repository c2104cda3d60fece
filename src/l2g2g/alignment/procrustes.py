"""The orthogonal Procrustes map of every pair of patches, and what to do where its shared nodes leave it open."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from l2g2g.alignment.pairs import PairMoments
from l2g2g.alignment.polar import Route, newton_schulz, polar_factor, polar_with_singular_values

# Weight of the present estimate in directions that the shared nodes leave open; negligible in all others.
_COMPLETION = 1e-6


class AlignmentWarning(UserWarning):
    """The alignment is finite but rests on thin evidence: a rank-deficient overlap, a disconnected patch graph."""


@dataclass(frozen=True, eq=False)
class PairwiseMaps:
    """Procrustes maps of all pairs.

    Attributes:
        relative: (num_pairs, dim, dim) R_ij with Z_i R_ij ≈ Z_j on the centred shared nodes.
        deficient: (num_deficient,) int64 pairs whose shared nodes do not determine the map.
        partial: (num_deficient, dim, dim) their cross-covariances, scaled to norm one.
    """

    relative: Tensor
    deficient: Tensor
    partial: Tensor

    def complete(self, estimate: Tensor) -> PairwiseMaps:
        """Fill the open directions of deficient pairs from an estimate (num_deficient, dim, dim) of their maps."""
        if len(self.deficient) == 0:
            return self
        completed = polar_factor(self.partial + _COMPLETION * estimate)
        return PairwiseMaps(self.relative.index_copy(0, self.deficient, completed), self.deficient, self.partial)


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
    if route == "svd":
        relative, singular_values = polar_with_singular_values(covariances)
        smallest, largest = singular_values[:, -1], singular_values[:, 0]
        limit = torch.maximum(moments.noise_floors, 50 * dim * torch.finfo(torch.float64).eps * largest)
        thin = smallest <= limit
        if warn and dim > 1 and bool((thin & (sizes > dim)).any()):
            _warn_rank_deficient(thin & (sizes > dim), singular_values)
    else:
        relative = newton_schulz(torch.where((sizes > dim)[:, None, None], covariances, torch.eye(dim).to(covariances)))
        gram = relative.detach().mT @ relative.detach()
        error = (gram - torch.eye(dim, dtype=gram.dtype, device=gram.device)).abs().amax((1, 2))
        thin = error > 1e-9
        if warn and bool(thin.any()):
            _warn_rank_deficient(thin, torch.linalg.matrix_norm(covariances.detach(), 2)[:, None])
    deficient = (thin | (sizes <= dim)).nonzero()[:, 0]
    norms = torch.linalg.matrix_norm(covariances[deficient])
    negligible = norms <= moments.noise_floors[deficient]
    partial = torch.where(negligible, 0.0, 1 / torch.where(negligible, 1.0, norms))[:, None, None]
    return PairwiseMaps(relative, deficient, partial * covariances[deficient])


def _warn_rank_deficient(bad: Tensor, singular_values: Tensor) -> None:
    """Name the number of pairs and the singular values of the first."""
    pairs = bad.nonzero()[:, 0]
    values = ", ".join(f"{value:.2g}" for value in singular_values[pairs[0]].tolist()[:8])
    warnings.warn(
        f"{len(pairs)} pair(s) of patches share nodes that span too few dimensions to fix a rotation; the open "
        f"directions follow the other pairs or the previous frame. Pair number {int(pairs[0])} has singular values "
        f"{values}",
        AlignmentWarning,
        stacklevel=4,
    )
