"""Embedding parts: a folder of Parquet files says what one file says, also where ranks write it together."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import write
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.write import check_output, check_parts, is_parts, write_embedding, write_parts

from ..parallel.threads import run_ranks

VECTORS = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)
NAMES = np.array([f"node {number}" for number in range(11)], object)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(write, "_PART_ROWS", 4)


@pytest.mark.parametrize("ids", [None, NAMES])
@pytest.mark.parametrize("bounds", [[0, 11], [0, 5, 5, 11]])
def test_parts_have_the_rows_and_columns_of_one_file(tmp_path, ids, bounds):
    def work(communicator):
        write_parts(tmp_path / "parts", VECTORS[slice(*bounds[communicator.rank :][:2])], ids, communicator)

    for _ in range(2):  # the second time in the place of the first
        run_ranks(len(bounds) - 1, work)
    write_embedding(tmp_path / "one.parquet", VECTORS, ids)
    found = sorted((tmp_path / "parts").iterdir())
    assert [path.name for path in found] == [f"part-{number:05d}.parquet" for number in range(len(found))]
    assert [pq.read_metadata(path).num_rows for path in found] == ([4, 4, 3] if len(bounds) == 2 else [4, 1, 4, 2])
    assert {str(pq.read_schema(path)) for path in found} == {str(pq.read_schema(tmp_path / "one.parquet"))}
    for one, other in zip(read_embedding(tmp_path / "parts"), read_embedding(tmp_path / "one.parquet"), strict=True):
        np.testing.assert_array_equal(one, other)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.parquet", "parts"]  # nothing is left over


def test_what_fails_leaves_the_parts_before_it(tmp_path, monkeypatch):
    write_parts(tmp_path / "parts", VECTORS)

    def fail(*_):
        raise InputError("no more")

    monkeypatch.setattr(write, "_write_part", fail)
    with pytest.raises(InputError, match="no more"):
        write_parts(tmp_path / "parts", 2 * VECTORS)
    np.testing.assert_array_equal(read_embedding(tmp_path / "parts")[1], VECTORS)
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_parts_come_back_where_the_new_ones_cannot_take_their_place(tmp_path, monkeypatch):
    write_parts(tmp_path / "parts", VECTORS)
    rename = Path.rename

    def fail(path, target):
        if path.name.endswith(".part") and Path(target).name == "parts":
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(ResourceError):
        write_parts(tmp_path / "parts", 2 * VECTORS)
    np.testing.assert_array_equal(read_embedding(tmp_path / "parts")[1], VECTORS)
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_a_folder_without_a_slash_is_told_about_parts(tmp_path):
    with pytest.raises(InputError, match=r"is a folder; give the name of a file in it, or .*/ for Parquet parts"):
        check_output(str(tmp_path))


def test_other_files_are_never_deleted(tmp_path):
    assert is_parts("parts/")
    assert not is_parts("parts")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(notes.txt\)"):
        check_parts(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        check_parts(tmp_path / "notes.txt")
    with pytest.raises(InputError, match="no such folder"):
        check_parts(tmp_path / "missing" / "parts")
