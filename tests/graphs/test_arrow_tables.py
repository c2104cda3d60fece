import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.arrow_tables import read_arrow, write_arrow
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.write import write_embedding

TABLE = pa.table({"id": ["a", "b"], "x": [1.0, 2.0], "y": [3, 4]})


def test_round_trip(tmp_path):
    write_arrow(tmp_path / "t.arrow", TABLE.schema, [TABLE])
    assert read_arrow(tmp_path / "t.arrow").equals(TABLE)


def test_others_read_what_is_written_and_the_other_way(tmp_path):
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    write_embedding(tmp_path / "z.feather", vectors, np.array(["a", "b", "c"]))
    table = pyarrow.feather.read_table(tmp_path / "z.feather")
    assert table["embedding"].to_pylist() == vectors.tolist()
    pyarrow.feather.write_feather(TABLE, str(tmp_path / "y.feather"), compression="uncompressed")
    ids, numbers = read_embedding(tmp_path / "y.feather")
    assert ids.tolist() == ["a", "b"]
    assert numbers.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_a_stream_is_read_too(tmp_path):
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert read_arrow(tmp_path / "t.arrow").equals(TABLE)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_packed_files_are_refused_before_they_are_unpacked(tmp_path, codec):
    bomb = pa.table({"id": np.arange(1_000_000), "x": np.zeros(1_000_000)})
    pyarrow.feather.write_feather(bomb, str(tmp_path / "t.feather"), compression=codec)
    before = pa.total_allocated_bytes()
    with pytest.raises(InputError, match=r"is compressed; .* \.parquet"):
        read_arrow(tmp_path / "t.feather")
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_values_that_stand_for_longer_ones_are_refused(tmp_path):
    table = pa.table({"id": pa.array(["long"] * 5).dictionary_encode(), "x": np.zeros(5)})
    write_arrow(tmp_path / "t.arrow", table.schema, [table])
    with pytest.raises(InputError, match="column 'id' holds dictionary"):
        read_arrow(tmp_path / "t.arrow")


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"ARROW1\0\0" + b"\xff" * 64, b"not arrow at all" * 8])
def test_damaged_files(tmp_path, content):
    path = tmp_path / "t.arrow"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"t\.arrow"):
        read_embedding(path)
