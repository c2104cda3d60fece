"""The saved folder: the same after reading, whole or not there, and refused in one line where anything was changed."""

import json
import shutil

import numpy as np
import pytest

from l2g2g import GAE, L2G2G, InputError
from l2g2g.cli.model import read_finished
from l2g2g.cli.neighbours import open_published
from l2g2g.errors import ResourceError
from l2g2g.estimators.estimator import load_model
from l2g2g.graphs import array_writer
from l2g2g.graphs.array_folder import manifest_hash
from l2g2g.graphs.store import write_graph
from l2g2g.runs.artefact import KIND, Artefact, Contents, list_trainings, open_artefact, write_artefact
from l2g2g.runs.record import list_rows, read_record
from l2g2g.runs.saved_model import read_fitted


@pytest.fixture(scope="module")
def model(noisy):
    return L2G2G(dim=4, hidden=8, patches=3, epochs=3, threads=1).fit(noisy)


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture
def folder(saved):
    return saved / "trainings" / "embed"


def read_all(directory):
    """As every command reads it."""
    artefact = open_artefact(directory)
    read_fitted(artefact)
    return read_record(artefact)


def seal(folder, change):
    """Change the manifest as somebody would who knows how it is signed."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sha256": manifest_hash(manifest)}))


def test_there_and_back(model, saved):
    held, found = model._artefact, open_artefact(saved)
    assert {**held.values, "name": "embed", "version": 1} == found.values
    assert held.weights.keys() == found.weights.keys()
    assert all((held.weights[name] == found.weights[name]).all() for name in held.weights)
    assert held.arrays.keys() == found.arrays.keys() | set()
    for name in held.arrays:
        assert held.arrays[name].dtype == found.arrays[name].dtype
        assert np.array_equal(held.arrays[name], found.arrays[name]), name
    manifest = json.loads((saved / "trainings" / "embed" / "manifest.json").read_text())
    assert manifest["kind"] == KIND
    assert {"config", "history", "row", "command", "versions", "graph"} <= manifest["values"].keys()
    assert all(len(item["sha256"]) == 64 for part in ("arrays", "files") for item in manifest[part].values())


def test_blocks_are_one_array_and_no_second_copy_is_made(tmp_path):
    rows = np.arange(12.0).reshape(6, 2)

    def parts():
        for low in (0, 2, 4):
            yield "rows", rows[low : low + 2]

    write_artefact(tmp_path, "x", Contents({}, {}, parts))
    assert np.array_equal(open_artefact(tmp_path).arrays["rows"], rows)
    whole = Contents({}, {}, lambda: iter([("rows", rows)])).in_memory()
    assert whole.arrays["rows"] is rows


def test_a_new_one_replaces_the_old_one_and_leaves_nothing_beside_it(model, saved):
    write_artefact(saved, "embed", model._artefact.contents(command="again"))
    assert read_all(saved).command == "again"
    assert [path.name for path in (saved / "trainings").iterdir()] == ["embed"]


def test_what_fails_while_it_is_written_leaves_the_old_one(model, saved, monkeypatch):
    def broken():
        yield "vectors", np.ones((3, 2), np.float32)
        raise OSError(28, "No space left on device")

    with pytest.raises(ResourceError, match="No space left on device"):
        write_artefact(saved, "embed", Contents({}, {}, broken))
    assert np.array_equal(read_all(saved).vectors, model.embedding_)
    assert [path.name for path in (saved / "trainings").iterdir()] == ["embed"]


def test_between_the_two_renames_the_old_one_is_read(model, saved, monkeypatch):
    class Killed(BaseException):
        pass

    def die(part, folder):
        folder.rename(array_writer.replaced_folder(folder))
        raise Killed

    monkeypatch.setattr(array_writer, "move_into_place", die)
    with pytest.raises(Killed):
        write_artefact(saved, "embed", model._artefact.contents(command="new"))
    assert list_trainings(saved) == ["embed"]
    assert read_all(saved).command == ""
    monkeypatch.undo()
    write_artefact(saved, "embed", model._artefact.contents(command="new"))
    assert read_all(saved).command == "new"
    assert [path.name for path in (saved / "trainings").iterdir()] == ["embed"]


def test_places_that_cannot_be_written_to(model):
    with pytest.raises(ResourceError, match="cannot be written"):
        model.save("/proc/l2g2g/one")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", b"{", "is damaged"),
        ("manifest.json", b"[]", "is damaged"),
        ("manifest.json", None, "never finished; make the run again"),
        ("weights.safetensors", b"", "its checksum differs"),
        ("weights.safetensors", None, "is missing"),
        ("vectors.npy", b"", "is damaged"),
        ("state_layer_1.npy", None, "is missing"),
    ],
)
def test_damage_is_told_in_one_line(saved, folder, name, content, message):
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    for read in (read_all, load_model, list_rows, lambda path: read_finished(path, {}), open_published):
        with pytest.raises(InputError, match=message) as caught:
            read(saved)
        assert "\n" not in str(caught.value)
        assert "make the run again" in str(caught.value)


@pytest.mark.parametrize("name", ["vectors.npy", "state_layer_0.npy", "edges_indices.npy", "weights.safetensors"])
def test_one_flipped_byte_and_a_cut_file_are_noticed(saved, folder, name):
    data = (folder / name).read_bytes()
    for changed in (data[:-1] + bytes([data[-1] ^ 1]), data[: len(data) // 2]):
        (folder / name).write_bytes(changed)
        with pytest.raises(InputError, match=r"is damaged .*; make the run again"):
            read_all(saved)
    (folder / name).write_bytes(data)
    read_all(saved)


@pytest.mark.parametrize("old", ["model.json", "records/embed/record.json"])
def test_what_an_older_version_left_is_refused(tmp_path, old):
    (tmp_path / old).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / old).write_text("{}")
    for read in (read_all, load_model, list_rows, lambda path: read_finished(path, {}), open_published):
        with pytest.raises(InputError, match=r"was written by an older version.*; make the run again$"):
            read(tmp_path)


def test_other_folders_are_refused(noisy, saved, folder, tmp_path):
    seal(folder, lambda manifest: manifest["values"].update(version=9))
    with pytest.raises(InputError, match=r"of format 9, and this version reads format 1; make the run again"):
        read_all(saved)
    seal(folder, lambda manifest: manifest.update(format="l2g2g arrays 99"))
    with pytest.raises(InputError, match="'l2g2g arrays 99'"):
        read_all(saved)
    shutil.rmtree(folder)
    shutil.move(write_graph(noisy, tmp_path / "store").directory / "graph", folder)
    with pytest.raises(InputError, match=rf"holds graph .* this version reads {KIND}"):
        read_all(saved)
    with pytest.raises(InputError, match="no such directory"):
        open_artefact(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no run has finished here"):
        open_artefact(tmp_path / "empty")


def test_a_directory_may_hold_several_trainings(model, saved):
    write_artefact(saved, "gae-seed-1", model._artefact.contents(row={"auc": 0.5}))
    assert list_trainings(saved) == ["embed", "gae-seed-1"]
    assert open_artefact(saved).values["name"] == "embed"
    assert open_artefact(saved, "gae-seed-1").values["row"] == {"auc": 0.5}
    assert [row["name"] for row in list_rows(saved)] == ["embed", "gae-seed-1"]
    with pytest.raises(InputError, match="no training 'x'; it holds embed, gae-seed-1"):
        open_artefact(saved, "x")


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["patches"].update(pairs=[[0, 7]]),
        lambda values: values["patches"].update(overlaps=[]),
        lambda values: values["graph"].update(num_nodes="many"),
        lambda values: values["graph"].update(num_nodes=7),
        lambda values: values["history"].update(losses=["x"]),
        lambda values: values["separation"].update(edges=[]),
        lambda values: values.pop("versions"),
        lambda values: values.update(row=3),
        lambda values: values.update(config={"dim": "wide"}),
        lambda values: values["config"].update(layers=5),
        lambda values: values["config"].update(decoder="product"),
        lambda values: values.update(inputs={}),
        lambda values: values.update(whole=3, classes=[]),
    ],
)
def test_values_that_do_not_fit_are_refused(saved, folder, change):
    seal(folder, lambda manifest: change(manifest["values"]))
    with pytest.raises(InputError) as caught:
        read_all(saved)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"vectors": np.zeros((120, 0), np.float32)},
        {"vectors": np.full((120, 4), np.nan, np.float32)},
        {"degrees": np.zeros(39, np.int32)},
        {"labels": np.full(120, 9, np.int32)},
        {"ids": np.arange(3)},
        {"ids_offsets": np.arange(121), "ids_bytes": np.full(121, 65, np.uint8)},
        {"residuals": np.full(120, np.inf, np.float32)},
        {"edges_indptr": np.concatenate([[0, 2, 1], np.full(118, 2)]), "edges_indices": np.array([1, 2], np.int32)},
        {"edges_indptr": np.concatenate([[0], np.full(120, 2)]), "edges_indices": np.array([1, 120], np.int32)},
        {"edges_indptr": np.concatenate([[0], np.full(120, 2)]), "edges_indices": np.array([2, 1], np.int32)},
        {"edges_indptr": np.concatenate([[0, 0], np.full(119, 1)]), "edges_indices": np.array([0], np.int32)},
        {"edges_indptr": np.concatenate([[0], np.full(120, 1)]).astype(np.uint64), "edges_indices": np.ones(1, int)},
        {"state_layer_0": np.zeros((120, 3), np.float32)},
        {"state_node_degrees": np.zeros(120, np.float32)},
    ],
    ids=lambda change: ", ".join(change),
)
def test_arrays_that_do_not_fit_are_refused(model, tmp_path, change):
    held = model._artefact
    changed = Artefact(held.values, held.weights, {**held.arrays, **change}, "x")
    write_artefact(tmp_path, "embed", changed.contents())
    with pytest.raises(InputError, match=r"is no finished training .*; make the run again") as caught:
        read_all(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "missing", ["state_node_degrees", "frame.scales", "state_layer_1", "model.encoders.0.weights.0"]
)
def test_a_missing_part_is_noticed(noisy, tmp_path, missing):
    held = GAE(dim=4, epochs=2, threads=1).fit(noisy)._artefact
    arrays = {name: array for name, array in held.arrays.items() if name != missing}
    weights = {name: value for name, value in held.weights.items() if name != missing}
    write_artefact(tmp_path, "embed", Artefact(held.values, weights, arrays, "x").contents())
    with pytest.raises(InputError, match="is no finished training"):
        load_model(tmp_path)
