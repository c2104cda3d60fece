"""First rotations of many patches: along a spanning forest, by a hierarchy of groups, or lifted to more dimensions.

With many patches and noise a product of maps along a long branch drifts. So a group of neighbours is solved with all
its cycles, then is one patch of a coarser patch graph, whose maps average all pairs between two groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from torch import Tensor

from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.alignment.polar import polar_factor
from l2g2g.alignment.procrustes import PairMoments
from l2g2g.alignment.rotations import refine_rotations, retract, spectral_rotations, transport

_GROUP_HEIGHT = 3  # levels of a tree in one group
_GROUP_STEPS = 10  # of the refinement inside groups
_SPECTRAL_ROWS = 1024  # most rows of the dense eigenproblem at the top of the hierarchy
# Lifting: additional dimensions, when its refinement ends, and how far its start is moved at random.
_LIFT_DIMENSIONS, _LIFT_TOLERANCE, _LIFT_STEPS = 3, 3e-3, 50
_LIFT_NOISE, _LIFT_SEED = 0.1, 0


@dataclass(frozen=True, eq=False)
class PatchForest:
    """Maximum-weight spanning forest of the patch graph.

    Attributes:
        components: (num_patches,) int64 component of each patch.
        roots: (num_components,) int64, the largest patch of each component (the first of equals).
        parents: (num_patches,) int64, the parent of each patch; a root is its own parent.
        parent_pairs: (num_patches,) int64, the pair that joins a patch to its parent; -1 for a root.
    """

    components: Tensor
    roots: Tensor
    parents: Tensor
    parent_pairs: Tensor

    @property
    def num_components(self) -> int:
        """Number of components, between which there is no pair."""
        return self.roots.shape[0]


def grow_forest(edges: Tensor, weights: Tensor, patch_sizes: Tensor) -> PatchForest:
    """Grow the maximum-weight spanning forest from the largest patch of every component.

    Args:
        edges: (num_pairs, 2) int64 pairs of patches.
        weights: (num_pairs,) how much a pair is to be trusted.
        patch_sizes: (num_patches,) decides the roots.
    """
    num_patches, num_pairs = len(patch_sizes), len(edges)
    pairs = edges.cpu().numpy()
    # Ranks in place of weights: all costs are then positive and distinct, so ties break by the order of the pairs.
    cost = np.empty(num_pairs)
    cost[np.argsort(-weights.detach().cpu().numpy(), kind="stable")] = np.arange(1.0, num_pairs + 1)
    graph = coo_matrix((cost, (pairs[:, 0], pairs[:, 1])), shape=(num_patches, num_patches)).tocsr()
    num_components, labels = connected_components(graph, directed=False)
    sizes = patch_sizes.cpu().numpy()
    by_size = np.lexsort((np.arange(num_patches), -sizes, labels))
    roots = by_size[np.searchsorted(labels[by_size], np.arange(num_components))]
    parents = _parents_in_tree(minimum_spanning_tree(graph).tocoo(), roots, num_patches)
    parents[roots] = roots
    parent_pairs = _pairs_to_parents(pairs, parents, num_patches)
    tensors = (torch.from_numpy(a.astype(np.int64)).to(edges.device) for a in (labels, roots, parents, parent_pairs))
    return PatchForest(*tensors)


def _parents_in_tree(tree: coo_matrix, roots: np.ndarray, num_patches: int) -> np.ndarray:
    """(num_patches,) parent of each patch, by one search from an extra node that is joined to every root."""
    extra = np.full(len(roots), num_patches)
    rows, columns = np.concatenate([tree.row, extra]), np.concatenate([tree.col, roots])
    size = num_patches + 1
    joined = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(size, size)).tocsr()
    _, parents = breadth_first_order(joined, num_patches, directed=False)
    return parents[:num_patches].astype(np.int64)


def _pairs_to_parents(pairs: np.ndarray, parents: np.ndarray, num_patches: int) -> np.ndarray:
    """(num_patches,) pair that joins each patch to its parent, -1 for a root."""
    patches = np.arange(num_patches)
    keys = pairs[:, 0] * num_patches + pairs[:, 1]
    order = np.argsort(keys, kind="stable")
    wanted = np.minimum(patches, parents) * num_patches + np.maximum(patches, parents)
    found = np.full(num_patches, -1, dtype=np.int64)
    is_child = parents != patches
    found[is_child] = order[np.searchsorted(keys[order], wanted[is_child])]
    return found


def chain_rotations(forest: PatchForest, edges: Tensor, relative: Tensor) -> Tensor:
    """Multiply the pairwise maps along the branches: S_i = R_(i, parent) S_parent, the identity at the roots.

    Exact where the pairwise maps are. Branches are halved at each step (pointer doubling), so that a chain of ten
    thousand patches takes fourteen batched products and not ten thousand small ones.

    Args:
        forest: the spanning forest.
        edges: (num_pairs, 2) pairs i < j.
        relative: (num_pairs, dim, dim) R_ij with Z_i R_ij ≈ Z_j.

    Returns:
        (num_patches, dim, dim) maps S.
    """
    num_patches, dim = len(forest.parents), relative.shape[-1]
    rotations = torch.eye(dim, dtype=relative.dtype, device=relative.device).repeat(num_patches, 1, 1)
    children = (forest.parent_pairs >= 0).nonzero()[:, 0]
    steps = relative[forest.parent_pairs[children]]
    is_first = edges[forest.parent_pairs[children], 0] == children
    rotations[children] = torch.where(is_first[:, None, None], steps, steps.mT)
    parents = forest.parents.clone()
    active = children[forest.parent_pairs[parents[children]] >= 0]
    while len(active):
        rotations[active] = rotations[active] @ rotations[parents[active]]
        parents[active] = parents[parents[active]]
        active = active[forest.parent_pairs[parents[active]] >= 0]
    return rotations


def chain_groups(forest: PatchForest, edges: Tensor, relative: Tensor, weights: Tensor) -> Tensor:
    """Return rotations (num_patches, dim, dim) from a hierarchy of groups; exact where the pairwise maps are.

    Args:
        forest: spanning forest of the patch graph.
        edges: (num_pairs, 2) pairs i < j.
        relative: (num_pairs, dim, dim) maps R_ij.
        weights: (num_pairs,) positive.
    """
    num_patches, dim = len(forest.parents), relative.shape[-1]
    if forest.num_components == 1 and num_patches > 1 and num_patches * dim <= _SPECTRAL_ROWS:
        return spectral_rotations(edges, relative, weights, num_patches)
    groups = cut_into_groups(forest)
    num_groups = int(groups.max()) + 1
    if num_groups in (num_patches, forest.num_components):
        return chain_rotations(forest, edges, relative)
    inside = groups[edges[:, 0]] == groups[edges[:, 1]]
    rotations = _solve_inside(groups, edges[inside], relative[inside], weights[inside])
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


def _solve_inside(groups: Tensor, edges: Tensor, relative: Tensor, weights: Tensor) -> Tensor:
    """Least squares inside all groups at once. edges: without pairs between groups, so that groups are components."""
    forest = grow_forest(edges, weights, torch.ones_like(groups))
    start = chain_rotations(forest, edges, relative)
    laplacian = PatchLaplacian(edges, weights, forest.roots, len(groups))
    return refine_rotations(start, edges, relative, laplacian, tolerance=1e-3, max_steps=_GROUP_STEPS).rotations


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
    # By the trace norm, pairs that contradict each other add up to little.
    maps = polar_factor(total)
    strength = (maps * total).sum((1, 2)) / dim
    return coarse_edges, maps, strength.clamp(min=1e-9 * float(weights.max()))


def correlations(moments: PairMoments) -> Tensor:
    """Return (num_pairs, dim, dim) Z_iᵀ Z_j over the spreads: R_ij with each direction weighted by its certainty."""
    spreads = (moments.first_spreads * moments.second_spreads).sqrt().clamp(min=1e-300)
    return moments.covariances * (moments.covariances.shape[-1] / spreads)[:, None, None]


def lift_rotations(
    rotations: Tensor, edges: Tensor, votes: Tensor, laplacian: PatchLaplacian, forest: PatchForest
) -> Tensor:
    """Improve rotations by solving in dim + 3 dimensions, where fewer wrong optima are stable, and projecting back.

    Args:
        rotations: (num_patches, dim, dim) the start, to which small noise of a fixed seed is added.
        edges: (num_pairs, 2) pairs i < j.
        votes: (num_pairs, dim, dim) weighted map of each pair, see `correlations`.
        laplacian: of the same pairs and weights.
        forest: for the components, each of which is projected on its own.

    Returns:
        (num_patches, dim, dim) orthogonal matrices.
    """
    dim = votes.shape[-1]
    size = dim + _LIFT_DIMENSIONS
    # Zeros leave the additional dimensions free, so that the same refinement serves.
    padded = votes.new_zeros(len(votes), size, size)
    padded[:, :dim, :dim] = votes
    start = torch.eye(size, dtype=votes.dtype, device=votes.device).repeat(len(rotations), 1, 1)
    start[:, :dim, :dim] = rotations
    generator = torch.Generator().manual_seed(_LIFT_SEED)
    noise = _LIFT_NOISE * torch.randn(start.shape, generator=generator, dtype=votes.dtype).to(votes.device)
    start = retract(start, noise - noise.mT)
    lifted = refine_rotations(start, edges, padded, laplacian, tolerance=_LIFT_TOLERANCE, max_steps=_LIFT_STEPS)
    rows = lifted.rotations[:, :dim]
    # Back to dim dimensions: the leading directions of each component, then the nearest orthogonal matrices.
    moments = votes.new_zeros(forest.num_components, size, size).index_add(0, forest.components, rows.mT @ rows)
    directions = torch.linalg.eigh(moments)[1][:, :, -dim:]
    return polar_factor(rows @ directions[forest.components])
