"""What the fault tests share: real processes, how many trials, and a word on what happened for the scoreboard."""

import json
import os
import time

import numpy as np
import pytest

from l2g2g.graphs.block_model import BlockModel

# What a small run needs, and the same number of threads wherever it goes on.
SMALL = ["--dim", "4", "--hidden", "8", "--patches", "3", "--threads", "1", "--patience", "0", "--json"]


@pytest.fixture(scope="session")
def complete():
    """Whether all trials of the table are asked for; a part of them runs with the other tests."""
    return os.environ.get("L2G2G_FAULTS") == "complete"


@pytest.fixture
def happened(request):
    """Say what happened, for the scoreboard."""
    return lambda text: request.node.user_properties.append(("happened", text))


@pytest.fixture(scope="session")
def edges(tmp_path_factory):
    """An edge list of 120 nodes in four blocks."""
    graph = BlockModel.planted(num_blocks=4, block_size=30, inside=0.4, outside=0.02).sample(0)
    path = tmp_path_factory.mktemp("faults") / "edges.csv"
    path.write_text("".join(f"{u},{v}\n" for u, v in zip(*graph.edges(), strict=True)))
    return path


@pytest.fixture
def command(run):
    """Run a command in this process: (exit code, rows of stdout, stderr)."""

    def call(*arguments):
        code, out, err = run(*arguments)
        return code, [json.loads(line) for line in out.splitlines()], err

    return call


@pytest.fixture
def launch(processes):
    """Start a command in a process of its own; what is still running at the end is ended."""
    started = []

    def call(*arguments, **environment):
        started.append(processes.start("-m", "l2g2g", *arguments, **environment))
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


def saved_epochs(run_dir, name="embed"):
    """Epochs of the checkpoints that are there, the latest first."""
    return [int(path.name.removeprefix("epoch-")) for path in sorted((run_dir / "checkpoints" / name).glob("epoch-*"))][
        ::-1
    ]


def wait_for_epoch(process, run_dir, epoch, seconds=60):
    """Wait until a run has saved this epoch or a later one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = saved_epochs(run_dir)
        if found and found[0] >= epoch:
            return found[0]
        assert process.poll() is None, f"ended with {process.returncode}: {process.stderr.read()}"
        time.sleep(0.001)
    pytest.fail(f"epoch {epoch} was not saved within {seconds} s")


def vectors(path):
    """The vectors of an .npy file."""
    return np.load(path)
