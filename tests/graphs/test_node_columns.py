"""Tables about nodes: ids found, numbers told from text, and nodes without a row."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.node_columns import read_node_columns


def test_columns_are_numbers_or_text(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,name,town,member\n31,ann,Bern,yes\n,bob,,no\n40.5,cy,Rome,\n")
    found = read_node_columns(path)
    assert found.ids.tolist() == ["ann", "bob", "cy"]  # by its title, not by its place
    assert list(found.columns) == ["age", "town", "member"]
    assert found.columns["age"].tolist()[::2] == [31.0, 40.5]
    assert np.isnan(found.columns["age"][1])
    assert found.columns["town"].tolist() == ["Bern", "", "Rome"]
    by_node = found.by_node(np.array(["cy", "dora", "ann"], dtype=object))
    assert by_node["town"].tolist() == ["Rome", "", "Bern"]
    assert np.isnan(by_node["age"][1])
    assert found.num_matched(np.array(["cy", "dora"], dtype=object)) == 1


def test_parquet_with_types_of_its_own(tmp_path):
    days = pa.array([0, 1, None], pa.date32())
    table = pa.table(
        {
            "node_id": pa.array([7, 8, 9]),
            "kind": pa.array(["a", None, "b"]).dictionary_encode(),
            "old": [True, None, False],
            "since": days,
            "list": [[1], [2], [3]],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_node_columns(tmp_path / "t.parquet")
    assert found.ids.tolist() == [7, 8, 9]
    assert found.columns["kind"].tolist() == ["a", "", "b"]
    assert found.columns["old"].tolist() == ["true", "", "false"]
    assert found.columns["since"].tolist() == ["1970-01-01", "1970-01-02", ""]
    assert "list" not in found.columns


def test_ids_stay_as_they_are_written(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n001,1\n1,2\n")
    assert read_node_columns(tmp_path / "t.csv").ids.tolist() == ["001", "1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,x\na,1\na,2\n", "node 'a' is in row 1 and again in row 2"),
        ("id,x\n", "no rows"),
        ("id\na\n", "only 1 column"),
        ("", "the file is empty"),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_node_columns(tmp_path / "t.csv")


def test_a_table_of_other_nodes_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\nann,1\n")
    with pytest.raises(InputError, match="none of its ids is a node: it has 'ann', and nodes are named like 0"):
        read_node_columns(tmp_path / "t.csv").by_node(np.arange(3))
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(InputError, match="unknown ending"):
        read_node_columns(tmp_path / "t.xlsx")
