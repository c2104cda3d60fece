"""The stages of synchronisation, in the order of the mathematics: scales, rotations, translations."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.alignment.hierarchy import (
    PatchForest,
    chain_groups,
    chain_rotations,
    correlations,
    grow_forest,
    lift_rotations,
)
from l2g2g.alignment.laplacian import PatchLaplacian, Solver
from l2g2g.alignment.polar import Route, polar_factor
from l2g2g.alignment.procrustes import (
    PairMoments,
    PairwiseMaps,
    measure_pairs,
    procrustes_maps,
    varying_directions,
    warn_rank_deficient,
)
from l2g2g.alignment.rotations import attach_gradient, disagreement, refine_rotations, spectral_rotations
from l2g2g.errors import InputError
from l2g2g.patches.overlap_index import OverlapIndex

Weights = Literal["overlap", "uniform"]
Start = Literal["auto", "tree", "spectral", "groups"]

# Rows of the dense eigenproblem that starts the rotations: cheap enough for every refresh, or for a first one.
_SPECTRAL_ROWS_WARM, _SPECTRAL_ROWS_COLD = 256, 1024
# A previous frame that disagrees less than this (30 degrees) is as good a start as any, and saves looking for others.
_CLOSE = 0.13
# Below this (a tenth of a degree) the tree leaves the refinement next to nothing to do.
_NEARLY_EXACT = 1e-6
# Above this (16 degrees) a first solution may be a wrong optimum, and lifting it is worth its time.
_DOUBTFUL = 0.04
# Starts that differ by less disagree equally.
_SAME_DISAGREEMENT = 1e-6
_MANY_DIRECTIONS = 8  # from which vectors may have a term of the degree
_GOLDEN_RATIO = 0.6180339887498949
_warned: weakref.WeakSet[OverlapIndex] = weakref.WeakSet()


@dataclass(frozen=True)
class Settings:
    """How to solve; see `synchronise`."""

    rotate: bool = True
    translate: bool = True
    scale: bool = False
    weights: Weights = "overlap"
    route: Route = "svd"
    start: Start = "auto"
    solver: Solver = "auto"
    tolerance: float = 1e-7
    max_steps: int = 50
    differentiable: bool = False


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be synchronised.

    Attributes:
        coordinates: (num_rows, dim) stacked patch embeddings.
        overlaps: rows of the shared nodes of each pair.
        patch_sizes: (num_patches,) for the gauge.
        previous: the frame to agree with and to start from, in float64.
        settings: how to solve.
        entry_weights: (num_shared,) weight of each shared node, None for ones.
        pair_factors: (num_pairs,) extra weight of each pair, None for ones.
        moments: what the shared nodes say, where it was measured elsewhere; None to measure the coordinates.
    """

    coordinates: Tensor
    overlaps: OverlapIndex
    patch_sizes: Tensor
    previous: Frame | None
    settings: Settings
    entry_weights: Tensor | None = None
    pair_factors: Tensor | None = None
    moments: PairMoments | None = None


@dataclass(frozen=True, eq=False)
class PatchPairs:
    """The pairs of patches that are solved for.

    Attributes:
        moments: what their shared nodes say.
        laplacian: of the pairs and their weights.
        forest: their spanning forest.
        patch_sizes: (num_patches,) for the gauge.
    """

    moments: PairMoments
    laplacian: PatchLaplacian
    forest: PatchForest
    patch_sizes: Tensor


def solve_frame(problem: Problem) -> Frame:
    """Solve for scales, then rotations, then translations; in float64 and in the documented gauge."""
    settings, overlaps = problem.settings, problem.overlaps
    device = problem.coordinates.device
    frame = Frame.identity(overlaps.num_patches, problem.coordinates.shape[1], dtype=torch.float64, device=device)
    if overlaps.num_patches == 0 or not (settings.rotate or settings.translate or settings.scale):
        return frame
    moments = problem.moments or measure_pairs(problem.coordinates, overlaps, problem.entry_weights)
    maps = _pairwise_maps(moments, problem) if settings.rotate else None
    weights = pair_weights(problem)
    forest = grow_forest(overlaps.edges, _trust(weights, maps), problem.patch_sizes)
    solver = "iterative" if settings.route == "newton-schulz" else settings.solver
    laplacian = PatchLaplacian(overlaps.edges, weights, forest.roots, overlaps.num_patches, solver)
    pairs = PatchPairs(moments, laplacian, forest, problem.patch_sizes)
    rotations, translations, scales = frame.rotations, frame.translations, frame.scales
    if settings.scale:
        scales = solve_scales(pairs)
    if maps is not None:
        rotations = pin_rotations(solve_rotations(problem, maps, pairs), pairs, problem.previous, settings.route)
    if settings.translate:
        translations = solve_translations(pairs, rotations, scales)
    return Frame(rotations, translations, scales)


