"""What the fuzzing found (tests/fuzz), one small file each: refused in one line, or read as it is."""

import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.archives import decoded_size
from l2g2g.graphs.arrow_tables import open_parquet
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.read import read_graph

RING = [(node, (node + 1) % 5) for node in range(5)]


def arrays(**changes):
    matrix = sp.csr_array((np.ones(5), tuple(np.array(RING).T)), shape=(5, 5))
    parts = {"adj_indptr": matrix.indptr, "adj_indices": matrix.indices, "adj_data": matrix.data, "adj_shape": [5, 5]}
    return {**parts, **changes}


def test_a_cell_longer_than_the_parser_takes(tmp_path):
    (tmp_path / "e.csv").write_text("a,b\n" + "x" * 200_000 + ",b\n")
    assert read_graph(tmp_path / "e.csv").num_edges == 2
    (tmp_path / "e.csv").write_text("x" * 200_000 + "\na,b\n")
    with pytest.raises(InputError, match="column"):
        read_graph(tmp_path / "e.csv")


def test_more_columns_than_text_should_have(tmp_path):
    (tmp_path / "f.csv").write_text("1," * 40_000 + "1\n")
    with pytest.raises(InputError, match=r"40,001 columns; use \.npz"):
        read_graph(np.array(RING), features=tmp_path / "f.csv")


def test_features_with_both_infinities_are_named_without_a_warning(tmp_path):
    np.save(tmp_path / "f.npy", np.array([[np.inf], [-np.inf], [0], [0], [0]]))
    with pytest.raises(InputError, match="feature row 0, column 0 is inf"):
        read_graph(np.array(RING), features=tmp_path / "f.npy")


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i8", "<f2"])
def test_numbers_in_a_foreign_order_or_of_half_width(tmp_path, kind):
    np.savez(tmp_path / "g.npz", **arrays(adj_data=np.ones(5, kind), adj_indices=np.arange(1, 6).astype(">i4") % 5))
    assert read_graph(tmp_path / "g.npz").num_edges == 5
    np.save(tmp_path / "f.npy", np.ones((5, 2), kind))
    assert read_graph(np.array(RING), features=tmp_path / "f.npy").num_features == 2


def test_data_that_is_one_number(tmp_path):
    np.savez(tmp_path / "g.npz", **arrays(adj_data=np.float32(1)))
    with pytest.raises(InputError, match="write the archive again"):
        read_graph(tmp_path / "g.npz")


def test_a_format_that_is_no_word(tmp_path):
    np.savez(tmp_path / "g.npz", format=np.array(["csr", "csr"]))
    with pytest.raises(InputError, match="format must be one word"):
        read_graph(tmp_path / "g.npz")


def test_names_from_a_file_stay_on_the_line_of_the_error(tmp_path):
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        archive.writestr("a\nb\x1b[31m.npy", stream.getvalue())
    with pytest.raises(InputError) as error:
        read_graph(tmp_path / "g.npz")
    assert str(error.value).isprintable()
    assert r"a\nb\x1b[31m" in str(error.value)


def test_a_shape_of_thousands_of_numbers_does_not_fill_the_screen(tmp_path):
    np.savez(tmp_path / "g.npz", **arrays(adj_shape=np.arange(9000)))
    with pytest.raises(InputError) as error:
        read_graph(tmp_path / "g.npz")
    assert len(str(error.value)) < 2100


@pytest.mark.parametrize("kind", ["encrypted", "lzma"])
def test_archives_that_cannot_be_unpacked(tmp_path, kind):
    stream = io.BytesIO()
    np.save(stream, np.zeros(300))
    path = tmp_path / "g.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", stream.getvalue())
    content = bytearray(path.read_bytes())
    if kind == "encrypted":
        content[6] |= 1
        content[content.index(b"PK\x01\x02") + 8] |= 1
    else:
        content[60:80] = bytes(20)
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="damaged or cut off"):
        read_graph(path)


