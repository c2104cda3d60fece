"""A store that is written piece by piece holds the graph that the readers give, and refuses what they refuse."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from l2g2g.errors import ResourceError
from l2g2g.graphs import duckdb_steps, read_edges, read_features, store_writer, text_tables
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
    monkeypatch.setattr(read_edges, "_EDGES_AT_ONCE", 41)
    monkeypatch.setattr(store_writer, "_EDGE_FACTOR", 1 << 60)  # larger than memory
    monkeypatch.setattr(duckdb_steps, "_ROWS_AT_ONCE", 23)
    monkeypatch.setattr(read_features, "_BYTES_AT_ONCE", 300)


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        *((".csv", ids) for ids in ("integers", "names", "text features", "text edges")),
        *((".parquet", ids) for ids in ("integers", "text features")),
        *(("lists", ids) for ids in ("names", "text edges")),
    ],
)
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


def test_archives_and_named_graphs(tmp_path):
    compare(tmp_path, "sbm-small")
    matrix = sp.csr_array((np.ones(len(PAIRS)), (PAIRS[:, 0], PAIRS[:, 1])), shape=(95, 95))
    sp.save_npz(tmp_path / "g.npz", matrix)
    compare(tmp_path, tmp_path / "g.npz")


def test_too_little_memory_is_refused_before_work_starts(tmp_path):
    with pytest.raises(ResourceError, match="at least 64 MB"):
        write_store(edges_file(tmp_path, ".csv"), tmp_path / "store", memory_bytes=LEAST_MEMORY - 1)
    assert not (tmp_path / "store").exists()
