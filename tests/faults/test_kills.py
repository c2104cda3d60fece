"""Rows 1 to 9: kills, signals, damaged checkpoints, other runs, full disks. Real processes where a process dies."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from .conftest import SMALL, saved_epochs, vectors, wait_for_epoch

pytestmark = pytest.mark.slow

EVERY_EPOCH = ["--checkpoint-every", "0"]


@pytest.mark.fault(1)
@pytest.mark.parametrize("kind", ["checkpoint", "artefact"])
def test_killed_while_writing(tmp_path, complete, happened, kind):
    num_trials = 50 if complete else 8
    script = Path(__file__).with_name("kill_writer.py")
    seed = random.randrange(1 << 30)  # other moments every time
    done = subprocess.run(
        [sys.executable, script, tmp_path, str(num_trials), str(seed), kind], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    happened(f"{kind}: {found['loaded']} of {found['trials']} loaded, {found['inside']} killed inside a write")
    assert found["loaded"] == num_trials, done.stderr
    assert found["inside"] > 0


@pytest.mark.fault(2)
@pytest.mark.parametrize("method", ["l2g2g", "gae", "gae+l2g"])
def test_killed_at_any_epoch(launch, command, edges, tmp_path, complete, happened, method):
    base = ["embed", edges, "-m", method, *SMALL, "--epochs", 150]
    assert command(*base, "-o", tmp_path / "whole.npy")[0] == 0
    for trial in range(3 if complete else 1):
        run_dir, output = tmp_path / f"run-{trial}", tmp_path / f"{trial}.npy"
        arguments = [*base, "-o", output, "--run-dir", run_dir]
        process = launch(*arguments, *EVERY_EPOCH)
        wait_for_epoch(process, run_dir, random.randrange(2, 80))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert not output.exists()
        left = saved_epochs(run_dir)[0]
        code, (row,), err = command(*arguments, "--resume")
        assert (code, err) == (0, "")
        assert row["resumed_from_epoch"] == left > 0
        assert vectors(output).tobytes() == vectors(tmp_path / "whole.npy").tobytes()
        happened(f"{method}: same bits from epoch {left}")


@pytest.mark.fault(3)
def test_signals_save_first(launch, edges, tmp_path, happened):
    arguments = ["embed", edges, "-m", "gae", *SMALL, "--epochs", 1_000_000, "-o", tmp_path / "o.npy"]
    arguments += ["--run-dir", tmp_path / "run"]
    epoch = 0
    for number, code, more in ((signal.SIGTERM, 143, []), (signal.SIGINT, 130, ["--resume"])):
        process = launch(*arguments, *more)
        wait_for_epoch(process, tmp_path / "run", epoch + 1)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (code, "")
        last = saved_epochs(tmp_path / "run")[0]
        assert err == f"l2g2g: interrupted after epoch {last}; --resume goes on from there\n"
        assert last > epoch
        happened(f"{number.name}: exit {code} after epoch {last}")
        epoch = last
    assert not (tmp_path / "o.npy").exists()


@pytest.fixture
def ended(command, edges, tmp_path):
    """A run of 12 epochs with its checkpoints: (arguments that resume it, its run directory, its vectors)."""
    base = ["embed", edges, "-m", "l2g2g", *SMALL, "--epochs", 12, "--run-dir", tmp_path / "run"]
    assert command(*base, *EVERY_EPOCH, "-o", tmp_path / "whole.npy")[0] == 0
    assert saved_epochs(tmp_path / "run") == [12, 11]
    return [*base, "-o", tmp_path / "again.npy", "--resume"], tmp_path / "run", vectors(tmp_path / "whole.npy")


def newest(run_dir, name):
    return max((run_dir / "checkpoints" / "embed").glob("epoch-*")) / name


DAMAGES = {
    "truncated": (4, lambda data: data[: random.randrange(len(data))]),
    "flipped": (5, lambda data: flip(data, random.randrange(len(data)))),
}


def flip(data, place):
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json"])
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.fault(DAMAGES[kind][0])) for kind in DAMAGES])
def test_damaged_checkpoints(command, ended, tmp_path, happened, kind, name):
    resume, run_dir, whole = ended
    file = newest(run_dir, name)
    file.write_bytes(DAMAGES[kind][1](file.read_bytes()))
    code, (row,), err = command(*resume)
    assert code == 0
    assert row["resumed_from_epoch"] == 11
    assert err.startswith("l2g2g: ")
    assert "training goes on from epoch 11" in err
    assert name in err
    assert vectors(tmp_path / "again.npy").tobytes() == whole.tobytes()
    happened(f"{name}: epoch 11 of 12 used, told")


@pytest.mark.fault(6)
def test_other_graphs_and_settings(command, ended, edges, tmp_path, happened):
    resume, _, _ = ended
    other = tmp_path / "other.csv"
    other.write_text("\n".join(edges.read_text().splitlines()[:-1]) + "\n")
    for arguments, words in (
        ([*resume, "--lr", "0.5", "--seed", "4"], ["settings lr was", "is 0.5", "settings seed was 0, is 4"]),
        ([*resume, "--no-validation"], ["validation_fraction was 0.05, is 0.0"]),
        ([resume[0], other, *resume[2:]], ["graph num_edges was", "graph edges not the same"]),
    ):
        code, rows, err = command(*arguments)
        assert (code, rows, len(err.splitlines())) == (2, [], 1)
        assert all(word in err for word in words), err
    assert not (tmp_path / "again.npy").exists()
    happened("exit 2, every difference named")


@pytest.mark.fault(7)
def test_two_runs_in_one_directory(launch, command, edges, tmp_path, happened):
    base = ["embed", edges, "-m", "gae", *SMALL, "-o", tmp_path / "o.npy", "--run-dir", tmp_path / "run"]
    first = launch(*base, "--epochs", 1_000_000)
    wait_for_epoch(first, tmp_path / "run", 1)
    for more in ([], ["--resume"]):
        code, _, err = command(*base, "--epochs", 1_000_000, *more)
        assert code == 2
        assert f"another process is using it (process {first.pid})" in err
    first.kill()
    first.wait()
    code, _, err = command(*base, "--epochs", 5, "--resume")
    assert "was 1000000, is 5" in err  # it was let in, and only then refused
    happened("exit 2 with the process, free after its kill")


@contextmanager
def small_disk(folder):
    """A folder on a disk of 400 kB, where the system allows it; whether it does."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", str(folder)], check=True)


