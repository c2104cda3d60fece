"""Cells and their journal: stable names, whole lines, one process per cell."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from l2g2g.errors import InputError, Interrupted
from l2g2g.paper.cells import Cell, Journal, run_cell

CELL = Cell("tiny", options={"patches": 3, "epochs": 2}, seed=1)


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "deep" / "cells.jsonl")
    yield journal
    journal.close()


def test_a_key_names_what_is_run_and_nothing_else():
    assert CELL.key == Cell("tiny", options={"epochs": 2, "patches": 3}, seed=1).key
    others = [
        replace(CELL, seed=2),
        replace(CELL, dataset="small"),
        replace(CELL, method="gae"),
        replace(CELL, protocol="paper"),
        replace(CELL, options={"patches": 4, "epochs": 2}),
    ]
    assert len({CELL.key, *(cell.key for cell in others)}) == 6
    assert CELL.key == "b930c1d53a3bf43f"  # committed results are found by it


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


def test_an_error_that_is_no_answer_of_ours_does_not_stop_the_rest_either():
    line = run_cell(CELL, {}.__getitem__)
    assert line["error"].startswith("KeyError")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Interrupted(15)])
def test_an_interruption_is_no_failure_even_where_compiled_code_made_an_error_of_it(stop):
    def leave(_):
        raise SystemError("returned a result with an exception set") from stop

    with pytest.raises(type(stop)) as raised:
        run_cell(CELL, leave)
    assert raised.value is stop


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
        ({"auc": "high"}, "auc is no score"),
        ({"kept_edge_fraction": "most"}, "kept_edge_fraction is no score"),
        ({"auc": None}, "auc and ap are missing"),
        ({"num_edges": -1}, "num_edges is no count"),
        ({"seconds": {}}, "seconds"),
        ({"cell_seconds": float("nan")}, "cell_seconds"),
        ({"settings": []}, "settings"),
        ({"error": ["it broke"]}, "error is no text"),
    ],
)
def test_a_line_that_is_none_of_a_cell_is_refused_by_its_number(journal, make_row, change, words):
    journal.append(make_row("tiny", "gae"))
    journal.append({**make_row("tiny", "default"), **change})
    with pytest.raises(InputError, match=f"line 2 is not that of a finished cell.*{words}"):
        journal.rows()


def test_nesting_that_no_parser_follows_is_passed_over(journal, make_row):
    journal.append(make_row("tiny", "gae"))
    with journal.path.open("a") as file:
        file.write("[" * 100_000 + "\n")
    assert len(journal.rows()) == 1


def test_a_cell_belongs_to_one_process_at_a_time(journal):
    script = (
        "import sys; from pathlib import Path; from l2g2g.paper.cells import Cell, Journal\n"
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
