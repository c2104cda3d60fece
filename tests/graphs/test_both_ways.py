"""Every format and odd input, read into memory and written to a store: the same graph, ids and messages."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import duckdb_steps, read_edges, read_features, store_writer, text_tables
from l2g2g.graphs.formats import AS_FOUND, TableOptions
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store_writer import write_store

RING = [(node, (node + 1) % 60) for node in range(60)]
LONG = "1,2\n" * 60
NAMES = "a,b\n" * 60


@pytest.fixture(autouse=True, params=["small batches", pytest.param("batches as they are", marks=pytest.mark.slow)])
def batches(request, monkeypatch):
    """Batches of a few rows, so that small files are read in many; and as users have them. DuckDB prepares all."""
    monkeypatch.setattr(store_writer, "_EDGE_FACTOR", 1 << 60)
    if request.param == "small batches":
        monkeypatch.setattr(text_tables, "_BLOCK_BYTES", 50)
        monkeypatch.setattr(read_edges, "_ROWS_AT_ONCE", 7)
        monkeypatch.setattr(read_edges, "_EDGES_AT_ONCE", 7)
        monkeypatch.setattr(read_features, "_BYTES_AT_ONCE", 50)
        monkeypatch.setattr(duckdb_steps, "_ROWS_AT_ONCE", 7)


def write(path, content):
    """Write text, bytes, a table or an array as what the name of the file says."""
    if isinstance(content, pa.Table):
        pq.write_table(content, path, row_group_size=9)
    elif isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def lines(pairs, separator=",", end="\n"):
    return "".join(separator.join(map(str, row)) + end for row in pairs)


def table(*columns):
    return pa.table(dict(zip("abcdef", columns, strict=False)))


def vectors(ids, extra=""):
    return "id,u,v\n" + "".join(f"{each},{number}.5,1\n" for number, each in enumerate(ids)) + extra


RING_TABLE = table(*map(list, zip(*RING, strict=True)))
SIXTY = list(range(60))
# edges (name, content), features (name, content) or None, then what is expected: the first ids, edges, cleaning
GOOD = {
    "csv": ("e.csv", lines(RING), None, SIXTY, 60),
    "header": ("e.csv", "source,target\n" + lines(RING), None, SIXTY, 60),
    "unusual header": ("e.csv", "paper,cites\n" + lines(RING), None, SIXTY, 60),
    "header of a weight": ("e.csv", "x,y,weight\n" + "a,b,2\n" * 30, None, ["a", "b"], 1),
    "names and no header": ("e.csv", "a,b\n" + "b,c\n" * 60, None, ["a", "b", "c"], 2),
    "names under a header": ("e.csv", "from,to\n" + "b,c\n" * 60 + "c,a\n", None, ["b", "c", "a"], 2),
    "one edge of names": ("e.csv", "a,b\n", None, ["a", "b"], 1),
    "tabs": ("e.tsv", lines(RING, "\t"), None, SIXTY, 60),
    "semicolons": ("e.csv", lines(RING, ";"), None, SIXTY, 60),
    "blanks": ("e.txt", lines(RING, "   "), None, SIXTY, 60),
    "gz": ("e.csv.gz", lines(RING), None, SIXTY, 60),
    "comments": ("e.txt", "# one\n1 2\n\n%two\n  3   4  \n" + "5 6\n# three\n" * 40, None, [1, 2, 3, 4, 5, 6], 3),
    "old line ends": ("e.csv", lines(RING, ",", "\r"), None, SIXTY, 60),
    "windows line ends": ("e.csv", lines(RING, ",", "\r\n"), None, SIXTY, 60),
    "byte order mark": ("e.csv", b"\xef\xbb\xbf" + lines(RING).encode(), None, SIXTY, 60),
    "no last line end": ("e.csv", "1,2\n3,4", None, [1, 2, 3, 4], 2),
    "quoted": ("e.csv", '"a,1",b\n' * 30 + '" a",b\n', None, ["a,1", "b", " a"], 2),
    "quotes late": ("e.csv", "a ,b\n" * 60 + '" a",b\n', None, ["a ", "b", " a"], 2),
    "leading zeros": ("e.csv", LONG + "001,2\n", None, ["1", "2", "001"], 2),
    "late name": ("e.csv", LONG + "2,x\n", None, ["1", "2", "x"], 2),
    "late negative among names": ("e.csv", NAMES + "-5,b\n", None, ["a", "b", "-5"], 2),
    "beyond 64 bits": ("e.csv", LONG + f"{10**20},1\n", None, ["1", "2", str(10**20)], 2),
    "large integers": ("e.csv", LONG + f"{10**15},1\n", None, [1, 2, 10**15], 2),
    "weights": ("e.csv", "1,2,0.5\n" * 60 + "2,3,2\n", None, [1, 2, 3], 2),
    "weights of names": ("e.csv", "a,b,1.5\n" * 50 + "b,c,2\n", None, ["a", "b", "c"], 2),
    "loops and repeats": ("e.csv", "1,1\n1,2\n2,1\n1,2\n3,2\n" * 30, None, [1, 2, 3], 2),
    "parquet": ("e.parquet", RING_TABLE, None, SIXTY, 60),
    "parquet of names": ("e.parquet", table(["x"] * 30 + ["y"], ["y"] * 30 + ["z"]), None, ["x", "y", "z"], 2),
    "parquet of text numbers": ("e.parquet", table(["1"] * 30 + ["3"], ["2"] * 31), None, [1, 2, 3], 2),
    "parquet, late name": ("e.parquet", table(["1"] * 30 + ["03"], ["2"] * 31), None, ["1", "2", "03"], 2),
    "parquet, dictionary": (
        "e.parquet",
        table(pa.array(["x", "y"]).dictionary_encode(), ["y", "z"]),
        None,
        [*"xyz"],
        2,
    ),
    "parquet, unsigned": (
        "e.parquet",
        table(pa.array([1] * 30 + [2**63], pa.uint64()), [2] * 31),
        None,
        ["1", "2", str(2**63)],
        2,
    ),
    "parquet of weights": ("e.parquet", table([1] * 30 + [3], [2] * 31, [0.25] * 31), None, [1, 2, 3], 2),
    "npy": ("e.npy", np.array(RING), None, None, 60),
    "npy in two rows": ("e.npy", np.array(RING).T.astype(np.uint16), None, None, 60),
    "npy of other byte order": ("e.npy", np.array(RING).astype(">i4"), None, None, 60),
    "npy, few edges of many nodes": ("e.npy", np.array([[0, 999_999]]), None, None, 1),
    "features in another order": ("e.csv", lines(RING), ("f.csv", vectors(reversed(range(60)))), SIXTY, 60),
    "features, more nodes": ("e.csv", LONG, ("f.csv", vectors([7, 2, 1])), [1, 2, 7], 1),
    "features of names": ("e.csv", NAMES, ("f.csv", vectors(["c", "b", '" a"', "a"])), ["a", "b", "c", " a"], 1),
    "features of text, integer edges": ("e.csv", LONG, ("f.csv", vectors([1, 2, "x"])), ["1", "2", "x"], 1),
    "features of integers, text edges": (
        "e.csv",
        LONG + "2,01\n",
        ("f.csv", vectors([1, 2, "01"])),
        ["1", "2", "01"],
        2,
    ),
    "features tell no header": ("e.csv", "p,q\n" + "1,2\n" * 30, ("f.csv", vectors(["p", "q", 1, 2])), [*"pq12"], 2),
    "features in gz": ("e.csv", LONG, ("f.csv.gz", vectors([2, 1])), [1, 2], 1),
    "features, parquet": ("e.csv", LONG, ("f.parquet", table([2, 1, 5], [1.0, 2, 3], [4, 5, 6])), [1, 2, 5], 1),
    "features, lists": ("e.csv", LONG, ("f.parquet", table(["2", "1", *"abcdefghij"], [[1.0, 2]] * 12)), None, 1),
    "features, unsigned": (
        "e.parquet",
        table([1], [2]),
        ("f.parquet", table(pa.array([*range(1, 30), 2**63], pa.uint64()), [1.0] * 30)),
        None,
        1,
    ),
    "features by number": ("e.csv", LONG, ("f.npy", np.arange(60.0).reshape(20, 3)), None, 1),
    "features by number, npy edges": ("e.npy", np.array(RING), ("f.npy", np.ones((70, 2))), None, 60),
    "features by id, npy edges": ("e.npy", np.array(RING), ("f.csv", vectors(reversed(range(60)))), None, 60),
}


PEOPLE = "id,age,town,team\n" + "".join(
    f"{each},{'' if each == 7 else each},{'rome' if each % 3 else 'oslo'},{'red' if each % 2 else 'blue'}\n"
    for each in reversed(SIXTY)
)
ODD = RING_TABLE.rename_columns(["a", "b"]).append_column("c", [[0.5] * len(RING)]).append_column("d", [["x"] * 60])
# edges, features, options, then what is expected: ids, whether weighted, features of the node 7, label of the node 7
SAID = {
    "columns by name": (
        ("e.csv", "w,x,y,z\n" + lines((2, u, v, "t") for u, v in RING)),
        None,
        {"source": "x", "target": "y", "weight": "w"},
        (SIXTY, True, None, None),
    ),
    "columns by number, no header": (
        ("e.csv", lines(("t", u, v) for u, v in RING)),
        None,
        {"source": "2", "target": "3", "header": False},
        (SIXTY, False, None, None),
    ),
    "parquet by name": (("e.parquet", ODD), None, {"source": "b", "target": "a"}, (None, False, None, None)),
    "Gephi": (
        ("e.csv", "Source,Target,Type,Id,Weight\n" + lines((u, v, "Undirected", 9, 1.5) for u, v in RING)),
        None,
        {},
        (SIXTY, True, None, None),
    ),
    "pandas with its index": (
        ("e.csv", ",who,whom\n" + lines((row, u, v) for row, (u, v) in enumerate(RING))),
        None,
        {},
        (SIXTY, False, None, None),
    ),
    "delimiter": (("e.txt", lines(RING, "|")), None, {"delimiter": "|"}, (SIXTY, False, None, None)),
    "a header that looks like an edge": (
        ("e.csv", "7,8\n" + lines(RING)),
        None,
        {"header": True},
        (SIXTY, False, None, None),
    ),
    "ids as text": (("e.csv", lines(RING)), None, {"ids": "text"}, ([*map(str, SIXTY)], False, None, None)),
    "ids as text, parquet": (("e.parquet", RING_TABLE), None, {"ids": "text"}, ([*map(str, SIXTY)], False, None, None)),
    "ids as integers": (
        ("e.csv", lines((f"00{u}", f"+{v}") for u, v in RING)),
        None,
        {"ids": "integer"},
        (SIXTY, False, None, None),
    ),
    "categories, labels, mean": (
        ("e.csv", lines(RING)),
        ("f.csv", PEOPLE),
        {"label_column": "team", "missing": "mean"},
        (SIXTY, False, [pytest.approx((59 * 60 / 2 - 7) / 59), 0, 1], "red"),
    ),
    "categories, labels, zero": (
        ("e.csv", lines(RING)),
        ("f.csv", PEOPLE),
        {"label_column": "team", "missing": "zero"},
        (SIXTY, False, [0, 0, 1], "red"),
    ),
    "nodes without a row": (
        ("e.csv", lines(RING)),
        ("f.csv", "id,age,town,team\n8,4,oslo,a\n9,6,rome,b\n"),
        {"label_column": "team", "missing": "mean"},
        (SIXTY, False, [5, 0.5, 0.5], ""),
    ),
    "labels alone": (
        ("e.csv", lines(RING)),
        ("f.csv", "id,team\n" + lines((each, each % 2) for each in SIXTY)),
        {"label_column": "team"},
        (SIXTY, False, None, 1),
    ),
    "parquet, labels beside numbers": (
        ("e.parquet", RING_TABLE),
        ("f.parquet", table(SIXTY, [1.0] * 60, [f"l{each % 2}" for each in SIXTY])),
        {"label_column": "c"},
        (SIXTY, False, [1.0], "l1"),
    ),
    "parquet, labels beside lists": (
        ("e.parquet", RING_TABLE),
        ("f.parquet", table(SIXTY, [each % 3 for each in SIXTY], [[1.0, 2.0]] * 60)),
        {"label_column": "b"},
        (SIXTY, False, [1.0, 2.0], 1),
    ),
    "npy, missing": (
        ("e.npy", np.array(RING)),
        ("f.npy", np.where(np.arange(120).reshape(60, 2) == 15, np.nan, 2.0)),
        {"missing": "mean"},
        (None, False, [2.0, 2.0], None),
    ),
}


def cases_of(table):
    """All cases; those beyond the first of every three are slow: a store takes DuckDB's 50 ms."""
    marks = [(), pytest.mark.slow, pytest.mark.slow]
    return [pytest.param(case, id=name, marks=marks[row % 3]) for row, (name, case) in enumerate(table.items())]


