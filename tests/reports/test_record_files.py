"""Records on disk: the same after reading, whole or not there, and refused where anything was changed."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from l2g2g.errors import InputError, ResourceError
from l2g2g.reports.record_files import read_record, read_row, write_record


def rewrite(path, change):
    """Change a record's facts, and nothing else."""
    facts = json.loads((path / "record.json").read_text())
    change(facts)
    (path / "record.json").write_text(json.dumps(facts))


def test_there_and_back(record, with_decoder, tmp_path):
    for kind in ("inner", "product", "distance"):
        one = with_decoder(kind)
        write_record(tmp_path / kind, one)
        back = read_record(tmp_path / kind)
        for name in ("name", "row", "settings", "graph", "history", "patches", "separation", "classes", "command"):
            assert getattr(back, name) == getattr(one, name), name
        for name in ("vectors", "degrees", "home", "labels", "residuals", "node_ids"):
            assert np.array_equal(getattr(back, name), getattr(one, name)), name
        assert (back.edges != one.edges).nnz == 0
        assert back.decoder.keys() == one.decoder.keys()
        assert all(np.array_equal(back.decoder[name], one.decoder[name]) for name in one.decoder)
        assert np.array_equal(back.tensors["frame.scales"], one.tensors["frame.scales"])
        assert read_row(tmp_path / kind) == one.row


def test_little_is_enough(record, tmp_path):
    bare = replace(
        record,
        **dict.fromkeys(("degrees", "home", "node_ids", "classes", "labels", "residuals", "edges", "separation")),
        graph=replace(record.graph, cleaning=None),
    )
    write_record(tmp_path / "bare", bare)
    back = read_record(tmp_path / "bare")
    assert asdict(back.graph) == asdict(bare.graph)
    assert (back.edges, back.labels, back.node_ids, back.names()) == (None, None, None, None)


def test_a_new_record_replaces_the_old_one_and_leaves_nothing_beside_it(record, tmp_path):
    write_record(tmp_path / "one", record)
    write_record(tmp_path / "one", replace(record, command="again"))
    assert read_record(tmp_path / "one").command == "again"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_places_that_cannot_be_written_to(record):
    with pytest.raises(ResourceError, match="cannot be written"):
        write_record(__import__("pathlib").Path("/proc/l2g2g/one"), record)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("record.json", b"{", "is no record of a run"),
        ("record.json", b"[]", "is no record of a run"),
        ("record.json", b'{"format": "l2g2g record 9"}', "this version reads 'l2g2g record 1'"),
        ("arrays.safetensors", b"", "its checksum differs"),
        ("names.json", b"{}", "its checksum differs"),
        ("names.json", None, "is missing; finish the run"),
    ],
)
def test_damage_is_told_in_one_line(record, tmp_path, name, content, message):
    write_record(tmp_path / "one", record)
    (tmp_path / "one" / name).unlink()
    if content is not None:
        (tmp_path / "one" / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_record(tmp_path / "one")


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["patches"].update(pairs=[[0, 7]]),
        lambda facts: facts["patches"].update(overlaps=[]),
        lambda facts: facts["graph"].update(num_nodes="many"),
        lambda facts: facts["history"].update(losses=["x"]),
        lambda facts: facts["separation"].update(edges=[]),
        lambda facts: facts.pop("versions"),
        lambda facts: facts.update(row=3),
    ],
)
def test_facts_that_do_not_fit_are_refused(record, tmp_path, change):
    write_record(tmp_path / "one", record)
    rewrite(tmp_path / "one", change)
    with pytest.raises(InputError, match="is no record of a run"):
        read_record(tmp_path / "one")


@pytest.mark.parametrize(
    "change",
    [
        {"vectors": np.zeros((40, 0), np.float32)},
        {"vectors": np.full((40, 6), np.nan, np.float32)},
        {"degrees": np.zeros(39, np.int32)},
        {"labels": np.full(40, 3, np.int32)},
        {"labels": None},
        {"node_ids": np.arange(3)},
        {"residuals": np.full(40, np.inf, np.float32)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(record, tmp_path, change):
    write_record(tmp_path / "one", replace(record, **change))
    with pytest.raises(InputError, match="is no record of a run"):
        read_record(tmp_path / "one")


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([0, 2, 1, *[2] * 38], [1, 2]),
        ([0, *[2] * 40], [1, 40]),
        ([0, *[2] * 40], [2, 1]),
        ([0, 0, *[1] * 39], [0]),
        ([0, *[3] * 40], [1, 2]),
        (np.array([0, *[1] * 40], np.uint64), [1]),
    ],
)
def test_edges_that_do_not_fit_are_refused(record, tmp_path, indptr, indices):
    edges = record.edges.copy()
    edges.indptr, edges.indices = np.asarray(indptr), np.asarray(indices)
    write_record(tmp_path / "one", replace(record, edges=edges))
    with pytest.raises(InputError, match="is no record of a run"):
        read_record(tmp_path / "one")
