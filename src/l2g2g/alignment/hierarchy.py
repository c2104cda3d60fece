"""A tree of groups of patches: rotations are settled inside small groups, then between groups, up to the top.

With many patches and noise a product of maps along a long branch drifts. A group of neighbours is settled with all
its cycles, then stands as one patch of a coarser patch graph whose maps average all pairs between two groups.
"""

from __future__ import annotations

import torch
from torch import Tensor

from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.alignment.patch_tree import PatchForest, chain_rotations, grow_forest
from l2g2g.alignment.polar import polar_factor
from l2g2g.alignment.rotations import refine_rotations, spectral_rotations, transport

_GROUP_HEIGHT = 3
_TOP_ROWS = 1024
_MAX_STEPS = 10


def chain_groups(forest: PatchForest, edges: Tensor, relative: Tensor, weights: Tensor) -> Tensor:
    """Return rotations (num_patches, dim, dim) from a tree of groups; exact where the pairwise maps are.

    Args:
        forest: spanning forest of the patch graph.
        edges: (num_pairs, 2) pairs i < j.
        relative: (num_pairs, dim, dim) maps R_ij.
        weights: (num_pairs,) positive.
    """
    num_patches, dim = len(forest.parents), relative.shape[-1]
    if forest.num_components == 1 and num_patches > 1 and num_patches * dim <= _TOP_ROWS:
        return spectral_rotations(edges, relative, weights, num_patches)
    groups = cut_into_groups(forest)
    num_groups = int(groups.max()) + 1
    if num_groups in (num_patches, forest.num_components):
        return chain_rotations(forest, edges, relative)
    inside = groups[edges[:, 0]] == groups[edges[:, 1]]
    rotations = _settle_inside(groups, edges[inside], relative[inside], weights[inside])
    coarse_edges, coarse_maps, coarse_weights = _join_groups(
        groups, rotations, edges[~inside], relative[~inside], weights[~inside]
    )
    sizes = torch.bincount(groups, minlength=num_groups)
    coarse_forest = grow_forest(coarse_edges, coarse_weights, sizes)
    between = chain_groups(coarse_forest, coarse_edges, coarse_maps, coarse_weights)
    return rotations @ between[groups]


def cut_into_groups(forest: PatchForest) -> Tensor:
    """Cut every tree at each third level: (num_patches,) int64 group of each patch, all groups connected."""
    depths = _depths(forest)
    heads = torch.arange(len(depths), device=depths.device)
    for _ in range(_GROUP_HEIGHT - 1):
        heads = torch.where(depths[heads] % _GROUP_HEIGHT == 0, heads, forest.parents[heads])
    return torch.unique(heads, return_inverse=True)[1]


def _depths(forest: PatchForest) -> Tensor:
    """Depth (num_patches,) of each patch below its root, by pointer doubling."""
    parents = forest.parents.clone()
    depths = (forest.parent_pairs >= 0).long()
    while True:
        above = depths[parents]
        if not bool(above.any()):
            return depths
        depths = depths + above
        parents = parents[parents]


def _settle_inside(groups: Tensor, edges: Tensor, relative: Tensor, weights: Tensor) -> Tensor:
    """Least squares inside all groups at once: without the pairs between them they are separate components."""
    sizes = torch.ones_like(groups)
    forest = grow_forest(edges, weights, sizes)
    start = chain_rotations(forest, edges, relative)
    laplacian = PatchLaplacian(edges, weights, forest.roots, len(groups))
    return refine_rotations(start, edges, relative, laplacian, tolerance=1e-3, max_steps=_MAX_STEPS).rotations


def _join_groups(
    groups: Tensor, rotations: Tensor, edges: Tensor, relative: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Average the maps of all pairs between two groups: coarse edges, maps and weights."""
    num_groups = int(groups.max()) + 1
    votes = weights[:, None, None] * transport(rotations, edges, relative)
    first, second = groups[edges[:, 0]], groups[edges[:, 1]]
    backwards = first > second
    votes = torch.where(backwards[:, None, None], votes.mT, votes)
    keys = torch.minimum(first, second) * num_groups + torch.maximum(first, second)
    keys, pair = torch.unique(keys, return_inverse=True)
    dim = relative.shape[-1]
    total = torch.zeros(len(keys), dim, dim, dtype=votes.dtype, device=votes.device).index_add(0, pair, votes)
    coarse_edges = torch.stack([keys // num_groups, keys % num_groups], dim=1)
    # The trace norm counts pairs that contradict each other for little.
    maps = polar_factor(total)
    strength = (maps * total).sum((1, 2)) / dim
    return coarse_edges, maps, strength.clamp(min=1e-9 * float(weights.max()))
