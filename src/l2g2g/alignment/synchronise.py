"""Patch embeddings -> one frame: scales, then rotations, then translations, each by least squares over the pairs."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame, apply_frame, assemble
from l2g2g.alignment.laplacian import PatchLaplacian, Solver
from l2g2g.alignment.pairs import PairMoments, measure_pairs
from l2g2g.alignment.patch_tree import PatchForest, chain_rotations, grow_forest
from l2g2g.alignment.polar import Route, polar_factor
from l2g2g.alignment.procrustes import AlignmentWarning, PairwiseMaps, procrustes_maps
from l2g2g.alignment.rotations import attach_gradient, disagreement, refine_rotations, spectral_rotations
from l2g2g.errors import InputError
from l2g2g.patches.overlap_index import OverlapIndex

__all__ = ["AlignmentWarning", "Frame", "apply_frame", "assemble", "synchronise"]

Weights = Literal["overlap", "uniform"]
Start = Literal["auto", "tree", "spectral"]

# Rows of the dense eigenproblem that starts the rotations: cheap enough for every refresh, or for a first one.
_SPECTRAL_ROWS_WARM, _SPECTRAL_ROWS_COLD = 256, 1024
_warned: weakref.WeakSet[OverlapIndex] = weakref.WeakSet()


@dataclass(frozen=True)
class Settings:
    """How `synchronise` solves; see there."""

    rotate: bool = True
    translate: bool = True
    scale: bool = False
    weights: Weights = "overlap"
    robust: bool = False
    route: Route = "svd"
    start: Start = "auto"
    solver: Solver = "auto"
    tolerance: float = 1e-9
    max_steps: int = 50
    differentiable: bool = False


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
    tolerance: float = 1e-9,
    max_steps: int = 50,
    differentiable: bool = False,
    patch_sizes: Tensor | None = None,
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
        start: where the rotations start: the spanning "tree", the "spectral" relaxation (dense), or the better.
        solver: of the least squares over the patch graph, see `PatchLaplacian`.
        tolerance, max_steps: when the rotations are good enough.
        differentiable: let gradients flow from the frame to the coordinates; otherwise the frame is a constant.
        patch_sizes: (num_patches,) sizes for the gauge, where ``coordinates`` hold only a part of each patch.

    Returns:
        The frame, in the precision and on the device of the coordinates; solved in float64.
    """
    settings = Settings(
        rotate, translate, scale, weights, robust, route, start, solver, tolerance, max_steps, differentiable
    )
    num_patches = len(offsets) - 1
    if overlaps.num_patches != num_patches:
        raise InputError(f"the overlaps are of {overlaps.num_patches} patches, the coordinates of {num_patches}")
    sizes = (offsets.diff() if patch_sizes is None else patch_sizes).to(coordinates.device)
    with torch.set_grad_enabled(differentiable and torch.is_grad_enabled()):
        frame = _solve(coordinates, overlaps, sizes, previous, settings)
    return frame.to(dtype=coordinates.dtype)


def _solve(
    coordinates: Tensor, overlaps: OverlapIndex, patch_sizes: Tensor, previous: Frame | None, settings: Settings
) -> Frame:
    """The order of the mathematics: scales, rotations, translations."""
    device = coordinates.device
    frame = Frame.identity(overlaps.num_patches, coordinates.shape[1], dtype=torch.float64, device=device)
    if previous is not None:
        previous = previous.detach().to(device, torch.float64)
    if overlaps.num_patches == 0 or not (settings.rotate or settings.translate or settings.scale):
        return frame
    moments = measure_pairs(coordinates, overlaps)
    maps = _pairwise_maps(moments, overlaps, settings) if settings.rotate else None
    weights = _pair_weights(overlaps, settings.weights)
    forest = grow_forest(overlaps.edges, _trust(weights, maps), patch_sizes)
    laplacian = _laplacian(overlaps, weights, forest, settings)
    rotations, translations, scales = frame.rotations, frame.translations, frame.scales
    if settings.scale:
        scales = solve_scales(moments, laplacian, forest, patch_sizes)
    if maps is not None:
        rotations = solve_rotations(maps, overlaps.edges, laplacian, forest, previous, settings)
        rotations = pin_rotations(rotations, forest, patch_sizes, previous, settings.route)
    if settings.translate:
        translations = solve_translations(moments, rotations, scales, laplacian, forest, patch_sizes)
    return Frame(rotations, translations, scales)


def _laplacian(overlaps: OverlapIndex, weights: Tensor, forest: PatchForest, settings: Settings) -> PatchLaplacian:
    solver = "iterative" if settings.route == "newton-schulz" else settings.solver
    return PatchLaplacian(overlaps.edges, weights, forest.roots, overlaps.num_patches, solver)


def _pairwise_maps(moments: PairMoments, overlaps: OverlapIndex, settings: Settings) -> PairwiseMaps:
    """Procrustes maps; a rank-deficient overlap is reported once for each index, not at every refresh."""
    maps = procrustes_maps(moments, overlaps.sizes, settings.route, warn=overlaps not in _warned)
    if len(maps.deficient):
        _warned.add(overlaps)
    return maps


def _pair_weights(overlaps: OverlapIndex, weights: Weights) -> Tensor:
    """(num_pairs,) float64 weights with mean one."""
    if weights == "uniform":
        return torch.ones(overlaps.num_pairs, dtype=torch.float64, device=overlaps.edges.device)
    if weights == "overlap":
        sizes = overlaps.sizes.double()
        return sizes / sizes.mean() if len(sizes) else sizes
    raise InputError(f"weights {weights!r} are not known; use 'overlap' or 'uniform'")


