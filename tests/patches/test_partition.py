"""Partition: every node gets a cluster, clusters are what they promise, odd graphs do not break it."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.patches.partition import fill_empty_clusters, partition

METHODS = ["metis", "fennel", "random"]


def kept_fraction(adjacency, labels):
    """Edges inside a cluster."""
    rows = np.repeat(np.arange(len(labels)), np.diff(adjacency.indptr))
    return (labels[rows] == labels[adjacency.indices]).mean()


def shuffled(graph, seed=0):
    """The same graph under other node numbers, so that no method profits from the order of the blocks."""
    order = np.random.default_rng(seed).permutation(graph.num_nodes)
    matrix = sp.csr_array(graph.adjacency[order][:, order])
    matrix.sort_indices()
    return matrix


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_clusters", [1, 2, 7, 40])
def test_every_node_has_a_cluster_and_none_is_empty(planted, method, num_clusters):
    labels = partition(planted.adjacency, num_clusters, method=method)
    assert labels.shape == (planted.num_nodes,)
    assert labels.dtype == np.int32
    assert set(labels.tolist()) == set(range(num_clusters))


@pytest.mark.parametrize("method", METHODS)
def test_disconnected_graphs_and_isolated_nodes(islands, method):
    labels = partition(islands.adjacency, 5, method=method)
    assert set(labels.tolist()) == set(range(5))
    assert len(labels) == islands.num_nodes


@pytest.mark.parametrize("method", METHODS)
def test_more_clusters_than_metis_can_fill(method):
    star = sp.csr_array((np.ones(2 * 19, np.float32), (np.r_[np.zeros(19, int), 1:20], np.r_[1:20, np.zeros(19, int)])))
    star.indices, star.indptr = star.indices.astype(np.int32), star.indptr.astype(np.int32)
    for num_clusters in (10, 19, 20):
        labels = partition(star, num_clusters, method=method)
        assert set(labels.tolist()) == set(range(num_clusters))


def test_metis_and_fennel_keep_more_edges_than_chance(planted):
    adjacency = shuffled(planted)
    kept = {method: kept_fraction(adjacency, partition(adjacency, 4, method=method)) for method in METHODS}
    assert kept["random"] < 0.35
    assert kept["metis"] > 0.8
    assert kept["fennel"] > kept["random"] + 0.1


def test_metis_is_deterministic_and_random_follows_its_seed(planted):
    for method in METHODS:
        first, again = (partition(planted.adjacency, 6, method=method, seed=3) for _ in range(2))
        assert (first == again).all()
    other = partition(planted.adjacency, 6, method="random", seed=4)
    assert (other != partition(planted.adjacency, 6, method="random", seed=3)).any()


def test_random_clusters_are_balanced(planted):
    sizes = np.bincount(partition(planted.adjacency, 7, method="random"))
    assert sizes.max() - sizes.min() <= 1


def test_the_load_limit_of_fennel_binds():
    # A clique of 50 nodes draws every node to one cluster; the limit alone stops it.
    clique = np.ones((50, 50)) - np.eye(50)
    many = sp.csr_array(sp.block_diag([clique, np.zeros((50, 50))], format="csr"))
    for num_clusters in (2, 3, 7):
        labels = partition(many, num_clusters, method="fennel")
        limit = int(np.ceil(1.1 * 100 / num_clusters))
        assert np.bincount(labels, minlength=num_clusters).max() <= limit
    # Two cliques of 60 and 40 over two clusters of at most 55: the larger cannot stay whole.
    uneven = sp.csr_array(sp.block_diag([np.ones((60, 60)) - np.eye(60), np.ones((40, 40)) - np.eye(40)], format="csr"))
    sizes = np.bincount(partition(uneven, 2, method="fennel", fennel_passes=3), minlength=2)
    assert sorted(sizes.tolist()) == [45, 55]


def test_later_passes_of_fennel_do_not_cut_more(planted):
    adjacency = shuffled(planted)
    one, five = (kept_fraction(adjacency, partition(adjacency, 4, method="fennel", fennel_passes=n)) for n in (1, 5))
    assert five > one


def test_empty_clusters_get_half_of_the_largest():
    labels = fill_empty_clusters(np.array([0, 0, 0, 0, 2]), 4)
    assert np.bincount(labels, minlength=4).tolist() == [1, 2, 1, 1]


@pytest.mark.parametrize(
    ("num_clusters", "method", "message"),
    [
        (0, "metis", "0 patches were asked for; at least 1"),
        (121, "metis", "121 patches were asked for but the graph has only 120 nodes"),
        (3, "louvain", "unknown partition 'louvain'; choose from metis, fennel, streaming, random"),
    ],
)
def test_refusals(planted, num_clusters, method, message):
    with pytest.raises(InputError, match=message):
        partition(planted.adjacency, num_clusters, method=method)