@pytest.mark.parametrize("case", cases_of(SAID))
def test_what_is_said_is_done_in_both_ways(case, tmp_path):
    edges, features, options, (ids, weighted, row, label) = case
    graph, stored = both(tmp_path, edges, features, TableOptions(**options))
    if isinstance(graph, Exception):
        raise graph
    for found in (graph, stored):
        assert (found.num_nodes, found.num_edges, found.weighted) == (60, 60, weighted)
        assert ids is None or found.node_ids.tolist() == ids
        assert (found.features is None) == (row is None)
        assert row is None or found.features[7].tolist() == row
        assert (found.labels is None) == (label is None)
        assert label is None or found.labels[7] == label
        assert found.columns == graph.columns
    assert np.array_equal(stored.adjacency.toarray(), graph.adjacency.toarray())


def both(folder, edges, features, options=AS_FOUND):
    """The graph and the graph from the store, or the two errors."""
    path = write(folder / edges[0], edges[1])
    more = None if features is None else write(folder / features[0], features[1])
    found = []
    for read in (read_graph, lambda *files, **how: write_store(files[0], folder / "store", files[1], **how).to_graph()):
        try:
            found.append(read(path, more, tables=options))
        except (InputError, ResourceError) as error:
            found.append(error)
    return found


@pytest.mark.parametrize("case", cases_of(GOOD))
def test_the_graph_is_the_same(case, tmp_path):
    name, content, features, ids, num_edges = case
    graph, stored = both(tmp_path, (name, content), features)
    assert graph.num_edges == num_edges
    if ids is not None:
        assert graph.node_ids.tolist() == ids
    assert (stored.node_ids is None) == (graph.node_ids is None)
    if graph.node_ids is not None:
        assert stored.node_ids.tolist() == graph.node_ids.tolist()
        assert stored.node_ids.dtype.kind == graph.node_ids.dtype.kind
    for part in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(stored.adjacency, part), getattr(graph.adjacency, part))
    assert (stored.cleaning, stored.weighted, stored.name) == (graph.cleaning, graph.weighted, graph.name)
    assert (stored.features is None) == (features is None) == (graph.features is None)
    if features is not None:
        assert np.array_equal(stored.features, graph.features)


