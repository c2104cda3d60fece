"""Preparation by DuckDB: folders of parts, what stays after an interruption, memory, and a machine without DuckDB."""

import resource

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import duckdb_store, store_writer
from l2g2g.graphs.duckdb_steps import StepDatabase
from l2g2g.graphs.duckdb_store import write_large_store
from l2g2g.graphs.formats import TableOptions
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store_writer import write_store

GENERATOR = np.random.default_rng(3)
PAIRS = GENERATOR.integers(0, 70, (500, 2))
NAMES = np.array([f"{'éa0Z'[node % 4]}{node}" for node in range(80)], object)


def write_parts(folder, pairs=PAIRS, weights=None, order=(0, 1, 2)):
    """Three Parquet parts; order: which part has which rows."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(pairs)), 3)[place] for place in order):
        columns = {"source": NAMES[pairs[rows, 0]], "target": NAMES[pairs[rows, 1]]}
        more = {} if weights is None else {"weight": weights[rows]}
        pq.write_table(pa.table({**columns, **more}), folder / f"part-{number}.parquet", row_group_size=40)
    return folder


def write_rows(path, num_nodes=80):
    """A feature table with ids in a random order, ten of which no edge names."""
    order = GENERATOR.permutation(num_nodes)
    vectors = GENERATOR.normal(size=(num_nodes, 5)).astype(np.float32)
    pq.write_table(pa.table({"id": NAMES[order], "v": list(vectors)}), path, row_group_size=30)
    return path


def prepare(path, folder, features=None, memory_bytes=200_000_000, **how):
    return write_large_store(path, folder, features, memory_bytes=memory_bytes, name="g", made_of={"a": 1}, **how)


@pytest.mark.parametrize("directed", [False, True])
def test_nodes_of_parts_are_numbered_by_the_bytes_of_their_ids(tmp_path, directed):
    weights = GENERATOR.integers(1, 9, len(PAIRS)) / 4
    features = write_rows(tmp_path / "f.parquet")
    parts = write_parts(tmp_path / "parts", weights=weights)
    stored = prepare(parts, tmp_path / "store", features, directed=directed)
    shuffled = write_parts(tmp_path / "shuffled", weights=weights, order=(2, 0, 1))
    again = prepare(shuffled, tmp_path / "again", features, directed=directed)
    names = [str(name).encode() for name in stored.read_node_ids()]
    assert names == sorted(names)
    assert len(names) == 80
    graph = read_graph(parts, features, directed=directed)
    found = stored.to_graph()
    assert graph.node_ids.tolist() == found.node_ids.tolist()
    assert np.array_equal(graph.features, found.features)
    assert np.array_equal(graph.adjacency.toarray(), found.adjacency.toarray())
    assert graph.cleaning == stored.cleaning
    assert not directed or np.array_equal(graph.arcs.toarray(), found.arcs.toarray())
    arrays = stored.folder.arrays
    assert {name: arrays[name].info.sha256 for name in arrays} == {
        name: array.info.sha256 for name, array in again.folder.arrays.items()
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_sorts_by_many_ranges_of_nodes_give_the_same_store(tmp_path, monkeypatch, weighted):
    weights = GENERATOR.integers(1, 9, len(PAIRS)) / 4 if weighted else None
    parts, features = write_parts(tmp_path / "parts", weights=weights), write_rows(tmp_path / "f.parquet")
    whole = prepare(parts, tmp_path / "whole", features)
    monkeypatch.setattr(duckdb_store, "_SORT_SHARE", 4e-5)  # of 60 MB: some dozen ranges of edges, a few of vectors
    queries, stream = [], StepDatabase.stream
    monkeypatch.setattr(StepDatabase, "stream", lambda self, query: queries.append(query) or stream(self, query))
    ranges = prepare(parts, tmp_path / "ranges", features)
    assert sum("AS key" in query for query in queries) > 5
    assert sum("vector" in query for query in queries) > 1
    sums = [{name: array.info.sha256 for name, array in store.folder.arrays.items()} for store in (whole, ranges)]
    assert sums[0] == sums[1]


def test_what_duckdb_may_not_read_itself_comes_in_batches(tmp_path, monkeypatch):
    """Text that is integers, and ids that are text by option: DuckDB gets batches of the reader instead."""
    texts = {"source": PAIRS[:, 0].astype(str), "target": PAIRS[:, 1].astype(str)}
    pq.write_table(pa.table(texts), tmp_path / "e.parquet")
    for tables in (TableOptions(), TableOptions(ids="text"), TableOptions(ids="integer")):
        found = prepare(tmp_path / "e.parquet", tmp_path / f"s{tables.ids}", tables=tables).to_graph()
        graph = read_graph(tmp_path / "e.parquet", tables=tables)
        assert (found.node_ids.tolist(), found.cleaning) == (graph.node_ids.tolist(), graph.cleaning)
        assert (found.adjacency != graph.adjacency).nnz == 0


def test_an_interrupted_preparation_goes_on_after_its_last_step(tmp_path, monkeypatch):
    (tmp_path / "e.csv").write_text("".join(f"n{u},n{v}\n" for u, v in PAIRS.tolist()))
    expected = prepare(tmp_path / "e.csv", tmp_path / "expected")
    number = duckdb_store._Preparation._number
    with monkeypatch.context() as patch:
        patch.setattr(duckdb_store._Preparation, "_number", lambda *args: (number(*args), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            prepare(tmp_path / "e.csv", tmp_path / "store")
    assert (tmp_path / "store" / ".prepare").is_dir()
    with monkeypatch.context() as patch:
        patch.setattr(duckdb_store._Preparation, "_edge_columns", lambda *args: 1 / 0)  # not read again
        stored = prepare(tmp_path / "e.csv", tmp_path / "store")
    assert stored.sha256 == expected.sha256
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["graph", "lock"]


def test_tables_of_other_files_and_damaged_ones_are_not_gone_on_with(tmp_path):
    (tmp_path / "e.csv").write_text("1,2\n2,3\n")
    left = tmp_path / "store" / ".prepare"
    left.mkdir(parents=True)
    (left / "tables.duckdb").write_bytes(b"no database" * 1000)
    assert prepare(tmp_path / "e.csv", tmp_path / "store").num_edges == 2
    assert not left.exists()


def test_a_refused_file_leaves_nothing_to_go_on_with(tmp_path):
    (tmp_path / "e.csv").write_text("1,1\n2,2\n")
    with pytest.raises(InputError, match="all 2 edges are self-loops"):
        prepare(tmp_path / "e.csv", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_without_duckdb_what_does_not_fit_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "e.csv").write_text("1,2\n2,3\n")
    monkeypatch.setattr(store_writer, "has_duckdb", lambda: False)
    assert write_store(tmp_path / "e.csv", tmp_path / "small").num_edges == 2
    monkeypatch.setattr(store_writer, "_EDGE_FACTOR", 1 << 60)
    with pytest.raises(ResourceError, match=r"pip install 'l2g2g\[scale\]'$"):
        write_store(tmp_path / "e.csv", tmp_path / "store")


def test_too_little_memory_for_duckdb_is_told_in_one_line(tmp_path):
    np.save(tmp_path / "e.npy", GENERATOR.integers(0, 300_000, (1_000_000, 2)))
    with pytest.raises(ResourceError, match="needs more than the 1 MB that DuckDB may use; allow more memory"):
        prepare(tmp_path / "e.npy", tmp_path / "store", memory_bytes=4_000_000)


def test_rows_that_duckdb_does_not_give_are_missed(tmp_path, monkeypatch):
    """As of a damaged file, whose pages hold fewer rows than it says."""
    all_rows = duckdb_store._Preparation._parquet_rows
    monkeypatch.setattr(duckdb_store._Preparation, "_parquet_rows", lambda *given: f"{all_rows(*given)} LIMIT 400")
    with pytest.raises(InputError, match="are expected; the file is damaged"):
        prepare(write_parts(tmp_path / "parts"), tmp_path / "store")
    assert not (tmp_path / "store" / "graph").exists()


def test_a_part_that_cannot_be_decoded_is_bad_input(tmp_path):
    parts = write_parts(tmp_path / "parts")
    damaged = parts / "part-1.parquet"
    data = bytearray(damaged.read_bytes())
    data[60:200] = bytes(140)  # of the first page, behind its header
    damaged.write_bytes(data)
    with pytest.raises(InputError, match=r"damaged|cannot|not"):
        prepare(parts, tmp_path / "store")
    assert not (tmp_path / "store" / "graph").exists()


def test_a_limit_of_the_system_is_told_as_what_it_is(tmp_path):
    np.save(tmp_path / "e.npy", GENERATOR.integers(0, 30_000, (200_000, 2)))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        with pytest.raises(ResourceError, match=r"File too large.*; raise the limit of file sizes \(ulimit -f\)"):
            prepare(tmp_path / "e.npy", tmp_path / "store")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert prepare(tmp_path / "e.npy", tmp_path / "store").num_nodes == 30_000


@pytest.mark.parametrize(
    ("kind", "said", "remedy"),
    [
        ("IOException", "Could not write file 'a': No space left on device", "; free some space"),
        ("IOException", "Cannot open file 'a': Permission denied", "; allow reading and writing there"),
        ("IOException", "Cannot open file 'a': Too many open files", r"; raise the limit of open files \(ulimit -n\)"),
        ("IOException", "Could not set lock on file 'a': Conflicting lock is held", "; another process uses it"),
        ("IOException", "Could not read from file 'a': Input/output error", "; the disk or the file may be damaged"),
        ("OutOfMemoryException", "failed to offload; limit 'max_temp_directory_size'", "left on this disk; free some"),
    ],
)
def test_the_remedy_fits_the_cause(tmp_path, monkeypatch, kind, said, remedy):
    def fail(*given):
        raise getattr(duckdb, kind)(said)

    (tmp_path / "e.csv").write_text("1,2\n2,3\n")
    monkeypatch.setattr(duckdb_store._Preparation, "_number", fail)
    with pytest.raises(ResourceError, match=remedy) as caught:
        prepare(tmp_path / "e.csv", tmp_path / "store")
    assert kind == "OutOfMemoryException" or said in str(caught.value)


@pytest.mark.parametrize("with_features", [False, True])
def test_a_node_called_like_a_missing_value_is_told(tmp_path, caplog, with_features):
    (tmp_path / "edges").mkdir()
    pq.write_table(pa.table({"source": ["ann", "bob"], "target": ["bob", "NaN"]}), tmp_path / "edges" / "0.parquet")
    pq.write_table(pa.table({"id": ["ann", "bob", "NaN"], "x": [1.0, 2.0, 3.0]}), tmp_path / "features.parquet")
    with caplog.at_level("INFO"):
        prepare(tmp_path / "edges", tmp_path / "store", tmp_path / "features.parquet" if with_features else None)
    assert "'NaN' is read as a node" in caplog.text