def _pairwise_maps(moments: PairMoments, problem: Problem) -> PairwiseMaps:
    """Procrustes maps; a rank-deficient overlap is reported once for each index, not at every refresh."""
    overlaps = problem.overlaps
    maps = procrustes_maps(moments, overlaps.sizes, problem.settings.route)
    if len(maps.deficient) and overlaps not in _warned:
        _warned.add(overlaps)
        wide = maps.deficient[overlaps.sizes[maps.deficient] > problem.coordinates.shape[1]]
        if problem.moments is None:
            wide = _spanning_too_few(wide, problem)
        if len(wide) and problem.entry_weights is None:
            warn_rank_deficient(wide, moments.covariances)
    return maps


def _spanning_too_few(pairs: Tensor, problem: Problem) -> Tensor:
    """Return those of some pairs whose shared nodes leave open more than a reflection of one direction of many.

    Vectors with a term of the degree do not vary in one of their directions, so a reflection of it changes nothing.
    """
    overlaps, rows, dim = problem.overlaps, problem.coordinates, problem.coordinates.shape[1]
    needed = dim - 1 if dim >= _MANY_DIRECTIONS else dim
    thin = []
    for pair in pairs.tolist():
        entries = slice(*overlaps.pointers[pair : pair + 2].tolist())
        sides = (overlaps.first_rows[entries], overlaps.second_rows[entries])
        thin.append(min(varying_directions(rows[side]) for side in sides) < needed)
    return pairs[torch.tensor(thin, dtype=torch.bool, device=pairs.device)]


def pair_weights(problem: Problem) -> Tensor:
    """(num_pairs,) float64 weights with mean one, never zero: a distrusted pair may be the only bridge."""
    overlaps = problem.overlaps
    if problem.settings.weights == "uniform":
        weights = torch.ones(overlaps.num_pairs, dtype=torch.float64, device=overlaps.edges.device)
    elif problem.settings.weights == "overlap":
        weights = overlaps.sizes.double()
    else:
        raise InputError(f"weights {problem.settings.weights!r} are not known; use 'overlap' or 'uniform'")
    if problem.pair_factors is not None:
        weights = weights * problem.pair_factors
    if len(weights) == 0:
        return weights
    weights = weights / weights.mean()
    return weights.clamp(min=1e-9 * float(weights.max()))


def _trust(weights: Tensor, maps: PairwiseMaps | None) -> Tensor:
    """Pairs that leave a rotation open join the tree only where nothing better does."""
    if maps is None or len(maps.deficient) == 0:
        return weights
    return weights.index_add(0, maps.deficient, weights.max().expand(len(maps.deficient)), alpha=-1)


def solve_rotations(problem: Problem, maps: PairwiseMaps, pairs: PatchPairs) -> Tensor:
    """Return S (num_patches, dim, dim) that minimise Σ w ‖S_i − R_ij S_j‖², in an arbitrary gauge."""
    edges, settings, laplacian = problem.overlaps.edges, problem.settings, pairs.laplacian
    constant = PairwiseMaps(maps.relative.detach(), maps.deficient)
    with torch.no_grad():
        start = _find_start(problem, constant, pairs)
        rotations = refine_rotations(
            start, edges, constant.relative, laplacian, tolerance=settings.tolerance, max_steps=settings.max_steps
        ).rotations
    if settings.differentiable and torch.is_grad_enabled():
        # The derivative need not be much better than the rotations it belongs to.
        return attach_gradient(rotations, edges, maps.relative, laplacian, max(1e-3 * settings.tolerance, 1e-13))
    return rotations


