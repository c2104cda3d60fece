"""A preparation that is killed from outside (SIGKILL) goes on after its last finished step and gives the same store."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from l2g2g.graphs.check_store import check_store
from l2g2g.graphs.duckdb_store import write_large_store

pytestmark = pytest.mark.slow
# Tells every step on stdout and waits for a line, so that the kill falls into a known step and row.
PREPARE = """
import sys
from pathlib import Path
from l2g2g.graphs.duckdb_store import write_large_store

def progress(step, done, total):
    print(step, flush=True)
    sys.stdin.readline()

edges, features, store = map(Path, sys.argv[1:])
write_large_store(edges, store, features, memory_bytes=200_000_000, name="g", made_of={"a": 1}, progress=progress)
"""
STEPS = ["reading features", "reading edges", "numbering nodes", "joining node numbers to edges", "sorting edges"]


def run_until(step, times, files):
    """Run until a step has been told so many times, then kill; to the end where step is None. Returns what was told."""
    command = [sys.executable, "-c", PREPARE, *map(str, files)]
    told = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            told.append(line.strip())
            if told.count(step) == times:
                os.kill(process.pid, signal.SIGKILL)
                break
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == (0 if step is None else -signal.SIGKILL)
    return told


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder, generator = tmp_path_factory.mktemp("inputs"), np.random.default_rng(1)
    (folder / "edges").mkdir()
    for part in range(2):
        rows = "".join(f"n{u},n{v},{u % 7 + 1}\n" for u, v in generator.integers(0, 900, (2000, 2)).tolist())
        (folder / "edges" / f"{part}.csv").write_text("source,target,weight\n" + rows)
    rows = "".join(f"n{node},{node % 13},{'red' if node % 2 else 'blue'}\n" for node in range(950))
    (folder / "features.csv").write_text("id,x,team\n" + rows)
    paths = folder / "edges", folder / "features.csv"
    how = {"memory_bytes": 200_000_000, "name": "g", "made_of": {"a": 1}}
    return *paths, write_large_store(paths[0], folder / "expected", paths[1], **how).sha256


def test_a_preparation_killed_in_every_step_ends_as_if_nothing_had_happened(inputs, tmp_path):
    edges, features, expected = inputs
    store = tmp_path / "store"
    files = (edges, features, store)
    for number, step in enumerate(STEPS):
        told = list(dict.fromkeys(run_until(step, 1, files)))
        assert told == STEPS[max(0, number - 1) : number + 1]  # the one that was killed, and none that had ended
        assert (store / ".prepare").is_dir()
        assert not (store / "graph").exists()
    run_until("sorting edges", 2, files)  # rows of the store are being written
    told = run_until(None, 1, files)
    assert set(told) == {"sorting edges", "writing features"}
    assert sorted(path.name for path in store.iterdir()) == ["graph", "lock"]
    assert check_store(store).sha256 == expected
