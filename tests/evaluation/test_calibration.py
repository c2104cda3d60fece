"""Calibration: bins by hand, and probabilities that add up to the links there are."""

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.evaluation.calibration import Calibration, _never_rising, fit_calibration


def test_pooling_by_hand():
    assert _never_rising(np.array([4.0, 1.0, 3.0, 0.5]), np.array([1.0, 3.0, 1.0, 1.0])).tolist() == [4, 1.5, 1.5, 0.5]


def world(seed=0, num_links=500, num_others=200_000):
    """Scores of held-out links and of others, missing links first, of which the highest and a sample are seen."""
    generator = np.random.default_rng(seed)
    links, missing = generator.normal(2.5, 1, (2, num_links))
    others = np.concatenate([missing, generator.normal(0, 1, num_others)])
    top = np.sort(others)[::-1][:5000]
    return links, others, top, generator.choice(others, 5000, replace=False)


def test_the_expected_precision_of_the_best_is_the_true_one():
    links, others, top, sample = world()
    calibration = fit_calibration(links, top, sample, len(others))
    new_links, scores, _, _ = world(1)
    best = np.argsort(-scores)[:300]
    observed = (best < len(new_links)).mean()
    assert 0.05 < observed < 0.9
    assert calibration.probabilities(scores[best]).mean() == pytest.approx(observed, rel=0.3)
    assert calibration.probabilities(scores).sum() == pytest.approx(len(new_links), rel=0.2)


def test_probabilities_grow_with_the_links_that_are_missing():
    links, others, top, sample = world()
    calibration = fit_calibration(links, top, sample, len(others))
    once, twice = (calibration.probabilities(np.array([2.0]), times)[0] for times in (1, 2))
    assert twice == pytest.approx(2 * once)
    assert calibration.probabilities(np.array([9.0]), 1e9)[0] == 1
    with pytest.raises(InputError):
        calibration.probabilities(np.array([2.0]), 0)


def test_probabilities_never_fall_and_are_level_beyond_the_knots():
    links, others, top, sample = world(num_links=30)
    calibration = fit_calibration(links, top, sample, len(others))
    found = calibration.probabilities(np.linspace(-9, 9, 200))
    assert (np.diff(found) >= 0).all()
    assert found[-1] == found[-20] <= 1
    assert Calibration.from_dict(calibration.to_dict()) == calibration


@pytest.mark.parametrize("found", [{}, {"scores": [1], "log_odds": []}, {"scores": [2, 1], "log_odds": [0, 1]}])
def test_what_is_no_calibration_is_refused(found):
    with pytest.raises((KeyError, ValueError)):
        Calibration.from_dict(found)


def test_nothing_to_fit_to():
    with pytest.raises(InputError):
        fit_calibration(np.empty(0), np.ones(3), np.ones(3), 6)
