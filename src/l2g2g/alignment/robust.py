"""Iteratively reweighted alignment: shared nodes and pairs that fit badly lose their influence."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.alignment.pairs import measure_pairs
from l2g2g.alignment.polar import polar_factor
from l2g2g.alignment.procrustes import procrustes_maps
from l2g2g.alignment.rotations import transport
from l2g2g.alignment.solve import Problem, solve_frame

_WITHIN_PAIR_ROUNDS, _PAIR_ROUNDS, _NODE_ROUNDS = 5, 12, 20
# Residuals below this fraction of the spread of the shared nodes are as good as none.
_PRECISION = 1e-6


def solve_robustly(problem: Problem) -> Frame:
    """Solve with weights that follow the residuals, from coarse evidence to fine.

    1. Within each pair a Procrustes fit is reweighted node by node: mismatched nodes stand out without any frame.
    2. Whole pairs are reweighted by 1 / residual (least absolute deviations): first by how far their rotation is
       from the common one, then by the distance of their nodes. That finds pairs that are rigid and wrong.
    3. Single nodes are reweighted by 1 / (1 + (r / c)²)² (Geman and McClure), c twice the median residual, so that
       what is left of the wrong ones vanishes and the rest is weighted almost evenly.

    With ``differentiable`` the weights are constants, as is usual.
    """
    if problem.overlaps.num_pairs == 0:
        return solve_frame(problem)
    with torch.no_grad():
        constant = replace(problem, settings=replace(problem.settings, differentiable=False))
        scale = _spread(problem)
        constant = _weighted_by_node(constant, _weigh_within_pairs(problem, scale))
        frame = _reweigh_pairs(constant, scale)
        constant, frame = _reweigh_nodes(constant, frame, scale)
    if not problem.settings.differentiable:
        return frame
    return solve_frame(replace(constant, settings=problem.settings))


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


def _reweigh_pairs(problem: Problem, scale: float) -> Frame:
    """Least absolute deviations over pairs: by rotation, where there are any, then by distance.

    The residual below which a pair counts in full falls from round to round, so that no pair is judged by a frame
    that the wrong pairs still bend.
    """
    frame = solve_frame(problem)
    relative = _relative_rotations(problem) if problem.settings.rotate else None
    stages = [("rotation", _PRECISION)] if relative is not None else []
    for kind, smallest in [*stages, ("distance", _PRECISION * scale)]:
        ceiling = float("inf")
        for _ in range(_PAIR_ROUNDS):
            if kind == "rotation" and relative is not None:
                residuals = _rotation_residuals(problem, frame, relative)
            else:
                residuals = _mean_by_pair(entry_residuals(problem, frame), problem, problem.entry_weights)
            ceiling = min(ceiling / 2, float(residuals.quantile(0.75)))
            floor = max(ceiling, 0.3 * float(residuals.median()), smallest)
            factors = floor / (residuals + floor)
            if problem.pair_factors is not None:
                factors = factors * problem.pair_factors
            frame = _solve_from(replace(problem, pair_factors=factors), frame)
    return frame


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


def _relative_rotations(problem: Problem) -> Tensor:
    moments = measure_pairs(problem.coordinates, problem.overlaps, problem.entry_weights)
    return procrustes_maps(moments, problem.overlaps.sizes, problem.settings.route, warn=False).relative


def _rotation_residuals(problem: Problem, frame: Frame, relative: Tensor) -> Tensor:
    """Root mean square of S_i − R_ij S_j (num_pairs,) over the directions that a pair determines."""
    rank = relative.square().sum((1, 2))
    traces = transport(frame.rotations, problem.overlaps.edges, relative).diagonal(dim1=1, dim2=2).sum(1)
    return ((rank - traces).clamp(min=0) / rank.clamp(min=1)).sqrt()


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
    sides = []
    for side, rows in enumerate((overlaps.first_rows, overlaps.second_rows)):
        patch = overlaps.edges[pair, side]
        sides.append(_apply_by_entry(problem.coordinates[rows].double(), patch, linear) + frame.translations[patch])
    return (sides[0] - sides[1]).norm(dim=1)


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


def _mean_by_pair(values: Tensor, problem: Problem, weights: Tensor | None = None) -> Tensor:
    """(Weighted) mean (num_pairs,) of values (num_shared,) over the nodes of each pair."""
    pair = problem.overlaps.pair_of_entry
    weights = torch.ones_like(values) if weights is None else weights
    zeros = torch.zeros(problem.overlaps.num_pairs, dtype=values.dtype, device=values.device)
    return zeros.index_add(0, pair, weights * values) / zeros.index_add(0, pair, weights)
