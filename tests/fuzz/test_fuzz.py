"""A bounded run of the fuzzing, and proof that it notices what it is there to notice."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent

# Readers that do what none may, each in one way; and one that is as it should be.
BROKEN = """
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
import run, readers
from l2g2g.errors import InputError

def refuses(folder):
    raise InputError("not this one")

def raises(folder):
    raise KeyError("x")

def hangs(folder):
    print("hangs in process", os.getpid(), file=sys.stderr, flush=True)
    time.sleep(60)

def dies(folder):
    os.abort()

def eats(folder):
    bytearray(b"1") * 500_000_000

def writes(folder):
    (folder.parent.parent / "stranger").write_text("x")

def babbles(folder):
    error = InputError("one")
    error.args = ("one\\ntwo",)
    raise error

run.SECONDS = 4.0
kinds = (refuses, raises, hangs, dies, eats, writes, babbles)
readers.targets = lambda: [readers.Target(kind.__name__, [{"a.csv": b"1,2"}], kind) for kind in kinds]
readers.read_seeds = lambda target: None
sys.exit(run.main())
"""


def tallies(arguments, expected):
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == expected, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_hostile_files_are_read_or_refused():
    found = tallies([sys.executable, HERE / "run.py", "--inputs", "400", "--seed", "7", "--json"], 0)
    assert len(found) == 39
    assert sum(tally["inputs"] for tally in found) >= 380
    assert [tally["findings"] for tally in found] == [[]] * len(found)
    # Neither all refused nor all read: the files are close to valid ones.
    assert sum(tally["read"] for tally in found) > 40
    assert sum(sum(tally["refused"].values()) for tally in found) > 170


def test_hostile_files_through_the_command_line():
    command = [sys.executable, HERE / "run.py", "--inputs", "0", "--commands", "2", "--seed", "7", "--json"]
    last = tallies(command, 0)[-1]
    assert (last["reader"], last["inputs"], last["findings"]) == ("command line", 2, [])


def test_what_no_reader_may_do_is_noticed():
    found = tallies([sys.executable, "-c", BROKEN, str(HERE), "--inputs", "14", "--json"], 1)
    assert all(tally["inputs"] == 2 for tally in found)
    by_name = {tally["reader"]: tally["findings"] for tally in found}
    assert by_name.pop("refuses") == []
    words = {"raises": "KeyError", "hangs": "no answer", "dies": "died", "eats": "took", "writes": "stranger"}
    for kind, findings in by_name.items():
        assert len(findings) == 2
        assert all(words.get(kind, "one printable line") in finding for finding in findings)


def test_a_killed_run_takes_its_child_along(tmp_path):
    arguments = [sys.executable, "-c", BROKEN, str(HERE), "--inputs", "2", "--only", "hangs"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment) as run:
        child = next(int(line.split()[-1]) for line in run.stderr if line.startswith("hangs in process"))
        run.kill()
        run.wait()
        end = time.monotonic() + 30  # it would hang for a minute
        while is_running(child):
            assert time.monotonic() < end
            time.sleep(0.01)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
