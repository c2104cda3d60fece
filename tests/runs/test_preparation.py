"""Settings reach the parts that use them; what is left open depends on the sizes of the graph."""

from dataclasses import fields

import pytest

from l2g2g.config import OPTIONS, make_config
from l2g2g.runs.preparation import choose_sampling, make_loop_settings
from l2g2g.training.loop import LoopSettings

CHANGED = {
    **{"seed": 7, "schedule": "linear", "refresh_every": 3, "scale": True, "validate_every": 2, "patience": 9},
    **{"align_gradient": "through", "rotate": True, "translate": False, "pairs": "all", "lr": 0.25, "epochs": 11},
    **{"negatives": "fixed", "score_fraction": 0.5, "mask": 0.0, "mask_by": "edges", "sample_size": 40},
}


def test_options_of_the_loop_reach_it():
    found = make_loop_settings(make_config("l2g2g", **CHANGED), 100, 1000, 0.3)
    derived = {"learning_rate": 0.25, "fresh_negatives": False, "feature_dropout": 0.3, "scope": "inside"}
    derived |= {"alignment": "during", "mask_groups": 0}
    expected = {name: value for name, value in CHANGED.items() if name not in ("lr", "negatives", "mask_by")} | derived
    assert {item.name: getattr(found, item.name) for item in fields(LoopSettings)} == expected
    assert set(expected) - set(derived) <= set(OPTIONS)


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
