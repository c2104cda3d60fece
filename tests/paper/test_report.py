"""The report in a real browser, and whole: killed in the middle, started again, made again."""

import collections
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from l2g2g.__main__ import main
from l2g2g.errors import InputError
from l2g2g.paper import complexity, datasets_table, heterogeneous, patch_time, patches, performance, training_time
from l2g2g.paper import report as reporting
from l2g2g.paper.report import BEGIN, COMMANDS, END, build_document, insert_report, read_evidence
from l2g2g.reports.charts import Chart, Panel, Series, draw_chart
from l2g2g.reports.page import Code, DataTable, Document, Entry, Section, render_page
from l2g2g.reports.tables import render_markdown

DOCS = Path(__file__).parents[2] / "docs"
HOSTILE = """<script>window.hacked = 1</script><img src="http://127.0.0.1:9/x" onerror="window.hacked = 2">'"&"""


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *map(str, arguments)])
    return stop.value.code, *capfd.readouterr()


def column(browser, table, number):
    script = f"[...document.querySelectorAll('table')[{table}].tBodies[0].rows].map(r => r.cells[{number}].textContent)"
    return browser.evaluate(script)


def check_page(browser, num_tables, num_figures):
    assert browser.troubles() == []
    assert browser.evaluate("document.documentElement.dataset.ready") == "yes"
    assert browser.evaluate("window.hacked") is None
    assert browser.evaluate("document.querySelectorAll('table').length") == num_tables
    sizes = browser.evaluate(
        "[...document.querySelectorAll('figure img')].map(i => [i.complete, i.naturalWidth, i.offsetHeight])"
    )
    assert len(sizes) == num_figures
    assert all(complete and width > 100 and height > 50 for complete, width, height in sizes)


@pytest.fixture
def page(tmp_path):
    """A page whose data try to break out, with a table to sort."""
    rows = [["b", "1,200.5 ± 3"], ["a", Entry("-3.1", best=True)], [HOSTILE, "–"], ["c", Entry("1.5e-3", better=True)]]
    chart = Chart(
        "lines", HOSTILE, [Panel("x < y & z", [Series("s", [1, 2], [1, 3], [(0.9, 1.1), (2.8, 3.2)])], "x", "y")]
    )
    draw_chart(chart, tmp_path)
    table = DataTable(HOSTILE, ["name", "value"], rows)
    document = Document(HOSTILE, [Section("one", HOSTILE, [HOSTILE, table, Code(HOSTILE), chart])])
    path = tmp_path / "page.html"
    path.write_text(render_page(document, tmp_path))
    return path


def test_what_comes_from_data_stays_text(browser, page):
    browser.open(page)
    check_page(browser, 1, 1)
    assert browser.evaluate("document.querySelector('pre').textContent") == HOSTILE
    assert browser.evaluate("document.title") == HOSTILE


def test_tables_are_sorted_by_clicks(browser, page):
    browser.open(page)
    assert column(browser, 0, 0) == ["b", "a", HOSTILE, "c"]
    browser.click("th:nth-child(2) button")
    assert column(browser, 0, 1) == ["-3.1", "1.5e-3", "1,200.5 ± 3", "–"]
    assert browser.evaluate("document.querySelectorAll('th')[1].getAttribute('aria-sort')") == "ascending"
    browser.click("th:nth-child(2) button")
    assert column(browser, 0, 1) == ["1,200.5 ± 3", "1.5e-3", "-3.1", "–"]
    browser.click("th:nth-child(1) button")
    assert column(browser, 0, 0)[-3:] == ["a", "b", "c"]
    assert browser.troubles() == []


def test_the_page_fits_a_phone_and_prints(browser, page):
    browser.open(page, width=360, height=640)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert browser.print().startswith(b"%PDF")


@pytest.fixture
def tables(tmp_path):
    """A page with claims to read and figures to scroll, as wide as those of the reproduction."""
    words = "L2G2G minus GAE: " + ", ".join(f"sbm-large-dense {number}" for number in range(20))
    row = [
        "It is better. " * 5,
        "holds only under the paper's protocol",
        words,
        "on more than half of the graphs",
        "Table 3",
    ]
    claims = DataTable("Claims.", ["claim", "verdict", "evidence", "rule", "where"], [row] * 2, 5)
    figures = DataTable("Scores.", ["data set", *["printed"] * 9], [["sbm-large-sparse", *["95.86 ± 0.19"] * 9]] * 2)
    notes = DataTable("Notes.", ["data set", "M", "why"], [["sbm-large-sparse", "14,776", "It is so. " * 12]] * 2, 1, 1)
    path = tmp_path / "tables.html"
    path.write_text(render_page(Document("Tables", [Section("one", "One", [claims, figures, notes])]), tmp_path))
    return path


