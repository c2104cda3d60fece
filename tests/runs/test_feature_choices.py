"""Feature choices: negatives by degree where few arcs meet many features, unless it is said otherwise."""

import pytest

from l2g2g.config import make_config
from l2g2g.runs.feature_choices import choose_sampling


@pytest.mark.parametrize(
    ("num_arcs", "options", "expected"),
    [
        (1000, {}, True),  # 100 columns · 128 hidden > 4 · 1000
        (4000, {}, False),
        (1000, {"hidden": 16}, False),
        (1000, {"negative_sampling": "uniform"}, False),
        (4000, {"negative_sampling": "degree"}, True),
        (1000, {"preset": "default"}, False),
    ],
)
def test_negatives_by_degree_for_few_arcs_and_many_features(num_arcs, options, expected):
    config = make_config(**{"method": "l2g2g", "preset": "accurate", **options})
    assert choose_sampling(100, num_arcs, config) == ("degree" if expected else "uniform")


def test_never_without_features():
    assert choose_sampling(0, 10, make_config("l2g2g", "accurate")) == "uniform"
