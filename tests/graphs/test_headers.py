"""Headers: recognised by evidence, told in the log, and the same in memory and in pieces."""

import gzip
import logging

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs import text_tables
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store_writer import write_store

NO_HEADER = "no header, first row is an edge"
# What is in the file, the ids of the graph, and what is told.
LISTS = {
    "usual names": ("source,target\nann,bob\n", ["ann", "bob"], "columns source → target, header skipped"),
    "unusual names above integers": ("person,friend\n1,2\n", [1, 2], "columns person → friend, header skipped"),
    "unusual names above padded integers": (
        "person,friend\n01,02\n",
        ["01", "02"],
        "columns person → friend, header skipped",
    ),
    "unusual names above large integers": (
        f"person,friend\n{2**63},5\n",
        [str(2**63), "5"],
        "columns person → friend, header skipped",
    ),
    "unusual names above one column of integers": (
        "user,item\n1,pear\n2,pear\n2,fig\n",
        ["1", "pear", "2", "fig"],
        "columns user → item, header skipped",
    ),
    "unusual names above names": (
        "person,friend\nann,bob\nbob,cat\n",
        ["ann", "bob", "cat"],
        "columns person → friend, header skipped",
    ),
    "unusual names above many names": (
        "person,friend\n" + "ann,bob\n" * 60 + "bob,cat\n",
        ["ann", "bob", "cat"],
        "columns person → friend, header skipped",
    ),
    "unusual weight": (
        "protein1 protein2 combined\np.01 p.02 7\np.02 p.03 2\n",
        ["p.01", "p.02", "p.03"],
        "columns protein1 → protein2, weight combined, header skipped",
    ),
    "usual weight": ("a,b,weight\nx,y,2\n", ["x", "y"], "columns a → b, weight weight, header skipped"),
    "year as weight above integers": (
        "from,to,2020\n1,2,5\n",
        [1, 2],
        "columns from → to, weight 2020, header skipped",
    ),
    "integers": ("5,7\n7,9\n", [5, 7, 9], NO_HEADER),
    "source occurs again": ("ann,bob\ncat,ann\n", ["ann", "bob", "cat"], NO_HEADER),
    "target occurs again late": (
        "ann,bob\n" + "cat,dan\n" * 60 + "bob,cat\n",
        ["ann", "bob", "cat", "dan"],
        NO_HEADER,
    ),
    "one of two is a number": ("ann,7\ncat,dan\n", ["ann", "7", "cat", "dan"], NO_HEADER),
    "a number as weight": ("ann,bob,1.5\ncat,dan,2\n", ["ann", "bob", "cat", "dan"], NO_HEADER),
    "names among integers": ("ann,bob\n1,2\n2,bob\n", ["ann", "bob", "1", "2"], NO_HEADER),
    "self-loop": ("ann,ann\ncat,dan\n", ["ann", "cat", "dan"], NO_HEADER),
    "one row": ("ann,bob\n", ["ann", "bob"], NO_HEADER),
    "weight as a target": ("ann,weight\nbob,weight\n", ["ann", "weight", "bob"], NO_HEADER),
    "comments first": ("# made today\nperson,friend\n1,2\n", [1, 2], "columns person → friend, header skipped"),
    "control characters": ("per\x1bson,friend\n1,2\n", [1, 2], "columns per\\x1bson → friend, header skipped"),
}


@pytest.fixture(params=["memory", "pieces"])
def read(request, tmp_path, monkeypatch):
    """Read a graph at once, or in pieces of a few rows."""
    monkeypatch.setattr(text_tables, "_BLOCK_BYTES", 20)
    if request.param == "memory":
        return read_graph
    return lambda path, features=None: write_store(path, tmp_path / "store", features).to_graph()


@pytest.fixture
def told(caplog):
    """The lines of the log."""
    caplog.set_level(logging.INFO, logger="l2g2g")
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("l2g2g.")]


@pytest.mark.parametrize("case", LISTS)
def test_what_is_read_and_told(read, told, tmp_path, case):
    content, ids, decision = LISTS[case]
    path = tmp_path / "list.txt.gz"
    path.write_bytes(gzip.compress(content.encode()))
    assert read(path).node_ids.tolist() == ids
    assert told() == [f"read {path}: {decision}"]


def test_nothing_is_told_from_python_by_itself(read, tmp_path, capfd, recwarn):
    path = tmp_path / "list.csv"
    path.write_text("person,friend\nann,bob\nbob,cat\n")
    read(path)
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def test_a_header_alone_and_a_weight_that_is_text_are_refused(read, tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("source,target\n")
    with pytest.raises(InputError, match="only a header"):
        read(path)
    path.write_text("ann,bob,heavy\nbob,cat,1\n")
    with pytest.raises(InputError, match="line 1: weight 'heavy'"):
        read(path)


def test_rows_are_counted_with_the_header(read, tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("# a\nperson,friend\nann,bob\nbob,\n")
    with pytest.raises(InputError, match="line 4: an id is empty"):
        read(path)


def test_a_feature_table_tells_that_the_first_row_is_an_edge(read, told, tmp_path):
    edges, features = tmp_path / "list.csv", tmp_path / "features.csv"
    edges.write_text("ann,bob\ncat,dan\n")
    features.write_text("id,x\n" + "".join(f"{name},1\n" for name in ("cat", "dan", "ann", "bob")))
    assert read(edges, features).num_edges == 2
    edges.write_text("person,friend\ncat,dan\n")
    assert read(edges, features).num_edges == 1
    assert [line.split(": ", 1)[1] for line in told()] == [NO_HEADER, "columns person → friend, header skipped"]


def test_nodes_of_a_model_tell_that_the_first_row_is_an_edge(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("zoe,ann\nyan,bob\n")
    assert read_graph(path).num_edges == 1
    assert read_graph(path, known_ids=np.array(["ann", "bob"], dtype=object)).num_edges == 2
    assert read_graph(path, known_ids=np.array([1, 2])).num_edges == 1
