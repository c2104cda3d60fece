"""Sampling: negatives are allowed pairs and nothing else, evenly, and the same on every route."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models.sampling import (
    draw_negatives,
    draw_negatives_torch,
    exclude,
    plan_negatives,
    sample_nodes_by_degree,
)

ONE = torch.tensor(1.0)


def block_diagonal(blocks):
    matrix = sp.csr_array(sp.block_diag(blocks, format="csr"))
    matrix.eliminate_zeros()  # scipy keeps the zeros of dense blocks
    matrix.sort_indices()
    return matrix


def excluded_pattern(sizes, density=0.5, seed=0):
    """Block-diagonal symmetric random pattern with its diagonal."""
    generator = np.random.default_rng(seed)
    blocks = []
    for size in sizes:
        upper = np.triu(generator.random((size, size)) < density, 1)
        blocks.append((upper | upper.T | np.eye(size, dtype=bool)).astype(np.float32))
    return block_diagonal(blocks), np.concatenate([[0], np.cumsum(sizes)])


def rows_of(pattern):
    return np.repeat(np.arange(len(pattern.indptr) - 1), np.diff(pattern.indptr.numpy()))


@pytest.mark.parametrize("density", [0.0, 0.2, 0.9])
def test_edges_held_out_pairs_and_the_diagonal_are_excluded(density):
    parts = [
        sp.csr_array(sp.random_array((30, 30), density=share, rng=seed, dtype=np.float32))
        for seed, share in ((0, density), (1, 0.1))
    ]
    excluded = exclude(*parts)
    expected = sum(part.toarray() != 0 for part in parts) + np.eye(30) > 0
    assert (excluded.toarray() == expected).all()
    assert excluded.nnz == expected.sum()
    assert excluded.indptr.dtype == excluded.indices.dtype == np.int32
    assert all((np.diff(excluded.indices[low:high]) > 0).all() for low, high in itertools.pairwise(excluded.indptr))


def test_never_an_excluded_pair_nor_one_outside_its_patch():
    excluded, offsets = excluded_pattern([12, 5, 20])
    plan = plan_negatives(excluded, offsets, np.array([40, 15, 90]))
    assert plan.num_pairs == 145
    patch_of_row = np.repeat(np.arange(3), np.diff(offsets))
    for epoch in range(50):
        pattern = draw_negatives(plan, ONE, seed=0, epoch=epoch)
        rows, columns = rows_of(pattern), pattern.indices.numpy()
        assert (excluded.toarray()[rows, columns] == 0).all()
        assert (patch_of_row[rows] == patch_of_row[columns]).all()
        assert np.bincount(patch_of_row[rows], minlength=3).tolist() == [40, 15, 90]


def test_numba_and_torch_draw_the_same_pairs():
    excluded, offsets = excluded_pattern([12, 5, 20, 1], density=0.7)
    plan = plan_negatives(excluded, offsets, np.array([40, 15, 90, 3]), np.array([4, 9, 2, 0]))
    for epoch in (0, 1, 199):
        ours = draw_negatives(plan, ONE, seed=5, epoch=epoch)
        theirs = draw_negatives_torch(plan, ONE, seed=5, epoch=epoch, device="cpu")
        assert ours.num_pairs == 145  # the patch of one node has none
        assert torch.equal(ours.indptr, theirs.indptr)
        assert torch.equal(ours.indices, theirs.indices)


def test_negatives_are_uniform_over_the_allowed_pairs():
    excluded, offsets = excluded_pattern([8], density=0.4, seed=3)
    allowed = excluded.toarray() == 0
    plan = plan_negatives(excluded, offsets, np.array([int(allowed.sum())]))
    counts = np.zeros((8, 8))
    num_epochs = 2000
    for epoch in range(num_epochs):
        pattern = draw_negatives(plan, ONE, seed=1, epoch=epoch)
        np.add.at(counts, (rows_of(pattern), pattern.indices.numpy()), 1)
    assert (counts[~allowed] == 0).all()
    degrees_of_freedom = int(allowed.sum()) - 8
    chi_square = ((counts[allowed] - num_epochs) ** 2 / num_epochs).sum()
    assert chi_square < degrees_of_freedom + 4 * np.sqrt(2 * degrees_of_freedom)


@pytest.mark.parametrize("count", [200, 7])
def test_rows_get_their_share_of_the_non_edges(count):
    """Rounded in every draw, exact in the mean: with seven negatives for thirty rows no row may be left out."""
    excluded, offsets = excluded_pattern([30], density=0.3)
    allowed = 30 - np.diff(excluded.indptr)
    plan = plan_negatives(excluded, offsets, np.array([count]))
    share = count * allowed / allowed.sum()
    drawn = np.stack([np.diff(draw_negatives(plan, ONE, seed=0, epoch=epoch).indptr) for epoch in range(2000)])
    assert (drawn.sum(1) == count).all()
    assert (np.abs(drawn - share) < 1).all()
    assert np.abs(drawn.mean(0) - share).max() < 4 * 0.5 / np.sqrt(2000)


def test_rows_without_a_non_edge_get_no_negatives():
    """The first and the last row of each patch are joined to every other one."""
    excluded, offsets = excluded_pattern([7, 9], density=0.3)
    full = excluded.toarray()
    for low, high in itertools.pairwise(offsets):
        for row in (low, high - 1):
            full[row, low:high] = full[low:high, row] = 1
    plan = plan_negatives(sp.csr_array(full), offsets, np.array([3, 5]))
    for epoch in range(300):
        pattern = draw_negatives(plan, ONE, seed=0, epoch=epoch)
        assert pattern.num_pairs == 8
        assert (full[rows_of(pattern), pattern.indices.numpy()] == 0).all()


def test_a_complete_graph_has_no_negatives():
    complete = np.ones((6, 6), np.float32)
    excluded = block_diagonal([complete, np.eye(4, dtype=np.float32)])
    plan = plan_negatives(excluded, np.array([0, 6, 10]), np.array([15, 5]))
    pattern = draw_negatives(plan, ONE, seed=0, epoch=0)
    assert pattern.num_pairs == 5
    assert rows_of(pattern).min() >= 6
    only = plan_negatives(sp.csr_array(complete), np.array([0, 6]), np.array([15]))
    for draw in (
        draw_negatives(only, ONE, seed=0, epoch=0),
        draw_negatives_torch(only, ONE, seed=0, epoch=0, device="cpu"),
    ):
        assert draw.num_pairs == 0


def test_patch_by_patch_draws_what_all_together_draw():
    sizes = [12, 5, 20]
    excluded, offsets = excluded_pattern(sizes)
    counts = np.array([40, 15, 90])
    together = draw_negatives(plan_negatives(excluded, offsets, counts), ONE, seed=2, epoch=7)
    alone = []
    for patch in range(3):
        low, high = offsets[patch], offsets[patch + 1]
        block = sp.csr_array(excluded[low:high, low:high])
        plan = plan_negatives(block, np.array([0, high - low]), counts[patch : patch + 1], np.array([patch]))
        drawn = draw_negatives(plan, ONE, seed=2, epoch=7)
        alone.append(np.stack([rows_of(drawn) + low, drawn.indices.numpy() + low]))
    assert together.num_pairs == 145
    assert np.array_equal(np.concatenate(alone, axis=1), np.stack([rows_of(together), together.indices.numpy()]))


def test_seed_and_epoch_change_the_draw():
    plan = plan_negatives(*excluded_pattern([20]), np.array([60]))
    draws = [draw_negatives(plan, ONE, seed=s, epoch=e).indices for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[3])


def test_the_transpose_of_a_draw_is_its_transpose():
    plan = plan_negatives(*excluded_pattern([15, 9]), np.array([50, 20]))
    pattern = draw_negatives(plan, ONE, seed=0, epoch=0)
    values = np.arange(1.0, 71.0)
    forward = sp.csr_array((values, pattern.indices.numpy(), pattern.indptr.numpy()), shape=(24, 24))
    indptr, indices, order = (part.numpy() for part in pattern.transpose)
    backward = sp.csr_array((values[order], indices, indptr), shape=(24, 24))
    assert (backward.toarray() == forward.toarray().T).all()


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


def test_targets_by_degree_are_allowed_and_the_same_on_every_route():
    excluded, offsets = excluded_pattern([12, 5, 20, 1], density=0.5)
    degrees = np.random.default_rng(0).integers(0, 40, excluded.shape[0])
    plan = plan_negatives(excluded, offsets, np.array([40, 15, 90, 3]), np.array([4, 9, 2, 0]), degrees)
    patch_of_row = np.repeat(np.arange(4), np.diff(offsets))
    for epoch in range(50):
        ours = draw_negatives(plan, ONE, seed=5, epoch=epoch)
        theirs = draw_negatives_torch(plan, ONE, seed=5, epoch=epoch, device="cpu")
        assert torch.equal(ours.indptr, theirs.indptr)
        assert torch.equal(ours.indices, theirs.indices)
        rows, columns = rows_of(ours), ours.indices.numpy()
        assert (excluded.toarray()[rows, columns] == 0).all()
        assert (patch_of_row[rows] == patch_of_row[columns]).all()
        assert (degrees[columns] > 0).all()
        assert np.bincount(patch_of_row[rows], minlength=4).tolist() == [40, 15, 90, 0]


def test_targets_by_degree_follow_the_power_of_the_degree():
    excluded, offsets = excluded_pattern([9], density=0.4, seed=3)
    degrees = np.array([1, 16, 0, 81, 2, 7, 256, 3, 30])
    allowed = (excluded.toarray() == 0) & (degrees > 0)
    share = allowed * degrees**0.75
    plan = plan_negatives(excluded, offsets, np.array([400]), degrees=degrees)
    counts = np.zeros((9, 9))
    num_epochs = 1000
    for epoch in range(num_epochs):
        pattern = draw_negatives(plan, ONE, seed=1, epoch=epoch)
        np.add.at(counts, (rows_of(pattern), pattern.indices.numpy()), 1)
    assert (counts[~allowed] == 0).all()
    expected = share[allowed] / share.sum() * counts.sum()
    degrees_of_freedom = int(allowed.sum()) - 9  # the number of every row is dealt, not drawn
    chi_square = ((counts[allowed] - expected) ** 2 / expected).sum()
    assert chi_square < degrees_of_freedom + 4 * np.sqrt(2 * degrees_of_freedom)


def test_equal_degrees_draw_evenly():
    excluded, offsets = excluded_pattern([8], density=0.4, seed=3)
    allowed = excluded.toarray() == 0
    plan = plan_negatives(excluded, offsets, np.array([int(allowed.sum())]), degrees=np.full(8, 5))
    counts = np.zeros((8, 8))
    for epoch in range(2000):
        pattern = draw_negatives(plan, ONE, seed=1, epoch=epoch)
        np.add.at(counts, (rows_of(pattern), pattern.indices.numpy()), 1)
    assert (counts[~allowed] == 0).all()
    degrees_of_freedom = int(allowed.sum()) - 8
    assert ((counts[allowed] - 2000) ** 2 / 2000).sum() < degrees_of_freedom + 4 * np.sqrt(2 * degrees_of_freedom)


def test_units_fit_their_range_however_large_the_degrees():
    excluded, offsets = excluded_pattern([3000], density=0.001)
    degrees = np.random.default_rng(0).integers(0, 2**31, 3000)
    plan = plan_negatives(excluded, offsets, np.array([2000]), degrees=degrees)
    assert plan.units.starts[-1] < 2**31
    ours = draw_negatives(plan, ONE, seed=5, epoch=1)
    theirs = draw_negatives_torch(plan, ONE, seed=5, epoch=1, device="cpu")
    assert torch.equal(ours.indices, theirs.indices)
    assert (excluded.toarray()[rows_of(ours), ours.indices.numpy()] == 0).all()
