"""The first ten minutes of a new user: what goes in, what comes out, checked by content and not by exit code."""

import base64
import csv
import gzip
import json
import logging
import re
import subprocess
import sys
import types
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from l2g2g import L2G2G, InputError, TableOptions, read_embedding, read_graph
from l2g2g.graphs.graph import Graph
from l2g2g.runs import sources
from l2g2g.runs.artefact import open_artefact
from l2g2g.runs.environment import resident_memory
from l2g2g.runs.record import read_columns_of, read_record

NUM_NODES = 60
RING = [(node, (node + step) % NUM_NODES) for node in range(NUM_NODES) for step in (1, 2, 7)]
WEIGHTS = [1 + row % 3 for row in range(len(RING))]
NAMED = [(f"p{u:02d}", f"p{v:02d}") for u, v in RING]
NAMES = sorted({name for pair in NAMED for name in pair})
TEAMS = ["red" if number % 2 else "blue" for number in range(NUM_NODES)]
FAST = ["--epochs", "3", "--dim", "4", "--patches", "2"]


def weights_of(graph):
    """Weight of each edge by the names of its ends."""
    ids = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist()
    sources, targets = graph.edges()
    pairs = zip(sources, targets, graph.edge_weights(), strict=True)
    return {frozenset((ids[u], ids[v])): float(weight) for u, v, weight in pairs}


EXPECTED = {frozenset(pair): float(weight) for pair, weight in zip(NAMED, WEIGHTS, strict=True)}
PLAIN = dict.fromkeys(EXPECTED, 1.0)
NUMBERS = {frozenset(pair): float(weight) for pair, weight in zip(RING, WEIGHTS, strict=True)}


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("person,friend\n" + "".join(f"{u},{v}\n" for u, v in NAMED))
    return path


@pytest.fixture
def people(tmp_path):
    """A feature table of numbers, a category, labels and a gap."""
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "age", "town", "team"])
        for number, name in enumerate(NAMES):
            rows.writerow([name, "" if number == 3 else 20 + number, ["rome", "oslo"][number % 2], TEAMS[number]])
    return path


# --- 1. input: edge lists ---------------------------------------------------------------------------


def text(rows, header="", delimiter=","):
    return header + "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


WEIGHTED = [(*pair, weight) for pair, weight in zip(NAMED, WEIGHTS, strict=True)]
FILES = {
    "a header by evidence": (text(NAMED, "person,friend\n"), {}, PLAIN, "columns person → friend, header skipped"),
    "no header": (text(NAMED), {}, PLAIN, "no header, first row is an edge"),
    "a header that is none": (text(NAMED, "ann,bob\n"), {"header": False}, None, "no header, first row is an edge"),
    "Gephi": (
        text(
            ([u, v, "Undirected", row, w] for row, (u, v, w) in enumerate(WEIGHTED)), "Source,Target,Type,Id,Weight\n"
        ),
        {},
        EXPECTED,
        "columns Source → Target, weight Weight, header skipped, Type, Id left out",
    ),
    "pandas with its index": (
        pd.DataFrame(WEIGHTED, columns=["who", "whom", "weight"]).to_csv(),
        {},
        EXPECTED,
        "columns who → whom, weight weight, header skipped, column 1 left out",
    ),
    "columns by name": (
        text([(w, "x", v, u) for u, v, w in WEIGHTED], "calls,kind,callee,caller\n"),
        {"source": "caller", "target": "callee", "weight": "calls"},
        EXPECTED,
        "columns caller → callee, weight calls, header skipped, kind left out",
    ),
    "columns by number": (
        text([("x", u, v) for u, v in NAMED]),
        {"source": "2", "target": "3"},
        PLAIN,
        "columns 2 → 3, no header, first row is an edge",
    ),
    "delimiter": (text(NAMED, delimiter="|"), {"delimiter": "|"}, PLAIN, "no header"),
}


