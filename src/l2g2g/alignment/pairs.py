"""What the shared nodes of each pair of patches say: means, spreads, cross-covariances, all pairs at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from l2g2g.patches.overlap_index import OverlapIndex

# Numbers gathered at a time; keeps the padded blocks in the cache and bounds the memory of a refresh.
_BLOCK_NUMBERS = 1 << 22
_DISTRUST = 1e-5


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
