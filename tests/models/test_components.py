"""Components that ranks find together, against those of the whole graph."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from l2g2g.graphs.graph import Graph
from l2g2g.models.components import find_components, large_components
from l2g2g.models.shared_rows import SharedRows
from l2g2g.training.rows import TrainingRows, rank_span, share_rows

from ..parallel.threads import run_ranks


def shuffled_path(num_nodes, generator):
    order = generator.permutation(num_nodes)
    return np.stack([order[:-1], order[1:]])


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("kind", ["paths", "sparse", "no edge between ranks"])
def test_ranks_find_the_components_of_one_process(num_ranks, kind):
    generator = np.random.default_rng(0)
    if kind == "paths":  # zigzag between the ranges of nodes of all ranks
        ends = np.concatenate([shuffled_path(60, generator), 60 + shuffled_path(30, generator)], axis=1)
    elif kind == "sparse":
        ends = generator.integers(0, 90, (2, 70))
    else:
        ends = np.stack([np.arange(0, 90, 2), np.arange(1, 90, 2)])
    graph = Graph.from_arcs(*ends, None, num_nodes=95)
    _, expected = connected_components(sp.csr_array(graph.adjacency), directed=False)
    sizes = np.bincount(expected)
    is_large = (sizes >= min(0.3 * 95, sizes.max()))[expected]

    def work(communicator):
        low, high = rank_span(graph, communicator)
        found = find_components(share_rows(TrainingRows(graph, block_arcs=13), communicator))
        return low, high, found, large_components(found, 0.3, SharedRows(communicator))

    parts = run_ranks(num_ranks, work)
    labels = np.concatenate([part[2] for part in parts])
    pairs = np.unique(np.stack([labels, expected]), axis=1)
    assert pairs.shape[1] == len(sizes) == len(np.unique(labels))
    for low, high, _, (large, num_large) in parts:
        assert large.tolist() == is_large[low:high].tolist()
        assert num_large == is_large.sum()
