"""Hard candidates on small graphs, and ranks among them by hand."""

import numpy as np
import pytest

from l2g2g.evaluation.ranking import _by_turns, hard_candidates, rank_hard
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_edges, split_links
from l2g2g.graphs.store import TrainingGraph, write_graph

# A path 0 – 1 – 2 – 3 – 4 – 5 and two nodes alone; 7 has the features of 0, all others none.
FEATURES = np.zeros((8, 2), np.float32)
FEATURES[[0, 7]] = [1, 2]
PATH = Graph.from_arcs(range(5), range(1, 6), num_nodes=8, features=FEATURES)


def lists(graph, nodes, count, seed=0):
    generator = np.random.default_rng(seed)
    return hard_candidates(np.array(nodes), graph.adjacency, graph, graph, count, generator)


def test_candidates_by_hand():
    # Of node 0: by resource allocation 2 alone; by PageRank 2, 3, 4, 5 (1 is joined); by features 7.
    assert lists(PATH, [0], 5)[0].tolist() == [2, 7, 3, 4, 5]
    # One more is filled up with the only node that is left.
    assert lists(PATH, [0], 6)[0].tolist() == [2, 7, 3, 4, 5, 6]


def test_by_turns():
    orders = [np.array([4, 5]), np.array([5, 6, 7]), np.array([], int)]
    assert _by_turns(orders, 10).tolist() == [4, 5, 6, 7]
    assert _by_turns(orders, 2).tolist() == [4, 5]


def random_graph(seed=0, num_nodes=60):
    generator = np.random.default_rng(seed)
    features = generator.random((num_nodes, 5)).astype(np.float32)
    return Graph.from_arcs(*generator.integers(0, num_nodes, (2, 150)), num_nodes=num_nodes, features=features)


def test_candidates_are_distinct_and_no_edges():
    graph = random_graph()
    nodes = np.arange(60)
    for node, found in zip(nodes, lists(graph, nodes, 30), strict=True):
        assert len(set(found.tolist())) == 30
        assert node not in found
        assert not graph.adjacency[[node]].toarray()[0, found].any()


def test_ranks_by_hand():
    edges, scores = np.array([[0, 2]]), {(0, 2): 5.0, (0, 7): 9.0, (0, 3): 5.0, (2, 4): 7.0, (2, 5): 1.0}

    def score(_, sources, targets):
        return np.array([scores.get(pair, 0.0) for pair in zip(sources.tolist(), targets.tolist(), strict=True)])

    whole = PATH.adjacency.toarray()
    whole[0, 2] = whole[2, 0] = 1
    known = type(PATH.adjacency)(whole)
    # Around 0: 7, 3, 4; around 2: 4, 5 and one more: two are above, one is equal.
    ranks = rank_hard(np.empty((8, 0)), edges, lambda _: known, PATH, PATH, score, num_candidates=3)
    assert ranks.mrr == pytest.approx(1 / 3.5)
    assert (ranks.num_ranked, ranks.hits_at_1, ranks.hits_at_10) == (1, 0.0, 1.0)
    assert rank_hard(np.empty((8, 0)), edges, lambda _: known, PATH, PATH, score, num_candidates=7) is None


def test_the_same_from_a_store_and_for_a_seed(tmp_path):
    graph = random_graph(1)
    split = split_edges(graph, seed=0)
    stored = write_graph(graph, tmp_path / "store")
    view = TrainingGraph(stored, split.rule, split.num_edges)
    vectors = np.random.default_rng(2).random((60, 3))
    memory = split_links(graph, seed=0)
    how = {"num_candidates": 20, "seed": 4}
    expected = rank_hard(vectors, split.test.positive, graph.pattern_of, memory.train, graph, **how)
    assert rank_hard(vectors, split.test.positive, stored.pattern_of, view, stored, **how) == expected
    assert rank_hard(vectors, split.test.positive, graph.pattern_of, memory.train, None, **how) != expected