def test_what_is_cleaned_is_counted(tmp_path):
    graph, _ = both(tmp_path, GOOD["loops and repeats"][:2], None)
    cleaning = graph.cleaning
    assert (cleaning.num_arcs_read, cleaning.num_self_loops, cleaning.num_reversed) == (150, 30, 1)
    assert cleaning.num_duplicates == 150 - 30 - 3


RING_CSV = ("e.csv", lines(RING))
BAD = {
    "empty": ("e.csv", "", None, "the file is empty"),
    "only comments": ("e.csv", "# a\n\n", None, "the file is empty"),
    "only a header": ("e.csv", "source,target\n", None, "only a header"),
    "one column": ("e.csv", "1\n2\n", None, "only 1 column"),
    "four columns": ("e.csv", "1,2,3,4\n", None, "4 columns"),
    "negative": ("e.csv", LONG + "3,-4\n", None, "line 61: target -4 is negative"),
    "negative beyond 64 bits": ("e.csv", LONG + f"3,-{10**20}\n", None, "line 61: target -1.* is negative"),
    "decimal": ("e.csv", LONG + "3,4.5\n", None, "line 61: target 4.5 is not a whole number"),
    "odd line": ("e.csv", LONG + "3,4,5\n" + LONG, None, "line 61 has 3 columns but the first has 2"),
    "missing field": ("e.csv", "# x\n" + LONG + "3\n", None, "line 62 has 1 columns but the first has 2"),
    "missing id": ("e.csv", NAMES + "a,\n", None, "line 61: an id is empty"),
    "weight of text": ("e.csv", "1,2,0.5\n" * 60 + "2,3,x\n", None, "line 61: weight 'x'"),
    "negative weight": ("e.csv", "1,2,0.5\n" * 60 + "2,3,-1\n", None, "line 61: weight -1.0"),
    "not UTF-8": ("e.csv", NAMES.encode() + b"\xff\xfe,c\n", None, "line 61 is not UTF-8 text"),
    "UTF-16": ("e.csv", LONG.encode("utf-16"), None, "not UTF-8 text"),
    "only loops": ("e.csv", "1,1\n2,2\n", None, "all 2 edges are self-loops"),
    "unknown ending": ("e.xyz", "1,2\n", None, "unknown ending of a graph"),
    "no parquet": ("e.parquet", "1,2\n", None, "damaged or cut off"),
    "no npy": ("e.npy", "1,2\n", None, "neither an .npy nor an .npz"),
    "parquet, null id": ("e.parquet", table([1] * 30 + [None], [2] * 31), None, "row 31: an id is missing"),
    "parquet, decimals": ("e.parquet", table([1.0, 2.5], [2, 3]), None, "row 1: id 1.0 is a decimal number"),
    "parquet, negative": ("e.parquet", table([1] * 60 + [-3], [2] * 61), None, "row 61: source -3 is negative"),
    "parquet, null weight": (
        "e.parquet",
        table([1] * 30, [2] * 30, [1.0] * 29 + [None]),
        None,
        "row 30: the weight is",
    ),
    "parquet, infinite": ("e.parquet", table([1] * 30, [2] * 30, [1.0] * 29 + [np.inf]), None, "row 30: weight inf"),
    "parquet, no rows": ("e.parquet", RING_TABLE.slice(0, 0), None, "the table is empty"),
    "parquet, dates": ("e.parquet", table(pa.array([1, 2], pa.date32()), [2, 3]), None, "ids are date32"),
    "parquet, empty name": ("e.parquet", table(["x"] * 60 + [""], ["y"] * 61), None, "row 61: an id is empty"),
    "parquet, binary": ("e.parquet", table([b"x"], [b"y"]), None, "holds binary"),
    "npy of decimals": ("e.npy", np.ones((5, 2)), None, "not integers"),
    "npy, negative": ("e.npy", np.array([[1, 2]] * 90 + [[3, -4]]), None, "row 90: negative target -4"),
    "npy, far away": (
        "e.npy",
        np.array([[1, 10**13], *[[1, 2]] * 20, [3, 10**14]]),
        None,
        "node number 100000000000000 ",
    ),
    "npy of three columns": ("e.npy", np.ones((5, 3), int), None, "shape .5, 3."),
    "npy of nothing": ("e.npy", np.empty((0, 2), int), None, "no edges"),
    "npy of objects": ("e.npy", np.array([[{}, {}]] * 3, dtype=object), None, "pickled objects"),
    "features, id twice": (*RING_CSV, ("f.csv", vectors(SIXTY, "7,1,2\n")), "node 7 is in line 9 and again in line 62"),
    "features, missing ids": (
        *RING_CSV,
        ("f.csv", vectors(SIXTY[:40])),
        "40 feature rows .* no row for node 40 and 19",
    ),
    "features, negative id": (*RING_CSV, ("f.csv", vectors(SIXTY, "-1,1,2\n")), "line 62: node -1 is negative"),
    "features, not a number": (*RING_CSV, ("f.csv", vectors(SIXTY, "95,x,2\n")), "line 62, column u: 'x' is not a"),
    "features, nan": (*RING_CSV, ("f.csv", vectors(SIXTY, "95,nan,2\n")), "line 62: feature row 60, column 'u' is nan"),
    "features, one column": (*RING_CSV, ("f.csv", "1\n2\n"), "only one column"),
    "features, header only": (*RING_CSV, ("f.csv", "id,a\n"), "only a header"),
    "features, nothing": (*RING_CSV, ("f.csv", ""), "the file is empty"),
    "features, odd line": (*RING_CSV, ("f.csv", vectors(SIXTY, "95,1\n")), "line 62 has 2 columns but the first has 3"),
    "features, unknown ending": (*RING_CSV, ("f.xyz", "1"), "unknown ending of a feature file"),
    "features, parquet, odd list": (
        *RING_CSV,
        ("f.parquet", table(SIXTY, [[1.0, 2]] * 50 + [[1.0]] + [[1.0, 2]] * 9)),
        "row 51 has 1 numbers, row 1 has 2",
    ),
    "features, parquet, id twice": (
        *RING_CSV,
        ("f.parquet", table([*SIXTY, 3], [1.0] * 61)),
        "node 3 is in row 4 and again in row 61",
    ),
    "features, parquet, null id": (*RING_CSV, ("f.parquet", table([*SIXTY, None], [1.0] * 61)), "row 61: an id is"),
    "features, parquet, nan": (
        *RING_CSV,
        ("f.parquet", table(SIXTY, [1.0] * 59 + [np.nan])),
        "row 60: feature row 59, column 'b' is nan",
    ),
    "features, parquet, names": (
        *RING_CSV,
        ("f.parquet", table(SIXTY, [f"x{node}" for node in SIXTY])),
        "column 'b' has 60 different texts in 60 rows",
    ),
    "features, parquet, dates": (
        *RING_CSV,
        ("f.parquet", table(SIXTY, pa.array(SIXTY, pa.date32()))),
        "column 'b' holds date32",
    ),
    "features, too few rows": ("e.csv", LONG + "1,40\n", ("f.npy", np.ones((40, 2))), "line 61: target 40 is beyond"),
    "features, npy, nan": (
        *RING_CSV,
        ("f.npy", np.where(np.arange(120).reshape(60, 2) == 91, np.nan, 1)),
        "feature row 45, column 1 is nan",
    ),
    "features, npy, flat": (*RING_CSV, ("f.npy", np.ones(60)), "shape .60,."),
    "features, npy, complex": (*RING_CSV, ("f.npy", np.full((60, 2), 1j)), "features are complex128"),
    "features, npy, no columns": (*RING_CSV, ("f.npy", np.empty((60, 0))), "at least one column"),
    "features, npy, text": (*RING_CSV, ("f.npy", np.full((60, 2), "x")), "convert them to real numbers"),
    "text edges, features by number": (
        "e.csv",
        NAMES,
        ("f.npy", np.ones((9, 2))),
        "ids are text but .* by node number",
    ),
    "npy edges, strange id": (
        "e.npy",
        np.array(RING),
        ("f.csv", vectors([*SIXTY, 95])),
        "61 feature rows but 60 nodes in e: 95 is no node",
    ),
}


@pytest.mark.parametrize("case", cases_of(BAD))
def test_the_refusal_is_the_same(case, tmp_path):
    name, content, features, message = case
    expected, found = both(tmp_path, (name, content), features)
    with pytest.raises((InputError, ResourceError), match=message):
        raise expected
    assert (type(found), str(found)) == (type(expected), str(expected))
    assert sorted(item.name for item in (tmp_path / "store").glob("*")) in ([], ["lock"])


def test_an_archive_under_the_name_of_an_array(tmp_path):
    with (tmp_path / "e.npy").open("wb") as file:
        np.savez(file, np.array(RING))
    stored = write_store(tmp_path / "e.npy", tmp_path / "store")
    assert stored.num_edges == read_graph(tmp_path / "e.npy").num_edges == 60
