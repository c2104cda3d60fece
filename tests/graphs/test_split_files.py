"""A split as files: the same split comes back, and files that cannot be one are refused by file and row."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs import split_files
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.split_files import check_split_folder, read_held_out, read_split, write_split
from l2g2g.graphs.splits import split_edges, split_links
from l2g2g.graphs.store import write_graph


def named(graph, kind):
    """The graph with ids of its own: integers that are no row numbers, or text."""
    ids = {
        "numbers": None,
        "integers": 7 * np.arange(graph.num_nodes)[::-1] + 3,
        "text": np.array([f"n {node}" for node in range(graph.num_nodes)], object),
    }[kind]
    return replace(graph, node_ids=ids)


def write(folder, graph, seed=0, **how):
    split = split_edges(graph, seed=seed, **how)
    ids = graph.node_ids if isinstance(graph, Graph) else graph.read_node_ids()
    return write_split(folder, graph, split, ids, seed=seed)


def read(folder, graph):
    return read_split(folder, graph.node_ids, graph.num_nodes, graph.name, directed=graph.directed)


def assert_same_split(found, expected):
    for one, two in ((found.validation, expected.validation), (found.test, expected.test)):
        assert one.positive.tolist() == two.positive.tolist()
        assert one.negative.tolist() == two.negative.tolist()
        assert one.num_reversed == two.num_reversed
    assert found.train.adjacency.indptr.tolist() == expected.train.adjacency.indptr.tolist()
    assert found.train.adjacency.indices.tolist() == expected.train.adjacency.indices.tolist()
    assert found.train.adjacency.data.tolist() == expected.train.adjacency.data.tolist()
    assert (found.held_out != expected.held_out).nnz == 0
    assert found.train.features is expected.train.features
    assert found.train.weighted == expected.train.weighted


@pytest.fixture(scope="module")
def weighted(planted):
    sources, targets = planted.edges()
    weights = 0.5 + np.random.default_rng(1).random(len(sources)).astype(np.float32)
    return Graph.from_arcs(sources, targets, weights, num_nodes=planted.num_nodes, name="weighted")


@pytest.fixture(scope="module")
def heavy_arrows(arrows):
    arcs = arrows.arcs.tocoo()
    weights = 1 + np.arange(arcs.nnz) % 7
    return Graph.from_arcs(*arcs.coords, weights, num_nodes=arrows.num_nodes, directed=True, name="arrows")


@pytest.mark.parametrize("kind", ["numbers", "integers", "text"])
@pytest.mark.parametrize("graph", ["planted", "weighted", "heavy_arrows"])
def test_a_split_comes_back_from_its_files(graph, kind, request, tmp_path):
    graph = named(request.getfixturevalue(graph), kind)
    manifest = write(tmp_path / "split", graph, seed=5)
    expected = split_links(graph, seed=5)
    found = read(tmp_path / "split", graph).in_memory(graph)
    assert_same_split(found, expected)
    if graph.directed:
        assert found.test.num_reversed > 0
        assert (found.train.arcs != expected.train.arcs).nnz == 0
    assert manifest["validation"] == {"edges": len(expected.validation.positive)} | {
        "non_edges": len(expected.validation.negative)
    }
    num_rows = expected.train.arcs.nnz if graph.directed else expected.train.num_edges
    assert manifest["train"] == pq.read_metadata(tmp_path / "split" / "train.parquet").num_rows == num_rows
    assert json.loads((tmp_path / "split" / "split.json").read_text()) == manifest


def test_the_files_of_a_small_graph(tmp_path):
    ring = named(Graph.from_arcs(np.arange(20), (np.arange(20) + 1) % 20, np.arange(1.0, 21.0), name="ring"), "text")
    write(tmp_path / "split", ring)
    tables = {name: pq.read_table(tmp_path / "split" / f"{name}.parquet") for name in ("train", "validation", "test")}
    assert tables["train"].column_names == ["source", "target", "label", "weight"]
    assert tables["test"].column_names == ["source", "target", "label"]
    assert [table.num_rows for table in tables.values()] == [17, 2, 4]
    assert tables["test"]["label"].to_pylist() == [1, 1, 0, 0]
    assert set(tables["train"]["label"].to_pylist()) == {1}
    edges = {frozenset((f"n {node}", f"n {(node + 1) % 20}")): node + 1 for node in range(20)}
    seen = set()
    for name, table in tables.items():
        for row in table.to_pylist():
            pair = frozenset((row["source"], row["target"]))
            assert (pair in edges) == (row["label"] == 1)
            assert name != "train" or row["weight"] == edges[pair]
            assert pair not in seen
            seen.add(pair)


def test_a_store_writes_the_same_files(weighted, tmp_path, monkeypatch):
    graph = named(weighted, "text")
    write(tmp_path / "memory", graph)
    monkeypatch.setattr(split_files, "BLOCK_ENTRIES", 100)
    stored = write_graph(graph, tmp_path / "store")
    write(tmp_path / "disk", stored)
    for name in ("train", "validation", "test"):
        one, two = (pq.read_table(tmp_path / where / f"{name}.parquet") for where in ("memory", "disk"))
        assert one.equals(two)
    assert pq.read_metadata(tmp_path / "disk" / "train.parquet").num_row_groups > 3


def test_the_digest_tells_splits_apart(planted, tmp_path):
    digests = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write(tmp_path / name, planted, seed=seed)
        digests.append(read(tmp_path / name, planted).sha256)
    assert digests[0] == digests[1] != digests[2]


def test_a_split_is_replaced_and_anything_else_is_not(planted, tmp_path):
    folder = tmp_path / "split"
    folder.mkdir()
    write(folder, planted)  # an empty folder is as good as none
    write(folder, planted, seed=1)
    assert json.loads((folder / "split.json").read_text())["seed"] == 1
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds notes\.txt, which no split wrote; give a new or an empty folder"):
        write(folder, planted)
    (folder / "notes.txt").unlink()
    (folder / "split.json").write_text("{}")
    with pytest.raises(InputError, match=r"holds split\.json, which no split wrote"):
        check_split_folder(folder)
    with pytest.raises(InputError, match="is a file; give a folder"):
        write(folder / "split.json", planted)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["split"]


def test_what_fails_leaves_nothing_behind(planted, tmp_path, monkeypatch):
    write(tmp_path / "old", planted, seed=1)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(split_files, "write_text", fail)
    for name in ("new", "old"):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / name, planted)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert json.loads((tmp_path / "old" / "split.json").read_text())["seed"] == 1


# Files by hand, of the path 0 - 1 - 2 - 3 - 4 - 5: whatever else is wrong with them is said.
GOOD = {
    "train": {"source": [0, 1, 2], "target": [1, 2, 3], "label": [1, 1, 1]},
    "validation": {"source": [3, 0], "target": [4, 3], "label": [1, 0]},
    "test": {"source": [5, 5], "target": [4, 0], "label": [1, 0]},
}
PATH = Graph.from_arcs(range(5), range(1, 6), name="path")


def by_hand(folder, changes):
    folder.mkdir()
    for name, columns in GOOD.items():
        columns = {**columns, **changes.get(name, {})}
        columns = {title: values for title, values in columns.items() if values is not None}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def test_files_of_other_programs_need_no_manifest(tmp_path):
    more = {"train": {"weight": [1, 2, 3], "note": ["x", "y", "z"]}, "test": {"label": [True, False]}}
    split = read(by_hand(tmp_path / "split", more), PATH).in_memory(PATH)
    assert split.train.adjacency.toarray()[[0, 1, 2, 4], [1, 2, 3, 5]].tolist() == [1, 2, 3, 0]
    assert split.train.weighted
    assert split.test.positive.tolist() == [[5, 4]]
    assert split.test.negative.tolist() == [[5, 0]]


def test_no_validation_pairs_are_allowed(tmp_path):
    empty = {title: pa.array([], pa.int64()) for title in ("source", "target", "label")}
    assert read(by_hand(tmp_path / "split", {"validation": empty}), PATH).validation is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": {"label": None}}, r"test\.parquet: no column 'label' but \['source', 'target'\]"),
        ({"test": {"label": [1, 2]}}, r"test\.parquet: row 2: label 2; use 1 for an edge and 0 for none"),
        ({"test": {"label": [1, None]}}, r"test\.parquet: row 2: label None; use 1"),
        ({"test": {"label": ["1", "0"]}}, r"test\.parquet: labels are string; use 1"),
        ({"train": {"label": [1, 0, 1]}}, r"train\.parquet: row 2: label 0; train on edges only"),
        ({"validation": {"source": [3, 6]}}, r"validation\.parquet: row 2: no node 6 in path; give the graph"),
        ({"train": {"source": ["0", "x", "2"]}}, r"train\.parquet: row 2: no node 'x' in path"),
        ({"train": {"target": [1, None, 3]}}, r"train\.parquet: row 2: an id is missing"),
        ({"train": {"source": [0, 1, 4], "target": [1, 2, 3]}}, r"row 3: 4 - 3 is also in validation\.parquet, row 1"),
        ({"train": {"source": [0, 1, 0], "target": [1, 2, 5]}}, r"row 3: 0 - 5 is also in test\.parquet, row 2"),
        ({"validation": {"source": [3, 4], "target": [4, 5]}}, r"row 2: 4 - 5 is also in test\.parquet, row 1"),
        ({"test": {"source": [5, 4], "target": [4, 5]}}, r"row 2: 4 - 5 has label 0 here and 1 in row 1.*--directed"),
        ({"test": {"target": [4, 5]}}, r"test\.parquet: row 2: 5 is paired with itself; remove the row"),
        ({"test": {"label": [1, 1]}}, r"test\.parquet: has no non-edges \(label 0\)"),
        ({"train": {"weight": [1.0, -1.0, 1.0]}}, r"train\.parquet: row 2: weight -1\.0"),
        (
            {"test": {title: pa.array([], pa.int64()) for title in ("source", "target", "label")}},
            r"test\.parquet: has no rows; there is nothing to score on",
        ),
    ],
)
def test_files_that_are_no_split_are_refused(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read(by_hand(tmp_path / "split", changes), PATH)


def test_missing_files_and_folders(tmp_path):
    folder = by_hand(tmp_path / "split", {})
    (folder / "test.parquet").unlink()
    with pytest.raises(InputError, match=r"test\.parquet: no such file; a split has train\.parquet"):
        read(folder, PATH)
    with pytest.raises(InputError, match="no such folder as"):
        read(tmp_path / "nowhere", PATH)
    (folder / "test.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=r"test\.parquet: damaged or cut off"):
        read(folder, PATH)


def test_the_split_of_another_graph_is_refused(planted, arrows, tmp_path):
    write(tmp_path / "split", planted)
    with pytest.raises(
        InputError, match=r"graph with 120 nodes, but path has 6; give that graph, or remove split\.json"
    ):
        read(tmp_path / "split", PATH)
    with pytest.raises(InputError, match="is the split of an undirected graph; leave --directed out"):
        read(tmp_path / "split", arrows)
    write(tmp_path / "split", arrows)
    with pytest.raises(InputError, match="is the split of a directed graph; add --directed"):
        read(tmp_path / "split", planted)


def test_held_out_pairs_as_rows_of_vectors(planted, arrows, tmp_path):
    for graph in (named(planted, "text"), named(arrows, "integers")):
        write(tmp_path / "split", graph)
        backwards = graph.node_ids[::-1]
        validation, test = read_held_out(tmp_path / "split", backwards, "vectors")
        expected = split_links(graph)
        last = graph.num_nodes - 1
        assert (last - validation.positive).tolist() == expected.validation.positive.tolist()
        assert (last - test.negative).tolist() == expected.test.negative.tolist()
        assert test.num_reversed == expected.test.num_reversed
    with pytest.raises(InputError, match=r"row 1: no node .* in vectors; give the graph or the vectors"):
        read_held_out(tmp_path / "split", np.array([1, 2]), "vectors")
