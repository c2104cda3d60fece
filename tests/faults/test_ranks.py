"""Rows 13, 39 and 40: jobs with several ranks, which agree with one, survive kills, and end where a rank stalls."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from l2g2g.graphs.node_columns import read_embedding

from .conftest import SMALL, saved_epochs, vectors

pytestmark = pytest.mark.slow

RANKS = ["--timeout", "120"]
PARTS = ["part-00000.parquet", "part-00001.parquet"]


@pytest.fixture
def torchrun():
    """Start a job: call(arguments of torchrun, arguments of l2g2g); what is still running at the end is ended."""
    started = []

    def call(options, arguments):
        command = [sys.executable, "-m", "torch.distributed.run", *map(str, options), "-m", "l2g2g"]
        process = subprocess.Popen(
            [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield call
    for process in started:
        for number in workers(process):
            os.kill(number, signal.SIGKILL)
        process.kill()
        process.communicate()


def workers(job):
    """Processes of the ranks of a job, by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            environment = (folder / "environ").read_bytes()
        except (OSError, IndexError):
            continue  # it is gone
        rank = re.search(rb"(?:^|\0)RANK=(\d+)", environment)
        if parent == job.pid and rank:
            found[int(rank[1])] = int(folder.name)
    return [found[rank] for rank in sorted(found)]


def finish(job, seconds=300):
    out, err = job.communicate(timeout=seconds)
    assert job.returncode == 0, err
    return json.loads(out)


def wait_until(job, holds, seconds=240):
    end = time.monotonic() + seconds
    while not holds():
        assert job.poll() is None, job.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.005)


def says(err, word):
    """The lines of the program itself, not of torchrun."""
    return [line for line in err.splitlines() if line.startswith("l2g2g: ") and word in line]


@pytest.mark.fault(13)
@pytest.mark.parametrize("preset", ["paper", "default"])
def test_one_rank_against_two(torchrun, command, edges, tmp_path, complete, happened, preset):
    """AUC after 30 epochs, vectors after a few; tests/training/test_ranks.py has loss and gradient of the first."""
    if not complete:
        pytest.skip("tests/training/test_ranks.py has such jobs: only in `make faults`")
    options = ["-m", "l2g2g", "--preset", preset, *SMALL]
    two = ["--standalone", "--nproc-per-node", 2]
    job = torchrun(two, ["evaluate", edges, *options, "--epochs", 30, *RANKS])
    code, (one,), _ = command("evaluate", edges, *options, "--epochs", 30)
    row = finish(job)
    assert code == 0
    assert row["messages"]["gradient"]["times"] == 30
    base = ["embed", edges, *options, "--epochs", 5]
    finish(torchrun(two, [*base, *RANKS, "-o", tmp_path / "two.npy"]))
    assert command(*base, "-o", tmp_path / "one.npy")[0] == 0
    apart, off = abs(row["auc"] - one["auc"]), relative_distance(tmp_path / "one.npy", tmp_path / "two.npy")
    happened(f"{preset}: AUC {apart:.4f} apart after 30 epochs, vectors off by {off:.0e} after 5")
    assert apart <= 0.002
    assert off < 1e-3


def relative_distance(one, other):
    first, second = vectors(one), vectors(other)
    return float(np.linalg.norm(first - second) / np.linalg.norm(first))


