"""A store that is written piece by piece holds the graph that the readers give, and refuses what they refuse."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import edge_sort, npy_edges, numbering, read_edges, read_features, text_tables
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store_writer import LEAST_MEMORY, write_store

GENERATOR = np.random.default_rng(7)
PAIRS = GENERATOR.integers(0, 90, (400, 2))
PAIRS[:90] = np.stack([np.arange(90), np.roll(np.arange(90), 1)], axis=1)
GENERATOR.shuffle(PAIRS)
WEIGHTS = GENERATOR.integers(1, 9, len(PAIRS)) / 4


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch):
    """Pieces and buckets of a few rows, so that small files are read in many."""
    monkeypatch.setattr(read_edges, "_ROWS_AT_ONCE", 37)
    monkeypatch.setattr(text_tables, "_BLOCK_BYTES", 200)
    monkeypatch.setattr(npy_edges, "_EDGES_AT_ONCE", 41)
    monkeypatch.setattr(edge_sort, "_PAIRS_AT_ONCE", 23)
    monkeypatch.setattr(edge_sort.EdgeSorter, "_largest_bucket", lambda self, num_arcs: 100)
    monkeypatch.setattr(read_features, "_BYTES_AT_ONCE", 300)
    monkeypatch.setattr(numbering, "_AT_ONCE", 16)


def same_graph(stored, graph):
    found = stored.to_graph()
    assert (found.adjacency != graph.adjacency).nnz == 0
    assert found.adjacency.indices.dtype == graph.adjacency.indices.dtype
    assert np.array_equal(found.adjacency.indices, graph.adjacency.indices)
    assert (found.num_nodes, found.num_edges, found.name) == (graph.num_nodes, graph.num_edges, graph.name)
    assert (stored.num_nodes, stored.num_edges, stored.num_features) == (
        graph.num_nodes,
        graph.num_edges,
        graph.num_features,
    )
    assert (found.weighted, found.cleaning) == (graph.weighted, graph.cleaning)
    for ours, theirs in ((found.node_ids, graph.node_ids), (found.labels, graph.labels)):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype.kind == theirs.dtype.kind
            assert ours.tolist() == theirs.tolist()
    assert (found.features is None) == (graph.features is None)
    if graph.features is not None:
        assert sp.issparse(found.features) == sp.issparse(graph.features)
        assert found.features.dtype == np.float32
        assert abs(found.features - graph.features).max() == 0


def compare(folder, path, features=None):
    same_graph(write_store(path, folder / "store", features, memory_bytes=LEAST_MEMORY), read_graph(path, features))


def edges_file(folder, kind, pairs=PAIRS, weights=None):
    columns = [list(column) for column in zip(*pairs, strict=True)]
    if weights is not None:
        columns.append(list(weights))
    path = folder / f"edges{kind}"
    if kind == ".parquet":
        pq.write_table(pa.table(dict(zip("abc", columns, strict=False))), path, row_group_size=50)
    elif kind == ".npy":
        np.save(path, np.array(pairs))
    else:
        delimiter = {".csv": ",", ".tsv": "\t", ".txt": " ", ".csv.gz": ","}[kind]
        text = "".join(delimiter.join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith(".gz") else text.encode())
    return path


def as_names(pairs):
    return [(f"n {u}é", f"n {v}é") for u, v in pairs.tolist()]


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".npy"])
def test_edges_of_every_kind(kind, tmp_path):
    compare(tmp_path, edges_file(tmp_path, kind))


@pytest.mark.parametrize("kind", [".csv", ".txt", ".parquet"])
def test_weights_are_merged_as_in_memory(kind, tmp_path):
    compare(tmp_path, edges_file(tmp_path, kind, weights=WEIGHTS))


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".parquet"])
def test_names(kind, tmp_path):
    compare(tmp_path, edges_file(tmp_path, kind, as_names(PAIRS)))


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_large_integers_and_integers_beyond_64_bits(kind, tmp_path):
    compare(tmp_path, edges_file(tmp_path, kind, PAIRS * 10**15))
    if kind == ".csv":
        compare(tmp_path, edges_file(tmp_path, kind, [(str(10**20 + u), str(v)) for u, v in PAIRS.tolist()]))
    else:
        late = np.sort(PAIRS.astype(np.uint64), axis=0)
        late[-60:] += np.uint64(2**63)
        pq.write_table(pa.table({"a": late[:, 0], "b": late[:, 1]}), tmp_path / "large.parquet")
        compare(tmp_path, tmp_path / "large.parquet")


TEXTS = {
    "header": "source,target\n1,2\n2,3\n",
    "unusual header": "paper,cites\n1,2\n2,3\n" + "4,5\n" * 60,
    "no header, names": "a,b\n" + "b,c\n" * 60,
    "header and names": "from,to\n" + "b,c\n" * 60 + "c,a\n",
    "one edge of names": "a,b\n",
    "late name": "1,2\n" * 60 + "2,x\n",
    "late negative among names": "a,b\n" * 60 + "-5,b\n",
    "comments and blanks": "# one\n1 2\n\n%two\n  3   4  \n" + "5 6\n# three\n" * 40,
    "old line ends": "1,2\r3,4\r" * 60,
    "windows line ends": "1,2\r\n3,4\r\n" * 60,
    "quotes late": "a ,b\n" * 60 + '" a",b\n',
    "loops and repeats": "1,1\n1,2\n2,1\n1,2\n" * 30,
    "no last line end": "1,2\n3,4",
    "weights in text": "a,b,1.5\n" * 50 + "b,c,2\n",
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS.keys())
def test_text_dialects(content, tmp_path):
    (tmp_path / "e.csv").write_bytes(content.encode())
    compare(tmp_path, tmp_path / "e.csv")


LONG = "1,2\n" * 60
WRONG = {
    "empty": ("e.csv", ""),
    "only a header": ("e.csv", "source,target\n"),
    "one column": ("e.csv", "1\n2\n"),
    "four columns": ("e.csv", "1,2,3,4\n"),
    "negative": ("e.csv", LONG + "3,-4\n"),
    "decimal": ("e.csv", LONG + "3,4.5\n"),
    "odd line": ("e.csv", LONG + "3,4,5\n" + LONG),
    "missing id": ("e.csv", "a,b\n" * 60 + "a,\n"),
    "no weight": ("e.csv", "1,2,0.5\n" * 60 + "2,3,x\n"),
    "negative weight": ("e.csv", "1,2,0.5\n" * 60 + "2,3,-1\n"),
    "not UTF-8": ("e.csv", b"a,b\n" * 60 + b"\xff\xfe,c\n"),
    "only loops": ("e.csv", "1,1\n2,2\n"),
    "unknown ending": ("e.xyz", "1,2\n"),
    "no parquet": ("e.parquet", "1,2\n"),
    "no npy": ("e.npy", "1,2\n"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_refusals_are_those_of_the_reader(wrong, tmp_path):
    name, content = wrong
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused_alike(tmp_path, path)


def refused_alike(folder, path, features=None):
    with pytest.raises((InputError, ResourceError)) as expected:
        read_graph(path, features)
    with pytest.raises(type(expected.value)) as found:
        write_store(path, folder / "store", features)
    assert str(found.value) == str(expected.value)
    assert sorted(item.name for item in (folder / "store").glob("*")) in ([], ["lock"])


TABLES = {
    "null id": pa.table({"a": [1, 2, None] * 30, "b": [2, 3, 4] * 30}),
    "decimal ids": pa.table({"a": [1.0, 2.5] * 30, "b": [2, 3] * 30}),
    "negative": pa.table({"a": [1] * 60 + [-3], "b": [2] * 61}),
    "null weight": pa.table({"a": [1, 2], "b": [2, 3], "w": [1.0, None]}),
    "infinite weight": pa.table({"a": [1] * 60, "b": [2] * 60, "w": [1.0] * 59 + [np.inf]}),
    "empty": pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}),
    "dates": pa.table({"a": pa.array([1, 2], pa.date32()), "b": [2, 3]}),
    "empty name": pa.table({"a": ["x"] * 60 + [""], "b": ["y"] * 61}),
    "binary": pa.table({"a": [b"x"], "b": [b"y"]}),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_parquet_refusals_are_those_of_the_reader(table, tmp_path):
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=20)
    refused_alike(tmp_path, tmp_path / "e.parquet")


ARRAYS = {
    "decimals": np.ones((5, 2)),
    "negative": np.array([[1, 2]] * 90 + [[3, -4]]),
    "far away": np.array([[1, 2]] * 90 + [[3, 10**13]]),
    "three columns": np.ones((5, 3), int),
    "nothing": np.empty((0, 2), int),
    "pickled": np.array([[{}, {}]] * 3, dtype=object),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_array_refusals_are_those_of_the_reader(array, tmp_path):
    np.save(tmp_path / "e.npy", array)
    refused_alike(tmp_path, tmp_path / "e.npy")


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".npy"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_features_by_number_keep_isolated_nodes(kind, order, tmp_path):
    rows = np.asarray(GENERATOR.normal(size=(95, 6)), order=order)
    np.save(tmp_path / "f.npy", rows)
    path = edges_file(tmp_path, kind)
    compare(tmp_path, path, tmp_path / "f.npy")
    assert read_graph(path, tmp_path / "f.npy").cleaning.num_isolated == 5


def test_edges_in_two_rows(tmp_path):
    np.save(tmp_path / "edges.npy", PAIRS.T.astype(np.uint16))
    compare(tmp_path, tmp_path / "edges.npy")


def test_sparse_features(tmp_path):
    matrix = sp.random_array((95, 8), density=0.3, format="csr", rng=0)
    sp.save_npz(tmp_path / "f.npz", matrix)
    compare(tmp_path, edges_file(tmp_path, ".parquet"), tmp_path / "f.npz")


@pytest.mark.parametrize("kind", [".csv", ".parquet", "lists"])
@pytest.mark.parametrize("ids", ["integers", "names", "text features", "text edges"])
def test_features_by_id(kind, ids, tmp_path):
    order = GENERATOR.permutation(95)
    vectors = GENERATOR.normal(size=(95, 5)).astype(np.float32)
    named = ids == "names"
    pairs = as_names(PAIRS) if named else PAIRS
    if ids == "text edges":
        pairs = [*[(str(u), str(v)) for u, v in PAIRS.tolist()], ("x", "1")]
        order = [*order.tolist(), "x"]
        vectors = np.concatenate([vectors, vectors[:1]])
    names = [f"n {u}é" for u in order.tolist()] if named else list(order)
    if ids == "text features":
        names = [*[str(name) for name in names[:-1]], "someone else"]
        if int(order[-1]) < 90:
            names[[str(number) for number in order[:-1]].index("94")] = str(order[-1])
    edges = edges_file(tmp_path, ".csv" if kind == ".csv" else ".parquet", pairs)
    path = tmp_path / ("f.csv" if kind == ".csv" else "f.parquet")
    if kind == ".csv":
        rows = (",".join([str(name), *map(str, row)]) for name, row in zip(names, vectors.tolist(), strict=True))
        path.write_text("id," + ",".join("abcde") + "\n" + "\n".join(rows) + "\n")
    elif kind == "lists":
        strings = names if all(isinstance(name, (int, np.integer)) for name in names) else [str(n) for n in names]
        pq.write_table(pa.table({"id": strings, "v": vectors.tolist()}), path, row_group_size=30)
    else:
        strings = names if all(isinstance(name, (int, np.integer)) for name in names) else [str(n) for n in names]
        table = {"id": strings, **{str(index): vectors[:, index] for index in range(5)}}
        pq.write_table(pa.table(table), path, row_group_size=30)
    compare(tmp_path, edges, path)


def feature_rows(*rows):
    return "id,a,b\n" + "".join(f"{number},{number}.5,1\n" for number in range(90)) + "".join(rows)


WRONG_FEATURES = {
    "twice": ("f.csv", feature_rows("7,1,2\n")),
    "missing": ("f.csv", feature_rows().replace("40,40.5,1\n", "")),
    "not a number": ("f.csv", feature_rows("95,x,2\n")),
    "nan": ("f.csv", feature_rows("95,nan,2\n")),
    "one column": ("f.csv", "1\n2\n"),
    "header only": ("f.csv", "id,a\n"),
    "nothing": ("f.csv", ""),
    "odd line": ("f.csv", feature_rows("95,1\n")),
    "unknown ending": ("f.xyz", "1"),
}


@pytest.mark.parametrize("wrong", WRONG_FEATURES.values(), ids=WRONG_FEATURES.keys())
def test_feature_refusals_are_those_of_the_reader(wrong, tmp_path):
    name, content = wrong
    (tmp_path / name).write_text(content)
    refused_alike(tmp_path, edges_file(tmp_path, ".csv"), tmp_path / name)


FEATURE_ARRAYS = {
    "too few": np.ones((80, 2)),
    "nan": np.where(np.arange(190).reshape(95, 2) == 181, np.nan, 1.0),
    "flat": np.ones(95),
    "complex": np.full((95, 2), 1j),
    "no columns": np.empty((95, 0)),
    "text": np.full((95, 2), "x"),
}


@pytest.mark.parametrize("array", FEATURE_ARRAYS.values(), ids=FEATURE_ARRAYS.keys())
def test_feature_array_refusals_are_those_of_the_reader(array, tmp_path):
    np.save(tmp_path / "f.npy", array)
    refused_alike(tmp_path, edges_file(tmp_path, ".parquet"), tmp_path / "f.npy")


def test_text_edges_with_features_by_number_are_refused_alike(tmp_path):
    np.save(tmp_path / "f.npy", np.ones((95, 2)))
    refused_alike(tmp_path, edges_file(tmp_path, ".csv", as_names(PAIRS)), tmp_path / "f.npy")


@pytest.mark.parametrize("strangers", ["", "95,1,2\n"])
def test_array_edges_with_features_by_id(strangers, tmp_path):
    path = edges_file(tmp_path, ".npy")
    (tmp_path / "f.csv").write_text(feature_rows(strangers))
    if strangers:
        refused_alike(tmp_path, path, tmp_path / "f.csv")
    else:
        compare(tmp_path, path, tmp_path / "f.csv")


def test_archives_and_named_graphs(tmp_path):
    compare(tmp_path, "sbm-small")
    matrix = sp.csr_array((np.ones(len(PAIRS)), (PAIRS[:, 0], PAIRS[:, 1])), shape=(95, 95))
    sp.save_npz(tmp_path / "g.npz", matrix)
    compare(tmp_path, tmp_path / "g.npz")


def test_too_little_memory_is_refused_before_work_starts(tmp_path):
    with pytest.raises(ResourceError, match="at least 64 MB"):
        write_store(edges_file(tmp_path, ".csv"), tmp_path / "store", memory_bytes=LEAST_MEMORY - 1)
    assert not (tmp_path / "store").exists()


def test_one_bucket_gives_the_same_as_many(tmp_path, monkeypatch):
    path = edges_file(tmp_path, ".csv", weights=WEIGHTS)
    many = write_store(path, tmp_path / "many")
    monkeypatch.undo()
    one = write_store(path, tmp_path / "one")
    assert many.sha256 == one.sha256
