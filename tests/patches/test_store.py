"""Patches on disk: what is loaded is what memory would hold."""

import numpy as np
import pytest

from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.store import write_graph
from l2g2g.patches.overlap import make_patches
from l2g2g.patches.partition import partition
from l2g2g.patches.store import open_patches, write_patches


@pytest.fixture
def graph():
    return BlockModel.planted(4, 50, 0.2, 0.01).sample(0)


def test_patches_come_back(graph, tmp_path):
    stored = write_graph(graph, tmp_path)
    patches = make_patches(graph.adjacency, partition(graph.adjacency, 4), min_overlap=5, target_overlap=10)
    write_patches(stored, patches)
    store = open_patches(tmp_path, graph=stored, verify=True)
    whole = patches.induce(graph.adjacency)
    for patch in range(4):
        adjacency, features = store.load_patch(patch)
        low, high = patches.offsets[patch : patch + 2]
        assert (adjacency != whole[low:high, low:high]).nnz == 0
        expected = graph.features[patches.nodes_of(patch)]
        assert abs(features - expected).max() == 0
    assert np.array_equal(store.patch_set.global_nodes, patches.global_nodes)
    assert store.num_covered_edges == patches.count_covered_edges(graph.adjacency)
