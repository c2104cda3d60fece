import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.training.assignment import assign_patches


def ring(num_patches):
    first = np.arange(num_patches)
    return np.stack([first, (first + 1) % num_patches], axis=1), np.full(num_patches, 10)


def shared_between_ranks(ranks, edges, overlaps):
    return overlaps[ranks[edges[:, 0]] != ranks[edges[:, 1]]].sum()


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 12])
def test_loads_balance_and_every_rank_has_a_patch(num_ranks):
    loads = np.random.default_rng(0).integers(80, 120, 12)
    ranks = assign_patches(loads, *ring(12), num_ranks)
    totals = np.bincount(ranks, loads, num_ranks)
    assert totals.min() > 0
    assert totals.max() <= max(1.05 * loads.sum() / num_ranks, 1.3 * loads.max() * np.ceil(12 / num_ranks))


def test_neighbours_share_a_rank():
    edges, overlaps = ring(40)
    ranks = assign_patches(np.ones(40), edges, overlaps, 4)
    assert np.bincount(ranks).tolist() == [10] * 4
    assert shared_between_ranks(ranks, edges, overlaps) <= 60  # of 400; four cuts, 40, are the least there is


def test_a_heavy_patch_has_a_rank_of_its_own():
    edges, overlaps = ring(7)
    ranks = assign_patches(np.array([60, 10, 10, 10, 10, 10, 10]), edges, overlaps, 2)
    assert (ranks[1:] != ranks[0]).all()


def test_unequal_loads_are_exchanged():
    loads = np.array([50, 31, 20, 49, 30, 20])
    ranks = assign_patches(loads, np.empty((0, 2), int), np.empty(0), 2)
    assert np.bincount(ranks, loads).max() <= 1.01 * 100


@pytest.mark.slow
def test_many_patches():
    side = np.arange(2500).reshape(50, 50)
    edges = np.concatenate(
        [np.stack([side[:, :-1].ravel(), side[:, 1:].ravel()], 1), np.stack([side[:-1].ravel(), side[1:].ravel()], 1)]
    )
    overlaps = np.ones(len(edges))
    ranks = assign_patches(np.ones(2500), edges, overlaps, 8)
    assert np.bincount(ranks).max() <= 1.04 * 2500 / 8
    assert shared_between_ranks(ranks, edges, overlaps) < 0.15 * len(edges)
    assert (ranks == assign_patches(np.ones(2500), edges, overlaps, 8)).all()


def test_more_ranks_than_patches_are_refused():
    with pytest.raises(InputError, match="4 ranks and 3 patches"):
        assign_patches(np.ones(3), *ring(3), 4)