@pytest.mark.parametrize("case", FILES)
def test_an_edge_list_is_read_as_it_is_meant_and_that_is_told(case, tmp_path, caplog):
    content, options, expected, told = FILES[case]
    (tmp_path / "edges.csv").write_text(content)
    with caplog.at_level(logging.INFO, "l2g2g"):
        graph = read_graph(tmp_path / "edges.csv", tables=TableOptions(**options))
    assert weights_of(graph) == (expected or {**PLAIN, frozenset(("ann", "bob")): 1.0})
    assert graph.weighted == (expected is EXPECTED)
    assert f"read {tmp_path / 'edges.csv'}: " in caplog.text
    assert told in caplog.text


@pytest.mark.parametrize(
    ("content", "ids", "found"),
    [
        ("001,2\n2,03\n", None, ["001", "2", "03"]),
        ("1,2\n2,3\n", None, [1, 2, 3]),
        ("1,2\n2,3\n", "text", ["1", "2", "3"]),
        ("001,2\n2,03\n", "integer", [1, 2, 3]),
        ("1,ann\n", None, ["1", "ann"]),
    ],
)
def test_ids_keep_their_spelling_unless_integers_are_asked_for(content, ids, found, tmp_path):
    (tmp_path / "edges.csv").write_text(content)
    assert read_graph(tmp_path / "edges.csv", tables=TableOptions(ids=ids)).node_ids.tolist() == found


