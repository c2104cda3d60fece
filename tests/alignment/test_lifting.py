import math

import pytest
import torch

from l2g2g.alignment.hierarchy import correlations, grow_forest, lift_rotations
from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.alignment.procrustes import measure_pairs, procrustes_maps
from l2g2g.alignment.rotations import disagreement, refine_rotations
from l2g2g.alignment.synchronise import synchronise


def turns(angles):
    cosines, sines = angles.cos(), angles.sin()
    return torch.stack([torch.stack([cosines, -sines], -1), torch.stack([sines, cosines], -1)], -2)


def twisted(size):
    """Rotations that turn once on the way around a ring."""
    return turns(2 * math.pi * torch.arange(size, dtype=torch.float64) / size)


def half_reflected(size):
    rotations = torch.eye(2, dtype=torch.float64).repeat(size, 1, 1)
    rotations[size // 2 :, 0, 0] = -1
    return rotations


@pytest.mark.parametrize("wrong", [twisted, half_reflected])
@pytest.mark.parametrize("rings", [1, 2])
def test_the_detour_leaves_wrong_optima_in_which_small_steps_stay(wrong, rings):
    size = 12
    ring = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size], 1).sort(1).values
    edges = torch.cat([ring + size * number for number in range(rings)])
    votes = torch.eye(2, dtype=torch.float64).repeat(len(edges), 1, 1)
    weights = torch.ones(len(edges), dtype=torch.float64)
    forest = grow_forest(edges, weights, torch.ones(rings * size))
    laplacian = PatchLaplacian(edges, weights, forest.roots, rings * size)
    start = wrong(size).repeat(rings, 1, 1)
    stuck = refine_rotations(start, edges, votes, laplacian).rotations
    assert disagreement(stuck, edges, votes, weights) > 0.05
    lifted = lift_rotations(start, edges, votes, laplacian, forest)
    assert disagreement(lifted, edges, votes, weights) < 1e-3
    torch.testing.assert_close(lifted @ lifted.mT, torch.eye(2, dtype=torch.float64).expand_as(lifted))


def test_correlations_of_exact_pairs_are_scaled_rotations(known):
    data = known("ring", 4, 3)
    moments = measure_pairs(data.stacked, data.overlaps)
    values = torch.linalg.svdvals(correlations(moments))
    # Exact copies: the singular values are those of the shared nodes' own covariance, which sum to its trace.
    torch.testing.assert_close(values.sum(1), torch.full((4,), 3.0, dtype=torch.float64))


def test_noisy_patches_do_not_fall_into_a_wrong_optimum(known):
    """A tangle that the eigenvectors alone leave: the objective must be no worse than from the true rotations."""
    data = known("grid", 225, 2, shared=12, noise=0.7, seed=3)
    overlaps = data.overlaps
    relative = procrustes_maps(measure_pairs(data.stacked, overlaps), overlaps.sizes, "svd").relative
    weights = overlaps.sizes.double()
    forest = grow_forest(overlaps.edges, weights, data.offsets.diff())
    laplacian = PatchLaplacian(overlaps.edges, weights, forest.roots, 225)
    best = refine_rotations(data.rotations, overlaps.edges, relative, laplacian, max_steps=200).rotations
    found = synchronise(data.stacked, data.offsets, overlaps).rotations
    reference = disagreement(best, overlaps.edges, relative, weights)
    assert disagreement(found, overlaps.edges, relative, weights) < 1.05 * reference
