"""Overlap exchange: ranks measure what one process measures, wherever patches lie."""

import numpy as np
import pytest
import torch

from l2g2g.alignment.procrustes import measure_pairs, procrustes_maps
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.training.overlap_exchange import OverlapExchange

from ..parallel.threads import run_ranks

ALL = {"rotate": True, "translate": True, "scale": True}


@pytest.fixture(scope="module")
def patch_set(planted):
    return make_patches(planted, np.arange(planted.num_nodes) % 5, min_overlap=4, target_overlap=6)


@pytest.mark.parametrize("owners", [[0, 0, 0, 0, 0], [0, 1, 2, 0, 1], [2, 2, 0, 0, 2]])
def test_every_rank_gets_the_moments_of_all_pairs(patch_set, owners):
    owners = np.array(owners)
    stacked = torch.randn(patch_set.num_rows, 3, generator=torch.Generator().manual_seed(0))
    expected = measure_pairs(stacked, patch_set.overlaps)

    def measure(communicator):
        own = torch.from_numpy(np.repeat(owners == communicator.rank, patch_set.sizes))
        return OverlapExchange(communicator, patch_set, owners).measure(stacked[own], **ALL)

    maps = procrustes_maps(expected, patch_set.overlaps.sizes, "svd").relative
    for found in run_ranks(3, measure):
        torch.testing.assert_close(found.covariances, maps.double(), rtol=0, atol=1e-5)  # rotations travel
        for name in ("first_means", "second_means", "first_spreads", "second_spreads"):
            torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-5, msg=name)


def test_patches_without_overlaps_send_nothing():
    single = whole_graph(6)

    def measure(communicator):
        rows = torch.ones(6, 2) if communicator.rank == 0 else torch.ones(0, 2)
        exchange = OverlapExchange(communicator, single, np.zeros(1, np.int64))
        return exchange.lengths, exchange.measure(rows, **ALL)

    for lengths, found in run_ranks(2, measure):
        assert lengths == [0, 0]
        assert found.covariances.shape == (0, 2, 2)
