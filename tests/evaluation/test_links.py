"""Links: scores by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from l2g2g.errors import NumericalError
from l2g2g.evaluation.links import best_link_scores, evaluate_links, link_scores, score_inner_products
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.splits import Pairs, split_links


def test_inner_products_by_hand():
    embedding = np.array([[1, 2], [3, 4], [0, -1]], np.float32)
    assert score_inner_products(embedding, np.array([0, 1, 2]), np.array([1, 2, 2])).tolist() == [11, -4, 1]


def test_many_pairs_are_scored_like_single_ones():
    generator = np.random.default_rng(0)
    embedding = generator.normal(size=(50, 3)).astype(np.float32)
    sources, targets = generator.integers(0, 50, (2, (1 << 18) + 100))
    scores = score_inner_products(embedding, sources, targets)
    ends = [0, (1 << 18) - 1, 1 << 18, (1 << 18) + 99]
    expected = [embedding[sources[end]] @ embedding[targets[end]] for end in ends]
    assert scores[ends] == pytest.approx(expected, rel=1e-5)


def test_scores_by_hand():
    # Of the four (edge, non-edge) pairs three are in order. Precision at the edges: 1/1 and 2/3.
    scores = link_scores(np.array([True, True, False, False]), np.array([3.0, 1.0, 2.0, 0.0]))
    assert scores.auc == 0.75
    assert scores.average_precision == pytest.approx(0.5 * (1 + 2 / 3))
    tied = link_scores(np.array([True, False]), np.array([1.0, 1.0]))
    assert (tied.auc, tied.average_precision) == (0.5, 0.5)


def test_an_embedding_and_its_pairs():
    embedding = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.float32)
    right = Pairs(positive=np.array([[0, 1], [2, 3]]), negative=np.array([[0, 2], [1, 3]]))
    assert (evaluate_links(embedding, right).auc, evaluate_links(embedding, right).average_precision) == (1, 1)
    wrong = Pairs(positive=right.negative, negative=right.positive)
    assert evaluate_links(embedding, wrong).auc == 0


def test_endpoints_are_positives_first():
    sources, targets, is_edge = Pairs(np.array([[0, 1]]), np.array([[2, 3], [4, 5]])).endpoints()
    assert (sources.tolist(), targets.tolist(), is_edge.tolist()) == ([0, 2, 4], [1, 3, 5], [True, False, False])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_a_numerical_error(bad):
    with pytest.raises(NumericalError, match="not finite"):
        link_scores(np.array([True, False]), np.array([bad, 1.0]))


@pytest.mark.parametrize("values", [3, 50, 10**9], ids=["many ties", "some ties", "no ties"])
def test_areas_are_those_of_scikit_learn(values):
    generator = np.random.default_rng(values)
    is_edge = generator.random(500) < 0.4
    scores = generator.integers(0, values, 500) + is_edge * values * 0.3
    found = link_scores(is_edge, scores)
    assert found.auc == pytest.approx(roc_auc_score(is_edge, scores), abs=1e-12)
    assert found.average_precision == pytest.approx(average_precision_score(is_edge, scores), abs=1e-12)


def test_one_kind_of_pair_cannot_be_told_apart():
    with pytest.raises(NumericalError, match="edges and non-edges"):
        link_scores(np.array([True, True]), np.array([1.0, 2.0]))


def test_the_best_scores_of_two_blocks_by_hand():
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


def test_no_other_score_does_better_than_the_best_on_average():
    model = BlockModel.planted(num_blocks=4, block_size=30, inside=0.4, outside=0.02)
    split = split_links(model.sample(0), seed=0)
    other = BlockModel.planted(num_blocks=6, block_size=20, inside=0.4, outside=0.02)  # the wrong blocks
    assert best_link_scores(model, split.test).auc > best_link_scores(other, split.test).auc + 0.1
