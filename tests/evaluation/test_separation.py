"""Scores of edges and non-edges as two histograms, and back from plain values."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from l2g2g.evaluation.links import evaluate_links
from l2g2g.evaluation.separation import ScoredPairs, read_separation
from l2g2g.graphs.splits import Pairs


@pytest.fixture
def pairs():
    return Pairs(np.array([[0, 1], [2, 3], [0, 2]]), np.array([[0, 3], [1, 3]]))


@pytest.fixture
def embedding():
    return np.array([[2.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 5.0]], np.float32)


def test_every_pair_is_in_a_bar_and_the_scores_are_those_of_the_evaluation(embedding, pairs):
    found = ScoredPairs.of("test", embedding, pairs).separation
    assert (sum(found.edges), sum(found.others), found.num_pairs) == (3, 2, 5)
    scores = evaluate_links(embedding, pairs)
    assert (found.auc.value, found.average_precision.value) == pytest.approx((scores.auc, scores.average_precision))
    # Scores of the edges are 2, 5 and 2, of the others 0 and 0.
    assert found.others[0] == 2
    assert found.edges[0] == 0
    assert found.edges[-1] == 1


def test_a_scorer_of_its_own_and_equal_scores(embedding, pairs):
    zeros = lambda vectors, sources, targets: np.zeros(len(sources))  # noqa: E731
    found = ScoredPairs.of("training", embedding, pairs, zeros).separation
    assert found.auc.value == 0.5
    assert (sum(found.edges), sum(found.others)) == (3, 2)


def test_to_json_and_back(embedding, pairs):
    scored = ScoredPairs.of("validation", embedding, pairs)
    found = scored.separation
    assert scored.scores.tolist() == [2, 5, 2, 0, 0]
    assert scored.ends[scored.is_edge].tolist() == pairs.positive.tolist()
    assert read_separation(json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize("change", [{"kind": "other"}, {"edges": [1]}, {"bounds": "x"}, {"auc": {}}, {"others": None}])
def test_other_values_are_refused(embedding, pairs, change):
    values = {**asdict(ScoredPairs.of("test", embedding, pairs).separation), **change}
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_separation(values)
