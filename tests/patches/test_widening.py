"""Widening: after a bad cut patches take in the nodes with most edges into them."""

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import write_graph
from l2g2g.patches.cut import cut_graph, cut_stored_graph
from l2g2g.patches.overlap import make_patches
from l2g2g.patches.store import write_patches
from l2g2g.patches.widening import GOOD_CUT, _find_thresholds, widen
from l2g2g.runs.patches import plan_cut

NUM_NODES = 400


@pytest.fixture(scope="module")
def hubs():
    """Four communities, and twenty hubs that know everybody: no partition keeps their edges."""
    generator = np.random.default_rng(0)
    sources, targets = generator.integers(0, NUM_NODES, (2, 6000))
    inside = (sources % 4 == targets % 4) & (sources != targets)
    hub = generator.integers(0, 20, 6000), generator.integers(0, NUM_NODES, 6000)
    apart = hub[0] != hub[1]
    pairs = [np.concatenate([one[inside], other[apart]]) for one, other in zip((sources, targets), hub, strict=True)]
    return Graph.from_arcs(*pairs, num_nodes=NUM_NODES, name="hubs")


def make_cut(graph, **options):
    return plan_cut(graph, 4, make_config("l2g2g", patches=4, min_overlap=2, target_overlap=4, **options), "metis")


def test_hubs_join_other_patches_and_more_edges_are_kept(hubs):
    narrow, wide = (cut_graph(hubs, make_cut(hubs, most_patch_share=share))[0] for share in (0.0, 0.5))
    kept = [patches.count_covered_edges(hubs) / hubs.num_edges for patches in (narrow, wide)]
    assert kept[0] < GOOD_CUT < 0.95 < kept[1]
    assert narrow.num_widened == 0 < wide.num_widened
    assert wide.sizes.max() <= 0.5 * NUM_NODES + 16  # overlaps as without it
    assert wide.node_duplication <= 2.5 + 48 / NUM_NODES
    counts = np.bincount(wide.global_nodes, minlength=NUM_NODES)
    assert counts[:20].mean() > 2 * counts[20:].mean()
    for patch in range(4):  # nobody leaves a patch
        assert np.isin(narrow.nodes_of(patch), wide.nodes_of(patch)).all()


def test_who_joins_has_more_edges_into_the_cluster_than_who_does_not(hubs):
    labels = np.arange(NUM_NODES) % 4
    joined = widen(hubs.row_blocks, labels, 4, 0.4)
    counts = (hubs.adjacency != 0).astype(np.int64) @ np.eye(4, dtype=np.int64)[labels]
    for cluster in range(4):
        inside = np.zeros(NUM_NODES, bool)
        inside[joined.nodes[joined.clusters == cluster]] = True
        outside = ~inside & (labels != cluster)
        assert inside[labels == cluster].sum() == 0
        assert counts[inside, cluster].min() > counts[outside, cluster].max()
        assert inside.sum() + (labels == cluster).sum() <= 0.4 * NUM_NODES


def test_memory_and_disk_widen_alike(hubs, tmp_path):
    cut = make_cut(hubs)
    first, second = cut_graph(hubs, cut)[0], cut_stored_graph(write_graph(hubs, tmp_path / "store"), cut).patch_set
    assert first.num_widened == second.num_widened > 0
    for name in ("global_nodes", "offsets", "row_degrees"):
        assert (getattr(first, name) == getattr(second, name)).all()


def test_rows_of_a_node_count_by_the_edges_that_they_see(hubs):
    wide, _ = cut_graph(hubs, make_cut(hubs))
    shares = wide.shares_of()
    np.testing.assert_allclose(np.bincount(wide.global_nodes, shares), 1, rtol=1e-6)
    degrees = np.diff(wide.induce(hubs.adjacency).indptr)
    assert (wide.row_degrees == degrees).all()
    hub = np.flatnonzero(wide.global_nodes == 3)
    assert len(hub) > 1
    np.testing.assert_allclose(shares[hub], degrees[hub] ** 2 / (degrees[hub] ** 2).sum(), rtol=1e-6)
    for patches in ([0, 2], [1, 2]):
        rows = np.concatenate([np.arange(wide.offsets[patch], wide.offsets[patch + 1]) for patch in patches])
        assert (wide.shares_of(np.array(patches)) == shares[rows]).all()
    narrow, _ = cut_graph(hubs, make_cut(hubs, most_patch_share=0.0))
    counts = np.bincount(narrow.global_nodes)
    np.testing.assert_allclose(narrow.shares_of(), 1 / counts[narrow.global_nodes], rtol=1e-6)


def test_a_good_cut_stays_as_it_is(planted):
    patches = make_patches(planted, planted.labels, min_overlap=2, target_overlap=4, most_share=0.9)
    assert patches.inside_share >= GOOD_CUT
    assert not patches.is_cut_badly
    assert patches.num_widened == 0


def test_the_cut_is_measured_once_and_kept_on_disk(hubs, tmp_path):
    labels = np.arange(NUM_NODES) % 4
    sources, targets = hubs.edges()
    inside = float((labels[sources] == labels[targets]).mean())
    assert inside < GOOD_CUT
    patches = make_patches(hubs, labels, min_overlap=2, target_overlap=4)
    assert patches.inside_share == pytest.approx(inside)
    assert patches.is_cut_badly  # also where nothing was widened
    stored = write_graph(hubs, tmp_path / "store")
    assert write_patches(stored, patches).patch_set.inside_share == patches.inside_share


def test_thresholds_keep_both_bounds():
    histogram = np.zeros((2, 1025), np.int64)
    histogram[0, [1, 2, 5]] = 100, 30, 10
    histogram[1, [2, 9]] = 500, 40
    assert _find_thresholds(histogram, np.array([50, 50]), 2, 0.4, 1000).tolist() == [2, 3]  # 590 of 1,000 are too many
    assert _find_thresholds(histogram, np.array([50, 50]), 2, 1.0, 1000).tolist() == [2, 2]
    many = histogram[[1, 1, 1]]
    assert _find_thresholds(many, np.full(3, 50), 2, 1.0, 600).tolist() == [3, 3, 3]  # 1,620 are above 1.5 a node


def test_no_widening_where_patches_must_stay_small():
    assert make_config("l2g2g").widens_to(1_000_000) == 0.4
    assert make_config("l2g2g").widens_to(1_000_001) == 0
    assert make_config("l2g2g", most_patch_share=0.2).widens_to(1_000_001) == 0.2
    for options in ({"preset": "paper"}, {"method": "gae+l2g"}, {"share_encoder": False}):
        assert make_config(**options).widens_to(1000) == 0
