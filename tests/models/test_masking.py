"""Masking: an edge is hidden or seen, never both, alike in every direction, patch and backend."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.masking import EdgeMask, draw_groups, hidden_pairs
from l2g2g.models.sparse import normalise_adjacency
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition


@pytest.fixture(scope="module")
def weighted(planted):
    """The planted graph with a weight on every edge, the same in both directions."""
    weights = np.random.default_rng(0).uniform(0.2, 3.0, planted.adjacency.shape)
    matrix = sp.csr_array(planted.adjacency.multiply(np.triu(weights, 1) + np.triu(weights, 1).T)).astype(np.float32)
    matrix.sort_indices()
    return matrix


@pytest.fixture(scope="module")
def patch_set(planted):
    return make_patches(planted, partition(planted.adjacency, 4), min_overlap=8, target_overlap=16)


def stacked(patch_set, adjacency):
    """(block-diagonal adjacency, node numbers of its rows)."""
    return patch_set.induce(adjacency), patch_set.global_nodes.astype(np.int64)


def split(block, nodes, hidden, scored=None, weighted=True, seed=0, epoch=0, groups=None):
    mask = EdgeMask(block, nodes, weighted=weighted)
    scored = hidden if scored is None else scored
    return mask.split(hidden, scored, seed=seed, epoch=epoch, groups=groups)


def arc_matrix(arcs):
    """Dense weights of the arcs, in both directions."""
    dense = np.zeros((len(arcs.starts), len(arcs.starts)))
    for row, (low, high) in enumerate(zip(arcs.starts, arcs.ends, strict=True)):
        dense[row, arcs.indices[low:high]] = arcs.weights[low:high] if arcs.kind == "pair" else arcs.weights[0]
    return dense


def hidden_matrix(block, nodes, fraction, seed=0, epoch=0, groups=None):
    """Which entries are hidden, by the form for lists of pairs."""
    rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
    given = rows, block.indices, nodes.astype(np.int32)
    chosen = hidden_pairs(*given, fraction, seed=seed, epoch=epoch, groups=groups)
    return sp.csr_array((chosen[chosen], (rows[chosen], block.indices[chosen])), shape=block.shape)


def edges_by_node(matrix, nodes):
    """The edges of a stacked matrix as pairs of node numbers, each direction for itself."""
    matrix = sp.coo_array(matrix)
    return set(zip(nodes[matrix.row].tolist(), nodes[matrix.col].tolist(), strict=True))


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.7, 1.0])
def test_every_edge_is_either_seen_or_scored_in_both_directions(backend, weighted, patch_set, fraction):
    for patches in (patch_set, whole_graph(weighted.shape[0])):
        block, nodes = stacked(patches, weighted)
        visible, arcs = split(block, nodes, fraction)
        seen = (visible.to_scipy().toarray() != 0) & ~np.eye(len(nodes), dtype=bool)
        scored = arc_matrix(arcs)
        assert not ((scored != 0) & seen).any()
        assert (((scored != 0) | seen) == (block.toarray() != 0)).all()
        assert (scored == scored.T).all()
        assert (seen == seen.T).all()
        assert (scored[scored != 0] == block.toarray()[scored != 0]).all()  # with their weights
        assert ((scored != 0) == hidden_matrix(block, nodes, fraction).toarray()).all()


@pytest.mark.parametrize("has_weights", [True, False])
def test_of_the_hidden_edges_a_part_is_scored(backend, weighted, has_weights):
    nodes = np.arange(weighted.shape[0])
    visible, arcs = split(weighted, nodes, 0.7, 0.2, weighted=has_weights)
    seen = (visible.to_scipy().toarray() != 0) & ~np.eye(len(nodes), dtype=bool)
    scored = arc_matrix(arcs) != 0
    assert (scored == hidden_matrix(weighted, nodes, 0.2).toarray()).all()
    assert (seen == ((weighted.toarray() != 0) & ~hidden_matrix(weighted, nodes, 0.7).toarray())).all()
    assert arcs.kind == ("pair" if has_weights else "all")


def test_the_mask_of_an_epoch_is_not_that_of_the_one_before(backend, weighted):
    """Its memory is used again; what is asked a second time must not be what another epoch wrote."""
    nodes = np.arange(weighted.shape[0])
    mask = EdgeMask(weighted, nodes, weighted=True)
    asked = [(0.5, 0.5, 0), (0.5, 0.5, 1), (0.5, 0.2, 1), (0.7, 0.2, 1), (0.5, 0.5, 0), (0.5, 0.5, 0)]
    for hidden, scored, epoch in asked:
        visible, arcs = mask.split(hidden, scored, seed=3, epoch=epoch)
        wanted = hidden_matrix(weighted, nodes, scored, seed=3, epoch=epoch).toarray()
        assert ((arc_matrix(arcs) != 0) == wanted).all()
        left = (weighted.toarray() != 0) & ~hidden_matrix(weighted, nodes, hidden, seed=3, epoch=epoch).toarray()
        assert ((visible.to_scipy().toarray() != 0) == (left | np.eye(len(nodes), dtype=bool))).all()
    groups = [draw_groups(nodes, 3, seed=0, epoch=epoch) for epoch in (0, 1)]
    for own in (None, *groups, groups[0]):
        _, arcs = mask.split(1.0, 1.0, seed=3, epoch=0, groups=own)
        assert ((arc_matrix(arcs) != 0) == hidden_matrix(weighted, nodes, 1.0, seed=3, groups=own).toarray()).all()


def test_every_patch_that_holds_an_edge_agrees_with_the_whole_graph(backend, weighted, patch_set):
    everything = np.arange(weighted.shape[0])
    hidden = edges_by_node(hidden_matrix(weighted, everything, 0.5, epoch=1), everything)
    shared = 0
    for patch in range(patch_set.num_patches):
        block, nodes = stacked(patch_set.select(np.array([patch])), weighted)
        own = edges_by_node(arc_matrix(split(block, nodes, 0.5, epoch=1)[1]), nodes)
        assert own == hidden & edges_by_node(block, nodes)
        shared += len(own)
    block, nodes = stacked(patch_set, weighted)
    together = arc_matrix(split(block, nodes, 0.5, epoch=1)[1])
    # Some edges do lie in two patches.
    assert (together != 0).sum() == shared > len(edges_by_node(together, nodes))


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_about_the_wanted_share_is_hidden(weighted, fraction):
    nodes, num_edges = np.arange(weighted.shape[0]), weighted.nnz // 2
    counts = [hidden_matrix(weighted, nodes, fraction, epoch=epoch).nnz / 2 for epoch in range(200)]
    deviation = np.sqrt(num_edges * fraction * (1 - fraction))
    assert abs(np.mean(counts) - fraction * num_edges) < 4 * deviation / np.sqrt(200)
    assert 0.8 * deviation < np.std(counts) < 1.2 * deviation  # every edge by its own coin


def test_every_edge_is_hidden_as_often_as_any_other(weighted):
    nodes = np.arange(weighted.shape[0])
    times = sum(hidden_matrix(weighted, nodes, 0.5, epoch=epoch).toarray().astype(int) for epoch in range(400))
    upper = sp.coo_array(sp.triu(weighted))
    assert abs(times[upper.row, upper.col] - 200).max() < 5 * np.sqrt(100)


def test_epochs_and_seeds_hide_independently_of_each_other(weighted):
    """Of two masks of one half a quarter of the edges is hidden in both, for edges of one node too."""
    nodes, upper = np.arange(weighted.shape[0]), sp.coo_array(sp.triu(weighted))
    how = [(seed, epoch) for seed in range(3) for epoch in range(60)]
    masks = np.stack([hidden_matrix(weighted, nodes, 0.5, s, e).toarray()[upper.row, upper.col] for s, e in how])
    both = (masks[:-1] & masks[1:]).mean()
    assert abs(both - 0.25) < 4 * np.sqrt(0.25 * 0.75 / masks[1:].size)
    correlations = np.corrcoef(masks.T)  # of edges over epochs: those that share a node are no exception
    share_a_node = (upper.row[:, None] == upper.row) & ~np.eye(len(upper.row), dtype=bool)
    for chosen in (share_a_node, ~np.eye(len(upper.row), dtype=bool)):
        assert abs(correlations[chosen].mean()) < 0.01
    assert abs(correlations[~np.eye(len(upper.row), dtype=bool)]).max() < 6.5 / np.sqrt(len(how))


def test_a_smaller_fraction_hides_a_subset(weighted):
    nodes = np.arange(weighted.shape[0])
    nested = [edges_by_node(hidden_matrix(weighted, nodes, f), nodes) for f in (0.0, 0.07, 0.35, 0.7, 1.0)]
    for smaller, larger in itertools.pairwise(nested):
        assert smaller < larger
    assert not nested[0]
    assert len(nested[-1]) == weighted.nnz


@pytest.mark.parametrize("fraction", [0.0, 0.4, 0.7])
@pytest.mark.parametrize("has_weights", [True, False])
def test_propagation_of_the_seen_edges_by_dense_matrices(backend, weighted, patch_set, fraction, has_weights):
    """D^(-1/2) (A + I) D^(-1/2) of what is left, D its own row sums."""
    block, nodes = stacked(patch_set, weighted)
    if not has_weights:
        block.data[:] = 1
    left = block.toarray().astype(np.float64)
    left[hidden_matrix(block, nodes, fraction).toarray()] = 0
    left += np.eye(len(left))
    scale = 1 / np.sqrt(left.sum(1))
    visible, _ = split(block, nodes, fraction, weighted=has_weights)
    assert visible.symmetric
    assert np.abs(visible.to_scipy().toarray() - scale[:, None] * left * scale).max() < 1e-6
    if fraction == 0:
        assert np.abs(visible.to_scipy().toarray() - normalise_adjacency(block).toarray()).max() < 1e-6


@pytest.mark.parametrize("has_weights", [True, False])
def test_means_are_over_the_seen_neighbours(backend, weighted, patch_set, has_weights):
    block, nodes = stacked(patch_set, weighted)
    if not has_weights:
        block.data[:] = 1
    left = block.toarray().astype(np.float64)
    left[hidden_matrix(block, nodes, 0.7).toarray()] = 0
    degrees = left.sum(axis=1, keepdims=True)
    assert (degrees == 0).any()
    expected = np.divide(left, degrees, out=np.zeros_like(left), where=degrees > 0)
    mean = split(block, nodes, 0.7, weighted=has_weights)[0].mean
    assert np.abs(mean.to_scipy().toarray() - expected).max() < 1e-6


def test_a_path_with_all_edges_hidden_propagates_nothing(backend, path_of_four):
    assert (split(path_of_four, np.arange(4), 1.0)[0].to_scipy().toarray() == np.eye(4)).all()
    half, third, mixed = 1 / 2, 1 / 3, 1 / np.sqrt(6)
    expected = [[half, mixed, 0, 0], [mixed, third, third, 0], [0, third, third, mixed], [0, 0, mixed, half]]
    found = split(path_of_four, np.arange(4), 0.0)[0].to_scipy().toarray()
    assert found == pytest.approx(np.array(expected))


def test_scored_edges_are_listed_once(backend, weighted):
    nodes = np.arange(weighted.shape[0])
    listed = split(weighted, nodes, 0.5)[1].pair_list
    upper = np.triu(hidden_matrix(weighted, nodes, 0.5).toarray(), 1)
    found = np.zeros(upper.shape)
    found[listed.rows, listed.columns] = listed.pair_weights
    assert listed.num_pairs == upper.sum()
    assert found == pytest.approx(2 * weighted.toarray() * upper)  # an arc has half of a pair's weight


# --- groups: patches as masks ------------------------------------------------------------------------


def test_groups_are_drawn_by_unit_alone_and_evenly(backend):
    units = np.arange(6000) // 3
    groups = draw_groups(units, 4, seed=0, epoch=0)
    assert groups.dtype == np.int32
    assert (groups.reshape(-1, 3) == groups[::3, None]).all()  # rows of a unit stay together
    assert (draw_groups(units[::-1], 4, seed=0, epoch=0) == groups[::-1]).all()  # wherever they stand
    assert abs(np.bincount(groups[::3], minlength=4) - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)
    anew = draw_groups(units, 4, seed=0, epoch=1) != groups
    assert anew.mean() == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("num_groups", [2, 5])
@pytest.mark.parametrize("has_weights", [True, False])
def test_only_edges_between_groups_are_hidden(backend, weighted, num_groups, fraction, has_weights):
    nodes = np.arange(weighted.shape[0])
    groups = draw_groups(nodes, num_groups, seed=0, epoch=0)
    between = groups[:, None] != groups[None]
    hidden = hidden_matrix(weighted, nodes, fraction, groups=groups).toarray()
    assert (hidden == (hidden_matrix(weighted, nodes, fraction).toarray() & between)).all()
    if fraction == 1:
        assert (hidden == ((weighted.toarray() != 0) & between)).all()
    visible, arcs = split(weighted, nodes, fraction, weighted=has_weights, groups=groups)
    off_diagonal = (visible.to_scipy().toarray() != 0) & ~np.eye(len(nodes), dtype=bool)
    assert (off_diagonal == ((weighted.toarray() != 0) & ~hidden)).all()
    assert ((arc_matrix(arcs) != 0) == hidden).all()
