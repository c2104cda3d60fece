import numpy as np
import pytest
import torch

from l2g2g.alignment.procrustes import measure_pairs
from l2g2g.alignment.solve import Problem, Settings
from l2g2g.alignment.synchronise import cycle_residuals, entry_residuals, pair_counts, pair_residuals, synchronise

# Patch 0 has four neighbours; the others know each other well.
EDGES = [(0, j) for j in (1, 2, 3, 4)] + [(i, j) for i in range(1, 8) for j in range(i + 1, 8) if (i + j) % 3]


def problem_of(data, coordinates, **settings):
    return Problem(coordinates, data.overlaps, data.offsets.diff(), None, Settings(**settings))


def move(data, coordinates, pairs, *, turn=True):
    """Give the first side of each of these pairs a rigid motion of its own."""
    generator = np.random.default_rng(0)
    overlaps, moved = data.overlaps, coordinates.clone()
    for pair in pairs:
        rows = overlaps.first_rows[overlaps.pointers[pair] : overlaps.pointers[pair + 1]]
        rotation = torch.from_numpy(np.linalg.qr(generator.normal(size=(3, 3)))[0])
        moved[rows] = (moved[rows] @ rotation if turn else moved[rows]) + torch.from_numpy(generator.normal(size=3))
    return moved


def pairs_of_patch_0(data):
    return (data.overlaps.edges[:, 0] == 0).nonzero()[:, 0]


@pytest.mark.parametrize("settings", [{}, {"scale": True}, {"route": "newton-schulz"}])
def test_wrong_pairs_close_no_cycle_even_where_they_are_half_of_a_patch(known, settings):
    data = known(EDGES, 8, 3, shared=12, noise=0.01)
    wrong = pairs_of_patch_0(data)[:2]
    gaps = cycle_residuals(problem_of(data, move(data, data.stacked, wrong), **settings), 1e-6)
    right = torch.ones(len(gaps), dtype=torch.bool)
    right[wrong] = False
    assert float(gaps[wrong].min()) > 10 * float(gaps[right].max())


def test_wrong_shifts_are_found_without_rotations(known):
    data = known(EDGES, 8, 3, shared=12, noise=0.01)
    # In the common frame up to a shift of each patch.
    patches = [torch.from_numpy(p) @ r for p, r in zip(data.patches, data.rotations, strict=True)]
    wrong = pairs_of_patch_0(data)[:2]
    gaps = cycle_residuals(problem_of(data, move(data, torch.cat(patches), wrong, turn=False), rotate=False), 1e-6)
    assert sorted(gaps.topk(2).indices.tolist()) == wrong.tolist()
    assert float(gaps[wrong].min()) > 5 * float(gaps.median())


def test_a_pair_on_no_cycle_counts_as_good(known):
    data = known("tree", 9, 3)
    assert cycle_residuals(problem_of(data, data.stacked), 1e-6).tolist() == [0.0] * 8


@pytest.mark.slow
def test_residuals_from_moments_are_those_of_the_nodes(known):
    data = known(EDGES, 8, 3, shared=5, noise=0.2)
    problem = problem_of(data, data.stacked)
    frame = synchronise(data.stacked, data.offsets, data.overlaps, scale=True)
    found = pair_residuals(measure_pairs(data.stacked, data.overlaps), pair_counts(problem), data.overlaps.edges, frame)
    by_node = entry_residuals(problem, frame).square().view(-1, 5).mean(1).sqrt()
    torch.testing.assert_close(found, by_node)


@pytest.mark.slow
@pytest.mark.parametrize("differentiable", [False, True])
def test_robust_recovers_a_patch_half_of_whose_pairs_are_wrong(known, differentiable):
    data = known(EDGES, 8, 3, shared=12, noise=0.01)
    spoilt = move(data, data.stacked, pairs_of_patch_0(data)[:2])
    clean = data.frame_error(synchronise(data.stacked, data.offsets, data.overlaps))
    robust = synchronise(spoilt, data.offsets, data.overlaps, robust=True, differentiable=differentiable)
    assert data.frame_error(robust) < 2 * clean
    plain = synchronise(spoilt, data.offsets, data.overlaps)
    assert data.frame_error(plain) > 5 * clean
    # The documented gauge: the largest patch keeps its axes.
    largest = int(data.offsets.diff().argmax())
    torch.testing.assert_close(robust.rotations[largest], torch.eye(3, dtype=torch.float64))