@pytest.mark.fault(39)
def test_a_killed_rank(torchrun, edges, tmp_path, complete, happened):
    num_trials, num_epochs = 20 if complete else 2, 100
    base = ["embed", edges, "-m", "l2g2g", *SMALL, "--epochs", num_epochs, *RANKS]
    options = ["--standalone", "--nproc-per-node", 2, "--max-restarts", 3]
    finish(torchrun(options, [*base, "-o", tmp_path / "whole.npy"]))
    whole, restarted = vectors(tmp_path / "whole.npy"), 0
    for trial in range(num_trials):
        run_dir, output = tmp_path / f"run-{trial}", f"{tmp_path}/{trial}{'/' if trial % 2 else '.npy'}"
        job = torchrun(options, [*base, "-o", output, "--run-dir", run_dir, "--checkpoint-every", 0])
        epoch = random.randrange(1, num_epochs // 2)
        wait_until(job, lambda folder=run_dir, least=epoch: (saved_epochs(folder) or [0])[0] >= least)
        time.sleep(random.random() * 0.01)
        os.kill(workers(job)[trial % 2], signal.SIGKILL)  # the first rank and the other in turn
        row = finish(job)
        restarted += row["resumed_from_epoch"] >= epoch
        assert read_embedding(output)[1].tobytes() == whole.tobytes(), trial
        if trial % 2:  # in parts, one of each rank
            assert [path.name for path in sorted(Path(output).iterdir())] == PARTS
    happened(f"{restarted} of {num_trials} went on from a checkpoint to the same bits")
    assert restarted == num_trials


@pytest.mark.fault(39)
def test_a_job_goes_on_with_another_number_of_ranks(torchrun, command, edges, tmp_path, happened):
    """From a checkpoint of two ranks: three ranks, and one process, reach what one process reaches without a break."""
    features = tmp_path / "features.npy"
    np.save(features, np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32))
    base = ["embed", edges, "--features", features, "-m", "l2g2g", *SMALL, "--epochs", 60, "--structure", "none"]
    assert command(*base, "-o", tmp_path / "whole.npy")[0] == 0
    kept = ["--run-dir", tmp_path / "run", "--checkpoint-every", 0]
    job = torchrun(["--standalone", "--nproc-per-node", 2], [*base, *kept, *RANKS, "-o", tmp_path / "two.npy"])
    wait_until(job, lambda: (saved_epochs(tmp_path / "run") or [0])[0] >= 5)
    for number in workers(job):
        os.kill(number, signal.SIGKILL)
    job.communicate(timeout=60)
    assert not (tmp_path / "two.npy").exists()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    three = torchrun(
        ["--standalone", "--nproc-per-node", 3], [*base, *kept, "--resume", *RANKS, "-o", tmp_path / "three.npy"]
    )
    assert 5 <= finish(three)["resumed_from_epoch"] < 60
    code, (row,), _ = command(*base, "--run-dir", tmp_path / "copy", "--resume", "-o", tmp_path / "one.npy")
    assert code == 0
    assert 5 <= row["resumed_from_epoch"] < 60
    off = [relative_distance(tmp_path / "whole.npy", tmp_path / f"{name}.npy") for name in ("three", "one")]
    happened(f"a job of two ranks went on with three and with one; vectors off by {max(off):.0e}")
    assert max(off) < 1e-3


@pytest.mark.fault(39)
def test_a_killed_rank_without_restarts(torchrun, edges, tmp_path, complete, happened):
    if not complete:
        pytest.skip("one more job: only in `make faults`")
    arguments = ["embed", edges, *SMALL, "--epochs", 1_000_000, *RANKS, "-o", tmp_path / "o.npy"]
    job = torchrun(["--standalone", "--nproc-per-node", 2], [*arguments, "--run-dir", tmp_path / "run"])
    wait_until(job, lambda: saved_epochs(tmp_path / "run"))
    os.kill(workers(job)[1], signal.SIGKILL)
    out, err = job.communicate(timeout=60)
    assert job.returncode != 0
    assert out == ""
    assert len(says(err, "another rank is gone")) <= 1  # torchrun may be faster than the rank that is left
    assert says(err, "") == says(err, "another rank is gone") or says(err, "interrupted")
    assert not (tmp_path / "o.npy").exists()
    happened("without restarts the job ends at once")


@pytest.mark.fault(40)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_stalls(torchrun, edges, tmp_path, complete, happened, rank):
    if rank == 0 and not complete:
        pytest.skip("one more job: only in `make faults`")
    limit = 8  # more than ranks wait for each other while they start on a busy machine
    arguments = ["embed", edges, *SMALL, "--epochs", 1_000_000, "--timeout", limit, "-o", tmp_path / "o.npy"]
    job = torchrun(["--standalone", "--nproc-per-node", 2], [*arguments, "--run-dir", tmp_path / "run"])
    wait_until(job, lambda: saved_epochs(tmp_path / "run"))
    numbers = workers(job)
    stalled, other = numbers[rank], numbers[1 - rank]
    os.kill(stalled, signal.SIGSTOP)
    started = time.monotonic()
    wait_until_gone(other, limit + 20)
    took = time.monotonic() - started
    os.kill(stalled, signal.SIGKILL)
    _, err = job.communicate(timeout=60)
    assert job.returncode != 0
    (line,) = says(err, "")
    assert f"did not answer within {limit} s" in line
    assert re.search(rf"rank\s+: {1 - rank} .*\n\s+exitcode\s+: 5 ", err), err
    assert took < limit + 10
    happened(f"rank {rank} stopped: the other left with 5 after {took:.1f} s of {limit} s")