def test_on_a_phone_claims_are_cards_and_the_names_of_rows_stay(browser, tables):
    browser.open(tables, width=390, height=800)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = browser.evaluate(
        "[...document.querySelectorAll('.stacked td')].map(c => (r => [r.left, r.right])(c.getBoundingClientRect()))"
    )
    assert len(boxes) == 10
    assert all(left >= 0 and right <= 390 for left, right in boxes)
    named = "getComputedStyle(document.querySelector('.stacked td:nth-child(2)'), '::before').content"
    assert "verdict" in browser.evaluate(named)
    # the table of figures is scrolled inside itself: its first column stays, and nothing shines through
    browser.evaluate("document.querySelectorAll('.wide')[1].scrollLeft = 400")
    cell = "document.querySelectorAll('.wide')[1].querySelectorAll('td')"
    left, right, second = browser.evaluate(
        f"(c => [c[0].getBoundingClientRect().left, c[0].getBoundingClientRect().right, "
        f"c[1].getBoundingClientRect().right])({cell})"
    )
    assert 0 <= left < right < 200
    assert second < left
    assert re.fullmatch(r"rgb\(.*\)", browser.evaluate(f"getComputedStyle({cell}[0]).backgroundColor"))  # opaque
    assert max(browser.evaluate("[...document.querySelectorAll('.wide:last-child td')].map(c => c.offsetHeight)")) < 120


def test_on_a_desk_nothing_is_cut_off(browser, tables):
    browser.open(tables, width=1280, height=800)
    assert (
        browser.evaluate("[...document.querySelectorAll('.wide')].map(w => w.scrollWidth > w.clientWidth)")
        == [False] * 3
    )
    assert browser.evaluate("getComputedStyle(document.querySelector('.stacked td')).display") == "table-cell"
    assert browser.evaluate("document.querySelector('.stacked tbody tr').offsetHeight") < 250


def test_on_paper_scores_stay_on_one_line_and_nothing_scrolls(browser, tables):
    browser.open(tables, width=1000, height=800)  # a sheet across
    browser.call("Emulation.setEmulatedMedia", media="print")
    wide = "[...document.querySelectorAll('.wide')]"
    assert browser.evaluate(f"{wide}.map(w => getComputedStyle(w).overflowX)") == ["visible"] * 3
    assert browser.evaluate(f"{wide}.every(w => w.querySelector('table').offsetWidth <= w.clientWidth)")
    score = "document.querySelectorAll('.wide')[1].querySelectorAll('td')[1]"
    assert browser.evaluate(f"getComputedStyle({score}).whiteSpace") == "nowrap"
    assert browser.evaluate(f"getComputedStyle({score}).position") == "static"


@pytest.fixture
def small(monkeypatch, data_dir):
    """Studies of seconds: the tiny graph, two epochs, few points."""
    monkeypatch.setattr(datasets_table, "QUICK_DATASETS", ("tiny",))
    for module, num_seeds in ((training_time, 1), (patch_time, 1), (performance, 2), (patches, 2)):
        monkeypatch.setattr(module, "QUICK_DATASETS", {"tiny": num_seeds})
    monkeypatch.setattr(patches, "QUICK_EPOCHS", 2)
    monkeypatch.setattr(patch_time, "QUICK_COUNTS", (2, 5))
    monkeypatch.setattr(heterogeneous, "QUICK_DATASETS", {"hetero-all": 1})
    whole = complexity.sweeps
    monkeypatch.setattr(complexity, "sweeps", lambda quick: whole(quick)[3:] + whole(quick)[:1])
    studies = {name: study for name, study in reporting.STUDIES.items() if name != "ablation"}
    monkeypatch.setattr(reporting, "STUDIES", studies)
    return ["--quick", "--data-dir", data_dir, "--methods", "gae,l2g2g", "--threads", 1]


@pytest.mark.slow
def test_everything_in_a_smaller_form(capfd, small, browser, tmp_path):
    code, out, err = run(capfd, "all", *small, "--out", tmp_path)
    assert code == 0, err
    assert re.search(r"\d+ cells in 8 studies:", err)
    assert "cells failed" not in err
    for name in reporting.STUDIES:
        assert (tmp_path / f"{name}.jsonl").stat().st_size > 0
    assert "## Claims" in out
    assert "## Performance" in out
    pictures = sorted(path.name for path in (tmp_path / "figures").iterdir())
    names = ["complexity", "cuts-heldout", "cuts-paper", "heterogeneous", "patch-time", "performance", "training-time"]
    names += [f"patches-{protocol}-{measure}" for protocol in ("heldout", "paper") for measure in ("ap", "auc")]
    assert pictures == sorted(f"{name}.{ending}" for name in names for ending in ("png", "svg"))
    page = (tmp_path / "report.html").read_text()
    assert "A quick run" in page
    browser.open(tmp_path / "report.html")
    check_page(browser, page.count("<table "), len(names))
    before = column(browser, 1, 0)
    browser.click("#datasets th:nth-child(3) button")
    assert sorted(column(browser, 1, 0)) == sorted(before)
    browser.open(tmp_path / "report.html", width=360, height=640)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    text = (tmp_path / "report.md").read_text()
    assert "l2g2g reproduce all --methods gae,l2g2g --data-dir DIR --quick --threads 1 --out DIR" in text
    assert str(tmp_path) not in page  # nobody's folders
    # made again from the lines alone: the same, byte by byte
    figures = {path: path.read_bytes() for path in (tmp_path / "figures").glob("*.svg")}
    code, out, _ = run(capfd, "report", "--quick", "--out", tmp_path)
    assert code == 0
    assert (tmp_path / "report.html").read_text() == page
    assert (tmp_path / "report.md").read_text() == text
    assert {path: path.read_bytes() for path in figures} == figures
    code, out, _ = run(capfd, "claims", "--quick", "--out", tmp_path)
    assert code == 0
    assert "L2G2G outperforms FastGAE. | **not measured** | no finished cells |" in out


