"""Logistic regression: the optimum by its gradient, and folds that hold every pair once."""

import numpy as np
import pytest

from l2g2g.evaluation.link_scorer import deal_folds, fit_logistic


@pytest.mark.parametrize("ridge", [0.5, 1.0, 20.0])
def test_at_the_optimum_the_gradient_is_zero(ridge):
    generator = np.random.default_rng(0)
    columns = generator.normal(size=(200, 3))
    is_edge = columns @ [1.0, -2.0, 0.0] + generator.normal(size=200) > 0.5
    weights, intercept = fit_logistic(columns, is_edge, ridge=ridge)
    chances = 1 / (1 + np.exp(-(columns @ weights + intercept)))
    np.testing.assert_allclose(columns.T @ (chances - is_edge) + ridge * weights, 0, atol=1e-5)
    assert (chances - is_edge).sum() == pytest.approx(0, abs=1e-5)


def test_one_column_by_hand():
    # Two pairs at -1 and 1: -2σ(-w) + w = 0 has the solution w = 0.6748...
    weights, intercept = fit_logistic(np.array([[-1.0], [1.0]]), np.array([False, True]))
    assert weights[0] == pytest.approx(2 / (1 + np.exp(weights[0])), abs=1e-7)
    assert intercept == pytest.approx(0, abs=1e-7)


def test_pairs_that_a_column_tells_apart_have_finite_weights():
    weights, _ = fit_logistic(np.array([[-1.0], [-1.0], [1.0], [1.0]]) * 1000, np.array([False, False, True, True]))
    assert np.isfinite(weights).all()


def test_every_pair_is_in_one_fold_with_edges_and_others_dealt_evenly():
    is_edge = np.arange(53) < 20
    folds = np.array(list(deal_folds(is_edge, 3)))
    assert folds.sum(axis=0).tolist() == [1] * 53
    assert (folds[:, is_edge].sum(axis=1) == 4).all()
    assert np.array_equal(folds, list(deal_folds(is_edge, 3)))
