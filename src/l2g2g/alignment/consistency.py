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
from l2g2g.alignment.laplacian import PatchLaplacian, Solver
from l2g2g.alignment.pairs import PairMoments, measure_pairs
from l2g2g.alignment.patch_tree import PatchForest, chain_rotations, grow_forest
from l2g2g.alignment.procrustes import procrustes_maps
from l2g2g.alignment.solve import Problem, solve_scales, solve_translations

_ROUNDS, _TREES, _SEED = 5, 24, 0
# Numbers held at a time by the copies of the pairwise maps.
_FOREST_NUMBERS = 1 << 24


def cycle_residuals(problem: Problem, smallest: float) -> Tensor:
    """Return (num_pairs,) how well the best cycle through each pair closes; a pair on no cycle counts as good.

    The trees are random (keyed), those of later rounds prefer pairs that have closed a cycle before. The trees of a
    round are solved at once, as one forest over as many copies of the patches.

    Args:
        problem: the patches, with the weights of their shared nodes.
        smallest: residuals below are as good as none.
    """
    num_pairs, dim = problem.overlaps.num_pairs, problem.coordinates.shape[1]
    copies = max(1, min(_TREES, _FOREST_NUMBERS // (num_pairs * dim * dim)))
    grove = _Grove(problem, copies)
    generator = torch.Generator().manual_seed(_SEED)
    best = torch.full((num_pairs,), float("inf"), dtype=torch.float64, device=problem.coordinates.device)
    suspicion = torch.ones_like(best)
    for _ in range(_ROUNDS):
        for _ in range(-(-_TREES // copies)):
            luck = torch.empty(copies, num_pairs, dtype=torch.float64).exponential_(generator=generator)
            best = torch.minimum(best, grove.residuals(-luck.to(best.device) * suspicion).amin(0))
        suspicion = best.clamp(min=smallest)
    return torch.where(best.isinf(), 0.0, best)


class _Grove:
    """Copies of a problem side by side, in which one spanning tree each is grown."""

    def __init__(self, problem: Problem, copies: int) -> None:
        overlaps = problem.overlaps
        self.problem, self.copies = problem, copies
        self.moments = measure_pairs(problem.coordinates, overlaps, problem.entry_weights)
        self.counts = pair_counts(problem)
        first_patches = overlaps.num_patches * torch.arange(copies, device=overlaps.edges.device)
        self.edges = (overlaps.edges + first_patches[:, None, None]).view(-1, 2)
        self.sizes = problem.patch_sizes.repeat(copies)
        dim, device = problem.coordinates.shape[1], problem.coordinates.device
        self.identity = Frame.identity(len(self.sizes), dim, dtype=torch.float64, device=device)
        self.relative = None
        if problem.settings.rotate:
            maps = procrustes_maps(self.moments, overlaps.sizes, problem.settings.route, warn=False)
            self.relative = maps.completed(self.identity.rotations, overlaps.edges).repeat(copies, 1, 1)

    def residuals(self, trust: Tensor) -> Tensor:
        """(copies, num_pairs) residuals of all pairs in the frame of each tree, infinite within the tree."""
        forest = grow_forest(self.edges, trust.flatten(), self.sizes)
        used = forest.parent_pairs[forest.parent_pairs >= 0]
        frame, num_pairs = self._chain(forest, used), trust.shape[1]
        edges = self.edges.view(self.copies, num_pairs, 2)
        distances = torch.stack([pair_residuals(self.moments, self.counts, pairs, frame) for pairs in edges])
        return distances.view(-1).index_fill(0, used, float("inf")).view_as(distances)

    def _chain(self, forest: PatchForest, used: Tensor) -> Frame:
        """The frame that the pairs of the trees determine by themselves."""
        settings = self.problem.settings
        in_tree = PairMoments(*(part[used % len(self.counts)] for part in vars(self.moments).values()))
        ones = torch.ones(len(used), dtype=torch.float64, device=used.device)
        solver: Solver = "sparse" if used.device.type == "cpu" else "iterative"
        laplacian = PatchLaplacian(self.edges[used], ones, forest.roots, len(self.sizes), solver)
        rotations, translations, scales = vars(self.identity).values()
        if settings.scale:
            scales = solve_scales(in_tree, laplacian, forest, self.sizes)
        if self.relative is not None:
            rotations = chain_rotations(forest, self.edges, self.relative)
        if settings.translate:
            translations = solve_translations(in_tree, rotations, scales, laplacian, forest, self.sizes)
        return Frame(rotations, translations, scales)


def pair_residuals(moments: PairMoments, counts: Tensor, edges: Tensor, frame: Frame) -> Tensor:
    """Root mean square distance (num_pairs,) of the aligned copies of the shared nodes, from their moments."""
    first, second = edges.T
    linear = frame.rotations * frame.scales[:, None, None]
    crossed = (linear[first] * (moments.covariances @ linear[second])).sum((1, 2))
    areas = frame.scales.square()
    spread = areas[first] * moments.first_spreads + areas[second] * moments.second_spreads
    gaps = (moments.first_means[:, None] @ linear[first] - moments.second_means[:, None] @ linear[second])[:, 0]
    gaps = gaps + frame.translations[first] - frame.translations[second]
    return ((spread - 2 * crossed).clamp(min=0) / counts + gaps.square().sum(1)).sqrt()


def pair_counts(problem: Problem) -> Tensor:
    """Sum of the weights (num_pairs,) of the shared nodes of each pair."""
    overlaps = problem.overlaps
    if problem.entry_weights is None:
        return overlaps.sizes.double()
    zeros = torch.zeros(overlaps.num_pairs, dtype=torch.float64, device=overlaps.edges.device)
    return zeros.index_add(0, overlaps.pair_of_entry, problem.entry_weights)
