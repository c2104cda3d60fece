"""New nodes: rows of the propagation of a graph that has grown, and what cross-validation cuts out of a graph."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph, NewNodes
from l2g2g.graphs.new_nodes import match_nodes, new_nodes_from_matrix
from l2g2g.models.node_states import weigh_nodes
from l2g2g.models.sparse import normalise_adjacency


@pytest.fixture
def grown():
    """0 - 1 - 2 are known, with a heavy edge; 3 and 4 are new, joined to each other, 3 to 1 and 4 to nobody else."""
    return Graph.from_arcs([0, 1, 1, 3], [1, 2, 3, 4], np.array([2.0, 1.0, 3.0, 1.0]), features=np.eye(5))


def test_rows_of_the_propagation_are_those_of_the_grown_graph(grown):
    new = match_nodes(grown, None, 3).new_nodes
    assert new.to_known.toarray().tolist() == [[0, 3, 0], [0, 0, 0]]
    assert new.among.toarray().tolist() == [[0, 1], [1, 0]]
    assert new.degrees.tolist() == [2, 1]
    assert new.features.tolist() == np.eye(5)[3:].tolist()
    before = weigh_nodes(grown.induce(np.arange(3)).adjacency)
    assert before.tolist() == [3, 4, 2]
    found = new.propagation(before).toarray()
    assert found == pytest.approx(normalise_adjacency(grown.adjacency).toarray()[3:])


def test_a_part_of_the_new_nodes_beside_a_part_of_the_known(grown):
    new = match_nodes(grown, None, 3).new_nodes
    part = new.select(np.array([0]), np.array([1, 2]))
    assert part.to_known.toarray().tolist() == [[3, 0]]
    assert part.among.toarray().tolist() == [[0]]


def test_known_nodes_are_told_by_ids_wherever_they_stand(grown):
    named = replace(grown, node_ids=np.array(["c", "x", "a", "y", "b"], dtype=object))
    matched = match_nodes(named, np.array(["a", "b", "c", "gone"], dtype=object), 4)
    assert matched.known.tolist() == [2, -1, 0, -1, 1]
    assert matched.new_nodes.to_known.toarray().tolist() == [[1, 0, 2, 0], [0, 1, 0, 0]]
    assert matched.new_nodes.among.toarray().tolist() == [[0, 3], [3, 0]]
    assert match_nodes(named, np.array(["a"], dtype=object), 1, all_new=True).is_new.all()


def test_where_one_side_has_no_ids_numbers_count(grown):
    assert match_nodes(grown, np.array(["a", "b", "c"], dtype=object), 3).known.tolist() == [0, 1, 2, -1, -1]
    numbered = replace(grown, node_ids=np.array([2, 7, 0, 9, 1]))
    assert match_nodes(numbered, None, 3).known.tolist() == [2, -1, 0, -1, 1]
    with pytest.raises(InputError, match=r"5 nodes that no ids tell apart, but the model knows 6.*--new-graph"):
        match_nodes(grown, None, 6)


def test_cross_validation_cuts_graphs_and_new_nodes(grown):
    nodes = np.array([4, 3, 1])
    part = grown[np.ix_(nodes, nodes)]
    assert isinstance(part, Graph)
    assert part.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 3], [0, 3, 0]]
    assert part.features.tolist() == np.eye(5)[nodes].tolist()
    assert part.weighted
    new = grown[np.ix_([3, 4], [0, 1])]
    assert isinstance(new, NewNodes)
    assert new.shape == (2, 2)
    assert new.to_known.toarray().tolist() == [[0, 3], [0, 0]]
    with pytest.raises(InputError, match="same nodes or share none"):
        grown[np.ix_([0, 1], [1, 2])]
    with pytest.raises(TypeError, match=r"np\.ix_"):
        grown[0]


def test_a_directed_graph_is_cut_with_its_arcs():
    graph = Graph.from_arcs([0, 1, 2, 3], [1, 2, 3, 0], directed=True)
    part = graph.induce(np.array([3, 0, 1]))
    assert part.arcs.toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_a_matrix_holds_the_edges_of_new_nodes():
    new = new_nodes_from_matrix(sp.csr_array(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])), np.ones((2, 3)))
    assert (new.num_new, new.num_known, new.to_known.nnz, new.among.nnz) == (2, 3, 1, 0)
    with pytest.raises(InputError, match="weight -1"):
        new_nodes_from_matrix(sp.csr_array([[-1.0]]))
    with pytest.raises(InputError, match="1 feature rows but 2 nodes"):
        new_nodes_from_matrix(sp.csr_array((2, 3)), np.ones((1, 3)))
