"""Sampling: negatives are allowed pairs and nothing else, evenly, and the same on every route."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g import core
from l2g2g.models import sampling
from l2g2g.models.losses import reconstruction_loss
from l2g2g.models.pairs import PairList
from l2g2g.models.sampling import NegativeDraws, plan_negatives, sample_nodes_by_degree

needs_core = pytest.mark.skipif(not core.is_built(), reason="the compiled core is not built")


def block_diagonal(blocks):
    matrix = sp.csr_array(sp.block_diag([sp.csr_array(block) for block in blocks], format="csr"))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def patterns(sizes, density=0.3, held_out=0.1, seed=0):
    """(edges, held out, offsets): block-diagonal symmetric random patterns without diagonal."""
    generator, found = np.random.default_rng(seed), ([], [])
    for size in sizes:
        for blocks, share in zip(found, (density, held_out), strict=True):
            upper = np.triu(generator.random((size, size)) < share, 1)
            blocks.append((upper | upper.T).astype(np.float32))
    return *(block_diagonal(blocks) for blocks in found), np.concatenate([[0], np.cumsum(sizes)])


def nodes_of(sizes, seed=0):
    """Node numbers of stacked patches; a node may be in several."""
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.permutation(2 * max(sizes))[:size] for size in sizes])


def allowed_pairs(edges, held_out, offsets):
    """(num_rows, num_rows) bool of the pairs that may be drawn."""
    inside = np.zeros(edges.shape, bool)
    for low, high in pairwise(offsets):
        inside[low:high, low:high] = True
    return inside & (edges.toarray() == 0) & (held_out.toarray() == 0) & ~np.eye(len(inside), dtype=bool)


def make_plan(sizes, counts, seed=0, density=0.3, **options):
    """(plan, allowed pairs)."""
    edges, held_out, offsets = patterns(sizes, density, seed=seed)
    plan = plan_negatives(edges, held_out, nodes_of(sizes), offsets, np.array(counts), **options)
    return plan, allowed_pairs(edges, held_out, offsets)


def count_draws(plan, num_epochs, seed=1):
    """(num_rows, num_rows) how often each pair was drawn."""
    counts = np.zeros((plan.draws.num_rows,) * 2)
    for epoch in range(num_epochs):
        drawn = plan.list_pairs(seed=seed, epoch=epoch)
        np.add.at(counts, (drawn.rows, drawn.columns), 1)
    return counts


def check_counts(counts, expected, num_fixed):
    """Chi-square of independent draws, within four deviations; num_fixed: sums that are not left to chance."""
    freedom = len(expected) - num_fixed
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - freedom) < 4 * np.sqrt(2 * freedom)


def sorted_pairs(rows, columns):
    return sorted(zip(np.asarray(rows).tolist(), np.asarray(columns).tolist(), strict=True))


# --- which pairs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["uniform", "degree"])
def test_never_an_excluded_pair_nor_the_diagonal_nor_another_patch(how):
    plan, allowed = make_plan([19, 5, 30], [80, 15, 150], sampling=how)
    counts = count_draws(plan, 60)
    assert (counts[~allowed] == 0).all()
    assert counts.sum() > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "num_rounds"), [(13, 2), (37, 1), (48, 3)], ids=["one tile", "a short last tile", "full tiles"]
)
def test_every_allowed_pair_is_equally_likely(size, num_rounds):
    """Rows of a tile share their columns, so pairs of an epoch are not independent; those of different epochs are."""
    plan, allowed = make_plan([size], [15 * num_rounds * size], density=0.1)
    assert plan.draws.num_rounds[0] >= num_rounds
    draws = np.zeros((2000, size, size), np.float32)
    for epoch in range(len(draws)):
        drawn = plan.list_pairs(seed=0, epoch=epoch)
        np.add.at(draws[epoch], (drawn.rows, drawn.columns), 1)
    means, errors = draws.mean(0)[allowed], draws.std(0)[allowed] / np.sqrt(len(draws))
    assert (draws[:, ~allowed] == 0).all()
    off = (means - means.mean()) / errors.mean()
    assert np.abs(off).max() < 5.5
    assert np.square(off).mean() < 1.5  # far less than 1 where an epoch draws nearly all pairs


def test_every_allowed_pair_of_stacked_patches_is_equally_likely():
    sizes, offsets = [9, 4, 15], np.array([0, 9, 13, 28])
    plan, allowed = make_plan(sizes, [120, 20, 300], seed=5, patches=np.array([8, 3, 11]))
    counts = count_draws(plan, 1000)
    assert (counts[~allowed] == 0).all()
    for low, high in pairwise(offsets):
        own, chosen = counts[low:high, low:high], allowed[low:high, low:high]
        expected = own.sum() / chosen.sum()
        assert np.abs(own[chosen] / expected - 1).max() < 5 / np.sqrt(expected)


@pytest.mark.parametrize("how", ["uniform", "degree"])
def test_weights_of_the_negatives_add_up_to_the_share_on_average(how):
    sizes, shares = [19, 6, 40], np.array([0.2, 0.1, 0.7])
    edges, held_out, offsets = patterns(sizes)
    plan = plan_negatives(
        edges, held_out, nodes_of(sizes), offsets, np.array([60, 7, 300]), shares=shares, sampling=how
    )
    totals, counts = [], []
    patch_of_row = np.repeat(np.arange(3), sizes)
    for epoch in range(400):
        drawn = plan.list_pairs(seed=2, epoch=epoch)
        totals.append(np.bincount(patch_of_row[drawn.rows], weights=drawn.pair_weights, minlength=3))
        counts.append(np.bincount(patch_of_row[drawn.rows], minlength=3))
    deviation = np.std(totals, axis=0) / np.sqrt(400)
    assert (np.abs(np.mean(totals, axis=0) - shares) < 4 * deviation).all()
    assert (np.abs(np.mean(totals, axis=0) / shares - 1) < 0.05).all()
    # About as many as wanted: all rows of a tile draw, so that it may be half a tile more or less.
    assert (np.abs(np.mean(counts, axis=0) - [60, 7, 300]) < 8 + 4 * np.std(counts, axis=0) / 20).all()


@pytest.mark.parametrize("count", [7, 60, 2000])
def test_tiles_draw_equally_many_columns(count):
    """Within one per round; exact in the mean."""
    plan, _ = make_plan([70], [count], density=0.2)
    tiles, per_tile = np.arange(5), np.zeros((1000, 5))
    for epoch in range(1000):
        for table in plan.draws.rounds(seed=0, epoch=epoch):
            (first, size, tile_size, num_tiles, meeting, columns, shift, _) = table[0].tolist()
            assert (first, size, tile_size, num_tiles) == (0, 70, 14, 5)
            assert 0 <= meeting < 5
            drawn = ((tiles + 1) * columns + shift) // 5 - (tiles * columns + shift) // 5
            assert drawn.max() - drawn.min() in (0, 1)
            assert drawn.max() <= 14
            per_tile[epoch] += drawn
    assert (per_tile.sum(1) == plan.draws.num_columns[0]).all()
    share = plan.draws.num_columns[0] / 5
    assert np.abs(per_tile.mean(0) - share).max() < 4.5 * max(per_tile.std(), 1e-9) / np.sqrt(1000)


def test_a_patch_in_which_every_pair_is_excluded_has_no_negatives():
    complete = 1 - np.eye(12, dtype=np.float32)
    edges = block_diagonal([complete, np.zeros((9, 9), np.float32)])
    nothing = sp.csr_array((21, 21), dtype=np.float32)
    for how in ("uniform", "degree"):
        plan = plan_negatives(edges, nothing, np.arange(21), np.array([0, 12, 21]), np.array([50, 40]), sampling=how)
        rows = plan.list_pairs(seed=0, epoch=0).rows
        # By degree a patch without edges has no far ends either.
        assert len(rows) == 0 if how == "degree" else (rows.min() >= 12 and len(rows) > 20)
    only = plan_negatives(sp.csr_array(complete), nothing[:12, :12], np.arange(12), np.array([0, 12]), np.array([50]))
    assert only.list_pairs(seed=0, epoch=0).num_pairs == 0


def test_patches_of_no_or_one_node_have_no_negatives():
    edges, held_out, offsets = patterns([1, 20, 0, 1])
    plan = plan_negatives(edges, held_out, nodes_of([1, 20, 0, 1]), offsets, np.array([5, 50, 3, 2]))
    rows = plan.list_pairs(seed=0, epoch=0).rows
    assert len(rows) > 30
    assert set(rows.tolist()) <= set(range(1, 21))


def test_where_nearly_all_pairs_are_excluded_the_rest_is_found_evenly():
    full = 1 - np.eye(12, dtype=np.float32)
    for u, v in ((0, 5), (3, 11), (3, 4), (7, 8)):
        full[u, v] = full[v, u] = 0
    plan = plan_negatives(
        sp.csr_array(full), sp.csr_array((12, 12), dtype=np.float32), np.arange(12), np.array([0, 12]), np.array([40])
    )
    counts = count_draws(plan, 1500)
    allowed = (full == 0) & ~np.eye(12, dtype=bool)
    assert (counts[~allowed] == 0).all()
    check_counts(counts[allowed], np.full(8, counts.sum() / 8), 1)


# --- the same draws everywhere ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["uniform", "degree"])
def test_native_and_torch_draw_the_same_pairs(usual_backend, how):
    found = []
    for backend in ("auto", "torch"):
        core.set_backend(backend)
        plan, _ = make_plan([19, 5, 60, 1], [80, 15, 700, 3], patches=np.array([4, 9, 2, 0]), sampling=how)
        lists = [plan.list_pairs(seed=5, epoch=epoch) for epoch in (0, 1, 199)]
        found.append([sorted_pairs(each.rows, each.columns) for each in lists])
        assert all(each.rows.dtype == each.columns.dtype == np.int32 for each in lists)
    assert found[0] == found[1]
    assert len(found[0][0]) > 500


def test_rows_drawn_from_disk_have_the_same_draws():
    """All draws of some rows, excluded ones among them."""
    plan, allowed = make_plan([19, 5, 60], [80, 15, 700])
    listed = plan.list_pairs(seed=5, epoch=3)
    for rows in (np.arange(84), np.arange(10, 50), np.array([70, 3, 22])):
        own, columns = plan.draws.draw_rows(rows, seed=5, epoch=3)
        assert set(own.tolist()) <= set(rows.tolist())
        kept = allowed[own, columns]
        chosen = np.isin(listed.rows, rows)
        assert sorted_pairs(own[kept], columns[kept]) == sorted_pairs(listed.rows[chosen], listed.columns[chosen])


@pytest.mark.parametrize("how", ["uniform", "degree"])
def test_negatives_of_some_rows_are_those_that_all_together_have(how):
    plan, _ = make_plan([30, 20], [200, 90], sampling=how)
    every, wanted = plan.list_pairs(seed=1, epoch=2), np.random.default_rng(0).random(50) < 0.4
    some, chosen = replace(plan, wanted=wanted).list_pairs(seed=1, epoch=2), wanted[every.rows]
    assert sorted_pairs(some.rows, some.columns) == sorted_pairs(every.rows[chosen], every.columns[chosen])


@needs_core
@pytest.mark.parametrize("width", [3, 16])
def test_scored_while_drawn_is_scored_as_a_list(width):
    plan, _ = make_plan([19, 5, 60], [80, 15, 700], shares=np.array([0.2, 0.3, 0.5]))
    draws, nothing = NegativeDraws(plan, 5, 3), PairList(*(np.empty(0, np.int32),) * 2, np.ones(1, np.float32))
    assert draws.can_stream
    generator = torch.Generator().manual_seed(0)
    sides = [torch.randn(84, width, generator=generator).requires_grad_() for _ in range(2)]
    bias = torch.tensor(0.3, requires_grad=True)
    for right in (None, sides[1]):
        inputs = [sides[0], bias] + ([] if right is None else [right])
        losses = [reconstruction_loss(sides[0], nothing, each, bias, right) for each in (draws, draws.pair_list)]
        assert float(losses[0].detach()) == pytest.approx(float(losses[1].detach()), rel=1e-6)
        for one, other in zip(*(torch.autograd.grad(loss, inputs) for loss in losses), strict=True):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


def test_patch_by_patch_draws_what_all_together_draw():
    sizes, counts = [19, 5, 30], np.array([80, 15, 150])
    edges, held_out, offsets = patterns(sizes)
    nodes = nodes_of(sizes)
    for how in ("uniform", "degree"):
        together = plan_negatives(edges, held_out, nodes, offsets, counts, sampling=how)
        expected, alone = together.list_pairs(seed=2, epoch=7), []
        for patch in range(3):
            own = slice(offsets[patch], offsets[patch + 1])
            plan = plan_negatives(
                sp.csr_array(edges[own, own]),
                sp.csr_array(held_out[own, own]),
                nodes[own],
                np.array([0, sizes[patch]]),
                counts[patch : patch + 1],
                patches=np.array([patch]),
                sampling=how,
            )
            drawn = plan.list_pairs(seed=2, epoch=7)
            alone += sorted_pairs(drawn.rows + own.start, drawn.columns + own.start)
        assert alone == sorted_pairs(expected.rows, expected.columns)


def test_draws_follow_nodes_and_not_the_order_of_the_rows():
    """The same patch with its rows in another order."""
    edges, held_out, offsets = patterns([25])
    nodes, order = nodes_of([25]), np.random.default_rng(4).permutation(25)
    found = []
    for rows in (np.arange(25), order):
        turned = [sp.csr_array(each[rows][:, rows]) for each in (edges, held_out)]
        drawn = plan_negatives(*turned, nodes[rows], offsets, np.array([90])).list_pairs(seed=0, epoch=0)
        found.append(sorted_pairs(nodes[rows][drawn.rows], nodes[rows][drawn.columns]))
    assert found[0] == found[1]


def test_seed_and_epoch_change_the_draw():
    plan, _ = make_plan([30], [100])
    draws = [plan.list_pairs(seed=s, epoch=e) for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
    draws = [sorted_pairs(each.rows, each.columns) for each in draws]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]
    assert draws[0] != draws[3]


# --- far ends by degree ----------------------------------------------------------------------------------


def test_far_ends_by_degree_follow_the_power_of_the_degree():
    """Among the allowed pairs (u, v) in proportion to degree_v^0.75; a node without edges is never one."""
    stars = np.zeros((14, 14), np.float32)
    stars[0, 1:9] = stars[1, 2:5] = stars[10, 11] = 1
    edges = sp.csr_array(stars + stars.T)
    held_out = sp.csr_array(np.diag(np.ones(4, np.float32), 10) + np.diag(np.ones(4, np.float32), -10))
    offsets, degrees = np.array([0, 14]), np.diff(edges.indptr)
    allowed = allowed_pairs(edges, held_out, offsets) & (degrees > 0)
    plan = plan_negatives(edges, held_out, np.arange(14), offsets, np.array([300]), sampling="degree")
    counts = count_draws(plan, 800)
    assert (counts[~allowed] == 0).all()
    share = np.broadcast_to(degrees**0.75, allowed.shape)[allowed]
    check_counts(counts[allowed], share / share.sum() * counts.sum(), 1)


def test_equal_degrees_draw_evenly():
    ring = np.roll(np.eye(11), 1, axis=1)
    edges, nothing = sp.csr_array((ring + ring.T).astype(np.float32)), sp.csr_array((11, 11), dtype=np.float32)
    plan = plan_negatives(edges, nothing, np.arange(11), np.array([0, 11]), np.array([150]), sampling="degree")
    counts = count_draws(plan, 1000)
    allowed = allowed_pairs(edges, nothing, np.array([0, 11]))
    assert (counts[~allowed] == 0).all()
    check_counts(counts[allowed], np.full(allowed.sum(), counts.sum() / allowed.sum()), 1)


def test_units_fit_their_range_however_large_the_degrees():
    degrees = np.random.default_rng(0).integers(0, 2**31, 3000)
    units = sampling.TargetUnits.make("degree", degrees, np.array([0, 1000, 1000, 3000]))
    assert (np.diff(units.starts[[0, 1000, 3000]]) < 2**31).all()
    assert ((np.diff(units.starts) > 0) == (degrees > 0)).all()


# --- node samples ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 10, 99, 100])
def test_node_samples_are_distinct_and_sorted(count):
    nodes = sample_nodes_by_degree(np.arange(100), count, seed=0, epoch=0)
    assert len(nodes) == count
    assert (np.diff(nodes) > 0).all()


def test_node_samples_prefer_high_degrees():
    degrees = np.array([0] * 50 + [9] * 50)
    counts = np.zeros(100)
    for epoch in range(300):
        counts[sample_nodes_by_degree(degrees, 10, seed=0, epoch=epoch)] += 1
    low, high = counts[:50].sum(), counts[50:].sum()
    # Ten times the weight; without replacement the ratio is a little below ten.
    assert 6.5 < high / low < 11
    even = np.concatenate([sample_nodes_by_degree(degrees, 10, seed=0, epoch=e, alpha=0.0) for e in range(300)])
    assert 0.85 < (even >= 50).sum() / (even < 50).sum() < 1.18


def test_node_samples_follow_seed_and_epoch():
    degrees = np.ones(200)
    draws = [sample_nodes_by_degree(degrees, 20, seed=s, epoch=e).tolist() for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]
    assert draws[0] != draws[3]
