"""Thousands of patches are aligned in a tree of groups, also by a refresh of few steps."""

import numpy as np
import pytest
import torch

from l2g2g.alignment.synchronise import Frame
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.overlap_index import index_overlaps
from l2g2g.training import loop
from l2g2g.training.loop import LoopSettings
from l2g2g.training.shard import Shard


@pytest.fixture(scope="module")
def grid():
    """1,156 patches on a grid in three dimensions: (stacked noisy coordinates, patches, true rotations)."""
    side, shared, dim = 34, 8, 3
    generator = np.random.default_rng(0)
    places = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate(
        [
            np.stack([places[:, :-1], places[:, 1:]], -1).reshape(-1, 2),
            np.stack([places[:-1], places[1:]], -1).reshape(-1, 2),
        ]
    )
    truth = generator.normal(size=(len(pairs) * shared, dim))
    nodes = [np.flatnonzero((pairs == patch).any(1).repeat(shared)) for patch in range(side * side)]
    turns = np.linalg.qr(generator.normal(size=(side * side, dim, dim)))[0]
    parts = [
        truth[own] @ turn + 0.25 * generator.normal(size=(len(own), dim))
        for own, turn in zip(nodes, turns, strict=True)
    ]
    offsets = np.cumsum([0, *map(len, nodes)])
    patch_set = PatchSet(len(truth), np.concatenate(nodes), offsets, index_overlaps(nodes))
    return torch.from_numpy(np.concatenate(parts)).float(), patch_set, torch.from_numpy(turns)


def error_after(grid, **options):
    """Root mean square distance of the rotations from the truth, up to a common one."""
    stacked, patch_set, turns = grid
    previous = Frame.identity(patch_set.num_patches, 3)
    settings = LoopSettings(rotate=True, translate=True)
    frame = loop._synchronise(stacked, Shard(patch_set), settings, previous, **options)
    found = turns @ frame.rotations.double()  # all the same where they are right
    left, _, right = torch.linalg.svd(found.sum(0))
    return float((found - left @ right).square().sum((1, 2)).mean().sqrt())


@pytest.mark.slow
def test_a_refresh_of_many_patches(grid, monkeypatch):
    by_groups = error_after(grid, **loop._REFRESH)
    monkeypatch.setattr(loop, "_MANY_PATCHES", 10**6)
    by_tree = error_after(grid, **loop._REFRESH)
    assert by_groups < 0.45  # what the noise leaves: all steps of a final alignment get no further
    assert by_groups < 0.6 * by_tree


@pytest.mark.slow
def test_the_final_alignment_of_many_patches(grid):
    assert error_after(grid) < 0.45
