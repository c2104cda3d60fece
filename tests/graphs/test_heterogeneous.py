"""Heterogeneous block models: each differs from the plain one in what its name says."""

import numpy as np
import pytest

from l2g2g.evaluation.links import best_link_scores
from l2g2g.graphs.datasets import load_dataset
from l2g2g.graphs.splits import split_links
from l2g2g.graphs.stand_ins import NUM_EDGES, NUM_NODES, VARIANTS


@pytest.fixture(scope="module")
def graphs():
    return {name: load_dataset(name) for name in VARIANTS}


@pytest.mark.slow
def test_all_have_the_same_size_and_a_known_limit(graphs):
    for name, graph in graphs.items():
        assert (graph.num_nodes, graph.num_edges, graph.num_features) == (NUM_NODES, NUM_EDGES, 100), name
        best = best_link_scores(graph.block_model, split_links(graph).test).auc
        assert 0.75 < best < 0.999, name


@pytest.mark.slow
def test_the_plain_one_is_sbm_small(graphs):
    best = [
        best_link_scores(graph.block_model, split_links(graph).test).auc
        for graph in (graphs["hetero-none"], load_dataset("sbm-small"))
    ]
    assert best[0] == pytest.approx(best[1], abs=0.02)


def test_each_is_what_its_name_says(graphs):
    sizes = {name: np.bincount(graph.labels, minlength=100) for name, graph in graphs.items()}
    assert sizes["hetero-none"].max() == sizes["hetero-none"].min() == 100
    assert sizes["hetero-sizes"].max() > 20 * sizes["hetero-sizes"].min()
    assert graphs["hetero-degrees"].degrees.max() > 5 * graphs["hetero-none"].degrees.max()
    shown = graphs["hetero-noisy"].features.indices
    assert (shown != graphs["hetero-noisy"].labels).mean() == pytest.approx(0.4, abs=0.02)
    assert (graphs["hetero-none"].features.indices == graphs["hetero-none"].labels).all()
    assert isinstance(graphs["hetero-weak"].features, np.ndarray)
    memberships = np.diff(graphs["hetero-overlap"].features.indptr)
    assert (memberships == 2).mean() == pytest.approx(1 / 3, abs=0.02)
    sources, targets = graphs["hetero-nested"].edges()
    blocks = graphs["hetero-nested"].labels
    same_group = (blocks[sources] // 10 == blocks[targets] // 10) & (blocks[sources] != blocks[targets])
    assert same_group.mean() > 0.2
