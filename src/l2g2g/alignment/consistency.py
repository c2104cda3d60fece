"""Which pairs of patches agree with others around cycles: the right ones do, wrong ones only by chance.

A pair is tested against paths through other pairs. Along a spanning tree of patches the pairwise maps are chained to
a frame, and every pair outside the tree closes one cycle; its residual in that frame says whether the cycle closes. A
right pair closes a cycle as soon as all others on it are right; a wrong pair closes none. The smallest residual over
many trees therefore tells them apart, even for a patch most of whose pairs are wrong, as long as two are right.
"""

from __future__ import annotations

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.alignment.pairs import PairMoments, measure_pairs
from l2g2g.alignment.patch_tree import PatchForest, chain_rotations, grow_forest
from l2g2g.alignment.procrustes import procrustes_maps
from l2g2g.alignment.solve import Problem, solve_scales, solve_translations

_ROUNDS, _TREES, _SEED = 5, 24, 0


def cycle_residuals(problem: Problem, smallest: float) -> Tensor:
    """Return (num_pairs,) how well the best cycle through each pair closes; a pair on no cycle counts as good.

    The trees are random (keyed), those of later rounds prefer pairs that have closed a cycle before.

    Args:
        problem: the patches, with the weights of their shared nodes.
        smallest: residuals below are as good as none.
    """
    overlaps = problem.overlaps
    moments = measure_pairs(problem.coordinates, overlaps, problem.entry_weights)
    device = problem.coordinates.device
    frame = Frame.identity(overlaps.num_patches, problem.coordinates.shape[1], dtype=torch.float64, device=device)
    relative = None
    if problem.settings.rotate:
        maps = procrustes_maps(moments, overlaps.sizes, problem.settings.route, warn=False)
        relative = maps.completed(frame.rotations, overlaps.edges)
    generator = torch.Generator().manual_seed(_SEED)
    best = torch.full_like(moments.first_spreads, float("inf"))
    suspicion = torch.ones_like(best)
    for _ in range(_ROUNDS):
        for _ in range(_TREES):
            luck = torch.empty(len(best), dtype=torch.float64).exponential_(generator=generator).to(best.device)
            forest = grow_forest(overlaps.edges, -luck * suspicion, problem.patch_sizes)
            used = forest.parent_pairs[forest.parent_pairs >= 0]
            residuals = pair_residuals(problem, moments, _chain(problem, moments, relative, frame, forest, used))
            best = torch.minimum(best, residuals.index_fill(0, used, float("inf")))
        suspicion = best.clamp(min=smallest)
    return torch.where(best.isinf(), 0.0, best)


def _chain(
    problem: Problem, moments: PairMoments, relative: Tensor | None, frame: Frame, forest: PatchForest, used: Tensor
) -> Frame:
    """The frame that the pairs of a spanning tree determine by themselves."""
    edges, settings = problem.overlaps.edges, problem.settings
    in_tree = PairMoments(*(part[used] for part in vars(moments).values()))
    ones = torch.ones(len(used), dtype=torch.float64, device=edges.device)
    laplacian = PatchLaplacian(edges[used], ones, forest.roots, len(forest.parents))
    rotations, translations, scales = frame.rotations, frame.translations, frame.scales
    if settings.scale:
        scales = solve_scales(in_tree, laplacian, forest, problem.patch_sizes)
    if relative is not None:
        rotations = chain_rotations(forest, edges, relative)
    if settings.translate:
        translations = solve_translations(in_tree, rotations, scales, laplacian, forest, problem.patch_sizes)
    return Frame(rotations, translations, scales)


def pair_residuals(problem: Problem, moments: PairMoments, frame: Frame) -> Tensor:
    """Root mean square distance (num_pairs,) of the aligned copies of the shared nodes, from their moments."""
    first, second = problem.overlaps.edges.T
    linear = frame.rotations * frame.scales[:, None, None]
    crossed = (linear[first] * (moments.covariances @ linear[second])).sum((1, 2))
    areas = frame.scales.square()
    spread = areas[first] * moments.first_spreads + areas[second] * moments.second_spreads
    gaps = (moments.first_means[:, None] @ linear[first] - moments.second_means[:, None] @ linear[second])[:, 0]
    gaps = gaps + frame.translations[first] - frame.translations[second]
    return ((spread - 2 * crossed).clamp(min=0) / pair_counts(problem) + gaps.square().sum(1)).sqrt()


def pair_counts(problem: Problem) -> Tensor:
    """Sum of the weights (num_pairs,) of the shared nodes of each pair."""
    overlaps = problem.overlaps
    if problem.entry_weights is None:
        return overlaps.sizes.double()
    zeros = torch.zeros(overlaps.num_pairs, dtype=torch.float64, device=overlaps.edges.device)
    return zeros.index_add(0, overlaps.pair_of_entry, problem.entry_weights)
