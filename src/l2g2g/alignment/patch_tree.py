"""The patch graph as a forest: its components, their roots, and products of pairwise maps along the branches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from torch import Tensor


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
        """Number of parts between which no pair is given."""
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
    """Walk all trees at once from one extra node that is joined to every root."""
    extra = np.full(len(roots), num_patches)
    rows, columns = np.concatenate([tree.row, extra]), np.concatenate([tree.col, roots])
    size = num_patches + 1
    joined = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(size, size)).tocsr()
    _, parents = breadth_first_order(joined, num_patches, directed=False)
    return parents[:num_patches].astype(np.int64)


def _pairs_to_parents(pairs: np.ndarray, parents: np.ndarray, num_patches: int) -> np.ndarray:
    """Find for every patch the pair that joins it to its parent, -1 where there is none."""
    patches = np.arange(num_patches)
    keys = pairs[:, 0] * num_patches + pairs[:, 1]
    order = np.argsort(keys, kind="stable")
    wanted = np.minimum(patches, parents) * num_patches + np.maximum(patches, parents)
    found = np.full(num_patches, -1, dtype=np.int64)
    inner = parents != patches
    found[inner] = order[np.searchsorted(keys[order], wanted[inner])]
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
    inner = (forest.parent_pairs >= 0).nonzero()[:, 0]
    steps = relative[forest.parent_pairs[inner]]
    downwards = edges[forest.parent_pairs[inner], 0] == inner
    rotations[inner] = torch.where(downwards[:, None, None], steps, steps.mT)
    parents = forest.parents.clone()
    active = inner[forest.parent_pairs[parents[inner]] >= 0]
    while len(active):
        rotations[active] = rotations[active] @ rotations[parents[active]]
        parents[active] = parents[parents[active]]
        active = active[forest.parent_pairs[parents[active]] >= 0]
    return rotations