def _trust(weights: Tensor, maps: PairwiseMaps | None) -> Tensor:
    """Pairs that leave a rotation open join the tree only where nothing better does."""
    if maps is None or len(maps.deficient) == 0:
        return weights
    return weights.index_add(0, maps.deficient, weights.max().expand(len(maps.deficient)), alpha=-1)


def solve_rotations(
    maps: PairwiseMaps,
    edges: Tensor,
    laplacian: PatchLaplacian,
    forest: PatchForest,
    previous: Frame | None,
    settings: Settings,
) -> Tensor:
    """Return S (num_patches, dim, dim) that minimise Σ w ‖S_i − R_ij S_j‖², in an arbitrary gauge."""
    constant = PairwiseMaps(maps.relative.detach(), maps.deficient, maps.partial.detach())
    with torch.no_grad():
        rotations, constant = _start(constant, edges, laplacian, forest, previous, settings)
        rounds = 1 if len(maps.deficient) == 0 else 10
        for _ in range(rounds):
            refined = refine_rotations(
                rotations,
                edges,
                constant.relative,
                laplacian,
                tolerance=settings.tolerance,
                max_steps=settings.max_steps,
            )
            rotations = refined.rotations
            if refined.steps == 0:
                break
            constant = constant.complete(_related(rotations, edges, maps.deficient))
    if not (settings.differentiable and torch.is_grad_enabled()):
        return rotations
    relative = maps.complete(_related(rotations, edges, maps.deficient)).relative
    return attach_gradient(rotations, edges, relative, laplacian)


def _related(rotations: Tensor, edges: Tensor, pairs: Tensor) -> Tensor:
    """Maps R_ij = S_i S_jᵀ (len(pairs), dim, dim) that the rotations imply."""
    return rotations[edges[pairs, 0]] @ rotations[edges[pairs, 1]].mT


def _start(
    maps: PairwiseMaps,
    edges: Tensor,
    laplacian: PatchLaplacian,
    forest: PatchForest,
    previous: Frame | None,
    settings: Settings,
) -> tuple[Tensor, PairwiseMaps]:
    """Return the best of the spanning tree, the previous frame and the spectral relaxation, and completed maps."""
    num_patches, dim = len(forest.parents), maps.relative.shape[-1]
    guess = previous or Frame.identity(num_patches, dim, dtype=torch.float64, device=edges.device)
    maps = maps.complete(_related(guess.rotations, edges, maps.deficient))
    candidates = [chain_rotations(forest, edges, maps.relative)]
    maps = maps.complete(_related(candidates[0], edges, maps.deficient))
    if previous is not None:
        candidates.append(previous.rotations)
    rows = _SPECTRAL_ROWS_COLD if previous is None else _SPECTRAL_ROWS_WARM
    affordable = settings.start == "auto" and settings.route == "svd" and num_patches * dim <= rows
    if (settings.start == "spectral" or affordable) and forest.num_components == 1 and num_patches > 1:
        candidates.append(spectral_rotations(edges, maps.relative, laplacian.weights, num_patches))
    values = [disagreement(candidate, edges, maps.relative, laplacian.weights) for candidate in candidates]
    return candidates[values.index(min(values))], maps


def pin_rotations(
    rotations: Tensor, forest: PatchForest, patch_sizes: Tensor, previous: Frame | None, route: Route
) -> Tensor:
    """Fix the common rotation of each component: towards the previous frame, or the axes of its largest patch."""
    if previous is None:
        common = rotations[forest.roots].mT
    else:
        shares = patch_sizes.double()[:, None, None] * (rotations.mT @ previous.rotations)
        common = torch.zeros(forest.num_components, *rotations.shape[1:], dtype=rotations.dtype, device=shares.device)
        common = polar_factor(common.index_add(0, forest.components, shares), route)
    return rotations @ common[forest.components]


def solve_scales(moments: PairMoments, laplacian: PatchLaplacian, forest: PatchForest, patch_sizes: Tensor) -> Tensor:
    """Return factors (num_patches,): log s_i − log s_j ≈ log of the ratio of spreads of their shared nodes."""
    known = (moments.first_spreads > 0) & (moments.second_spreads > 0)
    ratios = torch.where(known, moments.second_spreads, 1.0) / torch.where(known, moments.first_spreads, 1.0)
    logs = laplacian.integrate(0.5 * ratios.log()[:, None])
    return (logs - component_means(logs, forest, patch_sizes))[:, 0].exp()


def solve_translations(
    moments: PairMoments,
    rotations: Tensor,
    scales: Tensor,
    laplacian: PatchLaplacian,
    forest: PatchForest,
    patch_sizes: Tensor,
) -> Tensor:
    """Return shifts (num_patches, dim) on the rotated coordinates, with mean zero weighted by patch size."""
    first, second = laplacian.first, laplacian.second
    linear = scales[:, None, None] * rotations
    first_means = (moments.first_means[:, None] @ linear[first])[:, 0]
    second_means = (moments.second_means[:, None] @ linear[second])[:, 0]
    shifts = laplacian.integrate(second_means - first_means)
    return shifts - component_means(shifts, forest, patch_sizes)


def component_means(values: Tensor, forest: PatchForest, patch_sizes: Tensor) -> Tensor:
    """Mean (num_patches, m) of values over the component of each patch, weighted by patch size."""
    sizes = patch_sizes.to(values.dtype).clamp(min=1)[:, None]
    zeros = torch.zeros(forest.num_components, values.shape[1], dtype=values.dtype, device=values.device)
    totals = zeros.index_add(0, forest.components, sizes * values)
    counts = zeros[:, :1].index_add(0, forest.components, sizes)
    return (totals / counts)[forest.components]
