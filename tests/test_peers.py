"""The benchmark of peers, with peers that need no network: scoring, skipping with a reason, taking up a run again."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from l2g2g.evaluation.links import evaluate_links, score_cosines
from l2g2g.graphs.splits import split_links

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

# Writes the graph's rows hashed into few columns, and leaves a trace of each run.
FAKE = """
import json, sys
from pathlib import Path
import numpy as np
folder, dim = Path(sys.argv[1]), int(sys.argv[3])
indptr, indices = np.load(folder / "indptr.npy"), np.load(folder / "indices.npy")
rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
vectors = np.zeros((len(indptr) - 1, dim), np.float32)
np.add.at(vectors, (rows, indices * dim // (len(indptr) - 1)), 1.0)
np.save(folder / "vectors.npy", vectors)
with open(Path(__file__).parent / "runs", "a") as trace:
    trace.write("run ")
print("a peer may chatter")
print(json.dumps({"seconds": 0.5, "cpu_seconds": 0.25, "version": "1.0"}))
"""


@pytest.fixture
def peers(monkeypatch, tmp_path):
    """The command, with a fake peer that runs in this interpreter and one that is missing."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peer_process
    import peers

    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "broken.py").write_text("raise ValueError('no such graph')")
    listed = {
        "fake": peer_process.Peer("fake", ("fake-package",), "fake.py"),
        "broken": peer_process.Peer("broken", ("fake-package",), "broken.py"),
        "gone": peer_process.Peer("gone", missing="nothing to install"),
    }
    monkeypatch.setattr(peers, "PEERS", listed)
    monkeypatch.setattr(peer_process, "SCRIPTS", tmp_path)
    place = tmp_path / "environments" / "fake-package"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    (place / "ready").touch()
    return peers


@pytest.fixture
def command(peers, planted, tmp_path, capsys):
    """Run the command on the planted graph; returns its standard output."""
    edges = tmp_path / "planted.csv"
    edges.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in zip(*planted.edges(), strict=True)))

    def run(*arguments):
        shared = ["--graphs", str(edges), "--seeds", "0", "--dims", "4", "--results", str(tmp_path / "results.jsonl")]
        peers.main([*shared, "--environments", str(tmp_path / "environments"), *arguments])
        return capsys.readouterr().out

    return run


def block_vectors(planted, lengths):
    """Unit vector of a node's block, times a length."""
    blocks = np.arange(planted.num_nodes) // 30
    return np.eye(4, dtype=np.float32)[blocks] * lengths[:, None].astype(np.float32) + np.float32(0.01)


def test_the_way_of_scoring_is_chosen_by_validation_pairs(peers, planted):
    from peer_scores import score_peer

    split = split_links(planted, seed=0)
    lengths = np.exp(3 * np.random.default_rng(0).standard_normal(planted.num_nodes))
    vectors = block_vectors(planted, lengths)
    found = score_peer(vectors, split, seed=0)
    by_cosine = evaluate_links(vectors, split.test, score_cosines)
    assert found.chosen == "cosine"
    assert found.test == by_cosine
    assert found.validation_auc == evaluate_links(vectors, split.validation, score_cosines).auc
    assert found.test_auc_by_way["inner product"] < by_cosine.auc


def test_the_regression_learns_which_columns_speak_against_an_edge(peers, planted):
    from peer_scores import score_peer

    split = split_links(planted, seed=0)
    blocks = block_vectors(planted, np.ones(planted.num_nodes))
    noise = 5 * np.random.default_rng(1).standard_normal((planted.num_nodes, 3)).astype(np.float32)
    found = score_peer(np.concatenate([blocks, noise], axis=1), split, seed=0)
    assert found.chosen == "regression"
    assert found.test_auc_by_way["regression"] > found.test_auc_by_way["cosine"] + 0.1


def test_the_regression_never_sees_a_held_out_pair(peers, planted):
    from peer_scores import draw_training_pairs

    split = split_links(planted, validation_fraction=0.2, test_fraction=0.2, seed=0)
    drawn = draw_training_pairs(split, np.random.default_rng(0))
    for pairs, is_training_edge in ((drawn.positive, True), (drawn.negative, False)):
        assert len(pairs) == split.train.num_edges
        assert split.held_out[pairs[:, 0], pairs[:, 1]].sum() == 0
        assert (split.train.adjacency[pairs[:, 0], pairs[:, 1]] > 0).sum() == len(pairs) * is_training_edge


