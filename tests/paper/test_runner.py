"""Runner: what is done stays done, killed or not, alone or together."""

import collections
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from l2g2g.graphs.read import read_graph
from l2g2g.paper.cells import Cell
from l2g2g.paper.runner import expect_seconds, measure_sizes, run_cells


def cells_of(count, epochs=2):
    return [Cell("tiny", options={"patches": 3, "epochs": epochs, "threads": 1}, seed=seed) for seed in range(count)]


def keys_in(path):
    keys = []
    for line in path.read_text().splitlines():
        try:
            keys.append(json.loads(line)["key"])
        except ValueError:
            continue  # what a kill left
    return keys


@pytest.mark.slow
def test_a_restart_runs_only_what_is_missing(data_dir, tmp_path):
    path = tmp_path / "cells.jsonl"
    first = run_cells(cells_of(2), path, data_dir=data_dir)
    before = path.read_bytes()
    seen = []
    again = run_cells(cells_of(4), path, data_dir=data_dir, on_progress=seen.append)
    assert path.read_bytes().startswith(before)
    assert len(keys_in(path)) == len(set(keys_in(path))) == 4
    assert {key: again[key] for key in first} == first
    assert [(progress.done, progress.total) for progress in seen] == [(3, 4), (4, 4)]
    assert seen[0].seconds_left > 0
    assert seen[-1].seconds_left == 0
    run_cells(cells_of(4), path, data_dir=data_dir)
    assert len(keys_in(path)) == 4


def test_the_same_cell_asked_for_twice_is_run_once(data_dir, tmp_path):
    run_cells(cells_of(1) + cells_of(1), tmp_path / "cells.jsonl", data_dir=data_dir)
    assert len(keys_in(tmp_path / "cells.jsonl")) == 1


def test_a_failed_cell_is_recorded_and_the_others_are_run(data_dir, tmp_path):
    impossible = Cell("tiny", options={"patches": 5000})
    path = tmp_path / "cells.jsonl"
    rows = run_cells([impossible, *cells_of(2)], path, data_dir=data_dir)
    assert "5000 patches were asked for" in rows[impossible.key]["error"]
    assert sum("auc" in row for row in rows.values()) == 2
    run_cells([impossible, *cells_of(2)], path, data_dir=data_dir)
    assert collections.Counter(keys_in(path))[impossible.key] == 2  # tried again, once, by the second start


@pytest.mark.slow
def test_killed_in_the_middle_and_started_again_nothing_is_repeated(data_dir, tmp_path):
    path, cells = tmp_path / "cells.jsonl", cells_of(6, epochs=30)
    script = (
        "import sys; from pathlib import Path; from l2g2g.paper.cells import Cell\n"
        "from l2g2g.paper.runner import run_cells\n"
        "cells = [Cell('tiny', options={'patches': 3, 'epochs': 30, 'threads': 1}, seed=seed) for seed in range(6)]\n"
        "run_cells(cells, Path(sys.argv[1]), data_dir=Path(sys.argv[2]))"
    )
    worker = subprocess.Popen([sys.executable, "-c", script, str(path), str(data_dir)])
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and len(keys_in(path)) >= 2):
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    before = path.read_bytes()
    done = keys_in(path)
    assert 2 <= len(done) < 6
    rows = run_cells(cells, path, data_dir=data_dir)
    assert path.read_bytes().startswith(before)
    assert set(rows) == {cell.key for cell in cells}
    assert collections.Counter(keys_in(path)) == collections.Counter(cell.key for cell in cells)


