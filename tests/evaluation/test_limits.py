"""Limits: what the generating model allows, on the very pairs that are scored."""

import numpy as np
import pytest

from l2g2g.evaluation.limits import best_link_scores
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.splits import Pairs, split_links


def test_two_blocks_by_hand():
    model = BlockModel.planted(num_blocks=2, block_size=2, inside=0.9, outside=0.1)  # nodes 0 1 | 2 3
    # One edge inside, one between; one non-edge inside, one between: 1 clear win, 1 clear loss, 2 ties.
    pairs = Pairs(positive=np.array([[0, 1], [0, 2]]), negative=np.array([[2, 3], [1, 3]]))
    assert best_link_scores(model, pairs).auc == pytest.approx(0.5)
    pairs = Pairs(positive=np.array([[0, 1], [0, 2]]), negative=np.array([[1, 2], [1, 3]]))
    assert best_link_scores(model, pairs).auc == pytest.approx(0.75)


def test_sampled_graph_meets_the_expected_limit():
    """AUC = ½ + ½ (share of edges inside − share of non-edges inside)."""
    model = BlockModel.planted(num_blocks=10, block_size=40, inside=0.2, outside=0.01)
    inside_pairs, all_pairs = 10 * 40 * 39 / 2, 400 * 399 / 2
    inside_edges = 0.2 * inside_pairs
    edges = inside_edges + 0.01 * (all_pairs - inside_pairs)
    expected = 0.5 + 0.5 * (inside_edges / edges - (0.8 * inside_pairs) / (all_pairs - edges))
    found = [best_link_scores(model, split_links(model.sample(seed), seed=seed).test).auc for seed in range(10)]
    assert np.mean(found) == pytest.approx(expected, abs=0.01)


def test_no_other_score_does_better_on_average():
    model = BlockModel.planted(num_blocks=4, block_size=30, inside=0.4, outside=0.02)
    split = split_links(model.sample(0), seed=0)
    other = BlockModel.planted(num_blocks=6, block_size=20, inside=0.4, outside=0.02)  # the wrong blocks
    assert best_link_scores(model, split.test).auc > best_link_scores(other, split.test).auc + 0.1