def test_an_array_that_python_2_wrote_is_read_without_a_word(tmp_path):
    np.save(tmp_path / "f.npy", np.ones((5, 2)))
    content = (tmp_path / "f.npy").read_bytes()
    (tmp_path / "f.npy").write_bytes(content.replace(b"(5, 2), } ", b"(5L, 2), }"))
    assert read_graph(np.array(RING), features=tmp_path / "f.npy").num_features == 2


@pytest.mark.parametrize("first", ["3 1000000000", "3 0", "3 5"])
def test_word2vec_text_that_promises_other_columns(tmp_path, first):
    (tmp_path / "v.txt").write_text(f"{first}\na 1 2\nb 3 4\nc 5 6\n")
    with pytest.raises(InputError, match=r"promises .* numbers a row but line 2 has 2"):
        read_embedding(tmp_path / "v.txt")


@pytest.mark.parametrize("name", ["v.npy", "v.txt"])
def test_vectors_that_are_not_finite(tmp_path, name):
    np.save(tmp_path / "v.npy", np.array([[1.0], [np.nan]]))
    (tmp_path / "v.txt").write_text("2 1\na 1\nb nan\n")
    with pytest.raises(InputError, match="row 1 holds a number that is not finite"):
        read_embedding(tmp_path / name)


# --- Parquet: a few bytes for any number of rows, numbers and letters -------------------------------


def bomb(path, kind):
    if kind == "rows":
        columns = [pa.array(np.zeros(10_000_000, np.int64))] * 2
    elif kind == "lists":
        zeros = pa.array(np.zeros(20_000_000))
        columns = [pa.array([1]), pa.LargeListArray.from_arrays([0, len(zeros)], zeros)]
    else:
        columns = [pa.array(["x" * 100_000] * 1000, pa.large_string())] * 2
    pq.write_table(pa.table(columns, names=["a", "b"]), path, compression="zstd")
    assert path.stat().st_size < 400_000
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "lists", "names"])
def test_parquet_bombs_are_refused_before_they_are_unpacked(tmp_path, kind):
    path = bomb(tmp_path / "e.parquet", kind)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    with pytest.raises(ResourceError, match="unpacks to at least"):
        open_parquet(path).read(50_000_000)
    assert pool.bytes_allocated() - before < 50_000_000


def test_sizes_are_those_that_pyarrow_tells(tmp_path):
    table = pa.table({"a": np.arange(1000), "b": [f"n{number}" for number in range(1000)], "c": [[1.0, 2.0]] * 1000})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=300)
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    expected = sum(max(chunk.total_uncompressed_size, 4 * chunk.num_values) for chunk in chunks)
    assert decoded_size(tmp_path / "t.parquet") == expected > 0


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"PAR1\x19\x02\0\0\0PAR1"])
def test_footers_that_make_no_sense(tmp_path, content):
    (tmp_path / "e.parquet").write_bytes(content)
    with pytest.raises(InputError, match="damaged or cut off"):
        read_graph(tmp_path / "e.parquet")


def test_text_that_is_no_text(tmp_path):
    names = pa.array([b"n1", b"n\xff"], pa.binary())
    wrong = pa.StringArray.from_buffers(2, names.buffers()[1], names.buffers()[2])
    pq.write_table(pa.table([wrong, pa.array(["n3", "n4"])], names=["a", "b"]), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="damaged or cut off"):
        read_graph(tmp_path / "e.parquet")


@pytest.mark.parametrize("column", [pa.array([{"a": 1}]), pa.array([["a"]]), pa.array([b"a"], pa.binary())])
def test_columns_of_other_kinds(tmp_path, column):
    pq.write_table(pa.table([pa.array([1]), column], names=["a", "b"]), tmp_path / "e.parquet")
    with pytest.raises(InputError, match="column 'b' holds"):
        read_graph(tmp_path / "e.parquet")
