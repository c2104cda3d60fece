"""Edge and node tables of another engine: the graph of the same ids, in memory and by DuckDB, and what is refused."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.check_store import check_tables
from l2g2g.graphs.duckdb_store import write_large_store
from l2g2g.graphs.formats import TableOptions
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store_writer import write_store

EXAMPLE = Path(__file__).parents[2] / "examples" / "prepare_with_spark.py"
GENERATOR = np.random.default_rng(5)
NUM_NODES = 300
PAIRS = GENERATOR.integers(0, NUM_NODES, (2000, 2))
PAIRS[:, 1] = np.where(GENERATOR.random(2000) < 0.8, PAIRS[:, 0] // 50 * 50 + PAIRS[:, 1] % 50, PAIRS[:, 1])
IDS = np.array(sorted((f"{'éa0Z'[node % 4]}-{node}" for node in range(NUM_NODES)), key=str.encode), object)
VECTORS = GENERATOR.normal(size=(NUM_NODES, 6)).astype(np.float32)


def write_parts(folder):
    """What both engines begin with: parts of named edges, and features in a random order."""
    for name in ("edges", "features"):
        (folder / name).mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(PAIRS)), 3)):
        table = pa.table({"source": IDS[PAIRS[rows, 0]], "target": IDS[PAIRS[rows, 1]]})
        pq.write_table(table, folder / "edges" / f"part-{number}.parquet")
    order = GENERATOR.permutation(NUM_NODES)
    for number, rows in enumerate(np.array_split(order, 2)):
        table = pa.table({"id": IDS[rows], "v": list(VECTORS[rows])})
        pq.write_table(table, folder / "features" / f"part-{number}.parquet")
    return folder / "edges", folder / "features"


def write_tables(folder, nodes=None, pairs=PAIRS, **more):
    """The same graph as tables; the edges as a folder of parts."""
    (folder / "edges.parquet").mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(pairs)), 2)):
        columns = {"source": pairs[rows, 0], "target": pairs[rows, 1], **{key: more[key][rows] for key in more}}
        pq.write_table(pa.table(columns), folder / "edges.parquet" / f"part-{number}.parquet")
    nodes = {"node": np.arange(NUM_NODES), "id": IDS, "features": list(VECTORS)} if nodes is None else nodes
    pq.write_table(pa.table(nodes), folder / "nodes.parquet", row_group_size=70)
    return folder


def prepare(path, folder, features=None, **how):
    return write_large_store(path, folder, features, memory_bytes=200_000_000, name="g", made_of={}, **how)


def checksums(stored):
    """Those of the sorted edge table, of ids and of features."""
    return {name: array.info.sha256 for name, array in stored.folder.arrays.items()}


def test_tables_give_the_store_of_the_parts(tmp_path):
    from_parts = prepare(*write_parts(tmp_path / "parts")[:1], tmp_path / "one", tmp_path / "parts" / "features")
    tables = write_tables(tmp_path / "tables")
    assert check_tables(tables) == (NUM_NODES, len(PAIRS))
    from_tables = prepare(tables, tmp_path / "other")
    assert checksums(from_parts) == checksums(from_tables)
    assert from_parts.cleaning == from_tables.cleaning
    in_memory = write_store(tables, tmp_path / "third")
    assert checksums(in_memory) == checksums(from_tables)
    assert in_memory.cleaning == from_tables.cleaning


@pytest.mark.parametrize("weighted", [False, True])
def test_integer_ids_weights_and_directions(tmp_path, weighted):
    nodes = {"node": np.arange(NUM_NODES), "id": np.arange(NUM_NODES)[::-1] * 10**10}
    more = {"weight": GENERATOR.integers(1, 9, len(PAIRS)) / 4} if weighted else {}
    tables = write_tables(tmp_path / "tables", nodes, **more)
    stored, graph = prepare(tables, tmp_path / "s", directed=True), read_graph(tables, directed=True)
    assert stored.read_node_ids().tolist() == graph.node_ids.tolist() == nodes["id"].tolist()
    assert np.array_equal(stored.to_graph().arcs.toarray(), graph.arcs.toarray())
    assert (stored.weighted, stored.num_features) == (weighted, 0)


NUMBERS = np.arange(NUM_NODES)
FAR_PAIRS = PAIRS.copy()
FAR_PAIRS[700, 0] = 300
WRONG = {
    "no id": ({"node": NUMBERS}, PAIRS, "its columns are node; it needs node .* id"),
    "decimal ids": ({"node": NUMBERS, "id": NUMBERS / 2}, PAIRS, "id double; it needs"),
    "another order": (
        {"node": NUMBERS[::-1], "id": IDS},
        PAIRS,
        "row 1: node 299 and not 0; write the nodes in the order",
    ),
    "a number twice": ({"node": np.minimum(NUMBERS, 298), "id": IDS}, PAIRS, "row 300: node 298 and not 299"),
    "no id in a row": ({"node": NUMBERS, "id": [*IDS[:-1], None]}, PAIRS, "row 300: an id is missing"),
    "negative id": ({"node": NUMBERS, "id": NUMBERS - 1}, PAIRS, "ids below 0"),
    "nan": (
        {"node": NUMBERS, "id": IDS, "features": [*list(VECTORS[:-1]), np.full(6, np.nan)]},
        PAIRS,
        "row 300: feature row 299, column 0 is nan",
    ),
    "short list": ({"node": NUMBERS, "id": IDS, "features": [*list(VECTORS[:-1]), [1.0]]}, PAIRS, "row 300 has 1 num"),
    "beyond": ({"node": NUMBERS, "id": IDS}, FAR_PAIRS, "row 701: source 300 is beyond the 300"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_wrong_tables_are_refused_by_all_in_the_same_words(tmp_path, case):
    nodes, pairs, message = case
    tables = write_tables(tmp_path / "tables", nodes, pairs)
    for use in (check_tables, read_graph, lambda path: prepare(path, tmp_path / "store")):
        with pytest.raises(InputError, match=message):
            use(tables)


def test_an_id_of_two_nodes_and_options_of_files_are_refused(tmp_path):
    tables = write_tables(tmp_path / "tables", {"node": NUMBERS, "id": [*IDS[:-1], IDS[7]]})
    with pytest.raises(InputError, match=f"'{IDS[7]}' is in row 8 and again in row 300"):
        prepare(tables, tmp_path / "store")
    with pytest.raises(InputError, match=f"'{IDS[7]}' is in row 8 and again in row 300"):
        read_graph(tables)
    with pytest.raises(InputError, match="leave --features out"):
        read_graph(tables, VECTORS)
    with pytest.raises(InputError, match="is no edge list; leave --ids out"):
        prepare(tables, tmp_path / "store", tables=TableOptions(ids="text"))


@pytest.mark.slow
def test_spark_and_duckdb_give_the_same_store_and_the_same_embedding(tmp_path, monkeypatch):
    if shutil.which("java") is None:
        pytest.skip("no Java, which PySpark needs")
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'l2g2g[spark]'")
    from l2g2g import cli
    from l2g2g.graphs.node_columns import read_embedding

    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    monkeypatch.chdir(tmp_path)
    edges, features = write_parts(tmp_path / "parts")
    specification = importlib.util.spec_from_file_location("prepare_with_spark", EXAMPLE)
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    example.write_tables(edges, tmp_path / "tables", features, cores="1")
    assert check_tables(tmp_path / "tables") == (NUM_NODES, len(PAIRS))
    stores = prepare(edges, tmp_path / "duckdb", features), prepare(tmp_path / "tables", tmp_path / "spark_store")
    assert checksums(stores[0]) == checksums(stores[1])
    vectors = []
    for stored in stores:
        output = tmp_path / f"{stored.directory.name}.npy"
        arguments = ["--dim", "4", "--patches", "2", "--epochs", "5", "--quiet"]
        with pytest.raises(SystemExit) as leaving:
            cli.main(["embed", str(stored.directory), *arguments, "-o", str(output)])
        assert leaving.value.code == 0
        vectors.append(read_embedding(output))
    assert vectors[0][0].tolist() == vectors[1][0].tolist() == IDS.tolist()
    assert np.abs(vectors[0][1] - vectors[1][1]).max() <= 1e-6
