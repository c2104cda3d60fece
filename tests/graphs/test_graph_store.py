"""Fingerprints: the same for the same graph, and another one for whatever training could see."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.graph_store import fingerprint

EDGES = ([0, 1, 2], [1, 2, 3])


def graph(**options):
    return Graph.from_arcs(*EDGES, num_nodes=5, features=np.eye(5), **options)


def test_the_same_graph_however_it_is_held_and_called():
    first = graph()
    wide = first.adjacency.copy()
    wide.indptr, wide.indices = wide.indptr.astype(np.int64), wide.indices.astype(np.int64)
    assert fingerprint(replace(first, adjacency=wide, name="other")) == fingerprint(first)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda g: Graph.from_arcs([0, 1, 2], [1, 2, 4], num_nodes=5, features=np.eye(5)), {"edges"}),
        (lambda g: replace(g, adjacency=g.adjacency * 2), {"edges"}),
        (lambda g: replace(g, features=g.features[::-1].copy()), {"features"}),
        (lambda g: replace(g, features=None), {"features", "num_features"}),
        (lambda g: replace(g, features=sp.csr_array(g.features)), {"features"}),
        (lambda g: replace(g, node_ids=np.array(list("abcde"), dtype=object)), {"node_ids"}),
        (lambda g: replace(g, node_ids=np.arange(5) * 7), {"node_ids"}),
        (lambda g: replace(g, arcs=sp.csr_array(sp.triu(g.adjacency))), {"edges", "directed"}),
    ],
)
def test_a_change_is_named(change, named):
    first = fingerprint(graph())
    second = fingerprint(change(graph()))
    assert {name for name in first if first[name] != second[name]} == named


def test_names_are_told_apart():
    ids = [np.array(names, dtype=object) for names in (["ab", "c"], ["a", "bc"])]
    pair = Graph.from_arcs([0], [1])
    assert len({fingerprint(replace(pair, node_ids=each))["node_ids"] for each in ids}) == 2
