"""Streaming FENNEL: the labels of FENNEL in memory, from rows that are read block by block."""

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import StoredGraph, write_graph
from l2g2g.patches.partition import partition, stream_partition


@pytest.fixture
def graph():
    return BlockModel.planted(8, 60, 0.2, 0.01).sample(0)


@pytest.fixture
def stored(graph, tmp_path, monkeypatch):
    blocks = StoredGraph.row_blocks
    monkeypatch.setattr(StoredGraph, "row_blocks", lambda self: blocks(self, 333))
    return write_graph(graph, tmp_path)


@pytest.mark.parametrize("num_clusters", [2, 5, 8, 100])
@pytest.mark.parametrize("num_passes", [1, 4])
def test_labels_are_those_of_fennel_in_memory(stored, graph, num_clusters, num_passes):
    expected = partition(graph.adjacency, num_clusters, method="fennel", fennel_passes=num_passes)
    found = stream_partition(stored, num_clusters, num_passes=num_passes, least_moved=0)
    assert found.dtype == np.int32
    assert len(np.unique(expected)) == num_clusters  # otherwise an empty cluster is filled
    assert np.array_equal(found, expected)


def test_passes_end_when_hardly_anything_moves(stored, monkeypatch):
    passes = []
    blocks = StoredGraph.row_blocks
    monkeypatch.setattr(StoredGraph, "row_blocks", lambda self: passes.append(1) or blocks(self))
    stream_partition(stored, 8, num_passes=200, least_moved=0.05)
    assert 2 <= len(passes) < 100


def test_passes_keep_more_edges_within_the_cap(stored, graph):
    sources, targets = graph.edges()

    def kept(labels):
        return np.mean(labels[sources] == labels[targets])

    once, often = (stream_partition(stored, 8, num_passes=number) for number in (1, 10))
    assert kept(often) > kept(once) + 0.1
    assert kept(often) > 0.8 * kept(partition(graph.adjacency, 8))
    assert np.bincount(often).max() <= -(-11 * graph.num_nodes // 80)


def test_no_cluster_is_empty(tmp_path):
    star = write_graph(Graph.from_arcs(np.zeros(9, int), np.arange(1, 10)), tmp_path)
    assert set(stream_partition(star, 10).tolist()) == set(range(10))
    assert stream_partition(star, 1).tolist() == [0] * 10
    with pytest.raises(InputError, match="only 10 nodes"):
        stream_partition(star, 11)
