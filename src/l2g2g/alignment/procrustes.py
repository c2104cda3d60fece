"""Pairs of patches: moments of their shared nodes, and the orthogonal Procrustes map that these give."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from l2g2g.alignment.polar import Route, newton_schulz, polar_by_svd, polar_factor
from l2g2g.patches.overlap_index import OverlapIndex

# Numbers gathered at a time; keeps the padded blocks in the cache and bounds the memory of a refresh.
_BLOCK_NUMBERS = 1 << 22
_DISTRUST = 1e-5
# Singular values of a map are ones and, in open directions, zeros.
_OPEN = 0.5
# Weight of an estimate in the directions that the shared nodes leave open; it decides those and no others.
_COMPLETION = 1e-6
# Newton–Schulz steps before a pair is left to the SVD.
_QUICK_ITERATIONS = 24


@dataclass(frozen=True, eq=False)
class PairMoments:
    """First and second moments of the shared nodes of every pair (i, j), in float64.

    Attributes:
        first_means, second_means: (num_pairs, dim) mean of the shared nodes on either side.
        first_spreads, second_spreads: (num_pairs,) sum of squared distances from that mean.
        covariances: (num_pairs, dim, dim) Z_iᵀ Z_j of the centred shared coordinates.
        noise_floors: (num_pairs,) singular values below this are rounding errors of the input precision.
    """

    first_means: Tensor
    second_means: Tensor
    first_spreads: Tensor
    second_spreads: Tensor
    covariances: Tensor
    noise_floors: Tensor


def measure_pairs(coordinates: Tensor, overlaps: OverlapIndex, entry_weights: Tensor | None = None) -> PairMoments:
    """Measure all pairs; differentiable in the coordinates.

    Args:
        coordinates: (num_rows, dim) stacked patch coordinates.
        overlaps: rows of the shared nodes.
        entry_weights: (num_shared,) weight of each shared node, None for ones.
    """
    parts, order = [], []
    for pairs, entries, mask in overlaps.buckets:
        step = max(1, _BLOCK_NUMBERS // (entries.shape[1] * coordinates.shape[1]))
        for start in range(0, len(pairs), step):
            block = slice(start, start + step)
            weights = None if entry_weights is None else entry_weights[entries[block]]
            if mask is not None:
                weights = mask[block].double() if weights is None else weights * mask[block]
            first = coordinates[overlaps.first_rows[entries[block]]].double()
            second = coordinates[overlaps.second_rows[entries[block]]].double()
            parts.append(_moments(first, second, weights, torch.finfo(coordinates.dtype).eps))
            order.append(pairs[block])
    if not parts:
        dim = coordinates.shape[1]
        empty = torch.zeros(0, dtype=torch.float64, device=coordinates.device)
        return PairMoments(empty.view(0, dim), empty.view(0, dim), empty, empty, empty.view(0, dim, dim), empty)
    back = torch.cat(order).argsort()
    blocks = parts[0] if len(parts) == 1 else tuple(torch.cat(part)[back] for part in zip(*parts, strict=True))
    moments = PairMoments(*blocks)
    if entry_weights is None:
        return moments
    # Directions that only distrusted nodes speak for are open.
    distrusted = _DISTRUST * torch.linalg.matrix_norm(moments.covariances.detach())
    return replace(moments, noise_floors=torch.maximum(moments.noise_floors, distrusted))


def _moments(first: Tensor, second: Tensor, weights: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    """Moments of one block: first, second (num_pairs, length, dim), weights (num_pairs, length) or None."""
    if weights is None:
        count = torch.full((), first.shape[1], dtype=first.dtype, device=first.device)
        first_means, second_means = first.mean(1), second.mean(1)
        first, second = first - first_means[:, None], second - second_means[:, None]
        weighted_first, weighted_second = first, second
    else:
        count = weights.sum(1)
        share = (weights / count[:, None])[:, :, None]
        first_means, second_means = (share * first).sum(1), (share * second).sum(1)
        first, second = first - first_means[:, None], second - second_means[:, None]
        weighted_first, weighted_second = weights[:, :, None] * first, weights[:, :, None] * second
    first_spreads, second_spreads = (first * weighted_first).sum((1, 2)), (second * weighted_second).sum((1, 2))
    with torch.no_grad():
        first_power = first_spreads + count * first_means.square().sum(1)
        second_power = second_spreads + count * second_means.square().sum(1)
        floors = 100 * eps**2 * (first_power * second_power).sqrt()
    return first_means, second_means, first_spreads, second_spreads, first.mT @ weighted_second, floors


def packed_width(dim: int, *, rotate: bool, translate: bool, scale: bool) -> int:
    """Numbers that are sent of every pair: its map, the two means, the two spreads, as far as they are needed."""
    return rotate * dim * dim + translate * 2 * dim + scale * 2


def pack_pairs(moments: PairMoments, sizes: Tensor, *, rotate: bool, translate: bool, scale: bool) -> Tensor:
    """(num_pairs, packed_width) float32. sizes: (num_pairs,) nodes that each pair shares."""
    parts = []
    if rotate:
        parts.append(procrustes_maps(moments, sizes, "svd").relative.flatten(1))
    if translate:
        parts += [moments.first_means, moments.second_means]
    if scale:
        parts.append(torch.stack([moments.first_spreads, moments.second_spreads], dim=1))
    return torch.cat(parts, dim=1).to(torch.float32)


def unpack_pairs(packed: Tensor, dim: int, *, rotate: bool, translate: bool, scale: bool) -> PairMoments:
    """What `synchronise` needs to know about all pairs; what was not sent is zero, and not asked for."""
    packed, num_pairs = packed.double(), len(packed)
    maps, means, spreads = (packed.new_zeros(num_pairs, width) for width in (dim * dim, 2 * dim, 2))
    place = 0
    if rotate:
        maps, place = packed[:, : dim * dim], dim * dim
    if translate:
        means, place = packed[:, place : place + 2 * dim], place + 2 * dim
    if scale:
        spreads = packed[:, place:]
    return PairMoments(
        means[:, :dim],
        means[:, dim:],
        spreads[:, 0],
        spreads[:, 1],
        maps.reshape(num_pairs, dim, dim),
        packed.new_full((num_pairs,), _OPEN),
    )


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


def procrustes_maps(moments: PairMoments, sizes: Tensor, route: Route) -> PairwiseMaps:
    """Solve min ‖Z_i R − Z_j‖ over orthogonal R for all pairs at once: the polar factor of Z_iᵀ Z_j.

    Args:
        moments: of the shared nodes.
        sizes: (num_pairs,) number of shared nodes; at most dim of them never determine a map.
        route: "svd" leaves to the SVD what a few products do not settle; "newton-schulz" uses products only.
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


def varying_directions(rows: Tensor) -> int:
    """Count the directions in which rows differ by more than rounding. rows: (num_rows, dim)."""
    precise = rows.detach().double()
    centred = precise - precise.mean(0)
    squares = torch.linalg.eigvalsh(centred.mT @ centred)
    of_input = 100 * torch.finfo(rows.dtype).eps ** 2 * float(precise.square().sum())
    of_squares = 50 * len(squares) * torch.finfo(torch.float64).eps * float(squares.sum())
    return int((squares > max(of_input, of_squares)).sum())


def warn_rank_deficient(pairs: Tensor, covariances: Tensor) -> None:
    """Name the number of pairs and the singular values of the first."""
    values = torch.linalg.svdvals(covariances[pairs[0]].detach()).tolist()
    shown = ", ".join(f"{value:.2g}" for value in values[:8]) + (", ..." if len(values) > 8 else "")
    warnings.warn(
        f"{len(pairs)} pair(s) of patches share nodes that span too few dimensions to fix a rotation; the open "
        f"directions follow the other pairs or the previous frame. Pair number {int(pairs[0])} has the singular "
        f"values {shown}",
        AlignmentWarning,
        stacklevel=5,
    )
