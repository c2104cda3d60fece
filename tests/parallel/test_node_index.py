"""Places of nodes in lists, against searches in the whole list."""

import numpy as np
import pytest

from l2g2g.parallel.node_index import NodeIndex, distinct_nodes


@pytest.mark.parametrize("nodes", [[], [0], [7], [3, 4, 5, 6], [0, 2, 900], [5, 2**31 - 1], range(0, 1000, 3)])
def test_places_are_those_of_a_dictionary(backend, nodes):
    nodes = list(nodes)
    asked = np.array(sorted({0, 1, 2, 5, 6, 8, 899, 901, 2**31 - 2, 2**31 - 1, *nodes}), np.int64)
    known = {node: place for place, node in enumerate(nodes)}
    found = NodeIndex(np.array(nodes, np.int64)).places(asked)
    assert found.dtype == np.int32
    assert found.tolist() == [known.get(node, -1) for node in asked.tolist()]


def test_an_index_takes_memory_for_its_own_nodes_only():
    index = NodeIndex(np.array([5, 1_000_000, 2_000_000_000]))
    assert len(index) == 3
    assert len(index._starts[1]) < 10


def test_distinct_nodes_of_many_lists():
    generator = np.random.default_rng(0)
    parts = [generator.integers(0, 300, size) for size in (0, 50, 1, 200, 30, 3, 3, 90)]
    kept = [part.copy() for part in parts]
    found = distinct_nodes(iter(parts))
    assert found.dtype == np.int32
    assert found.tolist() == np.unique(np.concatenate(parts)).tolist()
    assert all((part == before).all() for part, before in zip(parts, kept, strict=True))
    assert len(distinct_nodes([])) == 0
