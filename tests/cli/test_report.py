"""`l2g2g report` and `l2g2g explore` on runs of the command line, from a CSV with names to the page in a browser."""

import json
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g import GAE, cli
from l2g2g.runs.artefact import list_trainings, open_artefact
from l2g2g.runs.record import read_record

NAME = "</script><script>window.hacked = 1</script>"
FAST = ["--epochs", "3", "--dim", "4", "--patches", "2", "--json"]


@pytest.fixture(scope="module")
def edges(tmp_path_factory, planted):
    """The planted graph with names, one of them hostile, and a self-loop."""
    path = tmp_path_factory.mktemp("graph") / "my net.csv"
    names = [NAME if node == 5 else f"n{node}" for node in range(planted.num_nodes)]
    lines = [f"{names[u]},{names[v]}" for u, v in zip(*planted.edges(), strict=True)]
    path.write_text("source,target\n" + "\n".join([*lines, "n0,n0"]) + "\n")
    return path


def call(*arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return stop.value.code


@pytest.fixture(scope="module")
def embedded(edges, tmp_path_factory):
    """A run directory of embed."""
    folder = tmp_path_factory.mktemp("runs") / "embed"
    assert call("embed", edges, "-o", folder.parent / "out.npy", "--run-dir", folder, *FAST) == 0
    return folder


@pytest.fixture(scope="module")
def evaluated(edges, tmp_path_factory):
    """A run directory of evaluate, with two methods."""
    folder = tmp_path_factory.mktemp("runs") / "evaluate"
    assert call("evaluate", edges, "-m", "gae", "-m", "l2g2g", "--seed", 3, "--run-dir", folder, *FAST) == 0
    return folder


@pytest.mark.slow
def test_report_writes_a_page_and_says_where(embedded, capsys):
    assert call("report", embedded, "--json") == 0
    row = json.loads(capsys.readouterr().out)
    page = embedded / "report.html"
    assert (row["output"], row["num_nodes"], row["training"], row["projection"]) == (str(page), 120, "embed", "tsne")
    assert row["bytes"] == page.stat().st_size
    text = page.read_text()
    assert NAME not in text
    assert "1 self-loops dropped" in text
    assert "l2g2g embed &#x27;my net.csv&#x27; -o out.npy --run-dir embed" in text
    assert str(embedded.parent) not in text  # nobody's folders
    assert call("report", embedded, "-o", embedded.parent / "two.html", "--projection", "pca") == 0
    assert capsys.readouterr().out.startswith(f"{embedded.parent / 'two.html'}: 120 nodes, ")
    assert call("report", embedded, "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_the_page_of_a_run_in_a_browser(embedded, browser):
    assert call("report", embedded, "-q") == 0
    browser.open(embedded / "report.html")
    browser.wait_for("document.documentElement.dataset.map === 'ready'")
    chose_spectral = read_record(open_artefact(embedded)).is_spectral
    assert browser.evaluate("document.querySelectorAll('svg').length") >= (1 if chose_spectral else 4)
    assert browser.evaluate("document.body.textContent.includes('eigenvectors of the graph')") == chose_spectral
    assert browser.evaluate("window.hacked") is None
    assert browser.troubles() == []


def test_an_evaluation_has_a_page_for_each_training(evaluated, capsys):
    assert list_trainings(evaluated) == ["gae-seed-3", "l2g2g-seed-3"]
    assert call("report", evaluated, "--training", "l2g2g-seed-3", "-q", "--projection", "pca") == 0
    text = (evaluated / "report.html").read_text()
    assert "<b>l2g2g-seed-3</b>" in text
    assert "All trainings of this run" in text
    assert "training has not seen them" in text
    record = read_record(open_artefact(evaluated, "l2g2g-seed-3"))
    assert (record.separation.kind, record.row["seed"]) == ("test", 3)
    assert record.separation.auc.value == pytest.approx(record.row["auc"], abs=1e-9)
    assert record.separation.average_precision.value == pytest.approx(record.row["ap"], abs=1e-9)


def test_a_saved_model_has_a_page_too(planted, tmp_path, capsys):
    GAE(dim=4, epochs=2, threads=1).fit(planted).save(tmp_path / "model")
    assert call("report", tmp_path / "model", "--projection", "pca") == 0
    text = (tmp_path / "model" / "report.html").read_text()
    assert 'href="#patches"' not in text  # nothing was partitioned
    assert "decided when training stopped" in text  # pairs that were held back
    assert call("report", tmp_path / "model", "--training", "x") == 2


def test_what_cannot_be_shown_is_told_in_one_line(embedded, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([tmp_path / "none"], "no such directory"),
        ([tmp_path / "empty"], "no run has finished here"),
        ([embedded, "--training", "x"], "no training 'x'; it holds embed"),
        ([embedded, "--projection", "som"], "unknown projection 'som'"),
        ([embedded, "-o", tmp_path / "page.txt"], "unknown ending; use one of .html"),
    ):
        assert call("report", *arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    assert call("explore", embedded, "--port", 70_000) == 2


@pytest.mark.slow
def test_any_embedding_file_has_a_page(embedded, edges, tmp_path, browser, capsys):
    frame = read_record(open_artefact(embedded))
    table = {"word": frame.names(), "embedding": frame.vectors.tolist(), "kind": ["a", "b", ""] * 40}
    pq.write_table(pa.table({**table, "size": [None, *range(119)]}), tmp_path / "vectors.parquet")
    (tmp_path / "more.csv").write_text("id,town\nn0,Bern\nn1,<b>Rome</b>\n")
    assert call("report", tmp_path / "vectors.parquet", "--nodes", tmp_path / "more.csv") == 0
    output = capsys.readouterr()
    page = tmp_path / "vectors-report.html"
    assert output.out.startswith(f"{page}: 120 nodes, ")
    assert f"{tmp_path / 'more.csv'}: 2 of 120 nodes have a row" in output.err
    browser.open(page)
    browser.wait_for("document.documentElement.dataset.map === 'ready'")
    names = browser.evaluate("[...document.querySelectorAll('#map-colour option')].map((one) => one.textContent)")
    assert names == ["kind", "size", "town", "Cluster", "none"]  # no degrees, patches or residuals
    sections = browser.evaluate("[...document.querySelectorAll('section')].map((one) => one.id)")
    assert sections == ["summary", "map"]
    browser.evaluate("location.hash = '#node=n1'")
    browser.wait_for("document.querySelectorAll('#map-neighbours li').length === 10")
    assert browser.evaluate("document.querySelectorAll('#map-links').length") == 0  # no edges, no model
    told = browser.evaluate("[...document.querySelectorAll('#map-node dd')].map((one) => one.textContent)")
    row = frame.names().index("n1")
    assert told[:3] == [["a", "b", "not known"][row % 3], str(row - 1), "<b>Rome</b>"]
    assert browser.troubles() == []
    np.save(tmp_path / "bare.npy", frame.vectors)
    assert call("report", tmp_path / "bare.npy", "-q", "-o", tmp_path / "bare.html") == 0
    assert call("report", tmp_path / "vectors.parquet", "--graph", edges, "-q") == 0
    text = page.read_text()
    assert '<option value="degree">Degree</option>' in text
    assert "edges</span>" in text


def test_clusters_and_classes_are_on_the_map(embedded, tmp_path, browser):
    half = [f"n{row},{'x' if row < 60 else 'y'}" for row in range(0, 120, 2)]
    (tmp_path / "labels.csv").write_text("id,label\n" + "\n".join(half) + "\n")
    assert call("cluster", embedded, "-k", 3, "-o", tmp_path / "clusters.csv", "-q") == 0
    told = ["--labels", tmp_path / "labels.csv", "-o", tmp_path / "told.parquet", "-q"]
    assert call("classify", embedded, *told) == 0
    tables = ["--nodes", tmp_path / "clusters.csv", "--nodes", tmp_path / "told.parquet"]
    assert call("report", embedded, *tables, "-o", tmp_path / "page.html", "-q", "--projection", "pca") == 0
    browser.open(tmp_path / "page.html")
    browser.wait_for("document.documentElement.dataset.map === 'ready'")
    titles = browser.evaluate("[...document.querySelectorAll('#map-colour option')].map((one) => one.textContent)")
    assert titles[:5] == ["cluster", "similarity", "label", "predicted", "confidence"]
    assert len(browser.evaluate("[...document.querySelectorAll('#map-legend .entry')].map((one) => one.id)")) == 3


@pytest.mark.slow
def test_explore_answers_a_browser_and_ends_with_ctrl_c(embedded, browser):
    shutil.rmtree(embedded / "maps", ignore_errors=True)
    command = [sys.executable, "-m", "l2g2g", "explore", str(embedded)]
    server = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore Ctrl-C
    )
    with ExitStack() as stack:
        stack.enter_context(server)
        stack.callback(server.kill)  # nobody waits for it where something below goes wrong
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        browser.open(address)
        browser.wait_for("document.documentElement.dataset.map === 'ready'")
        browser.wait_for("document.getElementById('map-projection').value === 'tsne'")  # PCA until it is computed
        assert browser.evaluate("Object.keys(state.places).sort()") == ["pca", "tsne"]
        browser.evaluate("pointMap.overlay.focus()")
        browser.press("Enter")
        browser.wait_for("document.querySelectorAll('#map-neighbours li, #map-links li').length === 20")
        assert browser.troubles(address) == []
        server.send_signal(signal.SIGINT)
        _, messages = server.communicate(timeout=30)
    assert server.returncode == 0
    assert messages.splitlines()[-1] == "stopped"
    assert "Traceback" not in messages
