"""Real jobs on loopback: several ranks train what one trains, and send what the formulas say."""

import json
from pathlib import Path

import numpy as np
import pytest

from l2g2g.runs.ranks import deal_patches
from l2g2g.training.rows import rank_bounds

from .rank_jobs import CASES, SMALL, make_graph, run

pytestmark = pytest.mark.slow

ON_FOUR = ["paper", "paper with all of the alignment", "default", "separate encoders", "many negatives"]


def launch(processes, num_ranks, names, folder):
    processes.run_ranks(num_ranks, Path(__file__).with_name("rank_jobs.py"), folder, *names)
    found = {}
    for number, name in enumerate(names):
        file = np.load(folder / f"{number}.npz")
        found[name] = {**file, **json.loads(str(file["told"]))}
    return found


@pytest.fixture(scope="module")
def jobs(processes, tmp_path_factory):
    chosen = {2: list(CASES), 4: ON_FOUR}
    return {
        num_ranks: launch(processes, num_ranks, names, tmp_path_factory.mktemp("ranks"))
        for num_ranks, names in chosen.items()
    }


@pytest.fixture(scope="module")
def alone():
    return {name: run(name) for name in CASES}


RUNS = [*((name, 2) for name in CASES), *((name, 4) for name in ON_FOUR)]


@pytest.mark.parametrize(("name", "num_ranks"), RUNS)
def test_several_ranks_train_what_one_does(jobs, alone, name, num_ranks):
    shared, (auc, one) = jobs[num_ranks][name], alone[name]
    np.testing.assert_allclose(shared["losses"], one.trained.history.losses, rtol=1e-4)
    np.testing.assert_allclose(shared["embedding"], one.embedding, rtol=1e-3, atol=1e-3)
    assert one.messages == {}
    if auc is not None:
        assert len(shared["losses"]) == 30
        assert shared["auc"] == pytest.approx(auc, abs=0.002)


def test_the_same_ranks_find_the_same_bits_again(processes, jobs, tmp_path):
    names = ["default with validation", "paper with all of the alignment"]
    again = launch(processes, 2, names, tmp_path)
    for name in names:
        for part in ("losses", "embedding"):
            np.testing.assert_array_equal(again[name][part], jobs[2][name][part])


def by_rank(jobs, name, num_ranks):
    return {kind: np.array(count["by_rank"]) for kind, count in jobs[num_ranks][name]["messages"].items()}