@pytest.mark.slow
def test_a_peer_runs_once_and_is_kept(command, tmp_path):
    first = command("--methods", "peers", "--peers", "fake")
    again = command("--methods", "peers", "--peers", "fake")
    assert first == again
    assert "fake (fake-package 1.0) | 4 |" in first
    assert (tmp_path / "runs").read_text() == "run "
    command("--methods", "peers", "--peers", "fake", "--again")
    assert (tmp_path / "runs").read_text() == "run run "
    (line,) = (tmp_path / "results.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert (row["seconds"], row["cpu_seconds"]) == (0.5, 0.25)
    assert 0.5 < row["auc"] < 1
    assert row["auc"] == row["auc_by_way"][row["scored_by"]]


def test_skipped_peers_say_why_and_are_tried_again(command, tmp_path):
    table = command("--methods", "peers", "--peers", "gone,broken")
    assert "skipped: nothing to install" in table
    assert "skipped: does not run: ValueError: no such graph" in table
    (tmp_path / "broken.py").write_text(FAKE)
    lines = [
        json.loads(line) for line in command("--methods", "peers", "--peers", "gone,broken", "--json").splitlines()
    ]
    assert [line["method"] for line in lines] == ["gone", "broken"]
    assert lines[0]["skipped"] == "nothing to install"
    assert lines[1]["auc"] > 0.5
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_a_package_that_does_not_install_is_a_reason(peers, tmp_path, monkeypatch):
    from peer_process import Peer, PeerSkipped, prepare_environment

    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peer = Peer("nobody", ("l2g2g-no-such-package",), "fake.py")
    with pytest.raises(PeerSkipped, match=r"does not install: ERROR: .*l2g2g-no-such-package"):
        prepare_environment(peer, tmp_path / "environments")


def test_wrong_answers_are_refused(command, tmp_path):
    (tmp_path / "fake.py").write_text(
        FAKE.replace("len(indptr) - 1, dim), np.float32", "len(indptr), dim), np.float32")
    )
    assert "skipped: gave vectors of shape (121, 4), not (120, 4)" in command("--methods", "peers", "--peers", "fake")


@pytest.mark.slow
def test_ours_stops_where_it_reaches_the_peer(command, peers, tmp_path):
    path = tmp_path / "results.jsonl"
    peer = {
        "dataset": "planted",
        "dim": 4,
        "seed": 0,
        "package": "fake 1",
        "ap": 0.5,
        "seconds": 0.5,
        "cpu_seconds": 0.5,
    }
    weak = {**peer, "method": "fake", "auc": 0.5, "validation_auc": 0.55}
    perfect = {**peer, "method": "broken", "auc": 1.0, "validation_auc": 1.0}
    path.write_text("".join(json.dumps(row) + "\n" for row in (weak, perfect)))
    table = command("--methods", "ours", "--presets", "default")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    targets = {row["target"]: row for row in rows if "target" in row}
    (whole,) = (row for row in rows if "validations" in row)
    assert targets["fake"]["target_auc"] == 0.55
    assert targets["fake"]["reached"]
    assert targets["fake"]["validation_auc"] >= 0.55
    assert targets["fake"]["epochs"] == peers.first_epoch_reaching(whole["validations"], 0.55) < whole["epochs"]
    assert not targets["broken"]["reached"]
    assert "| planted | fake | 4 | 50.00 | 0.50 | l2g2g default | 1 of 1 |" in table
    assert "| planted | broken | 4 | 100.00 | 0.50 | l2g2g default | 0 of 1 | – |" in table
    command("--methods", "peers", "--peers", "fake", "--again")
    left = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["target"] for row in left if "target" in row] == ["broken"]  # the other one rested on old figures


def test_first_epoch_reaching(peers):
    validations = [(5, 0.6), (10, 0.8), (15, 0.7), (20, 0.9)]
    assert peers.first_epoch_reaching(validations, 0.8) == 10
    assert peers.first_epoch_reaching(validations, 0.81) == 20
    assert peers.first_epoch_reaching(validations, 0.95) is None
