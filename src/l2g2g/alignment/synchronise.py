"""Patch embeddings -> one frame: scales, then rotations, then translations, each by least squares over the pairs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame, apply_frame, assemble
from l2g2g.alignment.hierarchy import PatchForest, chain_rotations, grow_forest
from l2g2g.alignment.laplacian import PatchLaplacian, Solver
from l2g2g.alignment.polar import Route, polar_factor
from l2g2g.alignment.procrustes import AlignmentWarning, PairMoments, measure_pairs, procrustes_maps
from l2g2g.alignment.solve import (
    PatchPairs,
    Problem,
    Settings,
    Start,
    Weights,
    pair_weights,
    solve_frame,
    solve_scales,
    solve_translations,
)
from l2g2g.errors import InputError
from l2g2g.patches.overlap_index import OverlapIndex

_ROUNDS, _TREES, _SEED = 5, 24, 0
# Numbers held at a time by the copies of the pairwise maps.
_FOREST_NUMBERS = 1 << 24
_WITHIN_PAIR_ROUNDS, _NODE_ROUNDS = 5, 20
# A pair is distrusted where its best cycle misses by more than this many times the median.
_CYCLE_LIMITS = (1.5, 3.0)
# The rounds need no exact optimum; the last one does.
_QUICK_TOLERANCE, _QUICK_STEPS = 1e-3, 15
# Residuals below this fraction of the spread of the shared nodes are as good as none.
_PRECISION = 1e-6
__all__ = ["AlignmentWarning", "Frame", "apply_frame", "assemble", "synchronise"]


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
            maps = procrustes_maps(self.moments, overlaps.sizes, problem.settings.route)
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
        pairs = PatchPairs(in_tree, laplacian, forest, self.sizes)
        rotations, translations, scales = vars(self.identity).values()
        if settings.scale:
            scales = solve_scales(pairs)
        if self.relative is not None:
            rotations = chain_rotations(forest, self.edges, self.relative)
        if settings.translate:
            translations = solve_translations(pairs, rotations, scales)
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


def solve_robustly(problem: Problem) -> Frame:
    """Solve with weights that follow the evidence, from coarse to fine.

    1. Within each pair a Procrustes fit is reweighted node by node: mismatched nodes stand out without any frame.
    2. Pairs that close no cycle with others are distrusted, mildly or strongly (`cycle_residuals`). That finds pairs
       that are rigid and wrong, also where a patch has as many wrong ones as right ones, and needs no frame either.
    3. From each of these starts, and from one that trusts all pairs, single nodes are reweighted by their distance
       with 1 / (1 + (r / c)²)² (Geman and McClure), c twice the median, so that what is left of the wrong ones
       vanishes and the rest is weighted almost evenly.
    4. The frame with the smallest truncated loss, Σ min(r, c)² over the shared nodes, is refined to the end.

    With ``differentiable`` the weights are constants, as is usual.
    """
    if problem.overlaps.num_pairs == 0:
        return solve_frame(problem)
    with torch.no_grad():
        settings = problem.settings
        quick = replace(settings, differentiable=False, tolerance=max(_QUICK_TOLERANCE, settings.tolerance))
        quick = replace(quick, max_steps=min(_QUICK_STEPS, settings.max_steps))
        coarse = replace(problem, settings=quick)
        scale = _spread(problem)
        coarse = _weighted_by_node(coarse, _weigh_within_pairs(problem, scale))
        found = [_reweigh_nodes(start, solve_frame(start), scale) for start in _starts(coarse, scale)]
        weighted, frame = _least_truncated_loss(found)
    return _in_gauge(_solve_from(replace(weighted, settings=settings), frame), problem)


def _starts(problem: Problem, scale: float) -> list[Problem]:
    """The same problem with all pairs trusted, and with those that close no cycle distrusted mildly or strongly."""
    gaps = cycle_residuals(problem, _PRECISION * scale)
    limits = [max(share * float(gaps.median()), _PRECISION * scale) for share in _CYCLE_LIMITS]
    factors = torch.ones_like(gaps) if problem.pair_factors is None else problem.pair_factors
    return [problem, *(replace(problem, pair_factors=factors * _redescend(gaps, limit)) for limit in limits)]


def _least_truncated_loss(found: list[tuple[Problem, Frame]]) -> tuple[Problem, Frame]:
    residuals = [entry_residuals(problem, frame) for problem, frame in found]
    limit = 3 * min(float(distances.median()) for distances in residuals)
    losses = [float(distances.clamp(max=limit).square().sum()) for distances in residuals]
    return found[losses.index(min(losses))]


def _in_gauge(frame: Frame, problem: Problem) -> Frame:
    """Without a previous frame the largest patch of each component keeps its axes; the rounds lose sight of that."""
    if problem.previous is not None or not problem.settings.rotate:
        return frame
    forest = grow_forest(problem.overlaps.edges, pair_weights(problem), problem.patch_sizes)
    common = frame.rotations[forest.roots].mT[forest.components]
    translations = (frame.translations[:, None] @ common)[:, 0]
    return Frame(frame.rotations @ common, translations, frame.scales)


def _weighted_by_node(problem: Problem, weights: Tensor) -> Problem:
    """The same problem with weights (num_shared,); a pair counts by the share of its spread that keeps its weight.

    The spread and not the number of nodes: one trusted node among many that are not says nothing about a rotation.
    """
    plain = measure_pairs(problem.coordinates, problem.overlaps)
    weighted = measure_pairs(problem.coordinates, problem.overlaps, weights)
    total = (plain.first_spreads + plain.second_spreads).clamp(min=1e-300)
    factors = (weighted.first_spreads + weighted.second_spreads) / total
    # Pairs of one node have no spread at all.
    factors = torch.where(problem.overlaps.sizes > 1, factors, _mean_by_pair(weights, problem)).clamp(min=1e-9)
    return replace(problem, entry_weights=weights, pair_factors=factors)


def _reweigh_nodes(problem: Problem, frame: Frame, scale: float) -> tuple[Problem, Frame]:
    """Redescending weights node by node, with a limit that falls to twice the median residual."""
    ceiling, last = float("inf"), float("inf")
    for _ in range(_NODE_ROUNDS):
        residuals = entry_residuals(problem, frame)
        median = float(residuals.median())
        if ceiling <= 2 * median and abs(last - median) <= 1e-3 * median:
            break
        ceiling, last = min(ceiling / 3, 2 * float(residuals.quantile(0.8))), median
        problem = _weighted_by_node(problem, _redescend(residuals, max(ceiling, 2 * median, _PRECISION * scale)))
        frame = _solve_from(problem, frame)
    return problem, frame


def _solve_from(problem: Problem, frame: Frame) -> Frame:
    """Solve from the last round; the gauge follows the caller's previous frame, which the last round agrees with."""
    settings = replace(problem.settings, start="tree")
    if problem.previous is None:
        return solve_frame(replace(problem, previous=frame, settings=settings))
    return solve_frame(replace(problem, settings=settings))


