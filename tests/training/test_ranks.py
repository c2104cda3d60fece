"""Real jobs on loopback: several ranks train what one trains, and send what the formulas say."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.runs.preparation import cut
from l2g2g.training.assignment import assign_patches

from .rank_jobs import CASES, SMALL, make_graph, run

pytestmark = pytest.mark.slow

ON_THREE = ["paper with all of the alignment", "default", "separate encoders", "negatives by degree"]


def launch(num_ranks, names, folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    script = Path(__file__).with_name("rank_jobs.py")
    done = subprocess.run(
        [*command, str(script), str(folder), *names], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for number, name in enumerate(names):
        file = np.load(folder / f"{number}.npz")
        found[name] = {**file, **json.loads(str(file["told"]))}
    return found


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    chosen = {2: list(CASES), 3: ON_THREE}
    return {
        num_ranks: launch(num_ranks, names, tmp_path_factory.mktemp("ranks")) for num_ranks, names in chosen.items()
    }


@pytest.fixture(scope="module")
def alone():
    return {name: run(name) for name in CASES}


RUNS = [*((name, 2) for name in CASES), *((name, 3) for name in ON_THREE)]


@pytest.mark.parametrize(("name", "num_ranks"), RUNS)
def test_several_ranks_train_what_one_does(jobs, alone, name, num_ranks):
    shared, (auc, one) = jobs[num_ranks][name], alone[name]
    np.testing.assert_allclose(shared["losses"], one.trained.history.losses, rtol=1e-4)
    np.testing.assert_allclose(shared["embedding"], one.embedding, rtol=1e-3, atol=1e-3)
    assert one.messages == {}
    if auc is not None:
        assert len(shared["losses"]) == 30
        assert shared["auc"] == pytest.approx(auc, abs=0.002)


def test_the_same_ranks_find_the_same_bits_again(jobs, tmp_path):
    names = ["default with validation", "paper with all of the alignment"]
    again = launch(2, names, tmp_path)
    for name in names:
        for part in ("losses", "embedding"):
            np.testing.assert_array_equal(again[name][part], jobs[2][name][part])


def shape_of(name):
    """(config, patches, rank of each patch on two ranks, model size) of a case."""
    graph, config = make_graph(), make_config(**{**SMALL, **CASES[name]})
    patch_set = cut(graph, config)
    overlaps = patch_set.overlaps
    loads = patch_set.count_arcs(graph.adjacency) + 4 * patch_set.sizes
    owners = assign_patches(loads, overlaps.edges.numpy(), overlaps.sizes.numpy(), 2)
    return config, patch_set, owners


def sent(jobs, name):
    return {kind: count["bytes"] for kind, count in jobs[2][name]["messages"].items()}


def test_bytes_of_the_paper_preset(jobs, alone):
    found = sent(jobs, "paper")
    config, patch_set, owners = shape_of("paper")
    # Training cuts the graph without its validation edges, so only what does not depend on the cut is exact.
    one = alone["paper"][1]
    size = sum(each.numel() for each in one.trained.model.parameters())
    assert found["gradient"] == 2 * 4 * (size + 1)  # and the loss
    num_pairs = one.patch_set.overlaps.num_pairs
    assert found["alignment"] == 4 * num_pairs * config.dim**2
    overlap = int(one.patch_set.overlaps.sizes.sum())
    assert 0 < found["overlaps"] < 4 * overlap * config.dim
    assert 0 < found["node_sums"] <= 4 * config.dim * 2 * overlap  # ghost nodes only
    assert 0.25 < found["node_means"] / (4 * config.dim * patch_set.num_nodes) < 0.75  # what rank 1 owns
    assert "pair_rows" not in found
    assert len(set(owners.tolist())) == 2


def test_pairs_send_sampled_ends_both_ways(jobs):
    found = sent(jobs, "default")
    assert found["pair_rows"] == found["pair_gradients"]
    assert 0 < found["pair_rows"] <= 4 * SMALL["dim"] * 2 * make_graph().num_nodes
    assert "overlaps" not in found  # a shared encoder without alignment


def test_apart_nothing_is_sent_before_the_end(jobs):
    kinds = set(sent(jobs, "apart"))
    assert kinds == {"overlaps", "alignment", "node_sums", "node_means", "losses", "ghost_nodes"}
    times = {kind: count["times"] for kind, count in jobs[2]["apart"]["messages"].items()}
    assert times.pop("ghost_nodes") == 2  # their number, and who they are
    assert set(times.values()) == {1}
    assert sent(jobs, "apart with a learned bias")["gradient"] == 2 * 4 * 2
