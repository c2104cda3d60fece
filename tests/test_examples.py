"""The examples run and leave what they say."""

import csv
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from l2g2g import read_graph
from l2g2g.graphs.read_embedding import read_embedding

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


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
    assert "best possible" in capsys.readouterr().out


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