@pytest.mark.fault(3)
def test_a_signal_to_the_job_saves_first(torchrun, edges, tmp_path, complete, happened):
    if not complete:
        pytest.skip("one more job: only in `make faults`")
    arguments = ["embed", edges, *SMALL, "--epochs", 1_000_000, *RANKS, "-o", tmp_path / "o.npy"]
    job = torchrun(["--standalone", "--nproc-per-node", 2], [*arguments, "--run-dir", tmp_path / "run"])
    wait_until(job, lambda: saved_epochs(tmp_path / "run"))
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=120)
    last = saved_epochs(tmp_path / "run")[0]
    assert says(err, "") == [f"l2g2g: interrupted after epoch {last}; --resume goes on from there"]
    happened(f"SIGTERM to torchrun: all ranks ended after epoch {last}")


def test_what_is_wrong_is_told_once(torchrun, edges, tmp_path):
    output = tmp_path / "o.npy"
    wrong = ["--rotate", "--align-gradient", "through"]
    job = torchrun(["--standalone", "--nproc-per-node", 2], ["embed", edges, *wrong, "-o", output, *SMALL, *RANKS])
    out, err = job.communicate(timeout=120)
    assert out == ""
    message = "--align-gradient through needs all patches in one process, in memory; leave torchrun or the option out"
    assert says(err, "") == [f"l2g2g: {message}"]
    assert set(re.findall(r"exitcode\s+: (\S+)", err)) <= {"2", "-15", "143"}
    assert not output.exists()


def wait_until_gone(number, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    pytest.fail(f"still there after {seconds} s")


@contextmanager
def two_networks():
    """Two network namespaces with an address each, joined by a cable; None where the system does not allow it."""
    names = [f"l2g2g-{os.getpid()}-{number}" for number in range(2)]
    ends = [f"l2{os.getpid()}{letter}"[:15] for letter in "ab"]
    steps = [["netns", "add", name] for name in names]
    steps.append(["link", "add", ends[0], "type", "veth", "peer", "name", ends[1]])
    for number, (name, end) in enumerate(zip(names, ends, strict=True)):
        steps.append(["link", "set", end, "netns", name])
        steps.append(["-n", name, "addr", "add", f"10.213.57.{number + 1}/24", "dev", end])
        steps += [["-n", name, "link", "set", device, "up"] for device in (end, "lo")]
    folders = [Path("/etc/netns") / name for name in names]
    try:
        for folder in folders if os.geteuid() == 0 else ():  # names of the two hosts; nobody else can be asked
            folder.mkdir(parents=True)
            own = f"10.213.57.{folders.index(folder) + 1} {socket.gethostname()}"
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{own}\n10.213.57.1 first\n10.213.57.2 second\n")
            (folder / "resolv.conf").write_text("options timeout:1 attempts:1\nnameserver 127.0.0.1\n")
        made = shutil.which("ip") is not None and all(
            subprocess.run(["ip", *step], capture_output=True, check=False).returncode == 0 for step in steps
        )
        yield names if made else None
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        if shutil.which("ip"):
            for name in names:
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def test_two_hosts(edges, tmp_path, command):
    base = ["embed", edges, *SMALL, "--epochs", 5]
    with two_networks() as names:
        if names is None:
            pytest.skip("network namespaces cannot be made here: needs root, `ip netns` and veth")
        meeting = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "test"]
        jobs = []
        for number, name in enumerate(names):
            host = ["--rdzv-endpoint", "10.213.57.1:29871", "--local-addr", f"10.213.57.{number + 1}"]
            line = [sys.executable, "-m", "torch.distributed.run", *meeting, *host, "-m", "l2g2g"]
            output = tmp_path / f"host-{number}.npy"  # only that of the first rank is written
            line = [*line, *map(str, [*base, *RANKS, "-o", output])]
            jobs.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
        try:
            outputs = [job.communicate(timeout=120) for job in jobs]
        finally:
            for job in jobs:
                job.kill()
                job.wait()
    assert [job.returncode for job in jobs] == [0, 0], [err for _, err in outputs]
    (told,) = [json.loads(out) for out, _ in outputs if out]
    assert command(*base, "-o", tmp_path / "one.npy")[0] == 0
    assert relative_distance(told["output"], tmp_path / "one.npy") < 1e-3
