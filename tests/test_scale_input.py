"""The large block model of the scale benchmark, in small."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from l2g2g.graphs.read import read_graph

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def scale_input():
    spec = importlib.util.spec_from_file_location("scale_input", BENCHMARKS / "scale_input.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_block_model_in_a_stream(scale_input, tmp_path, monkeypatch):
    monkeypatch.setattr(scale_input, "EDGES_AT_ONCE", 700)
    monkeypatch.setattr(scale_input, "NUMBERS_AT_ONCE", 1000)
    sizes = {"num_nodes": 600, "num_edges": 5000, "num_features": 16, "num_blocks": 6}
    row = scale_input.write_input(tmp_path / "a", **sizes, inside=0.9, signal=1.0)
    scale_input.write_input(tmp_path / "b", **sizes, inside=0.9, signal=1.0)
    for name in ("edges.parquet", "features.npy"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    graph = read_graph(row["edges"], row["features"])
    assert (graph.num_nodes, graph.num_features, graph.cleaning.num_arcs_read) == (600, 16, 5000)
    assert row["bytes"] == sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    rows = graph.features / np.linalg.norm(graph.features, axis=1, keepdims=True)
    sources, targets = graph.edges()
    strangers = np.random.default_rng(0).integers(0, 600, (2, 4000))
    assert (rows[sources] * rows[targets]).sum(1).mean() > 0.2 + (rows[strangers[0]] * rows[strangers[1]]).sum(1).mean()
    assert np.abs(sources.astype(int) - targets).mean() > 120  # ids are shuffled: nodes of a block are not near


def test_parts_with_names(scale_input, tmp_path, monkeypatch):
    monkeypatch.setattr(scale_input, "EDGES_AT_ONCE", 700)
    monkeypatch.setattr(scale_input, "NUMBERS_AT_ONCE", 4000)
    sizes = {"num_nodes": 600, "num_edges": 5000, "num_features": 16, "num_blocks": 6, "num_parts": 4}
    row = scale_input.write_input(tmp_path / "a", **sizes, inside=0.9, signal=1.0)
    assert len(list((tmp_path / "a" / "edges").iterdir())) == 4
    graph = read_graph(row["edges"], row["features"])
    assert graph.node_ids.tolist() == [f"user-{number:011}" for number in range(600)]
    assert (graph.num_features, graph.cleaning.num_arcs_read) == (16, 5000)
    rows = graph.features / np.linalg.norm(graph.features, axis=1, keepdims=True)
    sources, targets = graph.edges()
    strangers = np.random.default_rng(0).integers(0, 600, (2, 4000))
    assert (rows[sources] * rows[targets]).sum(1).mean() > 0.2 + (rows[strangers[0]] * rows[strangers[1]]).sum(1).mean()
