"""Patch embeddings -> one frame: scales, then rotations, then translations, each by least squares over the pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame, apply_frame, assemble
from l2g2g.alignment.laplacian import Solver
from l2g2g.alignment.polar import Route
from l2g2g.alignment.procrustes import AlignmentWarning, PairMoments
from l2g2g.alignment.robust import solve_robustly
from l2g2g.alignment.solve import Problem, Settings, Start, Weights, solve_frame
from l2g2g.errors import InputError
from l2g2g.patches.overlap_index import OverlapIndex

__all__ = ["AlignmentWarning", "Frame", "apply_frame", "assemble", "synchronise"]


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
