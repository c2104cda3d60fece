"""Jobs of several ranks on one store: they train what one process trains, and read only their own patches."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.store import open_graph, write_graph
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph

from ..training.rank_jobs import make_graph
from .rank_store_jobs import CASES, SMALL, WHOLE_GRAPH, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_graph(make_graph(), tmp_path_factory.mktemp("graph") / "store").directory


@pytest.fixture(scope="module")
def jobs(processes, tmp_path_factory, store):
    """Two ranks on a store without patches: the first cuts them."""
    folder, names = tmp_path_factory.mktemp("ranks"), [*CASES, *WHOLE_GRAPH]
    processes.run_ranks(2, Path(__file__).with_name("rank_store_jobs.py"), folder, store, *names)
    found = {}
    for number, name in enumerate(names):
        with np.load(folder / f"{number}.npz") as file:
            found[name] = {**file, **json.loads(str(file["told"]))}
        found[name]["reads"] = [json.loads((folder / f"{number}-{rank}.json").read_text()) for rank in (0, 1)]
    return found


@pytest.mark.parametrize("name", [*CASES, *WHOLE_GRAPH])
def test_two_ranks_on_a_store_train_what_one_process_does(jobs, store, name):
    row, one = run(store, name)
    losses = one.trained.history.losses
    assert jobs[name]["losses"][0] == pytest.approx(losses[0], rel=1e-5)
    np.testing.assert_allclose(jobs[name]["losses"], losses, rtol=1e-4)
    np.testing.assert_allclose(jobs[name]["embedding"], one.embedding, rtol=1e-3, atol=1e-3)
    assert jobs[name]["row"].get("auc") == pytest.approx(row.get("auc"), abs=0.002)
    assert jobs[name]["messages"]["node_means" if name in ("paper", "apart") else "gradient"]["bytes"] > 0


@pytest.mark.parametrize("name", [name for name in CASES if name != "evaluation"])  # which has a store of its own
def test_no_rank_reads_a_patch_of_another(jobs, name):
    for array, offsets in jobs[name]["bounds"].items():
        read = [
            {int(np.searchsorted(offsets, low, side="right")) - 1 for found, low, high in reads if found == array}
            for reads in jobs[name]["reads"]
        ]
        assert read[0] | read[1] == set(range(5)), array
        assert not read[0] & read[1], array
        for reads in jobs[name]["reads"]:
            for found, low, high in reads:
                if found == array:  # one patch at a time
                    assert high <= offsets[np.searchsorted(offsets, low, side="right")]


def test_patches_are_read_once_or_where_nothing_stays_twice_and_then_from_their_file(jobs):
    counts = {name: sum(array == "indices" for array, *_ in jobs[name]["reads"][0]) for name in CASES}
    assert counts["within a limit"] == 2  # the patches of this rank
    assert counts["nothing stays in memory"] == 3 * 2  # the last time for the final vectors


def test_ranks_on_the_command_line(processes, store, tmp_path):
    """A store, and a file that a limit of memory may send to disk, in the same two ranks each."""
    options = ["--patches", 5, "--dim", 4, "--hidden", 8, "--epochs", 4, "--threads", 1, "--json", "--memory", "100GB"]
    output = tmp_path / "out.parquet"
    command = ["-m", "l2g2g", "embed", store, "-o", output, *options, "--run-dir", tmp_path / "run"]
    row = json.loads(processes.run_ranks(2, *command))
    assert row["messages"]["pair_rows"]["times"] == 4
    found = read_embedding(output)[1]
    assert found.shape == (240, 4)
    assert json.loads(processes.run_ranks(2, *command, "--resume"))["resumed_from_epoch"] == 4
    np.testing.assert_array_equal(read_embedding(output)[1], found)
    sources, targets = make_graph().edges()
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{u},{v}\n" for u, v in zip(sources, targets, strict=True)))
    assert json.loads(processes.run_ranks(2, "-m", "l2g2g", "evaluate", edges, *options))["epochs"] == 4


def test_the_plan_of_two_ranks_is_near_what_the_first_takes(tmp_path):
    """Memory of a process of its own each, so that nothing else is in it."""
    graph, options = tmp_path / "store", ["--epochs", 2, "--threads", 1, "--json"]

    def call(*command):
        done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    call("-m", "l2g2g", "prepare", "sized-60000-700000-96", "--store", graph, "--partition", "streaming", "--json")
    planned = call("-m", "l2g2g", "plan", graph, "--ranks", 2, *options)
    alone = call("-m", "l2g2g", "plan", graph, *options)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    told = call(*launcher, "-m", "l2g2g", "embed", graph, "-o", tmp_path / "out.npy", *options)
    measured = told["peak_memory_bytes"]
    assert planned["ranks"] == 2
    assert not planned["in_memory"]  # each rank reads its own patches
    assert planned["memory_bytes"] < alone["memory_bytes"]
    assert planned["memory_bytes"] == pytest.approx(measured, rel=0.25)


class Two:
    """Stands for two ranks where nothing is sent."""

    size, rank, is_first = 2, 0, True


def test_what_ranks_cannot_share(store):
    config = make_config(**{**SMALL, "rotate": True, "align_gradient": "through"})
    with pytest.raises(InputError, match="leave torchrun or the option out"):
        embed_graph(open_graph(store), config, communicator=Two())


@pytest.mark.parametrize("name", WHOLE_GRAPH)
def test_ranks_that_share_a_whole_graph_send_rows_of_ghost_nodes(jobs, name):
    found = jobs[name]["messages"]
    assert found["layer_rows"]["bytes"] > 0
    assert found["pair_rows"]["times"] == 10
    assert "overlaps" not in found


@pytest.mark.parametrize("with_features", [True, False])
def test_a_weighted_loss_without_weights_is_refused_before_ranks_cut(with_features, tmp_path):
    graph = make_graph()
    stored = write_graph(graph if with_features else replace(graph, features=None), tmp_path / "store")
    for call in (embed_graph, evaluate_graph):
        with pytest.raises(InputError, match="its edges have no weights; leave --weighted-loss out"):
            call(stored, make_config(**SMALL, weighted_loss=True), communicator=Two())