def entry_residuals(problem: Problem, frame: Frame) -> Tensor:
    """Distance (num_shared,) between the two aligned copies of every shared node."""
    overlaps = problem.overlaps
    pair = overlaps.pair_of_entry
    linear = frame.rotations * frame.scales[:, None, None]
    copies = []
    for side, rows in enumerate((overlaps.first_rows, overlaps.second_rows)):
        patch = overlaps.edges[pair, side]
        copies.append(_apply_by_entry(problem.coordinates[rows].double(), patch, linear) + frame.translations[patch])
    return (copies[0] - copies[1]).norm(dim=1)


def _apply_by_entry(points: Tensor, owners: Tensor, matrices: Tensor) -> Tensor:
    """Multiply each point (n, dim) by the matrix of its owner, in chunks that bound the gathered matrices."""
    step = max(1, (1 << 22) // matrices.shape[-1] ** 2)
    chunks = [
        torch.einsum("nd,nde->ne", points[start : start + step], matrices[owners[start : start + step]])
        for start in range(0, len(points), step)
    ]
    return torch.cat(chunks)


def _spread(problem: Problem) -> float:
    """Root mean square distance of shared nodes from the mean of their pair."""
    moments = measure_pairs(problem.coordinates, problem.overlaps)
    total = moments.first_spreads.sum() + moments.second_spreads.sum()
    return float((total / (2 * len(problem.overlaps.first_rows))).sqrt())


def _weigh_within_pairs(problem: Problem, scale: float) -> Tensor:
    """Weights (num_shared,) from reweighted Procrustes fits of each pair on its own."""
    overlaps, settings = problem.overlaps, problem.settings
    pair = overlaps.pair_of_entry
    first = problem.coordinates[overlaps.first_rows].double()
    second = problem.coordinates[overlaps.second_rows].double()
    weights = torch.ones(len(pair), dtype=torch.float64, device=pair.device)
    eye = torch.eye(first.shape[1], dtype=torch.float64, device=pair.device)
    for _ in range(_WITHIN_PAIR_ROUNDS):
        moments = measure_pairs(problem.coordinates, overlaps, weights)
        # The small multiple of the identity keeps overlaps of few nodes finite; they fit well whatever it does.
        ridge = 1e-9 * torch.linalg.matrix_norm(moments.covariances)[:, None, None] + 1e-300
        maps = polar_factor(moments.covariances + ridge * eye) if settings.rotate else eye.expand_as(ridge + eye)
        if settings.scale:
            maps = maps * (moments.second_spreads / moments.first_spreads.clamp(min=1e-300)).sqrt()[:, None, None]
        moved = _apply_by_entry(first - moments.first_means[pair], pair, maps)
        residuals = (moved - (second - moments.second_means[pair])).norm(dim=1)
        weights = _redescend(residuals, 2 * float(residuals.median()) + _PRECISION * scale)
    return weights


def _redescend(residuals: Tensor, limit: float) -> Tensor:
    """Weights (n,) that fall to zero for residuals far above the limit."""
    return (1 + (residuals / max(limit, 1e-300)).square()).pow(-2).clamp(min=1e-9)


def _mean_by_pair(values: Tensor, problem: Problem) -> Tensor:
    """Mean (num_pairs,) of values (num_shared,) over the nodes of each pair."""
    zeros = torch.zeros(problem.overlaps.num_pairs, dtype=values.dtype, device=values.device)
    return zeros.index_add(0, problem.overlaps.pair_of_entry, values) / problem.overlaps.sizes


def synchronise(
    coordinates: Tensor,
    offsets: Tensor,
    overlaps: OverlapIndex,
    *,
    rotate: bool = True,
    translate: bool = True,
    scale: bool = False,
    weights: Weights = "overlap",
    previous: Frame | None = None,
    robust: bool = False,
    route: Route = "svd",
    start: Start = "auto",
    solver: Solver = "auto",
    tolerance: float = 1e-7,
    max_steps: int = 50,
    differentiable: bool = False,
    patch_sizes: Tensor | None = None,
    moments: PairMoments | None = None,
) -> Frame:
    """Find the transforms that make the patches agree on their shared nodes.

    The gauge: a common rotation and shift of all patches changes nothing, so they are fixed for each connected part
    of the patch graph. Rotations follow ``previous`` where given (Procrustes over all patches), else the largest
    patch keeps its own axes. Translations have mean zero, weighted by patch size; log-scales likewise.

    Args:
        coordinates: (num_rows, dim) stacked patch embeddings, patch after patch.
        offsets: (num_patches + 1,) first row of each patch.
        overlaps: rows of the shared nodes of each pair.
        rotate, translate, scale: which transforms to solve for; with all False the frame is the identity.
        weights: a pair counts by its number of shared nodes ("overlap"), or every pair the same ("uniform").
        previous: the last frame; the new one is rotated to agree with it and starts from it.
        robust: reweight shared nodes and pairs by how well they fit, so that wrong ones lose their influence.
        route: "svd", or "newton-schulz" that neither inverts nor factorises anything.
        start: where the rotations start besides the spanning "tree" and the previous frame: the "spectral"
            relaxation (dense), a tree of "groups" (for many patches), or what the size allows ("auto"). The best
            of them is refined.
        solver: of the least squares over the patch graph, see `PatchLaplacian`.
        tolerance, max_steps: when the rotations are good enough.
        differentiable: let gradients flow from the frame to the coordinates; otherwise the frame is a constant.
        patch_sizes: (num_patches,) sizes for the gauge, where ``coordinates`` hold only a part of each patch.
        moments: of all pairs, where they were measured elsewhere (see `packed_pairs`); the coordinates, of any number
            of rows, then only say in what precision and on what device.

    Returns:
        The frame, in the precision and on the device of the coordinates; solved in float64.
    """
    settings = Settings(rotate, translate, scale, weights, route, start, solver, tolerance, max_steps, differentiable)
    num_patches = len(offsets) - 1
    if overlaps.num_patches != num_patches:
        raise InputError(f"the overlaps are of {overlaps.num_patches} patches, the coordinates of {num_patches}")
    sizes = (offsets.diff() if patch_sizes is None else patch_sizes).to(coordinates.device)
    if previous is not None:
        previous = previous.detach().to(coordinates.device, torch.float64)
    with torch.set_grad_enabled(differentiable and torch.is_grad_enabled()):
        problem = Problem(coordinates, overlaps, sizes, previous, settings, moments=moments)
        frame = solve_robustly(problem) if robust else solve_frame(problem)
    return frame.to(dtype=coordinates.dtype)