@pytest.mark.slow
def test_killed_in_the_middle_and_started_again_the_report_is_the_same(capfd, data_dir, tmp_path):
    command = ["performance", "--datasets", "tiny", "--methods", "gae,l2g2g", "--seeds", 2, "--data-dir", data_dir]
    command = [*map(str, command), "--quick", "--threads", "1", "--out"]
    path = tmp_path / "killed" / "performance.jsonl"
    worker = subprocess.Popen(
        [sys.executable, "-m", "l2g2g", "reproduce", *command, str(tmp_path / "killed")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"\n") >= 2):
        time.sleep(0.005)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    before = path.read_bytes()
    num_done = before.count(b"\n")
    assert 2 <= num_done < 8
    assert not (tmp_path / "killed" / "report.html").exists()
    code, _, err = run(capfd, *command, tmp_path / "killed")
    assert code == 0
    assert f"8 cells on tiny, {num_done} of them done" in err
    assert path.read_bytes().startswith(before)
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    assert set(collections.Counter(line["key"] for line in lines).values()) == {1}
    assert run(capfd, *command, tmp_path / "whole")[0] == 0

    def scores(folder):  # the part of the report that does not depend on the clock
        return (folder / "report.md").read_text().split("## Environment")[0]

    assert scores(tmp_path / "killed") == scores(tmp_path / "whole")


@pytest.mark.slow
def test_failed_cells_are_in_the_report(capfd, data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(patches, "QUICK_COUNTS", (2, 5000))
    command = ["patches", "--datasets", "tiny", "--quick", "--data-dir", data_dir, "--methods", "l2g2g"]
    code, out, err = run(capfd, *command, "--seeds", 1, "--threads", 1, "--out", tmp_path)
    assert code == 0
    assert "2 cells failed" in err
    assert "5000 patches were asked for" in out
    report = (tmp_path / "report.html").read_text()
    assert "5000 patches were asked for" in report
    options = "--datasets tiny --methods l2g2g --seeds 1 --data-dir DIR --quick --threads 1 --out DIR"
    assert f"l2g2g reproduce patches {options}" in report


def test_the_report_is_put_between_the_marks(tmp_path):
    document = Document("title", [Section("one", "One", ["words"])])
    target = tmp_path / "doc.md"
    target.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    insert_report(document, target, "figures")
    assert target.read_text() == f"before\n{BEGIN}\n\n## One\n\nwords\n\n{END}\nafter\n"
    target.write_text("no marks")
    with pytest.raises(InputError, match="needs the marks"):
        insert_report(document, target, "figures")


@pytest.mark.slow
def test_the_docs_hold_the_report_of_the_committed_lines():
    folder = DOCS / "results" / "reproduce"
    document = build_document(read_evidence(folder, quick=False), (folder / COMMANDS).read_text().splitlines())
    text = render_markdown(document, "results/reproduce/figures").split("\n", 1)[1].strip()
    written = (DOCS / "reproduction.md").read_text()
    assert written.split(BEGIN)[1].split(END)[0].strip() == text
    for chart in document.charts():
        assert (folder / "figures" / f"{chart.name}.svg").is_file()


@pytest.mark.slow
def test_lines_of_another_preset_are_told(capfd, data_dir, tmp_path):
    command = ["performance", "--datasets", "tiny", "--methods", "gae", "--seeds", 1, "--data-dir", data_dir, "--quick"]
    assert run(capfd, *command, "--threads", 1, "--out", tmp_path)[0] == 0
    assert "no longer have" not in (tmp_path / "report.md").read_text()
    path = tmp_path / "performance.jsonl"
    path.write_text(path.read_text().replace('"lr": 0.001', '"lr": 0.5'))
    assert run(capfd, "report", "--quick", "--out", tmp_path)[0] == 0
    words = "2 of the 2 runs were made with settings that their presets no longer have."
    assert words in (tmp_path / "report.md").read_text()


def test_nothing_to_report(capfd, tmp_path):
    code, _, err = run(capfd, "report", "--out", tmp_path)
    assert code == 2
    assert "no finished cells" in err
