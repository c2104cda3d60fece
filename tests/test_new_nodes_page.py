"""The table of docs/new_nodes.md is what its lines say, and the lines keep the promise."""

import importlib.util
import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
LINES = ROOT / "docs" / "results" / "new_nodes.jsonl"


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("new_nodes_benchmark", ROOT / "benchmarks" / "new_nodes.py")
    module = importlib.util.module_from_spec(specification)
    import sys

    sys.modules[specification.name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


def read_lines():
    return [json.loads(line) for line in LINES.read_text().splitlines()]


def test_the_table_is_that_of_the_lines(script):
    assert script.render_table(read_lines()) in (ROOT / "docs" / "new_nodes.md").read_text()


@pytest.mark.parametrize("dataset", ["cora-ml", "pubmed"])
@pytest.mark.parametrize("method", ["l2g2g", "gae"])
def test_new_nodes_are_within_three_points(dataset, method):
    lines = [
        line for line in read_lines() if line["features"] and (line["dataset"], line["method"]) == (dataset, method)
    ]
    assert len(lines) >= 3
    assert fmean(line["gap"] for line in lines) < 0.03
    assert all(line["known_unchanged"] for line in lines)


def test_hidden_nodes_are_hidden_and_their_test_links_are_in_no_graph(script, noisy):
    hidden = script.hide_nodes(noisy, 0)
    num_known = hidden.before.num_nodes
    assert (num_known, hidden.after.num_nodes) == (108, 120)
    assert (hidden.after.induce(np.arange(num_known)).adjacency != hidden.before.adjacency).nnz == 0
    for pairs in (hidden.test.positive, hidden.test.negative):
        assert (pairs[:, 1] >= num_known).all()
        assert (hidden.after.adjacency[pairs[:, 0], pairs[:, 1]] == 0).all()
    assert hidden.after.num_edges + len(hidden.test.positive) == noisy.num_edges
    assert len({*map(tuple, hidden.test.positive.tolist())} & {*map(tuple, hidden.test.negative.tolist())}) == 0


def test_one_line_has_what_the_table_shows(script, noisy):
    from dataclasses import replace
    from unittest.mock import patch

    from l2g2g.config import make_config

    short = replace(make_config("gae"), epochs=3)
    with patch.object(script, "make_config", lambda *_, **__: short):
        line = script.measure(noisy, "gae", "default", 0)
    assert line["known_unchanged"]
    table = script.render_table([line, line])
    assert f"| noisy | yes | gae | 2 | {100 * line['auc_new']:.1f} |" in table
