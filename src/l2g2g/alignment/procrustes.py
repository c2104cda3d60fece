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
# Newton–Schulz steps before a pair is left to the SVD.
_QUICK_ITERATIONS = 24


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
        route: "svd" leaves to the SVD what a few products do not settle; "newton-schulz" uses products only.
        warn: report pairs that share more than dim nodes and are rank deficient all the same.
    """
    covariances = moments.covariances
    dim = covariances.shape[-1]
    with torch.no_grad():
        norms = torch.linalg.matrix_norm(covariances)
        floors = torch.maximum(moments.noise_floors, 50 * dim * torch.finfo(torch.float64).eps * norms)
    if route == "newton-schulz":
        relative = newton_schulz(covariances)
        thin = ~_is_orthogonal(relative, 1e-6)
    elif covariances.requires_grad:
        relative, singular_values = polar_by_svd(covariances, floors)
        thin = singular_values[:, -1] <= floors
    else:
        relative, thin = _iterate_or_decompose(covariances, floors)
    if warn and bool((thin & (sizes > dim)).any()):
        _warn_rank_deficient((thin & (sizes > dim)).nonzero()[:, 0], covariances)
    return PairwiseMaps(relative, (thin | (sizes <= dim)).nonzero()[:, 0])


def _iterate_or_decompose(covariances: Tensor, floors: Tensor) -> tuple[Tensor, Tensor]:
    """Polar factors, and which of them are partial: a few products where they suffice, else the SVD.

    The products cost a third of an SVD and converge for condition numbers up to some thousands; a matrix that is
    thinner than that is left to the SVD, which knows its rank.
    """
    relative = newton_schulz(covariances, max_iterations=_QUICK_ITERATIONS)
    rest = (~_is_orthogonal(relative, 1e-12)).nonzero()[:, 0]
    thin = torch.zeros(len(covariances), dtype=torch.bool, device=covariances.device)
    if len(rest):
        relative[rest], singular_values = polar_by_svd(covariances[rest], floors[rest])
        thin[rest] = singular_values[:, -1] <= floors[rest]
    return relative, thin


def _is_orthogonal(matrices: Tensor, tolerance: float) -> Tensor:
    """(batch,) whether each matrix times its transpose is the identity."""
    gram = matrices.detach().mT @ matrices.detach()
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    return (gram - eye).abs().flatten(1).amax(1) <= tolerance


def _warn_rank_deficient(pairs: Tensor, covariances: Tensor) -> None:
    """Name the number of pairs and the singular values of the first."""
    values = torch.linalg.svdvals(covariances[pairs[0]].detach()).tolist()
    shown = ", ".join(f"{value:.2g}" for value in values[:8]) + (", ..." if len(values) > 8 else "")
    warnings.warn(
        f"{len(pairs)} pair(s) of patches share nodes that span too few dimensions to fix a rotation; the open "
        f"directions follow the other pairs or the previous frame. Pair number {int(pairs[0])} has the singular "
        f"values {shown}",
        AlignmentWarning,
        stacklevel=4,
    )