def fill(path):
    """Write until the disk is full."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(100))


@pytest.mark.fault(8)
def test_a_full_disk(launch, command, edges, tmp_path, happened):
    base = ["embed", edges, "-m", "gae", *SMALL, "--epochs", 600]
    with small_disk(tmp_path / "disk") as is_disk:
        run_dir, filler = tmp_path / "disk" / "run", tmp_path / "disk" / "filler"
        arguments = [*base, "-o", tmp_path / "o.npy", "--run-dir", run_dir]
        process = launch(*arguments, *EVERY_EPOCH)
        wait_for_epoch(process, run_dir, 3)
        if is_disk:
            fill(filler)
        else:  # the same for the process: it may not write any more
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        _, err = process.communicate(timeout=60)
        assert process.returncode == 3, err
        assert "cannot be written" in err
        assert len(err.splitlines()) == 1
        left = saved_epochs(run_dir)
        assert not list((run_dir / "checkpoints" / "embed").glob(".*"))
        filler.unlink(missing_ok=True)
        code, (row,), err = command(*arguments, "--resume")
        assert (code, err, row["resumed_from_epoch"]) == (0, "", left[0])
    happened(f"exit 3, epoch {left[0]} intact ({'small tmpfs' if is_disk else 'file size limit'})")


@pytest.mark.fault(9)
def test_a_run_directory_that_cannot_be_written_to(command, edges, tmp_path, monkeypatch, happened):
    monkeypatch.setattr("l2g2g.training.loop.Training.run", lambda *_, **__: pytest.fail("trained"))
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    folder = "/proc" if os.geteuid() == 0 else locked  # root may write anywhere else
    code, rows, err = command("embed", edges, *SMALL, "-o", tmp_path / "o.npy", "--run-dir", f"{folder}/run")
    assert (code, rows) == (3, [])
    assert f"{folder}/run: cannot be written to" in err
    happened("exit 3, nothing trained")