@pytest.mark.slow
def test_a_long_cell_that_was_killed_goes_on_from_its_checkpoint(data_dir, tmp_path, monkeypatch):
    options = {"patches": 3, "epochs": 400, "patience": 0, "threads": 1}
    cell, path = Cell("tiny", options=options), tmp_path / "cells.jsonl"
    script = (
        "import sys; from pathlib import Path; from l2g2g.paper import cells, runner\n"
        "cells.CHECKPOINT_SECONDS = 0.05\n"
        f"cell = cells.Cell('tiny', options={options})\n"
        "runner.run_cells([cell], Path(sys.argv[1]), data_dir=Path(sys.argv[2]))"
    )
    worker = subprocess.Popen([sys.executable, "-c", script, str(path), str(data_dir)])
    kept = tmp_path / "cells" / cell.key
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any(kept.glob("checkpoints/*/epoch-*")):
        assert worker.poll() is None
        time.sleep(0.001)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert not path.exists()
    row = run_cells([cell], path, data_dir=data_dir)[cell.key]
    assert 0 < row["resumed_from_epoch"] < 400
    assert not (tmp_path / "cells").exists()
    whole = run_cells([cell], tmp_path / "whole.jsonl", data_dir=data_dir)[cell.key]
    assert whole["resumed_from_epoch"] == 0
    assert (row["auc"], row["ap"], row["epochs"]) == (whole["auc"], whole["ap"], whole["epochs"])
    # The time of the epochs before the kill counts.
    assert row["seconds"]["total"] > row["seconds"]["epoch_median"] * 400 * 0.5


@pytest.mark.slow
def test_what_another_version_kept_is_dropped_and_the_cell_starts_anew(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("l2g2g.paper.cells.CHECKPOINT_SECONDS", 0.0)
    first, second = (
        Cell("tiny", options={"patches": 3, "epochs": epochs, "threads": 1, "structure": "none"}) for epochs in (3, 4)
    )
    graph = read_graph(data_dir / "tiny.npz")
    first.run(lambda _: graph, folder=tmp_path / "kept")
    row = second.run(lambda _: graph, folder=tmp_path / "kept")
    assert (row["resumed_from_epoch"], row["epochs"]) == (0, 4)
    assert second.run(lambda _: graph, folder=tmp_path / "kept")["resumed_from_epoch"] == 4


def test_a_short_cell_leaves_nothing_behind(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "l2g2g.training.checkpoint.CheckpointStore.save", lambda *_: pytest.fail("saved for a moment's work")
    )
    run_cells(cells_of(1), tmp_path / "cells.jsonl", data_dir=data_dir)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["cells.jsonl", "cells.jsonl.lock"]


@pytest.mark.slow
def test_two_processes_share_the_cells(data_dir, tmp_path):
    path, cells = tmp_path / "cells.jsonl", cells_of(4)
    seen = []
    rows = run_cells(cells, path, data_dir=data_dir, jobs=2, on_progress=seen.append)
    assert collections.Counter(keys_in(path)) == collections.Counter(cell.key for cell in cells)
    assert all("auc" in row for row in rows.values())
    alone = run_cells(cells, tmp_path / "alone.jsonl", data_dir=data_dir)
    assert {key: row["auc"] for key, row in rows.items()} == {key: row["auc"] for key, row in alone.items()}
    assert seen


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(data_dir, tmp_path, number):
    command = ["performance", "--quick", "--datasets", "tiny", "--seeds", "40", "--data-dir", str(data_dir)]
    parent = subprocess.Popen(
        [sys.executable, "-m", "l2g2g", "reproduce", *command, "--workers", "2", "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    path = tmp_path / "performance.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (path.exists() and path.read_bytes().count(b"\n") >= 3):
        time.sleep(0.05)
    workers = [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
    assert len(workers) >= 2  # and the one that looks after what they share
    parent.send_signal(number)
    err = parent.communicate(timeout=60)[1]
    if number == signal.SIGTERM:
        assert parent.returncode == 143
        assert err.splitlines()[-1] == "l2g2g: interrupted; run the same command again to resume"
    assert "Traceback" not in err
    while time.monotonic() < deadline and any(map(_is_running, workers)):
        time.sleep(0.05)
    assert not any(map(_is_running, workers))


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_expected_time_is_measured_where_it_can_be_and_guessed_where_not(data_dir):
    sizes = measure_sizes(["tiny", "sbm-small"], data_dir)
    assert sizes["sbm-small"] > 10 * sizes["tiny"]
    rows = [{"cell": {"dataset": "tiny"}, "cell_seconds": seconds} for seconds in (2.0, 4.0)]
    assert expect_seconds(cells_of(3), rows) == pytest.approx(9.0)
    small, large = Cell("tiny"), Cell("sbm-small")
    assert expect_seconds([small, large], rows, sizes) > expect_seconds([small], rows, sizes) + 1
    assert expect_seconds([large], [], sizes) > expect_seconds([small], [], sizes) > 0
