"""Ids: integers where every one is written as an integer is, otherwise text, unchanged, by every reader."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs import read_edges, read_features, text_tables
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.node_ids import IdKind, find_id_kind
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store_writer import write_store
from l2g2g.graphs.write import write_embedding


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch):
    """Pieces of a few rows, so that small files are streamed in many."""
    monkeypatch.setattr(read_edges, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(text_tables, "_BLOCK_BYTES", 8)
    monkeypatch.setattr(read_features, "_BYTES_AT_ONCE", 8)


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ([["0", "7"], ["10", "-3"]], IdKind.INTEGERS),
        ([[str(2**63 - 1)], [str(-(2**63))]], IdKind.INTEGERS),
        ([["1"], [str(2**63)]], IdKind.LONG_INTEGERS),
        ([["1", "2"], ["3", "007"]], IdKind.NUMBERS),
        ([["-0"]], IdKind.NUMBERS),
        ([["-07"]], IdKind.NUMBERS),
        ([["+1"]], IdKind.NUMBERS),
        ([["1.0"]], IdKind.NUMBERS),
        ([["1", "ann"], ["007"]], IdKind.NAMES),
        ([["0x10"]], IdKind.NAMES),
        ([["1 2"]], IdKind.NAMES),
        ([[" 1"]], IdKind.NAMES),
        ([["1\n"]], IdKind.NAMES),
        ([["١"]], IdKind.NAMES),
        ([[""]], IdKind.NAMES),
    ],
)
def test_kinds(columns, kind):
    assert find_id_kind(pa.array(column) for column in columns) is kind
    assert find_id_kind(pa.chunked_array([column]) for column in columns[::-1]) is kind


def test_integers_of_arrow_are_integers():
    assert find_id_kind([pa.array([-1, 2])]) is IdKind.INTEGERS
    assert find_id_kind([pa.array([1, 2]), pa.array(["x"])]) is IdKind.NAMES


# What stands in the two columns, and the ids in the order of first appearance.
EDGES = {
    "leading zeros": ([("001", "2"), ("1", "3")], ["001", "2", "1", "3"]),
    "zeros in the other column": ([("1", "02"), ("2", "3")], ["1", "02", "2", "3"]),
    "zeros late": ([("1", "2"), ("2", "3"), ("3", "4"), ("4", "5"), ("5", "01")], ["1", "2", "3", "4", "5", "01"]),
    "two zeros": ([("00", "0"), ("0", "5")], ["00", "0", "5"]),
    "a plus": ([("+1", "2"), ("1", "2")], ["+1", "2", "1"]),
    "minus zero": ([("-0", "0"), ("0", "5")], ["-0", "0", "5"]),
    "negative beside zeros": ([("-5", "05"), ("5", "05")], ["-5", "05", "5"]),
    "hexadecimal": ([("0x10", "16"), ("16", "17")], ["0x10", "16", "17"]),
    "mixed": ([("7", "ann"), ("07", "7")], ["7", "ann", "07"]),
    "beyond 64 bits": ([("9" * 19, "01"), ("1", "01")], ["9" * 19, "01", "1"]),
    "integers": ([("10", "0"), ("0", "200")], [10, 0, 200]),
}


def edge_file(folder, ending, pairs, weight=None):
    path = folder / f"edges{ending}"
    rows = [pair if weight is None else (*pair, weight) for pair in pairs]
    if ending == ".parquet":
        columns = [pa.array(column).dictionary_encode() for column in list(zip(*pairs, strict=True))]
        pq.write_table(pa.table(columns, names=["a", "b"]), path)
        return path
    delimiter = {".csv": ",", ".tsv": "\t", ".txt": " ", ".csv.gz": ";"}[ending]
    content = "".join(delimiter.join(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    return path


def read_both(path, folder, features=None):
    """The graph from memory; the one from the store must be the same."""
    graph = read_graph(path, features)
    stored = write_store(path, folder / "store", features).to_graph()
    assert stored.node_ids.tolist() == graph.node_ids.tolist()
    assert (stored.adjacency != graph.adjacency).nnz == 0
    assert stored.cleaning == graph.cleaning
    if features is not None:
        assert np.array_equal(stored.features, graph.features)
    return graph


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("case", EDGES)
def test_edge_lists(tmp_path, case, ending):
    pairs, ids = EDGES[case]
    graph = read_both(edge_file(tmp_path, ending, pairs), tmp_path)
    assert graph.node_ids.tolist() == ids
    assert graph.num_edges == len({frozenset(pair) for pair in pairs})


@pytest.mark.parametrize("case", EDGES)
def test_weights_change_no_id(tmp_path, case):
    pairs, ids = EDGES[case]
    for weight in ("0.05", "1e-05", "007"):
        graph = read_both(edge_file(tmp_path, ".csv", pairs, weight), tmp_path)
        assert graph.node_ids.tolist() == ids
        assert graph.edge_weights().tolist() == pytest.approx([float(weight)] * graph.num_edges)


def test_blanks_around_a_number_do_not_count(tmp_path):
    path = tmp_path / "e.csv"
    for content in ('"1", 2\n 2 ," 3"\n', '"1", 2,1e-05\n 2 ," 3",1e-05\n'):
        path.write_text(content)
        assert read_both(path, tmp_path).node_ids.tolist() == [1, 2, 3]
    path.write_text('"01", 2\n 2 ," 3"\n')
    assert read_both(path, tmp_path).node_ids.tolist() == ["01", "2", "3"]


def test_integer_columns_beside_text_columns(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": ["2", "03"]}), tmp_path / "e.parquet")
    assert read_both(tmp_path / "e.parquet", tmp_path).node_ids.tolist() == ["1", "2", "03"]
    pq.write_table(pa.table({"a": [1, 2], "b": ["2", "3"]}), tmp_path / "e.parquet")
    assert read_both(tmp_path / "e.parquet", tmp_path).node_ids.tolist() == [1, 2, 3]
    assert read_graph(pa.table({"a": ["01", "1"], "b": ["2", "2"]})).node_ids.tolist() == ["01", "2", "1"]


REFUSED = {
    "negative": ([("0", "1"), ("1", "-2")], "target -2 is negative"),
    "negative and long": ([("0", str(2**63)), ("-3", "1")], "source -3 is negative"),
    "decimal": ([("1", "2"), ("1.0", "2")], "source 1.0 is not a whole number"),
    "decimal beside zeros": ([("01", "2"), ("1", "2.0")], "target 2.0 is not a whole number"),
}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_row(tmp_path, case, ending):
    pairs, message = REFUSED[case]
    path = edge_file(tmp_path, ending, pairs)
    place = "row 2: " if ending == ".parquet" else "line 2: "
    for read in (read_graph, lambda source: write_store(source, tmp_path / "store")):
        with pytest.raises(InputError, match=place + message):
            read(path)


@pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".parquet"])
def test_feature_tables_match_ids_as_they_are_written(tmp_path, ending):
    edges = tmp_path / "e.csv"
    edges.write_text("001,2\n1,2\n")
    rows = [("1", 10.0), ("001", 20.0), ("2", 30.0)]
    path = tmp_path / f"f{ending}"
    if ending == ".parquet":
        pq.write_table(pa.table({"id": [name for name, _ in rows], "x": [value for _, value in rows]}), path)
    else:
        delimiter = "," if ending == ".csv" else "\t"
        content = "".join(f"{name}{delimiter}{value}\n" for name, value in rows).encode()
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    graph = read_both(edges, tmp_path, path)
    assert graph.node_ids.tolist() == ["001", "2", "1"]
    assert graph.features.ravel().tolist() == [20, 30, 10]


def test_padded_feature_ids_are_not_integers(tmp_path):
    edges, features = tmp_path / "e.csv", tmp_path / "f.csv"
    edges.write_text("1,2\n")
    features.write_text("id,x\n01,1\n02,2\n")
    for read in (read_graph, lambda *files: write_store(files[0], tmp_path / "store", files[1])):
        with pytest.raises(InputError, match="no row for node '1' and 1 others"):
            read(edges, features)


def test_a_negative_feature_id_beside_integers_is_refused(tmp_path):
    edges, features = tmp_path / "e.csv", tmp_path / "f.csv"
    edges.write_text("1,2\n")
    features.write_text("id,x\n1,1\n2,2\n-3,3\n")
    for read in (read_graph, lambda *files: write_store(files[0], tmp_path / "store", files[1])):
        with pytest.raises(InputError, match=r"f\.csv: line 4: node -3 is negative"):
            read(edges, features)
    edges.write_text("ann,2\n2,-3\n")
    features.write_text("id,x\nann,1\n2,2\n-3,3\n")
    assert read_both(edges, tmp_path, features).node_ids.tolist() == ["ann", "2", "-3"]


@pytest.mark.parametrize("ending", [".csv", ".txt", ".npy", ".parquet"])
@pytest.mark.parametrize("ids", [["001", "1", "2"], ["0x10", "16", "+1"], [3, 1, -2], ["1.5", "2", "3"]])
def test_written_ids_come_back(tmp_path, ending, ids):
    path = tmp_path / f"o{ending}"
    write_embedding(path, np.ones((3, 2), np.float32), np.array(ids, dtype=object if isinstance(ids[0], str) else int))
    assert read_embedding(path)[0].tolist() == ids