def place_patches(patch_set, num_ranks):
    """(rank of each patch, rank of each node, overlap nodes of each rank that another one owns)."""
    owners = deal_patches(patch_set, patch_set.count_arcs(make_graph().adjacency), num_ranks)
    homes = np.empty(patch_set.num_nodes, np.int64)
    homes[patch_set.global_nodes[::-1]] = np.repeat(owners, patch_set.sizes)[::-1]
    held = [np.unique(patch_set.select(np.flatnonzero(owners == rank)).global_nodes) for rank in range(num_ranks)]
    return owners, homes, np.array([(homes[nodes] != rank).sum() for rank, nodes in enumerate(held)])


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_bytes_of_the_paper_preset_are_those_of_the_formulas(jobs, alone, num_ranks):
    """The table of SCALE.md, rank by rank: gradient, overlaps and rotations, and the vectors in the end."""
    found, one, dim = by_rank(jobs, "paper", num_ranks), alone["paper"][1], SMALL["dim"]
    owners, homes, num_ghosts = place_patches(one.patch_set, num_ranks)
    size = sum(each.numel() for each in one.trained.model.parameters())
    assert found["gradient"].tolist() == [4 * (size + 1)] * num_ranks  # and the loss
    overlaps = one.patch_set.overlaps
    first, second = owners[overlaps.edges.numpy()].T
    moved = np.bincount(second, overlaps.sizes.numpy() * (first != second), num_ranks)
    np.testing.assert_array_equal(found["overlaps"], 4 * dim * moved)
    assert 0 < found["overlaps"].sum() <= 4 * dim * int(overlaps.sizes.sum())
    maps = 4 * dim**2 * (num_ranks - 1) * np.bincount(first, minlength=num_ranks)
    np.testing.assert_array_equal(found["alignment"], maps)
    np.testing.assert_array_equal(found["node_sums"], 4 * dim * num_ghosts)
    bounds = rank_bounds(make_graph(), num_ranks)  # the ranges of nodes by which vectors are handed out
    elsewhere = homes != np.repeat(np.arange(num_ranks), np.diff(bounds))
    np.testing.assert_array_equal(found["node_means"], 4 * dim * np.bincount(homes[elsewhere], minlength=num_ranks))
    np.testing.assert_array_equal(found["node_vectors"], 4 * dim * np.array([0, *np.diff(bounds)[1:]]))
    assert "pair_rows" not in found


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("name", ["default", "many negatives"])
def test_bytes_of_pairs_of_all_nodes_are_those_of_the_formulas(jobs, alone, name, num_ranks):
    """Vectors of sampled ends and of overlap nodes one way, their gradients the other, and who is asked for."""
    found, one, dim = by_rank(jobs, name, num_ranks), alone[name][1], SMALL["dim"]
    _, homes, num_ghosts = place_patches(one.patch_set, num_ranks)
    asked = np.array(jobs[num_ranks][name]["asked"])[:, 0] / SMALL["epochs"]
    assert asked.min() > 0
    np.testing.assert_allclose(found["pair_gradients"], 4 * dim * asked)
    assert found["pair_rows"].sum() == pytest.approx(4 * dim * asked.sum())
    if name == "many negatives":  # so many pairs that all nodes are asked for; only their number is added up
        np.testing.assert_array_equal(asked, one.patch_set.num_nodes - np.bincount(homes, minlength=num_ranks))
        assert "pair_requests" not in found
        assert "far_ends" not in found
    else:  # a number for each node that is asked for; for far ends of non-edges also one that says where they lie
        np.testing.assert_allclose(found["pair_requests"], 4 * asked)
        drawn = np.array(jobs[num_ranks][name]["drawn"])[:, 0] / SMALL["epochs"]
        assert drawn.min() > 0
        assert found["far_ends"].sum() == pytest.approx(4 * drawn.sum())
        assert found["far_ends_told"].sum() == pytest.approx(5 * drawn.sum())
    np.testing.assert_array_equal(found["overlap_sums"], 4 * dim * num_ghosts)
    assert found["overlap_gradients"].sum() == found["overlap_sums"].sum()
    assert "overlaps" not in found  # a shared encoder without alignment


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("name", ["default", "many negatives"])
def test_an_epoch_exchanges_rows_four_times_and_adds_up_gradients_once(jobs, name, num_ranks):
    times = {kind: count["times"] for kind, count in jobs[num_ranks][name]["messages"].items()}
    rows = {"overlap_sums", "pair_rows", "pair_gradients", "overlap_gradients"}
    assert {kind: times[kind] for kind in (*rows, "gradient")} == dict.fromkeys((*rows, "gradient"), SMALL["epochs"])
    every_epoch = {kind for kind, often in times.items() if often >= SMALL["epochs"]}
    numbers = {"pair_requests", "far_ends", "far_ends_told"} if name == "default" else set()  # whose rows are wanted
    assert every_epoch == rows | {"gradient", "counts"} | numbers


def test_apart_nothing_is_sent_before_the_end(jobs):
    kinds = set(by_rank(jobs, "apart", 2))
    vectors = {"overlaps", "alignment", "node_sums", "node_means"}
    scored = {
        "held_out_pairs",
        "pair_ends",
        "pair_scores",
        "check",
        "count",
    }  # of the validation
    owners = {"node_owners", "node_owners_told", "counts", "ids"}
    assert kinds == vectors | scored | owners | {"losses", "ghost_nodes", "shares", "node_vectors"}
    times = {kind: count["times"] for kind, count in jobs[2]["apart"]["messages"].items()}
    assert times["ghost_nodes"] == 2  # their number, and who they are
    assert times["losses"] == times["node_vectors"] == 1
    assert {times[kind] for kind in vectors} == {2}  # for the validation scores, and the final ones
    assert times["pair_scores"] == 3  # the scores, and the pairs for their histogram and for the spectral baseline
    assert by_rank(jobs, "apart with a learned bias", 2)["gradient"].tolist() == [8, 8]