REFUSED = {
    "too many columns": ("a,b,c,d\n1,2,3,4\n", {}, r"4 columns \(a, b, c, d\) .* --source and --target"),
    "no such column": ("a,b,c,d\n1,2,3,4\n", {"source": "a", "target": "z"}, r"no column 'z' for --target"),
    "the same column twice": ("a,b,c,d\n1,2,3,4\n", {"source": "a", "target": "1"}, "one column cannot be two"),
    "half a pair": ("a,b\n1,2\n", {"source": "a"}, "give both or none"),
    "not an integer": ("a,b\n1,x\n", {"ids": "integer"}, "line 2: id 'x' is no integer"),
    "a decimal comma": ("a;b;n\n1;2;1,5\n", {}, "line 2: weight '1,5' has a decimal comma; write 1.5"),
    "an empty weight": ("a,b,weight\nx,y,1\ny,z,\n", {}, "line 3: the weight is empty; .* name two columns with"),
    "a long delimiter": ("a,b\n1,2\n", {"delimiter": "ab"}, "--delimiter is 'ab'; give one character"),
    "labels without features": (
        "a,b\n1,2\n",
        {"label_column": "c"},
        r"without a feature table .* leave --label-column",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(case, tmp_path):
    content, options, message = REFUSED[case]
    (tmp_path / "edges.csv").write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_graph(tmp_path / "edges.csv", tables=TableOptions(**options))
    assert "\n" not in str(caught.value)


def test_names_that_stand_for_missing_values_are_told(tmp_path, caplog):
    from l2g2g.graphs.duckdb_store import write_large_store

    (tmp_path / "edges.csv").write_text("a,b\nann,bob\nbob,NaN\n")
    said = "edges.csv: 'NaN' is read as a node; if it means a missing id, remove those rows"
    for read in (
        read_graph,
        lambda path: write_large_store(path, tmp_path / "s", memory_bytes=200_000_000, name="g", made_of={}),
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO, "l2g2g"):
            assert read(tmp_path / "edges.csv").num_nodes == 3
        assert any(line.endswith(said) for line in caplog.messages)


# --- 1. input: files of other formats, objects of other libraries -----------------------------------


def test_parts_of_parquet_are_one_edge_list(tmp_path):
    folder = tmp_path / "edges"
    folder.mkdir()
    for part, low in enumerate(range(0, len(WEIGHTED), 50)):
        columns = list(zip(*WEIGHTED[low : low + 50], strict=True))
        table = pa.table(dict(zip(("source", "target", "weight"), map(list, columns), strict=True)))
        pq.write_table(table, folder / f"part-{part:05d}.parquet")
    (folder / "_SUCCESS").touch()
    assert weights_of(read_graph(folder)) == weights_of(read_graph(str(folder))) == EXPECTED
    pq.write_table(pa.table({"source": [1], "target": [2]}), folder / "part-9.parquet")
    with pytest.raises(InputError, match=r"part-9.parquet: its columns are not those of part-00000.parquet"):
        read_graph(folder)


def test_graphml_and_matrix_market(tmp_path):
    graph = nx.Graph()
    graph.add_weighted_edges_from(WEIGHTED)
    nx.set_node_attributes(graph, dict(zip(NAMES, TEAMS, strict=True)), "team")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    assert weights_of(read_graph(tmp_path / "g.graphml")) == EXPECTED
    nx.write_graphml(nx.Graph(RING), tmp_path / "n.graphml")
    assert read_graph(tmp_path / "n.graphml").node_ids.dtype == np.int64
    assert weights_of(read_graph(tmp_path / "n.graphml")) == dict.fromkeys(NUMBERS, 1.0)
    matrix = nx.to_scipy_sparse_array(graph, nodelist=NAMES)
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(matrix))
    assert weights_of(read_graph(tmp_path / "g.mtx")) == NUMBERS


class Streamed:
    """An object of a library that this project has never heard of: all it has is the Arrow C stream interface."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Igraph:
    """The methods of python-igraph (GPL, not among the dependencies) that are used."""

    def __init__(self):
        self.vs = _Attributes({"name": NAMES})
        self.es = _Attributes({"weight": WEIGHTS})

    def get_edgelist(self):
        return RING

    def is_directed(self):
        return False

    def vcount(self):
        return NUM_NODES


class _Attributes(dict):
    def attributes(self):
        return list(self)


def pyg_graph():
    import torch

    with warnings.catch_warnings(action="ignore"):  # of its import
        from torch_geometric.data import Data

    weights = torch.tensor(WEIGHTS, dtype=torch.float32)
    return Data(edge_index=torch.tensor(RING).T, edge_weight=weights, num_nodes=NUM_NODES)


def networkx_graph():
    graph = nx.Graph()
    graph.add_weighted_edges_from(WEIGHTED)
    return graph


FRAME = pd.DataFrame(WEIGHTED, columns=["source", "target", "weight"])
OBJECTS = {
    "pairs of integers": (lambda: RING, dict.fromkeys(NUMBERS, 1.0)),
    "triples of integers": (lambda: [(*pair, w) for pair, w in zip(RING, WEIGHTS, strict=True)], NUMBERS),
    "pairs of names": (lambda: NAMED, PLAIN),
    "triples of names": (lambda: WEIGHTED, EXPECTED),
    "lists of names": (lambda: [list(pair) for pair in NAMED], PLAIN),
    "pandas": (lambda: FRAME, EXPECTED),
    "pandas, columns in another order, and more": (
        lambda: FRAME[["weight", "target", "source"]].assign(kind="x"),
        EXPECTED,
    ),
    "polars": (lambda: pl.DataFrame(WEIGHTED, schema=["source", "target", "weight"], orient="row"), EXPECTED),
    "Arrow": (lambda: pa.Table.from_pandas(FRAME, preserve_index=False), EXPECTED),
    "Arrow C stream": (lambda: Streamed(pa.Table.from_pandas(FRAME, preserve_index=False)), EXPECTED),
    "networkx": (networkx_graph, EXPECTED),
    "igraph": (Igraph, EXPECTED),
    "PyG": (pyg_graph, NUMBERS),
    "SciPy": (lambda: sp.coo_array((WEIGHTS, tuple(zip(*RING, strict=True))), shape=(NUM_NODES, NUM_NODES)), NUMBERS),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_an_object_is_read_and_fitted_with_its_ids_and_weights(case):
    make, expected = OBJECTS[case]
    assert weights_of(read_graph(make())) == expected
    model = L2G2G(dim=2, epochs=1, patches=2).fit(make())
    ids = range(NUM_NODES) if model.node_ids_ is None else model.node_ids_.tolist()
    assert set(ids) == {node for pair in expected for node in pair}
    assert model.embedding_.shape == (NUM_NODES, 2)


def test_an_odd_edge_of_a_list_is_named():
    with pytest.raises(InputError, match="edge number 1 has 3 parts, the first 2"):
        read_graph([("a", "b"), ("b", "c", 1)])


# --- 1. input: feature tables -----------------------------------------------------------------------


def test_a_feature_table_has_labels_categories_and_missing_values(edges, people, caplog):
    with pytest.raises(InputError, match=r"table.csv: line 5: age is missing; .* --missing zero or --missing mean"):
        read_graph(edges, people, tables=TableOptions(label_column="team"))
    with caplog.at_level(logging.INFO, "l2g2g"):
        graph = read_graph(edges, people, tables=TableOptions(label_column="team", missing="mean"))
    assert "ids id, 1 number column, town one-hot (2 values), labels team" in caplog.text
    by_name = dict(zip(graph.node_ids.tolist(), zip(graph.features.tolist(), graph.labels, strict=True), strict=True))
    assert graph.columns.titles() == ["age", "town=oslo", "town=rome"]
    mean = np.mean([20 + number for number in range(NUM_NODES) if number != 3])
    assert by_name["p03"] == ([pytest.approx(mean), 1, 0], "red")
    assert by_name["p04"] == ([24, 0, 1], "blue")


def test_ids_may_stand_in_any_column_that_is_called_id(tmp_path, caplog):
    table = pd.DataFrame({"age": np.arange(60.0), "team": TEAMS, "ID": NAMES})
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        with caplog.at_level(logging.INFO, "l2g2g"):
            graph = read_graph(NAMED, tmp_path / name, tables=TableOptions(label_column="team"))
        assert f"{name}: ids ID, labels team" in caplog.text
        row = graph.node_ids.tolist().index("p07")
        assert (graph.features[row].tolist(), graph.labels[row]) == ([7], TEAMS[7])


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of PyG, when it is imported
def test_a_missing_label_is_no_class():
    graph = nx.Graph(NAMED)
    nx.set_node_attributes(graph, {"p00": 2, "p01": 5}, "label")
    model = L2G2G(epochs=1, dim=4).fit(graph)
    assert read_graph(graph).labels[:3].tolist() == [2, 5, -1]
    assert read_graph(graph).to_pyg().y[:3].tolist() == [2, 5, -1]
    nx.set_node_attributes(graph, {"p00": "b", "p01": "a"}, "label")
    data = read_graph(graph).to_pyg()
    assert (data.y[:3].tolist(), data.label_names) == ([1, 0, -1], ["a", "b"])
    assert model.embedding_.shape == (60, 4)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "ann,bob\n",
            "too few edges to learn from (1), so that nothing tells nodes apart; give more nodes, or --features",
        ),
        ("a,b\nb,c\na,c\n", "every pair of nodes is an edge, so that nothing tells nodes apart; give more nodes"),
    ],
)
def test_a_graph_that_says_nothing_is_bad_input(rows, message, run, tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n" + rows)
    code, _, err = run("embed", tmp_path / "e.csv", "-o", tmp_path / "o.npy", "--quiet")
    assert (code, message in err, err.count("\n")) == (2, True, 1), err


def test_one_column_of_numbers_is_enough_unless_all_are_the_same(run, edges, tmp_path):
    command = ["embed", edges, "--features", tmp_path / "ages.csv", "-o", tmp_path / "o.npy", *FAST]
    (tmp_path / "ages.csv").write_text("id,age\n" + "".join(f"{name},{20 + row}\n" for row, name in enumerate(NAMES)))
    assert run(*command)[0] == 0
    (tmp_path / "ages.csv").write_text("id,age\n" + "".join(f"{name},20\n" for name in NAMES))
    code, _, err = run(*command)
    assert (code, "the only feature column is 20 for all nodes; leave it out" in err) == (2, True), err


def test_negatives_that_validation_should_choose_are_not_uniform_in_silence(run, edges, tmp_path):
    auto = ["embed", edges, "-o", tmp_path / "o.npy", *FAST, "--negative-sampling", "auto"]
    code, _, err = run(*auto, "--patience", 0)
    assert (code, "--negative-sampling auto is decided by validation pairs" in err) == (2, True), err
    code, _, err = run(*auto, "--no-validation")
    assert (code, "no validation pairs for --negative-sampling auto to decide by; uniform is used" in err) == (0, True)


def test_a_pandas_table_of_features_has_its_ids_first_or_as_index():
    table = pd.DataFrame({"id": NAMES, "town": pd.Categorical(["x", "y"] * 30), "x": np.arange(60.0)})
    for features in (table, table.set_index("id"), pl.from_pandas(table.astype({"town": str}))):
        graph = read_graph(NAMED, features)
        assert graph.columns.titles() == ["town=x", "town=y", "x"]
        assert graph.features[graph.node_ids.tolist().index("p07")].tolist() == [0, 1, 7]


def page_columns(path):
    """Of the map of a page: title and classes of every column, and the class of each node by its name."""
    page = path.read_text()
    facts = json.loads(re.search(r'id="map-facts">(.*?)</script>', page)[1])
    found = {column["title"]: column.get("classes") for column in facts["columns"]}
    packed = re.search(r'id="block-label" data-kind="(\w+)">([^<]*)<', page)
    codes = np.frombuffer(gzip.decompress(base64.b64decode(packed[2])), packed[1])
    return found, [found["Label"][code] for code in codes]


@pytest.mark.slow
def test_labels_columns_and_clusters_survive_memory_ranks_and_model(run, processes, tmp_path, monkeypatch):
    """Four groups of 15 people with their group as label, four of them without one, and a category as a feature."""
    names = [f"p{node:02d}" for node in range(60)]
    team, towns = ["red", "blue", "green", "gold"], ["rome", "oslo", "bonn", "graz"]
    labels = ["" if node % 16 == 5 else team[node // 15] for node in range(60)]
    assert labels.count("") == 4
    edges = [(u, v) for u in range(60) for v in range(u) if (u // 15 == v // 15 and (u + v) % 2) or (u * v) % 97 == 1]
    (tmp_path / "e.csv").write_text("from,to\n" + "".join(f"{names[u]},{names[v]}\n" for u, v in edges))
    rows = [f"{name},{node % 7 or ''},{towns[node // 15]},{labels[node]}\n" for node, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("id,age,town,team\n" + "".join(rows))
    given = [tmp_path / "e.csv", "--features", tmp_path / "t.csv", "--label-column", "team"]
    fast = ["--structure", "none", "--epochs", 40, "--dim", 4, "--patches", 2, "--threads", 1]

    def embed(way, *arguments):
        return ["embed", *arguments, *fast, "-o", tmp_path / f"{way}.parquet", "--run-dir", tmp_path / way]

    code, _, err = run(*embed("memory", *given, "--missing", "mean"))
    assert (code, "4 classes (4 nodes without a label)" in err) == (0, True), err
    code, _, err = run("prepare", *given, "--missing", "mean", "--store", tmp_path / "store")
    assert code == 0, err
    with monkeypatch.context() as patch:
        patch.setattr(sources, "fits_memory", lambda *_: False)
        limit = ["--memory", f"{resident_memory() // 1_000_000 + 800}MB"]  # this process has what other tests imported
        code, _, err = run(*embed("disk", tmp_path / "store", *limit))
    assert (code, "4 classes (4 nodes without a label)" in err) == (0, True), err
    processes.run_ranks(2, "-m", "l2g2g", *embed("ranks", *given, "--missing", "mean"))
    kept = {}
    for way in ("memory", "disk", "ranks"):
        record = read_record(open_artefact(tmp_path / way))
        assert dict(zip(record.node_ids.tolist(), record.label_texts(), strict=True)) == dict(
            zip(names, labels, strict=True)
        )
        assert record.classes == sorted(team)
        assert read_columns_of(open_artefact(tmp_path / way)).titles() == [
            "age",
            *(f"town={town}" for town in sorted(towns)),
        ]
        code, out, err = run("cluster", tmp_path / way, "-k", 4, "-o", tmp_path / f"{way}-clusters.csv", "--json")
        assert code == 0, err
        assert sorted(json.loads(out)["names"]) == [f"{name} (100 %)" for name in sorted(team)]
        assert json.loads(out)["sizes"] == [15] * 4
        code, out, err = run("classify", tmp_path / way, "--json")
        found = json.loads(out)
        assert (code, found["num_labelled"], found["num_classes"], found["accuracy"]) == (0, 56, 4, 1.0), err
        page = tmp_path / f"{way}.html"
        nodes = ["--nodes", tmp_path / f"{way}-clusters.csv"]
        assert run("report", tmp_path / way, "-o", page, "--projection", "pca", *nodes)[0] == 0
        columns, shown = page_columns(page)
        assert columns["Label"] == [*sorted(team), "not known"]
        assert dict(zip(record.node_ids.tolist(), shown, strict=True)) == {
            name: label or "not known" for name, label in zip(names, labels, strict=True)
        }
        assert columns["cluster"] == ["0", "1", "2", "3"]
        kept[way] = read_embedding(tmp_path / f"{way}.parquet")
        assert kept[way][0].tolist() == kept["memory"][0].tolist()
    # `prepare` cuts with the edges that validation hides later: other patches. test_invariants compares equal ones.
    np.testing.assert_allclose(kept["ranks"][1], kept["memory"][1], atol=2e-3)

    # A later table: columns in another order, a town that the model does not know, a new node without a label.
    (tmp_path / "e.csv").write_text((tmp_path / "e.csv").read_text() + "new,p00\nnew,p02\nnew,p04\n")
    rows = [f"{labels[node]},{name},{towns[node // 15]},{node % 7}\n" for node, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("team,id,town,age\n" + "".join(rows) + ",new,paris,3\n")
    for way in ("memory", "disk", "ranks"):
        output = tmp_path / f"{way}-new.parquet"
        later = [*given, "-o", output, "--model", tmp_path / way]
        code, _, err = run("embed", *later)
        assert code == 0, err
        ids, vectors = read_embedding(output)
        row_of = {name: row for row, name in enumerate(ids)}
        np.testing.assert_array_equal(vectors[[row_of[name] for name in kept[way][0]]], kept[way][1])
        nodes = ["--labels", tmp_path / "t.csv", "--column", "team", "-o", tmp_path / "told.csv"]
        code, out, err = run("classify", output, *nodes, "--json")
        assert (code, json.loads(out)["num_labelled"], json.loads(out)["num_classes"]) == (0, 56, 4), err
        told = {row["id"]: row for row in csv.DictReader((tmp_path / "told.csv").read_text().splitlines())}
        assert (told["new"]["label"], told["new"]["predicted"]) == ("", "red")
        code, out, err = run("cluster", output, "-k", 4, "--json")
        assert (code, sorted(json.loads(out)["sizes"])) == (0, [15, 15, 15, 16]), err


# --- 2. output ---------------------------------------------------------------------------------------


def test_embed_ends_with_what_was_learned_and_what_to_try_next(run, edges, tmp_path):
    output = tmp_path / "v.parquet"
    code, out, err = run("embed", edges, "-o", output, *FAST)
    assert code == 0, err
    first, second, third = out.splitlines()
    assert first.startswith(f"{output}: 60 vectors, 4-dimensional, l2g2g, 3 epochs, ")
    assert second.startswith("validation: AUC ")
    assert " AP " in second
    assert "on 9 held-out edges; spectral baseline AUC " in second
    assert third == f"next: l2g2g neighbours {output} {NAMED[0][0]}"
    assert f"read {edges}: columns person → friend, header skipped" in err
    code, out, err = run(*third.removeprefix("next: l2g2g ").split())
    assert code == 0, err
    assert out.splitlines()[0] == NAMED[0][0]


def test_the_json_line_has_validation_scores_or_null(run, edges, tmp_path):
    code, out, _ = run("embed", edges, "-o", tmp_path / "v.npy", "--json", *FAST)
    row = json.loads(out)
    assert code == 0
    assert 0 <= row["validation_auc_interval"][0] <= row["validation_auc"] <= row["validation_auc_interval"][1] <= 1
    assert 0 < row["validation_ap"] <= 1
    assert 0 <= row["spectral_auc"] <= 1
    code, out, _ = run("embed", edges, "-o", tmp_path / "v.npy", "--json", "--no-validation", *FAST)
    row = json.loads(out)
    assert (row["validation_auc"], row["validation_ap"], row["spectral_auc"]) == (None, None, None)


def test_the_spectral_baseline_is_that_of_evaluate(noisy, run, tmp_path):
    """The same vectors on the same pairs: those of the contract, at the dimension of the run."""
    from l2g2g.config import make_config
    from l2g2g.evaluation.links import fit_baseline, link_scores
    from l2g2g.graphs.splits import split_links
    from l2g2g.runs.embed import embed_graph

    config = make_config("l2g2g", epochs=2, dim=4, patches=2)
    found = embed_graph(noisy, config)
    split = split_links(noisy, validation_fraction=0.05, test_fraction=0.0, seed=config.seed)
    baseline = fit_baseline("spectral", split.train, split.validation, dim=4, seed=config.seed)
    sources, targets, is_edge = split.validation.endpoints()
    assert found.spectral_auc == link_scores(is_edge, baseline.score(sources, targets)).auc
    best = max(score for _, score in found.trained.history.validations)
    chosen = found.chosen["validation_auc"]["spectral"] if found.config.structure == "spectral" else best
    assert found.validation.auc.value == pytest.approx(chosen, abs=1e-9)


def test_answers_are_frames_where_pandas_is_asked_for():
    model = L2G2G(dim=3, epochs=2, patches=2).fit(NAMED)
    frame = model.to_pandas()
    assert frame.index.tolist() == model.node_ids_.tolist()
    assert np.array_equal(frame.to_numpy(), model.embedding_)
    near = model.neighbours(["p00", "p05"], k=2)
    assert near.to_pandas().loc["p05", "neighbour"].tolist() == near.nodes[1].tolist()
    title, heads, *rows = repr(near).splitlines()
    assert (title, heads.split()) == ("Neighbours: the 2 nearest of 2 nodes", ["node", "rank", "neighbour", "score"])
    assert [row.split()[:3] for row in rows[2:]] == [["p05", str(1 + rank), near.nodes[1, rank]] for rank in (0, 1)]
    assert repr(model.top_links(15)).splitlines()[-1] == "… 5 more rows; to_pandas() has all"
    top = model.top_links(4)
    assert top.to_pandas()["source"].tolist() == top.sources.tolist()
    probabilities = model.predict_links([("p00", "p01")])
    model.set_output(transform="pandas")
    assert model.neighbours(["p00", "p05"], k=2).equals(near.to_pandas())
    assert model.top_links(4).equals(top.to_pandas())
    predicted = model.predict_links([("p00", "p01")])
    assert predicted.to_dict("list") == {"source": ["p00"], "target": ["p01"], "probability": probabilities.tolist()}
    assert model.transform(NAMED).equals(frame)
    assert model.fit_transform(pd.DataFrame(NAMED)).index.tolist() == model.node_ids_.tolist()


def test_history_graph_and_model_show_themselves_in_a_line(edges, people):
    graph = read_graph(edges, people, tables=TableOptions(label_column="team", missing="zero"))
    assert repr(graph) == "Graph('people': 60 nodes, 180 edges, 3 features, labels)"
    model = L2G2G(dim=2, epochs=3, patches=2).fit(NAMED)
    assert repr(model.history_).startswith("History(3 epochs, loss ")
    assert "\n" not in repr(model.history_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "L2G2G" in model._repr_html_()
        assert set(model._repr_mimebundle_()) == {"text/plain", "text/html"}
        for name in dir(model):  # what Tab completion looks at
            getattr(model, name, None)


def test_a_notebook_shows_progress_under_the_cell(monkeypatch):
    class ZMQInteractiveShell:
        pass

    shown = []
    handle = types.SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))
    display = types.ModuleType("IPython.display")
    display.display = lambda content, raw, display_id: shown.append(content["text/plain"]) or handle
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    L2G2G(dim=2, epochs=3, patches=2).fit(NAMED)
    assert shown[0] == "L2G2G: 3 epochs"
    assert "3/3, loss " in shown[-1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dim": "a"}, "--dim is 'a'; give a whole number"),
        ({"epochs": 2.5}, "--epochs is 2.5"),
        ({"decoder": "x"}, "unknown decoder 'x'"),
    ],
)
def test_a_wrong_parameter_is_our_error(parameters, message):
    with pytest.raises(InputError, match=message):
        L2G2G(**parameters).fit(NAMED)


def test_a_misspelt_parameter_is_named():
    with pytest.raises(TypeError, match=r"L2G2G has no parameter 'dims'; did you mean 'dim'\?"):
        L2G2G(dims=3)


# --- 5. the command line ------------------------------------------------------------------------------


def test_help_has_groups_defaults_and_what_markup_would_eat(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("embed", "--help")
    assert code == 0
    assert "[source | target]" in " ".join(out.replace("│", " ").split())
    for group in ("Input", "Model", "Patches", "Training", "Output", "Machine"):
        assert f"─ {group} ─" in out
    assert "accurate: 128" in out
    assert "--structure-width" not in out
    assert "--structure-width" in run("embed", "--help-all")[1]
    for flag in (
        "--source",
        "--target",
        "--weight",
        "--no-header",
        "--delimiter",
        "--ids",
        "--label-column",
        "--missing",
    ):
        assert flag in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "Usage: l2g2g embed [OPTIONS] GRAPH " in out
    assert "<bool>" not in out + run("--help")[1] + run("party", "--help")[1]
    for command in ("neighbours", "predict"):
        assert "EMBEDDING" in run(command, "--help")[1]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--dim", "a"], "Invalid value for '--dim': it must be a whole number"),
        (["--lr", "fast"], "Invalid value for '--lr': it must be a number"),
        (["--labels", "a.csv"], "No such option: --labels; use --features FILE --label-column NAME"),
    ],
)
def test_what_cannot_be_parsed_is_said_in_plain_words(run, edges, tmp_path, option, said):
    code, _, error = run("embed", edges, "-o", tmp_path / "o.csv", *option)
    assert (code, error) == (2, f"l2g2g: {said} (options: l2g2g embed --help)\n")


def test_evaluate_says_which_method_is_best_and_what_training_adds(run, edges, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("evaluate", edges, "-m", "gae", "-m", "l3", "-m", "spectral", *FAST)
    assert code == 0
    assert "best possible" not in out  # known for block models alone
    assert [cell.strip() for cell in next(line for line in out.splitlines() if "l3" in line).split("│")[4:7]] == [
        "–"
    ] * 3
    assert re.search(r"has the highest AUC, \d+\.\d\d points above .*; --seeds 3 shows", out.splitlines()[-1])


def test_tables_fit_80_columns_with_every_name_whole(run, monkeypatch):
    from l2g2g.graphs.datasets import list_datasets

    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("datasets")
    assert code == 0
    assert all(len(line) <= 80 for line in out.splitlines())
    words = set(out.split())
    assert {item.name for item in list_datasets(None)} <= words


@pytest.mark.slow
def test_importing_an_estimator_loads_neither_torch_nor_a_library_of_tables():
    libraries = {"torch", "pandas", "polars", "networkx", "igraph"}
    # scikit-learn itself imports pandas where it is installed.
    code = (
        "import sys; import sklearn.utils.fixes; before = set(sys.modules); from l2g2g import L2G2G; "
        f"print(sorted({libraries} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_graphs_made_before_this_version_have_no_columns():
    assert Graph.from_arcs([0, 1], [1, 2]).columns is None
