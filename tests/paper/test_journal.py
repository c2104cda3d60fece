"""The journal: whole lines, checked when read, and one process per cell."""

import json
import subprocess
import sys

import pytest

from l2g2g.errors import InputError
from l2g2g.paper.cells import Cell, run_cell
from l2g2g.paper.journal import Journal

CELL = Cell("tiny", options={"patches": 3, "epochs": 2}, seed=1)


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "deep" / "cells.jsonl")
    yield journal
    journal.close()


def test_a_line_says_what_was_run_and_what_came_out(planted, journal):
    line = run_cell(CELL, {"tiny": planted}.__getitem__, threads=1)
    assert line["cell"]["seed"] == line["seed"] == 1
    assert line["epochs"] == 2
    assert 0 < line["auc"] < 1
    assert line["cell_seconds"] > 0
    journal.append(line)
    assert journal.answers([CELL]) == {CELL.key: json.loads(json.dumps(line))}


def test_a_line_made_with_other_settings_is_no_answer(planted, journal):
    line = run_cell(CELL, {"tiny": planted}.__getitem__)
    for name, value, answered in (("lr", 0.5, False), ("threads", 7, True), ("setting_of_the_past", 1, True)):
        changed = {**line, "settings": {**line["settings"], name: value}}
        assert CELL.is_answered_by(changed) is answered
    journal.append({**line, "settings": {**line["settings"], "lr": 0.5}})
    assert journal.answers([CELL]) == {}


def test_failures_are_lines_too_and_settle_a_cell_only_for_this_start(journal):
    def missing(name):
        raise InputError(f"no graph {name}")

    journal.append(run_cell(CELL, missing))
    (failure,) = journal.settled([CELL], journal.start).values()
    assert failure["error"] == "InputError: no graph tiny"
    assert journal.answers([CELL]) == {}
    later = Journal(journal.path)
    assert later.settled([CELL], later.start) == {}  # the next start tries again
    later.close()


def test_half_a_line_is_passed_over_and_the_next_one_is_whole(journal, make_row):
    other, row = make_row("tiny", "gae"), make_row("tiny", "default")
    journal.append(other)
    with journal.path.open("a") as file:
        file.write('{"key": "killed whi')
    journal.append(row)
    assert [line for _, line in journal.rows()] == [other, row]
    assert journal.path.read_text().endswith("\n")
    cell = Cell(**row["cell"])
    assert journal.answers([cell]) == {cell.key: row}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cell": {"method": "gae"}}, "cell has no dataset"),
        ({"auc": "high"}, "auc is not a score"),
        ({"kept_edge_fraction": "most"}, "kept_edge_fraction is not a score"),
        ({"auc": None}, "auc and ap are missing"),
        ({"num_edges": -1}, "num_edges is not a count"),
        ({"seconds": {}}, "seconds"),
        ({"cell_seconds": float("nan")}, "cell_seconds"),
        ({"settings": []}, "settings"),
        ({"error": ["it broke"]}, "error is not text"),
    ],
)
def test_a_line_that_is_none_of_a_cell_is_refused_by_its_number(journal, make_row, change, words):
    journal.append(make_row("tiny", "gae"))
    journal.append({**make_row("tiny", "default"), **change})
    with pytest.raises(InputError, match=f"line 2 is no finished cell.*{words}"):
        journal.rows()


def test_nesting_that_no_parser_follows_is_passed_over(journal, make_row):
    journal.append(make_row("tiny", "gae"))
    with journal.path.open("a") as file:
        file.write("[" * 100_000 + "\n")
    assert len(journal.rows()) == 1


@pytest.mark.slow
def test_a_cell_belongs_to_one_process_at_a_time(journal):
    script = (
        "import sys; from pathlib import Path\n"
        "from l2g2g.paper.cells import Cell; from l2g2g.paper.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "with journal.claim(Cell('tiny', options={'patches': 3, 'epochs': 2}, seed=int(sys.argv[2]))) as mine:\n"
        "    print(mine)"
    )

    def other_process(seed):
        command = [sys.executable, "-c", script, str(journal.path), str(seed)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with journal.claim(CELL) as mine:
        assert mine
        assert other_process(1) == "False"
        assert other_process(2) == "True"
    assert other_process(1) == "True"
