"""The examples run and leave what they say."""

import csv
import importlib
import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g import read_graph
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.node_columns import read_embedding

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("L2G2G_DATA", ROOT.parent / "shared" / "data"))
ARCHIVE_KEYS = ("data", "indices", "indptr", "shape")


def load_example(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_demo_leaves_embedding_results_and_figure(tmp_path, capsys):
    rows = load_example("demo").run(tmp_path, epochs=4)
    assert [row["method"] for row in rows] == ["gae", "fastgae", "gae+l2g", "l2g2g"]
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["auc"] for line in lines] == [row["auc"] for row in rows]
    _, vectors = read_embedding(tmp_path / "embedding.parquet")
    assert vectors.shape == (10_000, 16)
    assert np.isfinite(vectors).all()
    assert (tmp_path / "training.png").stat().st_size > 10_000
    assert "possible" in capsys.readouterr().out


@pytest.fixture
def notebooks(tmp_path, monkeypatch):
    """The runner of notebooks, in a folder with Cora ML, or a small stand-in where its file is not there."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "tools")
    monkeypatch.chdir(tmp_path)
    published = DATA / "cora_ml.npz"
    if published.is_file():
        os.symlink(published, tmp_path / "cora_ml.npz")
    else:
        graph = BlockModel.planted(num_blocks=4, block_size=60, inside=0.2, outside=0.01).sample(0)
        arcs, words = graph.adjacency, sp.csr_array(graph.features)
        parts = {"adj": arcs, "attr": words}
        archive = {f"{name}_{key}": getattr(part, key) for name, part in parts.items() for key in ARCHIVE_KEYS}
        np.savez(tmp_path / "cora_ml.npz", **archive, labels=graph.labels)
    return importlib.import_module("notebooks")


def test_the_notebook_of_cora_ml_finds_links_and_topics(notebooks):
    names, printed = notebooks.run_notebook(notebooks.FOLDER / "cora_links.ipynb")
    assert names["scores"].auc > names["by_degree"].auc + 0.1
    assert names["found"].accuracy.low > names["found"].majority + 0.2
    known = set(zip(*names["graph"].edges(), strict=True))
    missing = names["missing"]
    assert len(missing.sources) == 5
    assert not known & set(zip(missing.sources.tolist(), missing.targets.tolist(), strict=True))
    assert "hidden citations" in printed[1]


def test_the_notebook_of_an_own_table_keeps_labels_and_answers(notebooks, tmp_path):
    names, printed = notebooks.run_notebook(notebooks.FOLDER / "own_csv.ipynb")
    assert "36 nodes without a label" in printed[1]
    assert '"classes": ["blue", "green", "red", "not known"]' in (tmp_path / "report.html").read_text()
    nearest = names["nearest"].to_pandas()["neighbour"]
    team_of = dict(zip(names["names"], names["teams"], strict=True))
    assert [team_of[name] for name in nearest].count("red") >= 4
    guessed = dict(zip(names["model"].node_ids_, names["found"].predicted, strict=True))
    unknown = names["model"].node_ids_[names["graph"].labels == ""]
    assert np.mean([guessed[name] == team_of[name] for name in unknown]) > 0.9


def test_the_notebook_of_snapshots_finds_who_moved(notebooks):
    names, _ = notebooks.run_notebook(notebooks.FOLDER / "snapshots.ipynb")
    assert names["most"].tolist() == [0, 1, 2, 3, 4]
    assert names["moved"](1).mean() < 0.6 * names["raw"].mean()


def test_notebooks_show_outputs_without_folders_of_a_machine(notebooks):
    paths = notebooks.list_notebooks()
    assert [path.name for path in paths] == ["cora_links.ipynb", "own_csv.ipynb", "snapshots.ipynb"]
    for path in paths:
        cells = notebooks.code_cells(json.loads(path.read_text()))
        shown = ["".join(output["text"]) for cell in cells for output in cell["outputs"]]
        assert len(shown) >= 2
        assert not any("/" in text.replace(" / ", "") for text in shown)


def test_two_runs_agree_better_after_alignment(planted, capsys):
    found = load_example("align_two_runs").run(read_graph(planted), epochs=40)
    assert found["residual_after"] < 0.9 * found["residual_before"]
    assert found["auc_aligned_mean"] > 0.5
    assert "residual_before" in capsys.readouterr().out


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def test_a_table_with_names_from_edges_to_answers(tmp_path, capsys):
    """CSV with string ids, embed, report, neighbours, missing links, new nodes by --model: each output is looked at."""
    left = load_example("own_csv").run(tmp_path)
    shown = capsys.readouterr()
    assert "1 self-loops dropped, 1 duplicate edges merged" in shown.err
    assert "2 of them of new nodes" in shown.out

    ids, vectors = read_embedding(left["vectors.parquet"])
    assert vectors.shape == (200, 16)
    assert ids[0] == "chess 00"
    page = left["report.html"].read_text()
    assert "weighted graph of 200 nodes with 1,152 edges" in page
    assert "1 self-loops dropped, 1 duplicate edges merged" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page

    nearest = [row["neighbour"] for row in rows_of(left["neighbours.csv"])]
    assert len(nearest) == 5
    assert all(name.startswith("chess") and name != "chess 07" for name in nearest)

    known = {frozenset((row["source"], row["target"])) for row in rows_of(tmp_path / "edges.csv")}
    missing = rows_of(left["missing.csv"])
    assert len({frozenset((row["source"], row["target"])) for row in missing} - known) == 10
    assert all(row["source"].split()[0] == row["target"].split()[0] for row in missing)  # in one hobby

    grown_ids, grown = read_embedding(left["grown.parquet"])
    row_of = {name: row for row, name in enumerate(grown_ids)}
    assert set(grown_ids) == {*ids, "zoë", "yan"}
    np.testing.assert_array_equal(grown[[row_of[name] for name in ids]], vectors)  # known nodes stay where they were
    hobbies = {"zoë": [], "yan": []}
    for row in rows_of(left["newcomers.csv"]):
        hobbies[row["node"]].append(row["neighbour"].split()[0])
    assert hobbies["zoë"].count("chess") >= 7
    assert sum(hobby in ("choir", "cooking", "zoë") for hobby in hobbies["yan"]) >= 6
