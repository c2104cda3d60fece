"""Real jobs on loopback: several ranks train what one trains, and send what the formulas say."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.preparation import cut
from l2g2g.training.assignment import assign_patches

from .rank_jobs import CASES, SMALL, make_graph, run


def launch(num_ranks, names, folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    script = Path(__file__).with_name("rank_jobs.py")
    done = subprocess.run(
        [*command, str(script), str(folder), *names], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found = [np.load(folder / f"{number}.npz") for number in range(len(names))]
    return {name: {**file, **json.loads(str(file["told"]))} for name, file in zip(names, found, strict=True)}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    chosen = {2: list(CASES), 3: ["paper with all of the alignment", "default"]}
    return {
        num_ranks: launch(num_ranks, names, tmp_path_factory.mktemp("ranks")) for num_ranks, names in chosen.items()
    }


@pytest.fixture(scope="module")
def alone():
    return {name: run(name) for name in CASES}


@pytest.mark.parametrize(
    ("name", "num_ranks"), [*((name, 2) for name in CASES), ("paper with all of the alignment", 3), ("default", 3)]
)
def test_several_ranks_train_what_one_does(jobs, alone, name, num_ranks):
    shared, one = jobs[num_ranks][name], alone[name]
    np.testing.assert_allclose(shared["losses"], one.trained.history.losses, atol=1e-5)
    np.testing.assert_allclose(shared["embedding"], one.embedding, atol=1e-5)
    assert one.messages == {}


@pytest.mark.parametrize(
    "name",
    ["paper for long", "default for long", "paper with all of the alignment", "default with validation", "apart"],
)
def test_two_ranks_find_the_bits_that_one_process_finds(jobs, alone, name):
    """It sums over the patches of two ranks as they do; in another order a hundred epochs would end far apart."""
    np.testing.assert_array_equal(jobs[2][name]["losses"], alone[name].trained.history.losses)
    np.testing.assert_array_equal(jobs[2][name]["embedding"], alone[name].embedding)


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
    size = sum(each.numel() for each in alone["paper"].trained.model.parameters())
    assert found["gradient"] == 2 * 4 * (size + 1)  # and the loss
    num_pairs = alone["paper"].patch_set.overlaps.num_pairs
    assert found["alignment"] == 4 * num_pairs * config.dim**2
    overlap = int(alone["paper"].patch_set.overlaps.sizes.sum())
    assert 0 < found["overlaps"] < 4 * overlap * config.dim
    limit = 4 * config.dim * (patch_set.num_nodes + overlap)
    assert 0.5 * limit < found["node_sums"] + found["node_means"] <= limit
    assert "pair_rows" not in found
    assert len(set(owners.tolist())) == 2


def test_pairs_send_sampled_ends_both_ways(jobs):
    found = sent(jobs, "default")
    assert found["pair_rows"] == found["pair_gradients"]
    assert 0 < found["pair_rows"] <= 4 * SMALL["dim"] * 2 * make_graph().num_nodes
    assert "overlaps" not in found  # a shared encoder without alignment


def test_apart_nothing_is_sent_before_the_end(jobs):
    kinds = set(sent(jobs, "apart"))
    assert kinds == {"overlaps", "alignment", "node_sums", "node_means", "losses"}
    assert all(count["times"] == 1 for count in jobs[2]["apart"]["messages"].values())
    assert sent(jobs, "apart with a learned bias")["gradient"] == 2 * 4 * 2
