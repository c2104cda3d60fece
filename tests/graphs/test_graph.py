import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph


def test_cleaning_is_done_and_counted():
    # 0-1 twice and reversed, 1-2 once, a self-loop at 2, node 3 isolated.
    graph = Graph.from_arcs([0, 0, 1, 1, 2], [1, 1, 0, 2, 2], num_nodes=4)
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    cleaning = graph.cleaning
    assert (cleaning.num_arcs_read, cleaning.num_self_loops, cleaning.num_duplicates) == (5, 1, 1)
    assert (cleaning.num_reversed, cleaning.num_isolated) == (1, 1)
    assert "1 self-loops dropped" in cleaning.describe()
    assert graph.adjacency.indices.dtype == np.int32


def test_weights_are_summed_in_one_direction_and_the_heavier_direction_counts():
    graph = Graph.from_arcs([0, 0, 1, 1], [1, 1, 0, 2], np.array([1.0, 2.0, 5.0, 0.5]))
    assert graph.weighted
    assert graph.edges()[0].tolist() == [0, 1]
    assert graph.edge_weights().tolist() == [5.0, 0.5]


def test_edges_come_once_and_can_be_replaced():
    graph = Graph.from_arcs([2, 0], [1, 1], features=np.eye(3))
    sources, targets = graph.edges()
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == [(0, 1), (1, 2)]
    other = graph.with_edges(np.array([0]), np.array([2]))
    assert (other.num_edges, other.num_features, other.degrees.tolist()) == (1, 3, [1, 0, 1])
    assert graph.renamed("x").name == "x"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "no edges"),
        (([1], [1]), "self-loops"),
        (([0, -3], [1, 1]), "row 1: negative source -3"),
        (([0.5], [1.0]), "not integers"),
        (([0], [1, 2]), "equally long"),
        (([0, 1], [1, 10**18]), "node number 1000000000000000000 among only 2 edges"),
        (([0, 1], [1, 2], np.array([1.0, np.nan])), "row 1: weight nan"),
        (([0], [1], np.array([0.0])), "positive"),
        (([0], [1], np.array(["heavy"])), "not numbers"),
        (([0], [1], np.array([1.0, 2.0])), "one weight per edge"),
    ],
)
def test_bad_arcs_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Graph.from_arcs(*arguments)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.ones((2, 3)), "2 feature rows but 3 nodes"),
        (np.array([[1.0], [np.nan], [0.0]]), "feature row 1, column 0 is nan"),
        (sp.csr_array(np.array([[1.0, 0], [0, np.inf], [0, 0]])), "feature row 1, column 1 is inf"),
        (np.ones((3, 1), complex), "complex128"),
        (np.array([["a"], ["b"], ["c"]]), "real numbers"),
        (np.array([[None], [1], [2]], dtype=object), "object"),
        (np.ones((3, 0)), "at least one column"),
    ],
)
def test_bad_features_are_refused(features, message):
    with pytest.raises(InputError, match=message):
        Graph.from_arcs([0, 1], [1, 2], features=features)


def test_sparse_features_stay_sparse():
    graph = Graph.from_arcs([0], [1], features=sp.csr_array(np.eye(2, dtype=bool)))
    assert sp.issparse(graph.features)
    assert (graph.features.dtype, graph.features.indices.dtype) == (np.float32, np.int32)


def test_directions_are_kept_beside_the_joined_edges():
    graph = Graph.from_arcs([0, 1, 1, 2, 2], [1, 0, 2, 3, 2], np.array([2.0, 3.0, 4.0, 5.0, 9.0]), directed=True)
    assert graph.directed
    assert graph.arcs.toarray().tolist() == [[0, 2, 0, 0], [3, 0, 4, 0], [0, 0, 0, 5], [0, 0, 0, 0]]
    assert graph.num_edges == 3
    assert graph.adjacency.toarray()[0, 1] == 3
    assert (graph.cleaning.num_reversed, graph.cleaning.num_self_loops) == (0, 1)
    fewer = graph.with_edges(np.array([0]), np.array([1]), np.array([3.0]))
    assert fewer.arcs.toarray().sum() == 5
    assert not Graph.from_arcs([0], [1]).directed


def test_edges_that_all_go_both_ways_have_no_direction():
    with pytest.raises(InputError, match="both directions"):
        Graph.from_arcs([0, 1, 1, 2], [1, 0, 2, 1], directed=True)
