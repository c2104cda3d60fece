"""Links: scores by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from l2g2g.errors import NumericalError
from l2g2g.evaluation.links import evaluate_links, link_scores, score_inner_products
from l2g2g.graphs.splits import Pairs


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
