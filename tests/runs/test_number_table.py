"""A table of numbers as features: columns of every scale count, in training, on new nodes, and after loading."""

from dataclasses import replace

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.runs.preparation import choose_feature_dropout, count_features, scales_numbers

QUICK = {"patches": 3, "threads": 1, "structure": "none"}


@pytest.fixture
def numbers(noisy):
    """Twelve measurements of every node that its features decide."""
    features = noisy.features
    dense = features.toarray() if hasattr(features, "toarray") else np.asarray(features)
    mixed = dense @ np.random.default_rng(0).normal(size=(dense.shape[1], 12))
    return replace(noisy, features=mixed.astype(np.float32))


def test_scales_of_columns_do_not_matter(numbers):
    scales = 10.0 ** np.arange(-4, 8)
    other = replace(numbers, features=(numbers.features * scales + 3 * scales).astype(np.float32))
    plain, scaled = (evaluate_graph(each, make_config("l2g2g", epochs=40, **QUICK))[0] for each in (numbers, other))
    assert scaled["auc"] == pytest.approx(plain["auc"], abs=0.02)
    raw = make_config("l2g2g", epochs=40, feature_scaling="unit", **QUICK)
    assert evaluate_graph(other, raw)[0]["auc"] < scaled["auc"] - 0.02


def test_what_counts_as_a_table(numbers, noisy):
    config = make_config("l2g2g")
    counts = count_features(numbers)
    assert scales_numbers(counts, config)
    assert choose_feature_dropout(counts, 12, config) == 0
    assert not scales_numbers(counts, replace(config, feature_scaling="raw"))
    assert not scales_numbers(count_features(replace(numbers, features=np.eye(numbers.num_nodes))), config)
    assert not scales_numbers(replace(counts, num_numbers=0), config)
    assert not scales_numbers(None, config)


def test_new_nodes_are_read_like_those_of_training(numbers):
    run = embed_graph(numbers, make_config("l2g2g", epochs=5, **QUICK), keep=True)
    inputs = run.fitted.inputs
    known = inputs.read_nodes(numbers.features, slice(None))
    np.testing.assert_array_equal(inputs.read(numbers.features[:7], None, numbers.degrees[:7])[:, :12], known[:7, :12])
