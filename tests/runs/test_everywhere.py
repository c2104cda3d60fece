"""A run ends with the same artefact from memory, from a store and on two ranks, and every command reads it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from l2g2g import cli
from l2g2g.estimators.estimator import load_model
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store import write_graph
from l2g2g.runs import sources
from l2g2g.runs.artefact import open_artefact

pytestmark = pytest.mark.slow

SMALL = ["--patches", 3, "--dim", 4, "--hidden", 8, "--epochs", 6, "--threads", 1]
METHODS = {
    "whole pass": [],
    "mean of patches": ["--preset", "paper", "--lr", 0.01],
    "separate encoders": ["--method", "gae+l2g"],
    "direct coordinates": ["--preset", "accurate", "--dim", 16, "--feature-width", 0, "--structure", "none"],
}
WAYS = ["memory", "store", "ranks"]
SAME = ["ids_bytes", "ids_offsets", "labels", "degrees", "edges_indptr", "edges_indices", "first_patch", "pairs"]
SAME += ["patch_nodes", "patch_offsets", "pair_is_edge"]


def call(*arguments):
    result = CliRunner().invoke(cli.app, [str(part) for part in arguments], obj=["embed"])
    assert result.exit_code == 0, (result.exception, result.output)
    return result.stdout


@pytest.fixture(scope="module")
def graph(noisy):
    names = np.array([f"n{node}" for node in range(noisy.num_nodes)], object)
    return Graph(noisy.adjacency, noisy.features, names, noisy.labels, "noisy", cleaning=noisy.cleaning)


@pytest.fixture(scope="module")
def runs(processes, graph, tmp_path_factory):
    """Run directories by method and way."""
    folder = tmp_path_factory.mktemp("everywhere")
    store = write_graph(graph, folder / "store").directory
    found = {}
    for method, options in METHODS.items():
        for way in WAYS:
            run_dir = folder / f"{way} {method}"
            command = ["embed", store, *SMALL, *options, "-o", folder / "out.npy", "--run-dir", run_dir, "--json"]
            with pytest.MonkeyPatch.context() as patch:
                if way == "store":
                    patch.setattr(sources, "fits_memory", lambda *_: False)
                    command += ["--memory", "100GB"]
                if way == "ranks":
                    processes.run_ranks(2, "-m", "l2g2g", *command)
                else:
                    call(*command)
            found[method, way] = run_dir
    return found


def write_grown(graph, folder):
    """Arguments that name the graph with one node more."""
    sources, targets = graph.edges()
    names = graph.node_ids
    rows = [f"{names[u]},{names[v]}" for u, v in zip(sources, targets, strict=True)]
    (folder / "grown.csv").write_text("\n".join(["source,target", *rows, "new,n0", "new,n1"]))
    columns = ["id," + ",".join(f"x{column}" for column in range(12))]
    table = np.concatenate([graph.features, graph.features[:1]])
    columns += [f"{name}," + ",".join(map(str, row)) for name, row in zip([*names, "new"], table, strict=True)]
    (folder / "features.csv").write_text("\n".join(columns))
    return [folder / "grown.csv", "--features", folder / "features.csv"]


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("method", METHODS)
def test_the_content_is_the_same(runs, method, way):
    one, other = (open_artefact(runs[method, each]) for each in ("memory", way))
    assert one.arrays.keys() == other.arrays.keys()
    assert set(SAME) <= one.arrays.keys()
    for name in one.arrays:
        close = {"rtol": 0, "atol": 0} if name in SAME else {"rtol": 2e-3, "atol": 2e-3}
        np.testing.assert_allclose(other.arrays[name], one.arrays[name], err_msg=name, **close)
    assert one.weights.keys() == other.weights.keys()
    for name in one.weights:
        np.testing.assert_allclose(other.weights[name], one.weights[name], rtol=2e-3, atol=2e-3, err_msg=name)
    assert one.values.keys() == other.values.keys()
    assert one.values["graph"] == other.values["graph"]
    for name in ("sizes", "pairs", "overlaps", "final_pass"):
        assert one.values["patches"][name] == other.values["patches"][name]
    residuals = [each.values["patches"]["pair_residuals"] for each in (one, other)]
    assert len(residuals[0]) == len(one.values["patches"]["pairs"]) > 0
    np.testing.assert_allclose(*residuals, rtol=2e-3, atol=2e-3)
    assert one.values["separation"]["kind"] == other.values["separation"]["kind"] == "validation"


# The content is the same everywhere (above), so that each method and each way is read once or twice.
@pytest.mark.parametrize(
    ("method", "way"),
    [
        ("whole pass", "memory"),
        ("whole pass", "ranks"),
        ("mean of patches", "ranks"),
        ("separate encoders", "store"),
        ("direct coordinates", "store"),
    ],
)
def test_every_command_reads_it(runs, graph, tmp_path, method, way):
    run_dir = runs[method, way]
    page = call("report", run_dir, "-o", tmp_path / "page.html", "--projection", "pca", "--json")
    assert json.loads(page)["num_nodes"] == 120
    assert call("neighbours", run_dir, "n3", "-k", 2).startswith("n3\n")
    assert len(call("predict", run_dir, "--top", 3, "--quiet").splitlines()) == 4
    model = load_model(run_dir)
    grown, names = write_grown(graph, tmp_path), graph.node_ids
    row = json.loads(call("embed", *grown, "--model", run_dir, "-o", tmp_path / "new.csv", "--json"))
    assert (row["num_known"], row["num_new"]) == (120, 1)
    ids, vectors = read_embedding(tmp_path / "new.csv")
    found = dict(zip(ids.tolist(), vectors, strict=True))
    np.testing.assert_allclose([found[name] for name in names], model.embedding_, rtol=1e-5)
    if method == "whole pass":
        row = json.loads(call("embed", *grown, "--warm-start", run_dir, "-o", tmp_path / "warm.csv", "--json"))
        assert row["num_new"] == 1


@pytest.mark.parametrize("before", ["memory", "ranks"])
def test_training_goes_on_everywhere(processes, runs, graph, tmp_path, before):
    """A warm start on a grown graph in memory, larger than memory and on two ranks moves the same nodes as far."""
    store = write_graph(read_graph(*write_grown(graph, tmp_path)[::2]), tmp_path / "grown").directory
    found = {}
    for way in WAYS:
        output = tmp_path / f"{way}.npy"
        command = ["embed", store, "--warm-start", runs["whole pass", before], "-o", output, "--json"]
        with pytest.MonkeyPatch.context() as patch:
            if way == "store":
                patch.setattr(sources, "fits_memory", lambda *_: False)
                command += ["--memory", "100GB"]
            if way == "ranks":
                found[way] = json.loads(processes.run_ranks(2, "-m", "l2g2g", *command)), np.load(output)
            else:
                found[way] = json.loads(call(*command)), np.load(output)
    row, vectors = found["memory"]
    assert (row["num_known"], row["num_new"], row["num_unchanged"]) == (120, 1, 118)
    assert row["mean_movement"] > 0
    assert np.abs(vectors).max() > 0.01
    for other, moved in (found[way] for way in WAYS[1:]):
        assert (other["num_known"], other["num_new"], other["num_unchanged"]) == (120, 1, 118)
        assert other["mean_movement"] == pytest.approx(row["mean_movement"], rel=2e-3)
        np.testing.assert_allclose(moved, vectors, rtol=2e-3, atol=2e-3)
    assert found["ranks"][0]["messages"]


def test_stores_are_graphs_for_finished_runs_too(runs, graph, tmp_path):
    run_dir, store = runs["whole pass", "store"], write_graph(graph, tmp_path / "store").directory
    row = json.loads(call("embed", store, "--model", run_dir, "-o", tmp_path / "o.npy", "--json"))
    assert (row["num_known"], row["num_new"]) == (120, 0)
    assert np.array_equal(np.load(tmp_path / "o.npy"), load_model(run_dir).embedding_)
    assert json.loads(call("embed", store, "--warm-start", run_dir, "-o", tmp_path / "o.npy", "--json"))["num_new"] == 0
    found, known = (call("predict", run_dir, "--top", 3, "--quiet", *more) for more in ([], ["--graph", store]))
    assert found == known
