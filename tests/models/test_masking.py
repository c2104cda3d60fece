"""Masking: an edge is hidden or seen, never both, alike in every direction, patch and route."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models.masking import (
    deal_groups,
    drop_entries,
    hidden_pairs,
    hidden_pairs_torch,
    propagate_visible,
    propagate_visible_torch,
)
from l2g2g.models.randomness import Purpose, stream_key
from l2g2g.models.sparse import normalise_adjacency
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition

KEYS = [stream_key(0, Purpose.MASK, epoch) for epoch in (0, 1)] + [2**64 - 1]


@pytest.fixture(scope="module")
def weighted(planted):
    """The planted graph with a weight on every edge, the same in both directions."""
    weights = np.random.default_rng(0).uniform(0.2, 3.0, planted.adjacency.shape)
    matrix = sp.csr_array(planted.adjacency.multiply(np.triu(weights, 1) + np.triu(weights, 1).T)).astype(np.float32)
    matrix.sort_indices()
    return matrix


@pytest.fixture(scope="module")
def patch_set(planted):
    return make_patches(planted.adjacency, partition(planted.adjacency, 4), min_overlap=8, target_overlap=16)


def stacked(patch_set, adjacency):
    """(block-diagonal adjacency, node numbers of its rows)."""
    return patch_set.induce(adjacency), patch_set.global_nodes.astype(np.int64)


def listed(block):
    """(rows, columns) of all entries."""
    return np.repeat(np.arange(block.shape[0], dtype=np.int32), np.diff(block.indptr)), block.indices


def hidden_matrix(block, nodes, key, fraction, groups=None):
    rows, columns = (part.numpy() for part in hidden_pairs(*listed(block), nodes, key, fraction, groups))
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=block.shape)


def visible_pattern(block, nodes, key, fraction):
    """Off-diagonal entries of the propagation."""
    dense = (
        propagate_visible(block.indptr, block.indices, block.data, nodes, nodes[block.indices], key, fraction)
        .matrix.to_dense()
        .numpy()
    )
    return (dense != 0) & ~np.eye(len(dense), dtype=bool)


def edges_by_node(matrix, nodes):
    """The edges of a stacked matrix as pairs of node numbers, each direction for itself."""
    matrix = sp.coo_array(matrix)
    return set(zip(nodes[matrix.row].tolist(), nodes[matrix.col].tolist(), strict=True))


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("key", KEYS)
def test_numba_and_torch_hide_the_same_edges(weighted, patch_set, key, fraction):
    block, nodes = stacked(patch_set, weighted)
    ours = hidden_pairs(*listed(block), nodes, key, fraction)
    theirs = hidden_pairs_torch(*(torch.from_numpy(part) for part in (*listed(block), nodes)), key, fraction)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)
        assert mine.dtype == other.dtype == torch.int32


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("key", KEYS)
def test_numba_and_torch_propagate_alike(weighted, patch_set, key, fraction):
    block, nodes = stacked(patch_set, weighted)
    tensors = [torch.from_numpy(part) for part in (block.indptr, block.indices, block.data, nodes)]
    ours = propagate_visible(block.indptr, block.indices, block.data, nodes, nodes[block.indices], key, fraction).matrix
    theirs = propagate_visible_torch(*tensors, key, fraction).matrix
    assert torch.equal(ours.crow_indices(), theirs.crow_indices())
    assert torch.equal(ours.col_indices(), theirs.col_indices())
    assert torch.allclose(ours.values(), theirs.values(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.7, 1.0])
def test_every_edge_is_either_seen_or_hidden_in_both_directions(weighted, patch_set, fraction):
    for patches in (patch_set, whole_graph(weighted.shape[0])):
        block, nodes = stacked(patches, weighted)
        hidden = hidden_matrix(block, nodes, KEYS[0], fraction).toarray() != 0
        seen = visible_pattern(block, nodes, KEYS[0], fraction)
        assert not (hidden & seen).any()
        assert ((hidden | seen) == (block.toarray() != 0)).all()
        assert (hidden == hidden.T).all()
        assert (seen == seen.T).all()


def test_every_patch_that_holds_an_edge_agrees_with_the_whole_graph(weighted, patch_set):
    everything = np.arange(weighted.shape[0])
    hidden = edges_by_node(hidden_matrix(weighted, everything, KEYS[1], 0.5), everything)
    shared = 0
    for patch in range(patch_set.num_patches):
        part = patch_set.select(np.array([patch]))
        block, nodes = stacked(part, weighted)
        own = edges_by_node(hidden_matrix(block, nodes, KEYS[1], 0.5), nodes)
        assert own == hidden & edges_by_node(block, nodes)
        shared += len(own)
    block, nodes = stacked(patch_set, weighted)
    assert (
        hidden_matrix(block, nodes, KEYS[1], 0.5).nnz
        == shared
        > len(edges_by_node(hidden_matrix(block, nodes, KEYS[1], 0.5), nodes))
    )  # some edges do lie in two patches


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_about_the_wanted_fraction_is_hidden(weighted, fraction):
    nodes = np.arange(weighted.shape[0])
    num_edges = weighted.nnz // 2
    counts = [
        hidden_matrix(weighted, nodes, stream_key(0, Purpose.MASK, epoch), fraction).nnz / 2 for epoch in range(200)
    ]
    deviation = np.sqrt(num_edges * fraction * (1 - fraction))
    assert abs(np.mean(counts) - fraction * num_edges) < 4 * deviation / np.sqrt(200)
    assert 0.8 * deviation < np.std(counts) < 1.2 * deviation  # every edge by its own coin


def test_every_edge_is_hidden_as_often_as_any_other(weighted):
    nodes = np.arange(weighted.shape[0])
    times = sum(hidden_matrix(weighted, nodes, stream_key(0, Purpose.MASK, epoch), 0.5) for epoch in range(400))
    upper = sp.coo_array(sp.triu(weighted))
    counts = times.toarray()[upper.row, upper.col]
    assert abs(counts - 200).max() < 5 * np.sqrt(100)


def test_a_smaller_fraction_hides_a_subset(weighted):
    nodes = np.arange(weighted.shape[0])
    nested = [edges_by_node(hidden_matrix(weighted, nodes, KEYS[0], f), nodes) for f in (0.0, 0.07, 0.35, 0.7, 1.0)]
    for smaller, larger in itertools.pairwise(nested):
        assert smaller < larger
    assert not nested[0]
    assert len(nested[-1]) == weighted.nnz


@pytest.mark.parametrize("fraction", [0.0, 0.4, 0.7])
def test_propagation_of_the_seen_edges_by_dense_matrices(weighted, patch_set, fraction):
    """D^(-1/2) (A + I) D^(-1/2) of what is left, D its own row sums."""
    block, nodes = stacked(patch_set, weighted)
    left = block.toarray().astype(np.float64)
    left[hidden_matrix(block, nodes, KEYS[0], fraction).toarray() != 0] = 0
    left += np.eye(len(left))
    scale = 1 / np.sqrt(left.sum(1))
    found = propagate_visible(block.indptr, block.indices, block.data, nodes, nodes[block.indices], KEYS[0], fraction)
    assert np.abs(found.matrix.to_dense().numpy() - scale[:, None] * left * scale).max() < 1e-6
    assert found.transposed is found.matrix
    if fraction == 0:
        assert np.abs(found.matrix.to_dense().numpy() - normalise_adjacency(block).toarray()).max() < 1e-6


def test_a_path_with_all_edges_hidden_propagates_nothing(path_of_four):
    parts = (path_of_four.indptr, path_of_four.indices, path_of_four.data, np.arange(4), path_of_four.indices)
    assert torch.equal(propagate_visible(*parts, KEYS[0], 1.0).matrix.to_dense(), torch.eye(4))
    half, third = 1 / 2, 1 / 3
    mixed = 1 / np.sqrt(6)
    expected = [[half, mixed, 0, 0], [mixed, third, third, 0], [0, third, third, mixed], [0, 0, mixed, half]]
    assert propagate_visible(*parts, KEYS[0], 0.0).matrix.to_dense().numpy() == pytest.approx(np.array(expected))


def test_columns_of_a_row_are_in_order_with_the_row_itself_last(weighted, patch_set):
    block, nodes = stacked(patch_set, weighted)
    matrix = propagate_visible(
        block.indptr, block.indices, block.data, nodes, nodes[block.indices], KEYS[0], 0.5
    ).matrix
    indptr, columns = matrix.crow_indices().numpy(), matrix.col_indices().numpy()
    for row in range(len(nodes)):
        own = columns[indptr[row] : indptr[row + 1]]
        assert own[-1] == row
        assert (np.diff(own[:-1]) > 0).all()


# --- groups: patches as masks ------------------------------------------------------------------------


def dealt(units, num_groups, epoch=0):
    return deal_groups(torch.from_numpy(units), num_groups, seed=0, epoch=epoch).numpy()


def test_groups_are_dealt_by_unit_alone_and_evenly():
    units = np.arange(6000) // 3
    groups = dealt(units, 4)
    assert (groups.reshape(-1, 3) == groups[::3, None]).all()  # rows of a unit stay together
    assert (dealt(units[::-1].copy(), 4) == groups[::-1]).all()  # wherever they stand
    assert abs(np.bincount(groups[::3], minlength=4) - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)
    assert (dealt(units, 4, epoch=1) != groups).mean() == pytest.approx(0.75, abs=0.05)  # anew every epoch


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("num_groups", [2, 5])
def test_numba_and_torch_hide_the_same_edges_between_groups(weighted, patch_set, num_groups, fraction):
    block, nodes = stacked(patch_set, weighted)
    groups = dealt(nodes, num_groups)
    tensors = [torch.from_numpy(part) for part in (block.indptr, block.indices, nodes)]
    ours = hidden_pairs(*listed(block), nodes, KEYS[0], fraction, groups)
    pairs = [torch.from_numpy(part) for part in (*listed(block), nodes)]
    theirs = hidden_pairs_torch(*pairs, KEYS[0], fraction, torch.from_numpy(groups))
    assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    seen = propagate_visible(
        block.indptr, block.indices, block.data, nodes, nodes[block.indices], KEYS[0], fraction, groups
    ).matrix
    parts = (tensors[0], tensors[1], torch.from_numpy(block.data), tensors[2])
    other = propagate_visible_torch(*parts, KEYS[0], fraction, torch.from_numpy(groups)).matrix
    assert torch.equal(seen.col_indices(), other.col_indices())
    assert torch.allclose(seen.values(), other.values(), rtol=1e-6, atol=0)


def test_exactly_the_edges_between_groups_are_hidden(weighted):
    nodes = np.arange(weighted.shape[0])
    groups = dealt(nodes, 3)
    hidden = hidden_matrix(weighted, nodes, KEYS[0], 1.0, groups)
    between = groups[:, None] != groups[None]
    assert ((hidden.toarray() != 0) == ((weighted.toarray() != 0) & between)).all()
    seen = propagate_visible(
        weighted.indptr, weighted.indices, weighted.data, nodes, nodes[weighted.indices], KEYS[0], 1.0, groups
    )
    off_diagonal = (seen.matrix.to_dense().numpy() != 0) & ~np.eye(len(nodes), dtype=bool)
    assert (off_diagonal == ((weighted.toarray() != 0) & ~between)).all()


def test_dropped_entries_keep_their_mean():
    values = np.random.default_rng(0).uniform(1, 2, 500).astype(np.float32)
    keys = [np.array([stream_key(0, Purpose.FEATURE_DROPOUT, epoch)], np.uint64) for epoch in range(2000)]
    draws = np.stack([drop_entries(values, np.array([0, 500]), key, 0.3) for key in keys])
    kept = draws != 0
    assert abs(kept.mean() - 0.7) < 4 * np.sqrt(0.21 / draws.size)
    assert np.allclose(draws[kept], np.broadcast_to(values, draws.shape)[kept] / 0.7, rtol=1e-6)
    deviation = values * np.sqrt(0.3 / 0.7 / len(keys))
    assert (np.abs(draws.mean(0) - values) < 5 * deviation).all()


def test_entries_are_dropped_by_the_key_of_their_patch():
    values, offsets = np.ones(60, np.float32), np.array([0, 25, 25, 60])
    keys = np.array([stream_key(0, Purpose.FEATURE_DROPOUT, 3, patch) for patch in (4, 5, 9)], np.uint64)
    together = drop_entries(values, offsets, keys, 0.5)
    for patch in range(3):
        low, high = offsets[patch : patch + 2]
        alone = drop_entries(values[low:high], np.array([0, high - low]), keys[patch : patch + 1], 0.5)
        assert (alone == together[low:high]).all()
    assert (together[:25] != together[25:50]).any()
    assert (values == 1).all()  # the features themselves stay
