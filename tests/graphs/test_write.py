from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import write as write_module
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.write import check_output, write_embedding

VECTORS = np.array([[0.5, -1.0], [1e-7, 3.25], [1 / 3, 2e20]], dtype=np.float32)
NAMES = np.array(["ann", 'b"o,b', "#é"], dtype=object)
ENDINGS = [".parquet", ".csv", ".txt", ".npy", ".arrow", ".feather"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("ids", [None, NAMES, np.array([7, 10**18, 0])], ids=["rows", "names", "integers"])
def test_what_is_written_is_read_back(tmp_path, ending, ids):
    path = tmp_path / f"z{ending}"
    write_embedding(path, VECTORS, ids)
    found_ids, found = read_embedding(path)
    assert found_ids.tolist() == (list(range(3)) if ids is None else ids.tolist())
    assert found.dtype == np.float32
    assert found.tolist() == VECTORS.tolist()
    expected_files = {path.name, "z.npy.ids.txt"} if ending == ".npy" else {path.name}
    assert {file.name for file in tmp_path.iterdir()} == expected_files


def test_formats_are_what_they_say(tmp_path):
    vectors = np.array([[0.5, -1.0], [2.0, 3.25]])
    write_embedding(tmp_path / "z.csv", vectors, np.array([4, 9]))
    assert (tmp_path / "z.csv").read_text() == '"id","dim_0","dim_1"\n4,0.5,-1\n9,2,3.25\n'
    write_embedding(tmp_path / "z.txt", vectors, np.array(["a", "b"]))
    assert (tmp_path / "z.txt").read_text() == "2 2\na 0.5 -1\nb 2 3.25\n"
    write_embedding(tmp_path / "z.npy", vectors, np.array(["a", "b"]))
    assert (tmp_path / "z.npy.ids.txt").read_text() == "a\nb\n"
    assert np.load(tmp_path / "z.npy").tolist() == vectors.tolist()
    write_embedding(tmp_path / "z.parquet", vectors)
    table = pq.read_table(tmp_path / "z.parquet")
    assert table.column_names == ["id", "embedding"]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 2)


def test_ids_that_a_format_cannot_hold_are_refused_before_anything_is_written(tmp_path):
    ids = np.array(["a", "b c", "d"])
    with pytest.raises(InputError, match=r"z\.txt: row 1: the id 'b c' .* write \.parquet"):
        write_embedding(tmp_path / "z.txt", VECTORS, ids)
    with pytest.raises(InputError, match="row 1"):
        check_output(tmp_path / "z.txt", ids)
    with pytest.raises(InputError, match="row 0"):
        write_embedding(tmp_path / "z.npy", VECTORS, np.array(["a\nb", "c", "d"]))
    assert list(tmp_path.iterdir()) == []
    write_embedding(tmp_path / "z.csv", VECTORS, np.array([" a", "b c", ""], dtype=object))
    assert read_embedding(tmp_path / "z.csv")[0].tolist() == [" a", "b c", ""]


def test_wrong_shapes_are_refused(tmp_path):
    with pytest.raises(InputError, match="3 vectors but 2 ids"):
        write_embedding(tmp_path / "z.csv", VECTORS, np.array([1, 2]))
    with pytest.raises(InputError, match="shape"):
        write_embedding(tmp_path / "z.csv", np.ones(3))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, ending):
    path = tmp_path / f"z{ending}"
    write_embedding(path, VECTORS)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def fail(file_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write_module.os, "fsync", fail)
    with pytest.raises(ResourceError, match=r"z\..*No space left") as caught:
        write_embedding(path, VECTORS + 1)
    assert caught.value.exit_code == 3
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_outputs_are_checked_beforehand(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"unknown ending; use one of \.parquet, \.csv, \.txt, \.npy"):
        check_output(tmp_path / "z.xlsx")
    with pytest.raises(InputError, match="is a folder"):
        check_output(tmp_path / "folder.csv")
    with pytest.raises(InputError, match="missing: no such folder"):
        check_output(tmp_path / "missing" / "z.csv")
    with pytest.raises(InputError, match="is a file, not a folder"):
        check_output(tmp_path / "file" / "z.csv")
    check_output(tmp_path / "z.PARQUET")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder.csv"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="only Linux has /proc, which even root cannot write to")
def test_a_folder_that_cannot_be_written_to_is_noticed():
    with pytest.raises(ResourceError, match="cannot be written to") as caught:
        check_output("/proc/z.csv")
    assert caught.value.exit_code == 3


def test_tables_by_others_are_read(tmp_path):
    (tmp_path / "z.csv").write_text("a,1,2\nb,3,4\n")
    ids, vectors = read_embedding(tmp_path / "z.csv")
    assert (ids.tolist(), vectors.tolist()) == (["a", "b"], [[1, 2], [3, 4]])
    pq.write_table(pa.table({"node": [3, 5], "x": [1.0, 2.0], "y": [0, 1]}), tmp_path / "z.parquet")
    ids, vectors = read_embedding(tmp_path / "z.parquet")
    assert (ids.tolist(), vectors.tolist()) == ([3, 5], [[1, 0], [2, 1]])
    np.save(tmp_path / "z.npy", VECTORS.astype(float))
    assert read_embedding(tmp_path / "z.npy")[0].tolist() == [0, 1, 2]


def test_bad_embedding_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such embedding file"):
        read_embedding(tmp_path / "z.csv")
    (tmp_path / "z.txt").write_text("3 2\na 1 2\n")
    with pytest.raises(InputError, match="promises 3 rows but there are 1"):
        read_embedding(tmp_path / "z.txt")
    (tmp_path / "z.txt").write_text("1 2\na 1 tall\n")
    with pytest.raises(InputError, match=r"z\.txt"):
        read_embedding(tmp_path / "z.txt")
    np.save(tmp_path / "z.npy", VECTORS)
    (tmp_path / "z.npy.ids.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match="2 ids but 3 vectors"):
        read_embedding(tmp_path / "z.npy")
    pq.write_table(pa.table({"id": [1, 2], "v": [[1.0], [1.0, 2.0]]}), tmp_path / "z.parquet")
    with pytest.raises(InputError, match="row 2 has 2 numbers, row 1 has 1"):
        read_embedding(tmp_path / "z.parquet")
    pq.write_table(pa.table({"id": [1, 1], "v": [[1.0], [1.0]]}), tmp_path / "z.parquet")
    with pytest.raises(InputError, match="node 1 is in row 1 and again in row 2"):
        read_embedding(tmp_path / "z.parquet")
