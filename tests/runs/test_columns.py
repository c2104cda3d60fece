"""Structural columns of a run: each width is found once, and what had not converged is told."""

import logging
from functools import partial

from l2g2g.config import make_config
from l2g2g.graphs.graph import Graph
from l2g2g.models import structure
from l2g2g.parallel.communicator import LOCAL
from l2g2g.runs.columns import Columns


def path_graph(num_nodes):
    nodes = list(range(num_nodes))
    return Graph.from_arcs(nodes[:-1], nodes[1:], num_nodes=num_nodes, name="path")


def test_eigenvectors_that_have_not_converged_are_counted(caplog, monkeypatch):
    monkeypatch.setattr(structure, "leading_eigenvectors", partial(structure.leading_eigenvectors, max_passes=5))
    columns = Columns(path_graph(3000), make_config("gae", "default", dim=64), LOCAL)
    with caplog.at_level(logging.INFO):
        found = columns.for_spectral()
    assert found.num_dropped > 0
    assert f"path: {found.num_dropped} wanted eigenvectors are left out" in caplog.text


def test_a_width_is_found_once(caplog):
    columns = Columns(path_graph(40), make_config("gae", "default", dim=4), LOCAL)
    with caplog.at_level(logging.INFO):
        assert columns.for_spectral() is columns.for_spectral()
    assert "left out" not in caplog.text
