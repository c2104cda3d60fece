"""Pairs measured by several ranks: what each found about its own pairs, packed to be sent, and unpacked by all.

A pair's Procrustes map says all that the rotations need, and it is its own polar factor: unpacked, it stands where the
covariance of the shared nodes stands otherwise, and the solution takes the same way. Sent in single precision, because
a map has no small parts that would be lost; a map that leaves directions open is zero there, which rounding does not
hide.
"""

from __future__ import annotations

import torch
from torch import Tensor

from l2g2g.alignment.pairs import PairMoments
from l2g2g.alignment.procrustes import procrustes_maps

# Singular values of a map are ones and, in open directions, zeros.
_OPEN = 0.5


def packed_width(dim: int, *, rotate: bool, translate: bool, scale: bool) -> int:
    """Numbers that are sent of every pair: its map, the two means, the two spreads, as far as they are needed."""
    return rotate * dim * dim + translate * 2 * dim + scale * 2


def pack_pairs(moments: PairMoments, sizes: Tensor, *, rotate: bool, translate: bool, scale: bool) -> Tensor:
    """(num_pairs, packed_width) float32. sizes: (num_pairs,) nodes that each pair shares."""
    parts = []
    if rotate:
        parts.append(procrustes_maps(moments, sizes, "svd", warn=False).relative.flatten(1))
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