def _find_start(problem: Problem, maps: PairwiseMaps, pairs: PatchPairs) -> Tensor:
    """Return the best of the spanning tree, the previous frame and the relaxation that the size allows.

    Where even the best disagrees a lot and there is no previous frame to follow, `lift_rotations` looks for a better
    one.
    """
    edges, previous, settings = problem.overlaps.edges, problem.previous, problem.settings
    laplacian, forest = pairs.laplacian, pairs.forest
    num_patches, dim = len(forest.parents), maps.relative.shape[-1]
    if previous is not None and disagreement(previous.rotations, edges, maps.relative, laplacian.weights) < _CLOSE:
        return previous.rotations
    guess = previous or Frame.identity(num_patches, dim, dtype=torch.float64, device=edges.device)
    candidates = [chain_rotations(forest, edges, maps.completed(guess.rotations, edges))]
    relative = maps.completed(candidates[0], edges)
    if disagreement(candidates[0], edges, relative, laplacian.weights) < _NEARLY_EXACT:
        return candidates[0]
    if previous is not None:
        candidates.append(previous.rotations)
    start = settings.start
    if start == "auto" and settings.route == "svd":
        rows = _SPECTRAL_ROWS_COLD if previous is None else _SPECTRAL_ROWS_WARM
        affordable = num_patches * dim <= rows and forest.num_components == 1
        start = "spectral" if affordable else "groups" if previous is None else "tree"
    weights = _without_ties(laplacian.weights)
    if start == "spectral" and num_patches > 1:
        candidates.append(spectral_rotations(edges, maps.relative, weights, num_patches))
    elif start == "groups":
        candidates.append(chain_groups(forest, edges, relative, weights))
    values = [disagreement(candidate, edges, maps.relative, weights) for candidate in candidates]
    best = next(
        each for each, value in zip(candidates, values, strict=True) if value <= min(values) + _SAME_DISAGREEMENT
    )
    if min(values) < _DOUBTFUL or previous is not None or settings.route != "svd":
        return best
    votes = correlations(pairs.moments)
    lifted = lift_rotations(best, edges, votes, laplacian, forest)
    return min(best, lifted, key=lambda start: disagreement(start, edges, votes, laplacian.weights))


def _without_ties(weights: Tensor) -> Tensor:
    """Weights that differ by up to a thousandth more than they did.

    A reflection that a ring of patches cannot agree on must go to one of its pairs. Where these weigh the same, all
    choices are equally good, and rounding would choose; so would it among eigenvectors of equal eigenvalues.
    """
    numbers = torch.arange(1, len(weights) + 1, dtype=weights.dtype, device=weights.device)
    return weights * (1 + 1e-3 * (numbers * _GOLDEN_RATIO % 1))


def pin_rotations(rotations: Tensor, pairs: PatchPairs, previous: Frame | None, route: Route) -> Tensor:
    """Fix the common rotation of each component: towards the previous frame, or the axes of its largest patch."""
    forest = pairs.forest
    if previous is None:
        common = rotations[forest.roots].mT
    else:
        shares = pairs.patch_sizes.double()[:, None, None] * (rotations.mT @ previous.rotations)
        common = torch.zeros(forest.num_components, *rotations.shape[1:], dtype=rotations.dtype, device=shares.device)
        common = polar_factor(common.index_add(0, forest.components, shares), route)
    return rotations @ common[forest.components]


def solve_scales(pairs: PatchPairs) -> Tensor:
    """Return factors (num_patches,): log s_i − log s_j ≈ log of the ratio of spreads of their shared nodes."""
    moments = pairs.moments
    known = (moments.first_spreads > 0) & (moments.second_spreads > 0)
    ratios = torch.where(known, moments.second_spreads, 1.0) / torch.where(known, moments.first_spreads, 1.0)
    logs = pairs.laplacian.integrate(0.5 * ratios.log()[:, None])
    return (logs - component_means(logs, pairs))[:, 0].exp()


def solve_translations(pairs: PatchPairs, rotations: Tensor, scales: Tensor) -> Tensor:
    """Return shifts (num_patches, dim) on the rotated coordinates, with mean zero weighted by patch size."""
    moments, laplacian = pairs.moments, pairs.laplacian
    first, second = laplacian.first, laplacian.second
    linear = scales[:, None, None] * rotations
    first_means = (moments.first_means[:, None] @ linear[first])[:, 0]
    second_means = (moments.second_means[:, None] @ linear[second])[:, 0]
    shifts = laplacian.integrate(second_means - first_means)
    return shifts - component_means(shifts, pairs)


def component_means(values: Tensor, pairs: PatchPairs) -> Tensor:
    """Mean (num_patches, m) of values over the component of each patch, weighted by patch size."""
    forest = pairs.forest
    sizes = pairs.patch_sizes.to(values.dtype).clamp(min=1)[:, None]
    zeros = torch.zeros(forest.num_components, values.shape[1], dtype=values.dtype, device=values.device)
    totals = zeros.index_add(0, forest.components, sizes * values)
    counts = zeros[:, :1].index_add(0, forest.components, sizes)
    return (totals / counts)[forest.components]
