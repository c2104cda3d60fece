"""Folders of .csv parts: the same graph as the Parquet parts of the same rows, in memory and by DuckDB; headers."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.duckdb_store import write_large_store
from l2g2g.graphs.formats import TableOptions
from l2g2g.graphs.read import read_graph

GENERATOR = np.random.default_rng(5)
PAIRS = GENERATOR.integers(0, 70, (500, 2))
NAMES = np.array([f"{'éa0Z'[node % 4]}{node}" for node in range(80)], object)


def write_files(folder, **files):
    """Files by name, __ for a dot; .gz is packed."""
    folder.mkdir()
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return folder


def write_both(tmp_path, names, *, weights=None, header="source,target,weight\n"):
    """Three parts of the same rows as text, one of them packed, and as Parquet; an empty one in the middle."""
    text = tmp_path / "text"
    binary = tmp_path / "binary"
    for folder in (text, binary):
        folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(PAIRS)), 3)):
        columns = [names[PAIRS[rows, 0]], names[PAIRS[rows, 1]], *([] if weights is None else [weights[rows]])]
        titled = dict(zip(("source", "target", "weight"), columns, strict=False))
        pq.write_table(pa.table(titled), binary / f"part-{number}.parquet")
        lines = header + "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
        if number == 1:
            (text / "part-1.csv.gz").write_bytes(gzip.compress(lines.encode()))
        else:
            (text / f"part-{number}.csv").write_text(lines)
    (text / "part-0a.csv").write_text("")
    (text / "_SUCCESS").write_text("")
    return text, binary


def prepare(path, store, features=None, **how):
    return write_large_store(path, store, features, memory_bytes=200_000_000, name="g", made_of={"a": 1}, **how)


@pytest.mark.parametrize("names", [NAMES, np.arange(80), np.array([f"{node:03d}" for node in range(80)], object)])
def test_parts_of_text_are_the_graph_of_parts_of_parquet(tmp_path, names):
    weights = GENERATOR.integers(1, 9, len(PAIRS)) / 4
    text, binary = write_both(tmp_path, names, weights=weights)
    expected = read_graph(binary)
    stored = prepare(text, tmp_path / "store")
    by_parquet = prepare(binary, tmp_path / "by_parquet")
    sums = [{name: array.info.sha256 for name, array in each.folder.arrays.items()} for each in (stored, by_parquet)]
    assert sums[0] == sums[1]
    for graph in (read_graph(text), stored.to_graph()):
        assert graph.node_ids.tolist() == expected.node_ids.tolist() == sorted(expected.node_ids.tolist())
        assert graph.node_ids.dtype.kind == expected.node_ids.dtype.kind
        assert np.array_equal(graph.adjacency.toarray(), expected.adjacency.toarray())
        assert graph.cleaning == expected.cleaning


def test_parts_without_headers_and_parts_with_the_same_unusual_one(tmp_path):
    bare = write_files(tmp_path / "bare", a__csv="n1,n2\nn2,n3\n", b__csv="n3,n4\n")
    assert read_graph(bare).node_ids.tolist() == ["n1", "n2", "n3", "n4"]
    # Of one file these rows could be edges: that every part begins with the same line tells.
    titled = write_files(tmp_path / "titled", a__csv="n1,n9\nn1,n2\n", b__csv="n1,n9\nn2,n3\n")
    assert read_graph(titled).node_ids.tolist() == ["n1", "n2", "n3"]
    assert read_graph(titled, tables=TableOptions(header=False)).node_ids.tolist() == ["n1", "n2", "n3", "n9"]
    assert prepare(titled, tmp_path / "store").num_nodes == 3


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("source,target\n1,2\n", "3,4\n", r"b\.csv: begins with '3, 4', but a\.csv with the header 'source, target'"),
        ("source,target\n1,2\n", "target,source\n3,4\n", r"b\.csv: begins with 'target, source', but a\.csv"),
        ("1,2\n2,3\n", "person,friend\n3,4\n", r"b\.csv: begins with 'person, friend', .* a\.csv has none"),
        ("n1,n2\nn2,n3\n", "from,to\nn3,n4\n", r"b\.csv: begins with 'from, to', .* say --no-header"),
        ("a,b\nn1,n2\n", "a,b\nn3,\n", r"parts: b\.csv, line 2: an id is empty"),
        ("u,v\n1,2\n", "u,v\n# a note\n\n3,4\n4,-5\n", r"parts: b\.csv, line 5: target -5"),
        ("u,v\n1,2\n", "u,v\n3,4,5\n", r"b\.csv: line 2 has 3 columns but the first has 2"),
        ("u,v\n", "u,v\n", "only a header"),
        ("", "", "the parts are empty"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, first, second, message):
    folder = write_files(tmp_path / "parts", a__csv=first, b__csv=second)
    with pytest.raises(InputError, match=message):
        read_graph(folder)
    with pytest.raises(InputError, match=message):
        prepare(folder, tmp_path / "store")


def test_parts_of_two_kinds_are_refused(tmp_path):
    text, binary = write_both(tmp_path, NAMES)
    (binary / "more.csv").write_bytes((text / "part-0.csv").read_bytes())
    with pytest.raises(InputError, match=r"holds more\.csv beside Parquet parts"):
        read_graph(binary)


def test_features_in_parts_of_text(tmp_path):
    edges = write_files(tmp_path / "edges", a__csv="u,v\nn1,n2\n", b__csv="u,v\nn2,n3\n")
    rows = write_files(tmp_path / "rows", a__csv="id,x,team\nn3,3,red\n", b__csv="id,x,team\nn1,1,blue\nn2,2,red\n")
    tables = TableOptions(label_column="team")
    stored = prepare(edges, tmp_path / "store", rows, tables=tables).to_graph()
    for graph in (read_graph(edges, rows, tables=tables), stored):
        assert graph.features.tolist() == [[1], [2], [3]]
        assert graph.labels.tolist() == ["blue", "red", "red"]
    (rows / "b.csv").write_text("id,x,group\nn1,1,blue\nn2,2,red\n")
    with pytest.raises(InputError, match=r"b\.csv: begins with 'id, x, group', but a\.csv"):
        read_graph(edges, rows, tables=tables)
