"""Checkpoints on disk: whole or not there, the last two kept, every damage noticed."""

import json
import os

import pytest
import torch

from l2g2g.config import make_config
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.block_model import BlockModel
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.run_directory import open_run
from l2g2g.training.checkpoint import Checkpoint, CheckpointStore, CheckpointWarning, read_checkpoint


def make(epoch):
    tensors = {"a": torch.arange(5) + epoch, "empty": torch.zeros(0, 2), "point": torch.tensor(0.1)}
    return Checkpoint(epoch, {"graph": {"num_nodes": 3}}, {"waited": epoch, "trouble": None}, tensors)


@pytest.fixture
def store(tmp_path):
    store = CheckpointStore(tmp_path / "run" / "embed")
    for epoch in (1, 2, 10):
        store.save(make(epoch))
    return store


def test_the_last_two_are_kept_and_the_latest_comes_back(store):
    assert [path.name for path in store.paths()] == ["epoch-00000010", "epoch-00000002"]
    assert sorted(path.name for path in store.folder.iterdir()) == ["epoch-00000002", "epoch-00000010"]
    found = store.load()
    assert (found.epoch, found.fingerprint, found.values) == (10, make(10).fingerprint, make(10).values)
    assert all(torch.equal(found.tensors[name], value) for name, value in make(10).tensors.items())


def test_nothing_there_is_no_error(tmp_path):
    assert CheckpointStore(tmp_path / "none").load() is None


def test_the_manifest_is_plain_json_with_the_sum_of_every_file(store):
    manifest = json.loads((store.paths()[0] / "manifest.json").read_text())
    assert manifest["values"]["epoch"] == 10
    assert set(manifest["files"]) == {path.name for path in store.paths()[0].iterdir()} - {"manifest.json"}


@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json"])
@pytest.mark.parametrize("kind", ["truncated", "empty", "missing", "longer", "a folder"])
def test_damage_falls_back_to_the_one_before_and_says_so(store, name, kind):
    file = store.paths()[0] / name
    data = file.read_bytes()
    if kind in ("missing", "a folder"):
        file.unlink()
        if kind == "a folder":
            file.mkdir()
    else:
        file.write_bytes({"truncated": data[: len(data) // 2], "empty": b"", "longer": data + b"x"}[kind])
    with pytest.warns(CheckpointWarning, match=r"goes on from epoch 2") as told:
        assert store.load().epoch == 2
    assert len(told) == 1
    # The damaged one is set aside, and the same epoch can be written again.
    store.save(make(10))
    assert store.load().epoch == 10


@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json"])
def test_every_flipped_byte_is_noticed_or_changes_nothing(store, name):
    file = store.paths()[0] / name
    data = file.read_bytes()
    whole = read_checkpoint(store.paths()[0])
    noticed = 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        file.write_bytes(changed)
        try:
            found = read_checkpoint(store.paths()[0])
        except InputError:
            noticed += 1
        else:  # a blank that became another blank in the JSON
            assert name == "manifest.json"
            assert (found.epoch, found.values, found.fingerprint) == (whole.epoch, whole.values, whole.fingerprint)
    assert noticed == len(data) if name == "state.safetensors" else noticed > 0.9 * len(data)


def test_where_all_are_damaged_nothing_is_guessed(store):
    for path in store.paths():
        (path / "state.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"no checkpoint is left.*epoch-00000010.*epoch-00000002"):
        store.load()
    assert len(store.paths()) == 2


def test_another_format_is_refused_by_its_name(store, monkeypatch):
    monkeypatch.setattr("l2g2g.graphs.array_folder.FORMAT", "l2g2g arrays 3")
    with pytest.raises(InputError, match="holds checkpoint of 'l2g2g arrays 2'"):
        read_checkpoint(store.paths()[0])


def test_what_a_killed_process_left_is_cleaned_and_never_read(store):
    (store.folder / ".epoch-00000011.part").mkdir()
    (store.folder / ".epoch-00000011.part" / "state.safetensors").write_bytes(b"half")
    (store.folder / ".epoch-00000001.old").mkdir()
    assert store.load().epoch == 10
    store.clean()
    assert sorted(path.name for path in store.folder.iterdir()) == ["epoch-00000002", "epoch-00000010"]


def test_a_full_disk_leaves_the_old_ones_and_no_part(store, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match=r"epoch 11 cannot be written \(No space left on device\)"):
        store.save(make(11))
    assert sorted(path.name for path in store.folder.iterdir()) == ["epoch-00000002", "epoch-00000010"]


def test_every_file_and_both_folders_are_forced_to_disk_before_the_name_is_there(store, monkeypatch):
    events = []
    fsync, rename = os.fsync, type(store.folder).rename
    monkeypatch.setattr(
        os, "fsync", lambda handle: (events.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    monkeypatch.setattr(
        type(store.folder),
        "rename",
        lambda path, other: (events.append(f"rename {other.name}"), rename(path, other))[1],
    )
    store.save(make(11))
    part = str(store.folder / ".epoch-00000011.part")
    assert events[:5] == [
        f"{part}/state.safetensors",
        f"{part}/manifest.json",
        part,
        "rename epoch-00000011",
        str(store.folder),
    ]


def test_the_size_of_a_checkpoint_does_not_depend_on_the_number_of_nodes(tmp_path):
    """So there is nothing to share out among ranks: weights, moments and rotations are the same on all."""
    config = make_config("l2g2g", patches=4, epochs=3, rotate=True, structure="none", threads=1)
    sizes = []
    for block_size in (30, 120):
        graph = BlockModel.planted(num_blocks=4, block_size=block_size, inside=0.3, outside=0.02).sample(0)
        folder = tmp_path / str(block_size)
        with open_run(folder, interval=0) as directory:
            embed_graph(graph, config, directory=directory)
        sizes.append([path.stat().st_size for path in sorted(folder.rglob("state.safetensors"))])
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) >= 1
