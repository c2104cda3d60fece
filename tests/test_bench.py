"""The benchmark of epochs: what the floor holds, and what the baseline calls a loss. No test here is timed."""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from l2g2g.models.sparse import normalise_adjacency
from l2g2g.patches.overlap import make_patches

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def patches(planted):
    return make_patches(planted, np.arange(planted.num_nodes) // 60, min_overlap=5, target_overlap=5)


def test_random_pairs_stay_inside_their_patch(planted, patches):
    from floor import random_pairs

    block = patches.induce(planted.adjacency)
    indptr, indices = random_pairs(block, patches.offsets, 2.0)
    assert len(indices) == indptr[-1] == block.nnz
    rows = np.repeat(np.arange(patches.num_rows), np.diff(indptr))
    owner = np.repeat(np.arange(patches.num_patches), patches.sizes)
    assert (owner[rows] == owner[indices]).all()
    for low, high in itertools.pairwise(indptr):
        assert (np.diff(indices[low:high]) >= 0).all()


@pytest.mark.parametrize("first_layer", [True, False])
def test_the_floor_holds_the_calls_of_an_epoch_and_nothing_else(planted, first_layer):
    from floor import build_floor

    whole = np.array([0, planted.num_nodes])
    floor = build_floor(planted.adjacency, whole, negatives_per_edge=2.0, first_layer=first_layer)
    layers = ["layer 1 forward", "layer 1 backward"] if first_layer else []
    pairs = [f"{kind} {call}" for kind in ("positive", "negative") for call in ("scores", "gradient")]
    assert sorted(floor.calls) == sorted([*layers, "layer 2 forward", "layer 2 backward", *pairs])
    assert floor.num_arcs == floor.num_negatives == planted.adjacency.nnz
    dense = torch.randn(planted.num_nodes, 16, generator=torch.Generator().manual_seed(0))
    expected = torch.from_numpy(normalise_adjacency(planted.adjacency).toarray()) @ dense
    torch.testing.assert_close(floor.calls["layer 2 forward"](), expected, rtol=1e-4, atol=1e-5)
    scores = floor.calls["positive scores"]()
    rows = torch.from_numpy(np.repeat(np.arange(planted.num_nodes), planted.degrees))
    columns = torch.from_numpy(planted.adjacency.indices).long()
    torch.testing.assert_close(scores.values(), (dense[rows] * dense[columns]).sum(1), rtol=1e-4, atol=1e-5)
    total, single = floor.measure(repeats=2)
    assert total > 0
    assert set(single) == set(floor.calls)


def test_a_loss_is_a_quarter_in_the_wrong_direction(tmp_path):
    from baseline import count_compared, find_losses, write_baseline

    path = tmp_path / "baseline.json"
    row = {"dataset": "planted", "pyg_over_gae": 20.0, "gae_over_floor": 1.0, "l2g2g_over_floor": None}
    write_baseline([row, {"dataset": "gone", "skipped": "no file"}], {"cpu": "some"}, path)
    assert json.loads(path.read_text())["graphs"] == {"planted": {"pyg_over_gae": 20.0, "gae_over_floor": 1.0}}
    assert find_losses([{**row, "pyg_over_gae": 16.1, "gae_over_floor": 1.24}], path) == []
    assert find_losses([{**row, "pyg_over_gae": 100.0, "gae_over_floor": 0.1}], path) == []
    (slower,) = find_losses([{**row, "pyg_over_gae": 15.0}], path)
    assert slower == "planted: pyg_over_gae was 20 and is 15, a loss of 33 %"
    (slower,) = find_losses([{**row, "gae_over_floor": 1.3}], path)
    assert slower.startswith("planted: gae_over_floor was 1 and is 1.3")
    assert count_compared([row, {"dataset": "other", "pyg_over_gae": 1.0}], path) == 2
    write_baseline([{"dataset": "other", "pyg_over_gae": 5.0}], {"cpu": "some"}, path)
    assert set(json.loads(path.read_text())["graphs"]) == {"planted", "other"}


@pytest.mark.slow
def test_every_figure_of_a_graph(planted, monkeypatch):
    import epoch
    import ours
    from baseline import RATIOS

    monkeypatch.setattr(ours, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(ours, "NUM_PATCHES", 2)
    row = epoch.measure(planted, argparse.Namespace(repeats=1, threads=1, no_pyg=True, clock="wall"))
    assert row["pyg_over_gae"] is None
    for name in set(RATIOS) - {"pyg_over_gae"}:
        assert name in row
    assert row["gae_over_floor"] == row["gae_seconds"] / row["gae_floor_seconds"]
    assert row["negatives"] == row["arcs"]
    assert row["l2g2g_arcs"] not in (0, row["arcs"])  # those of the patches, overlaps counted twice
    assert epoch.render([row, {"dataset": "gone", "skipped": "no file"}]).row_count == 2


def test_a_check_fails_on_a_loss(planted, monkeypatch, tmp_path, capsys):
    import epoch
    from baseline import write_baseline

    path = tmp_path / "baseline.json"
    row = {"dataset": "planted", "gae_seconds": 1.0, "gae_floor_seconds": 1.0, "arcs": 1, "threads": 1}
    row |= {"gae_over_floor": 1.0, "l2g2g_seconds": 1.0, "l2g2g_floor_seconds": 1.0, "left_out": {}}
    write_baseline([row], {}, path)
    for now, code in ((1.2, 0), (1.3, 1)):
        monkeypatch.setattr(epoch, "load_graph", lambda name, data_dir: planted)
        monkeypatch.setattr(epoch, "measure", lambda graph, options, now=now: {**row, "gae_over_floor": now})
        with pytest.raises(SystemExit) as ended:
            epoch.main(["--datasets", "planted", "--check", "--baseline", str(path)])
        assert ended.value.code == code
    assert "gae_over_floor was 1 and is 1.3" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        epoch.main(["--check", "--baseline", str(tmp_path / "none.json")])


def test_a_graph_without_its_file_is_skipped_with_a_reason(tmp_path):
    from machine import load_graph

    assert load_graph("cora-ml", tmp_path) == f"cora_ml.npz is not in {tmp_path.name}"
    assert "not beside the project" in load_graph("cora-ml", tmp_path / "data")


def test_the_machine_is_described():
    from machine import describe_machine, peak_bytes, resident_bytes

    machine = describe_machine()
    assert machine["cores"] >= 1
    assert machine["versions"]["torch"]
    assert json.loads(json.dumps(machine)) == machine
    assert 0 < resident_bytes() <= peak_bytes() * 1.01


@pytest.mark.slow
def test_time_to_a_peers_auc(planted, monkeypatch, capsys):
    import time_to_auc

    figures = {"package": "some 1", "validation_auc": 0.55, "scored_by": "cosine", "seconds": 100.0}
    peers = {
        "prone": {**figures, "auc": 0.5},
        "node2vec": {**figures, "auc": 1.01},
        "pycleora": {"skipped": "does not install"},
    }
    asked = []
    monkeypatch.setattr(time_to_auc, "measure_peer", lambda name, *_: asked.append(name) or peers[name])
    monkeypatch.setattr(time_to_auc, "load_graph", lambda name, data_dir: planted if name == "planted" else "no file")
    settings = ["--set", "dim=4", "--set", "epochs=20", "--set", "patches=2", "--set", "decoder=inner"]
    time_to_auc.main(["--graphs", "planted,gone", "--peers", ",".join(peers), "--repeats", "2", *settings])
    captured = capsys.readouterr()
    head, ours, prone, node2vec, pycleora, gone = map(json.loads, captured.out.splitlines())
    assert head["settings"] == {"dim": 4, "epochs": 20, "patches": 2, "decoder": "inner"}
    assert [each[0] for each in ours["trace"]] == [5, 10, 15, 20]
    assert prone["target"] == 0.55  # the higher one of its two
    assert prone["reached"]
    assert prone["within_limit"]
    assert prone["ours_over_theirs"] == prone["our_seconds"] / 100
    assert node2vec["epoch"] is None
    assert "our_seconds" not in node2vec
    assert pycleora["skipped"] == "does not install"
    assert gone["skipped"] == "no file"
    assert asked == ["prone", "prone", "node2vec", "pycleora"]
    assert "not reached" in captured.err


def test_growth_draws_what_it_says_and_fits_a_power(tmp_path):
    import growth

    growth.draw_graph(60_000, tmp_path)
    indptr, indices, features = (np.load(tmp_path / f"{name}.npy") for name in ("indptr", "indices", "features"))
    assert features.shape == (2000, 16)
    assert abs(len(indices) - 60_000) < 2_500  # some are drawn twice
    rows = np.repeat(np.arange(2000), np.diff(indptr))
    assert (rows != indices).all()
    assert set(zip(rows.tolist(), indices.tolist(), strict=True)) == set(
        zip(indices.tolist(), rows.tolist(), strict=True)
    )
    assert abs((rows // 1000 == indices // 1000).mean() - 0.5) < 0.02  # the order says nothing of the blocks
    alike = (features[rows] * features[indices]).mean() / (features * np.roll(features, 1, axis=0)).mean()
    assert alike > 1.2  # the features do
    assert growth.fit_exponent([10, 100, 1000], [3.0, 60.0, 1200.0]) == pytest.approx(np.log10(20))
    assert growth.fit_exponent([10], [1.0]) is None


def test_stages_above_the_limit_are_named():
    import stages

    seconds = {"read": 3.0, "train": 6.0, "split": 0.5, "epoch_median": 0.03, "synchronise": 0.1, "total": 9.5}
    row = stages.describe(seconds, 10.0, "embed")
    assert row["above_limit"] == ["read"]
    assert row["stages"]["start"] == pytest.approx(0.5)
    assert sum(row["shares"].values()) == pytest.approx(1)
    shared = {"command": "embed", "dataset": "some", "method": "gae"}
    assert stages.render([{**shared, **row}, {**shared, "skipped": "exit code 2"}]).row_count == 2
