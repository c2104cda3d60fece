"""Rows 32 to 38: overlaps, patches and losses that go wrong, and settings at their limits."""

import warnings

import numpy as np
import pytest
import torch

from l2g2g import align
from l2g2g.alignment.procrustes import AlignmentWarning
from l2g2g.config import make_config
from l2g2g.errors import NumericalError
from l2g2g.patches.overlap import make_patches
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.patches import cut
from l2g2g.training.checkpoint import CheckpointStore

from .conftest import SMALL


@pytest.mark.fault(32)
def test_small_overlaps_are_enlarged(planted, happened):
    labels = np.repeat([0, 1, 2, 3], 30)
    patch_set = make_patches(planted, labels, min_overlap=9, target_overlap=9)
    least = int(patch_set.overlaps.sizes.min())
    assert least >= 9  # at dimension 8
    # Where even all that may be added is too little, the rotation is regularised towards the last frame.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        run = embed_graph(planted, make_config("l2g2g", dim=16, patches=4, epochs=3, rotate=True, translate=True))
    assert run.patch_set.overlaps.sizes.min() < 17
    assert np.isfinite(run.embedding).all()
    happened(f"grown to {least} nodes at dimension 8; too few for dimension 16: regularised, finite")


@pytest.mark.fault(33)
def test_points_on_a_line(happened):
    line = np.linspace(0, 1, 8)[:, None] * np.array([[1.0, 2.0, 3.0]])
    with pytest.warns(AlignmentWarning, match="singular values") as told:
        aligned = align([(np.arange(8), line), (np.arange(4, 12), line + 1)])
    assert np.isfinite(aligned.embedding).all()
    happened(str(told[0].message)[:90])


@pytest.mark.fault(34)
def test_disconnected_patch_graphs_are_joined(islands, happened):
    patch_set = make_patches(islands, np.repeat([0, 1, 2], [20, 20, 24]), min_overlap=4, target_overlap=6)
    assert patch_set.num_joined == 2
    config = make_config("l2g2g", dim=3, patches=3, epochs=3, rotate=True, translate=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AlignmentWarning)
        run = embed_graph(islands, config)
    assert run.describe()["num_joined_patches"] == 2
    assert np.isfinite(run.embedding).all()
    happened("2 joins, reported, finite")


@pytest.mark.fault(35)
@pytest.mark.parametrize("partition", ["metis", "fennel", "random"])
@pytest.mark.parametrize("patches", [2, 7, 20])
def test_every_node_is_in_a_patch(islands, partition, patches):
    patch_set = cut(islands, make_config("l2g2g", dim=2, patches=patches, partition=partition))
    assert set(patch_set.global_nodes.tolist()) == set(range(islands.num_nodes))


@pytest.fixture
def failing(monkeypatch):
    """Let a solver of torch.linalg fail; returns the list of its failures."""

    def call(solver):
        failures = []

        def fail(*_, **__):
            failures.append(solver)
            raise torch.linalg.LinAlgError("forced")

        monkeypatch.setattr(torch.linalg, solver, fail)
        return failures

    return call


@pytest.mark.fault(36)
@pytest.mark.parametrize("solver", ["svd", "eigh"])
def test_solvers_that_fail_have_another_way(noisy, failing, happened, solver):
    config = make_config("gae+l2g", dim=3, hidden=6, patches=4, epochs=4, structure="none")
    whole = embed_graph(noisy, config).embedding
    failures = failing(solver)
    other = embed_graph(noisy, config).embedding
    difference = float(np.abs(whole - other).max())
    assert failures
    assert difference < 1e-3
    failing("svd")
    failing("qr")
    with pytest.raises(NumericalError):
        embed_graph(noisy, config)
    happened(f"{solver} failed {len(failures)} times: another way, off by {difference:.0e}; none left: exit 4")


@pytest.mark.fault(36)
def test_a_solver_without_another_way_is_one_line(command, edges, tmp_path, failing):
    failing("eigh")  # columns made from the structure need it
    code, rows, err = command("embed", edges, "-m", "gae", *SMALL, "-o", tmp_path / "o.npy", "--epochs", 2)
    assert (code, rows, len(err.splitlines())) == (4, [], 1)
    assert "could not be factorised (forced)" in err


@pytest.mark.fault(37)
def test_rates_that_are_far_too_high(command, edges, tmp_path, happened):
    run_dir = tmp_path / "run"
    base = ["embed", edges, "-m", "l2g2g", *SMALL, "-o", tmp_path / "o.npy", "--epochs", 40]
    code, rows, err = command(*base, "--lr", "1e6", "--run-dir", run_dir, "--checkpoint-every", 0)
    assert (code, rows) == (4, [])
    assert "lower the learning rate (--lr)" in err
    assert not (tmp_path / "o.npy").exists()
    kept = CheckpointStore(run_dir / "checkpoints" / "embed").load()
    good = [value for name, value in kept.tensors.items() if name.startswith("good.")]
    assert good
    assert all(bool(torch.isfinite(value).all()) for value in good)
    code, (row,), _ = command(*base, "--lr", "5")
    assert code == 0
    assert row["recoveries"] > 0
    happened(f"lr 1e6: exit 4, epoch {kept.epoch} kept; lr 5: {row['recoveries']} recoveries")


@pytest.mark.fault(38)
@pytest.mark.parametrize(("local", "whole"), [("l2g2g", "gae"), ("vl2g2g", "vgae")])
def test_one_patch_is_exactly_gae(noisy, happened, local, whole):
    options = {"dim": 4, "epochs": 12, "seed": 3}
    first = embed_graph(noisy, make_config(local, patches=1, **options)).embedding
    second = embed_graph(noisy, make_config(whole, **options)).embedding
    assert first.tobytes() == second.tobytes()
    happened(f"{local} with one patch has the bits of {whole}")


@pytest.mark.fault(38)
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--resume"], "--resume needs --run-dir"),
        (["--resume", "--run-dir", "nothing"], "nothing to resume"),
        (["--patches", "500"], "500 patches were asked for"),
        (["--patches", "0"], "--patches is 0"),
        (["--dim", "0"], "--dim is 0"),
        (["--epochs", "-3"], "--epochs is -3"),
    ],
)
def test_settings_that_cannot_be(command, edges, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    code, rows, err = command("embed", edges, *SMALL, "-o", tmp_path / "o.npy", *arguments)
    assert (code, rows, len(err.splitlines())) == (2, [], 1)
    assert word in err
    assert list(tmp_path.iterdir()) == []
