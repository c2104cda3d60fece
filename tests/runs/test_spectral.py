"""Structural columns of a run are computed once per width, and those that had not converged are counted."""

import logging
from functools import partial

from l2g2g.config import make_config
from l2g2g.graphs.graph import Graph
from l2g2g.models import structure
from l2g2g.parallel.communicator import LOCAL
from l2g2g.runs.spectral import StructuralColumns


def path_graph(num_nodes):
    nodes = list(range(num_nodes))
    return Graph.from_arcs(nodes[:-1], nodes[1:], num_nodes=num_nodes, name="path")


def test_eigenvectors_that_have_not_converged_are_counted(caplog, monkeypatch):
    monkeypatch.setattr(structure, "leading_eigenvectors", partial(structure.leading_eigenvectors, max_passes=5))
    columns = StructuralColumns(path_graph(3000), make_config("gae", "default", dim=64), LOCAL)
    with caplog.at_level(logging.INFO):
        found = columns.for_spectral()
    assert found.num_dropped > 0
    assert f"path: {found.num_dropped} eigenvectors are left out" in caplog.text


def test_a_width_is_found_once(caplog):
    columns = StructuralColumns(path_graph(40), make_config("gae", "default", dim=4), LOCAL)
    with caplog.at_level(logging.INFO):
        assert columns.for_spectral() is columns.for_spectral()
    assert "left out" not in caplog.text
