"""Pages of real graphs in a real browser: Cora ML as it is trained, npm_deps with its 304,031 nodes and their names."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import KDTree

from l2g2g.config import make_config
from l2g2g.graphs.read import read_graph
from l2g2g.reports.map_data import Partners
from l2g2g.reports.projection import neighbours_kept, project
from l2g2g.reports.run_page import render_run
from l2g2g.runs.artefact import open_artefact
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.runs.finished import keep_run
from l2g2g.runs.record import GraphFacts, PatchFacts, RunRecord, read_record
from l2g2g.runs.run_directory import open_run
from l2g2g.training.state import History

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("L2G2G_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
LONGEST_LOAD = 10  # seconds


def need(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def lasso_right_half(map_page):
    _, top, right, bottom = map_page.box()
    left = (map_page.box()[0] + right) / 2
    return map_page.lasso([(left, top + 2), (right - 2, top + 2), (right - 2, bottom - 2), (left, bottom - 2)])


def test_cora_ml(map_page, tmp_path):
    graph = read_graph(need("cora_ml.npz"))
    with open_run(tmp_path) as directory:
        row, run = evaluate_graph(graph, make_config("l2g2g", epochs=30, threads=1), directory=directory)
        keep_run(directory, "l2g2g-seed-0", graph, run, row)
    record = read_record(open_artefact(tmp_path))
    page = tmp_path / "report.html"
    places = {name: project(record.vectors, name) for name in ("tsne", "pca")}
    kept = {name: neighbours_kept(record.vectors, each) for name, each in places.items()}
    assert kept["tsne"] > 1.5 * kept["pca"]
    page.write_text(render_run(record, places), encoding="utf-8")
    assert map_page.open(page) < LONGEST_LOAD
    assert map_page.troubles() == []
    assert len(map_page.texts("#map-legend .entry")) == 7  # classes
    assert f"Of the 15 nearest nodes {100 * kept['tsne']:.0f} %" in map_page.texts("#map-about")[0]
    nearest = KDTree(places["tsne"]).query(places["tsne"], 16)[1][:, 1:]
    assert (record.labels[nearest] == record.labels[:, None]).mean() > 0.6  # classes lie together
    assert map_page.find("2994")[0] == "2994"
    map_page.press("Enter")
    map_page.wait_for_lists()
    nearest, _ = Partners(record).neighbours(np.array([2994]))
    assert map_page.texts("#map-neighbours .node") == [str(node) for node in nearest[0]]
    rows = lasso_right_half(map_page)
    assert 100 < len(rows) < 2900
    assert map_page.save("#map-save-ids", tmp_path) == [str(row) for row in rows]
    assert map_page.troubles() == []


@pytest.mark.skipif(not os.environ.get("L2G2G_LARGE"), reason="takes half a minute; L2G2G_LARGE=1 runs it")
def test_npm_deps(map_page, tmp_path):
    """The graph's own names, degrees and edges; vectors of its first structure, which cost no training."""
    graph = read_graph(need("npm_deps.npz"))
    upper = sp.csr_array(sp.triu(graph.adjacency, 1))
    generator = np.random.default_rng(0)
    smooth = generator.normal(size=(graph.num_nodes, 16)).astype(np.float32)
    for _ in range(3):
        smooth = smooth + graph.adjacency @ smooth / np.maximum(graph.degrees, 1)[:, None]
    names = graph.node_ids.copy()
    names[17] = "<script>window.hacked = 1</script>"
    record = RunRecord(
        name="embed",
        row={},
        settings=make_config("gae").to_dict(),
        graph=GraphFacts(graph.name, graph.num_nodes, graph.num_edges, graph.num_features, cleaning=graph.cleaning),
        history=History(),
        patches=PatchFacts([graph.num_nodes]),
        separation=None,
        vectors=smooth.astype(np.float32),
        degrees=graph.degrees.astype(np.int32),
        node_ids=names,
        edges=sp.csr_array((np.ones(upper.nnz, bool), upper.indices, upper.indptr), shape=upper.shape),
    )
    page = tmp_path / "report.html"
    places = {name: project(record.vectors, name) for name in ("tsne", "pca")}
    page.write_text(render_run(record, places), encoding="utf-8")
    assert page.stat().st_size < 40e6
    assert map_page.open(page) < LONGEST_LOAD
    assert map_page.troubles() == []
    assert map_page.find("express")[0] == "express"
    map_page.press("Enter")
    map_page.wait_for_lists()
    row = np.flatnonzero(names == "express")
    partners = Partners(record)
    for kind, (nodes, _) in (("neighbours", partners.neighbours(row)), ("links", partners.links(row))):
        found = map_page.texts(f"#map-{kind} .node")
        assert len({names[node] for node in nodes[0]} & set(found)) >= 8  # sixteen bits tell nearly equal ones apart
    assert map_page.find("<script>") == ["<script>window.hacked = 1</script>"]
    map_page.press("Enter")
    map_page.wait_for_lists()
    rows = lasso_right_half(map_page)
    assert 1000 < len(rows) < 303_000
    assert len(map_page.texts("#map-table tbody tr")) == 200
    assert map_page.save("#map-save-ids", tmp_path) == [names[row] for row in rows]
    assert map_page.run("window.hacked") is None
    assert map_page.troubles() == []
