"""Baselines on one small graph: scores by hand, and what the validation pairs choose."""

import math

import numpy as np
import pytest

from l2g2g.cli.help import BASELINE_NAMES
from l2g2g.evaluation.links import BASELINES, fit_baseline
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import Pairs

# Two triangles 0-1-2 and 3-4-5 joined by 2 – 3.
GRAPH = Graph.from_arcs([0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3])
SOURCES, TARGETS = np.array([0, 0, 2]), np.array([3, 4, 4])
# 0 and 3 share 2 (degree 3); 0-2-3-4 is the one path from 0 to 4; 2 and 4 share 3, and 2-3-5-4 joins them.
EXPECTED = {
    "common-neighbours": [1, 0, 1],
    "adamic-adar": [1 / math.log(3), 0, 1 / math.log(3)],
    "resource-allocation": [1 / 3, 0, 1 / 3],
    "l3": [1 / math.sqrt(6), 1 / 3, 1 / math.sqrt(6)],
    "preferential-attachment": [6, 4, 6],
}


def test_names_are_those_that_the_shell_completes():
    assert BASELINES == BASELINE_NAMES
    assert set(BASELINES) == {"spectral", *EXPECTED}


@pytest.mark.parametrize("name", EXPECTED)
def test_scores_by_hand(name):
    baseline = fit_baseline(name, GRAPH, None, dim=2, seed=0)
    np.testing.assert_allclose(baseline.score(SOURCES, TARGETS), EXPECTED[name], rtol=1e-12)
    assert (baseline.vectors, baseline.chosen) == (None, None)


def test_spectral_takes_what_tells_validation_pairs_apart():
    generator = np.random.default_rng(0)
    halves = [generator.integers(low, low + 40, (2, 400)) for low in (0, 40)]
    graph = Graph.from_arcs(*np.concatenate(halves, axis=1), num_nodes=80)
    sources, targets = np.divmod(np.arange(6400), 80)
    scores = {}
    for edge, other in (((0, 1), (0, 60)), ((0, 60), (0, 1))):  # pairs inside a half, and the other way round
        pairs = Pairs(np.array([edge]), np.array([other]))
        baseline = fit_baseline("spectral", graph, pairs, dim=2, seed=1)
        scores[edge] = baseline
        assert baseline.chosen in ("inner", "cosine")
        assert baseline.vectors.shape == (80, 2)
    inside = (sources < 40) == (targets < 40)
    found = scores[0, 1].score(sources, targets)
    assert found[inside].mean() > found[~inside].mean()
    assert fit_baseline("spectral", graph, None, dim=2, seed=1).chosen == "inner"
