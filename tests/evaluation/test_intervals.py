"""Intervals against scikit-learn's values, against a calculation by hand, and by how often they are right."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from l2g2g.evaluation.intervals import auc_interval, precision_interval


def draw(seed, num_edges=80, num_others=120, shift=1.0, decimals=9):
    generator = np.random.default_rng(seed)
    edges, others = generator.normal(shift, 1, num_edges), generator.normal(0, 1, num_others)
    return edges.round(decimals), others.round(decimals)


@pytest.mark.parametrize("decimals", [9, 0])  # without and with many equal scores
def test_values_are_those_of_scikit_learn(decimals):
    edges, others = draw(1, decimals=decimals)
    scores, is_edge = np.concatenate([edges, others]), np.repeat([1, 0], [len(edges), len(others)])
    auc, precision = auc_interval(edges, others), precision_interval(edges, others)
    assert auc.value == pytest.approx(roc_auc_score(is_edge, scores), abs=1e-12)
    assert precision.value == pytest.approx(average_precision_score(is_edge, scores), abs=1e-12)
    for interval in (auc, precision):
        assert 0 < interval.low < interval.value < interval.high < 1


def test_delong_by_hand():
    # Edges 3 and 1 are above 2 of 2 and 1 of 2 non-edges; non-edges 2 and 0 are below 1 of 2 and 2 of 2 edges.
    found = auc_interval(np.array([3.0, 1.0]), np.array([2.0, 0.0]))
    deviation = np.sqrt(np.var([1, 0.5], ddof=1) / 2 + np.var([0.5, 1], ddof=1) / 2)
    ends = np.log(0.75 / 0.25) + 1.959963984540054 * deviation / (0.75 * 0.25) * np.array([-1, 1])
    assert [found.low, found.high] == pytest.approx((1 / (1 + np.exp(-ends))).tolist(), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("interval", [auc_interval, precision_interval])
def test_about_95_of_100_intervals_hold_the_truth(interval):
    truth = interval(*draw(0, 40_000, 60_000)).value
    found = [interval(*draw(seed)) for seed in range(1, 121)]
    held = np.mean([each.low <= truth <= each.high for each in found])
    assert 0.89 <= held <= 0.995


def test_perfect_order_is_no_certainty():
    few = auc_interval(np.array([2.0, 3.0, 4.0]), np.array([0.0, 1.0, 1.5]))
    many = auc_interval(np.arange(1000) + 2000.0, np.arange(1000.0))
    assert few.value == many.value == few.high == many.high == 1.0
    assert few.low < 0.5 < 0.99 < many.low < 1
    worst = auc_interval(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    assert (worst.value, worst.low) == (0.0, 0.0)
    assert worst.high > 0.5
    assert auc_interval(np.array([1.0]), np.array([0.0, 2.0])).low == 0.0  # one edge says nothing of a spread


def test_the_bootstrap_repeats():
    scores = draw(3)
    assert precision_interval(*scores, seed=4) == precision_interval(*scores, seed=4)
    assert precision_interval(*scores, seed=4) != precision_interval(*scores, seed=5)


def test_many_scores_are_drawn_in_levels(monkeypatch):
    scores = draw(6, 900, 900)
    whole = precision_interval(*scores)
    monkeypatch.setattr("l2g2g.evaluation.intervals._MOST_LEVELS", 200)
    coarse = precision_interval(*scores)
    assert coarse.value == whole.value
    assert (coarse.low, coarse.high) == pytest.approx((whole.low, whole.high), abs=0.012)
