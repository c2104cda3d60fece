"""Readers: every way by which files come into the project, with valid files to begin from.

A target is (files, mutations by ending, read). `read` gets the folder with the files, one of them mutated, and either
returns, with what it read checked, or raises an error of l2g2g. Anything else is a finding.
"""

import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import tempfile
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import mutations as m
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import scipy.sparse as sp

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
NUM_NODES = 12
RING = [(node, (node + step) % NUM_NODES) for node in range(NUM_NODES) for step in (1, 2)]
BY_ENDING = {
    ".gz": (m.packed(m.TEXT), m.packed(m.TEXT), m.packed(m.TEXT), *m.BYTES),
    ".npy": m.NPY,
    ".arrow": m.BYTES,
    ".npz": m.NPZ,
    ".parquet": m.PARQUET,
    ".json": m.JSON,
    ".jsonl": m.JSON,
    ".safetensors": m.SAFETENSORS,
}


@dataclass
class Target:
    """One reader.

    Attributes:
        name: What the table calls it.
        seeds: Sets of valid files, by name; a function where making them takes long.
        read: Reads a folder that holds one of the sets.
        mutated: Names that are mutated; empty for all.
        share: How many of the inputs go here, beside the others.
        bombs: Mutations that cost much, tried rarely, by ending.
        command: The command line that reads the files: (folder, folder of outputs) to arguments.
        after: Brings files that belong to the mutated one into agreement (checksums).
    """

    name: str
    seeds: list
    read: object
    mutated: tuple = ()
    share: float = 1.0
    bombs: dict = field(default_factory=dict)
    command: object = None
    after: object = None


# --- what was read must be sound --------------------------------------------------------------------


def check_graph(graph):
    from l2g2g.graphs.graph_store import fingerprint

    matrix = graph.adjacency
    assert matrix.shape[0] == matrix.shape[1] == graph.num_nodes
    assert matrix.nnz > 0
    assert matrix.indices.min() >= 0
    assert matrix.indices.max() < graph.num_nodes
    assert np.isfinite(matrix.data).all()
    assert (matrix.data > 0).all()
    assert abs(matrix - matrix.T).nnz == 0
    if graph.features is not None:
        assert graph.features.shape[0] == graph.num_nodes
        assert graph.features.dtype == np.float32
        assert np.isfinite(graph.features.data if sp.issparse(graph.features) else graph.features).all()
    if graph.node_ids is not None:
        assert len(set(graph.node_ids.tolist())) == graph.num_nodes
    if graph.labels is not None:
        assert graph.labels.shape == (graph.num_nodes,)
    fingerprint(graph)


def check_vectors(ids, vectors):
    assert len(set(np.asarray(ids).tolist())) == len(vectors)
    assert vectors.ndim == 2
    assert np.isfinite(vectors).all()


# --- valid files ------------------------------------------------------------------------------------


def text(delimiter=",", header="", names=lambda node: node, weight=""):
    return (header + "".join(f"{names(u)}{delimiter}{names(v)}{weight}\n" for u, v in RING)).encode()


def parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def npz(compressed=True, **arrays):
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def parts(matrix, prefix):
    names = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data, "shape": np.array(matrix.shape)}
    return {prefix + name: value for name, value in names.items()}


def adjacency():
    sources, targets = np.array(RING).T
    return sp.csr_array((np.ones(len(RING), np.float32), (sources, targets)), shape=(NUM_NODES, NUM_NODES))


def saved(matrix):
    stream = io.BytesIO()
    sp.save_npz(stream, sp.csr_matrix(matrix))
    return stream.getvalue()


def features(width=4):
    return np.random.default_rng(0).normal(size=(NUM_NODES, width)).astype(np.float32)


def sparse_features():
    return sp.csr_array(np.round(np.abs(features(6))))


def npz_graphs():
    full = {**parts(adjacency(), "adj_"), **parts(sparse_features(), "attr_"), "labels": np.arange(NUM_NODES) % 3}
    names = np.array([f"node {number}" for number in range(NUM_NODES)])
    pickled = {"idx_to_node": np.array({0: "a"}, dtype=object), "attr_names": np.array(["a", "b"], dtype=object)}
    citation = {**full, **pickled}
    found = [npz(**full), npz(**full, node_names=names), npz(False, **full), npz(**citation), saved(adjacency())]
    real = SHARED / "cora_ml.npz"
    return found + ([real.read_bytes()] if real.is_file() else [])


def tables():
    from l2g2g.graphs.write import write_embedding

    folder = Path("seeds")
    folder.mkdir(exist_ok=True)
    made = {}
    for ending in (".csv", ".txt", ".parquet", ".npy", ".arrow"):
        for kind, ids in (("numbers", np.arange(NUM_NODES)), ("names", np.array([f"n{i}" for i in range(NUM_NODES)]))):
            path = folder / f"{kind}{ending}"
            write_embedding(path, features(), ids)
            made[kind, ending] = {f"vectors{ending}": path.read_bytes()}
            if ending == ".npy":
                made[kind, ending][f"vectors{ending}.ids.txt"] = Path(f"{path}.ids.txt").read_bytes()
    return made


WIDE_TABLES = (
    ("Source,Target,Type,Weight\n", ",Undirected,1.5"),
    ("from,to,since,weight\n", ",2020,2"),
    ("kind,source,target,weight\n", ",3,1"),
)
PEOPLE = "id,age,town,team\n" + "".join(
    f"{node},{'' if node == 5 else node},{'rome' if node % 2 else 'oslo'},{'red' if node % 3 else 'blue'}\n"
    for node in range(NUM_NODES)
)
PEOPLE = PEOPLE.encode()


def people_parquet():
    towns = ["rome" if node % 2 else None for node in range(NUM_NODES)]
    teams = [f"team {node % 3}" for node in range(NUM_NODES)]
    return parquet(id=np.arange(NUM_NODES), age=np.arange(NUM_NODES) * 1.5, town=towns, team=teams)


GRAPHML = [
    b"""<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="d0" for="edge" attr.name="weight" attr.type="double"/>
<key id="d1" for="node" attr.name="team" attr.type="string"/><graph edgedefault="%s">
"""
    % kind
    + b"".join(b'<node id="%s%d"><data key="d1">red</data></node>\n' % (start, node) for node in range(NUM_NODES))
    + b"".join(
        b'<edge source="%s%d" target="%s%d"><data key="d0">1.5</data></edge>\n' % (start, u, start, v) for u, v in RING
    )
    + b"</graph></graphml>\n"
    for kind, start in ((b"undirected", b"n"), (b"directed", b""))
]
_ENTRIES = "".join(f"{u + 1} {v + 1}\n" for u, v in RING)
_WEIGHTED_ENTRIES = "".join(f"{u + 1} {v + 1} 1.5\n" for u, v in RING)
MATRIX_MARKET = [
    f"%%MatrixMarket matrix coordinate pattern general\n% a ring\n12 12 {len(RING)}\n{_ENTRIES}".encode(),
    f"%%MatrixMarket matrix coordinate real general\n12 12 {len(RING)}\n{_WEIGHTED_ENTRIES}".encode(),
    b"%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n2 1 1\n3 1 2\n3 2 1\n",
]


# --- reading ----------------------------------------------------------------------------------------


def only(folder, *endings):
    return next(path for path in sorted(folder.iterdir()) if path.name.endswith(endings or ("",)))


def read_edges(folder):
    from l2g2g.graphs.read import read_graph

    path = only(folder)
    check_graph(read_graph(path, directed=os.stat(path).st_size % 4 == 0))


def read_features(folder):
    from l2g2g.graphs.read import read_graph

    check_graph(read_graph(np.array(RING), features=only(folder)))


def read_joined(folder):
    from l2g2g.graphs.read import read_graph

    check_graph(read_graph(folder / "edges.csv", features=only(folder, "features.csv", "features.npy", ".parquet")))


def read_chosen(folder):
    from l2g2g.graphs.formats import TableOptions
    from l2g2g.graphs.read import read_graph

    path = only(folder)
    size = os.stat(path).st_size
    ids = (None, "text", "integer")[size % 3]
    given = {"source": "1", "target": "2"} if size % 2 else {}
    check_graph(read_graph(path, tables=TableOptions(**given, ids=ids)))


def read_labelled(folder):
    from l2g2g.graphs.duckdb_store import write_large_store
    from l2g2g.graphs.formats import TableOptions
    from l2g2g.graphs.read import read_graph

    path = only(folder, "features.csv", ".parquet")
    missing = ("zero", "mean", "error")[os.stat(path).st_size % 3] if path.suffix == ".csv" else "mean"
    tables = TableOptions(label_column="team", missing=missing if folder.name != "whole" else "mean")
    graph = read_graph(folder / "edges.csv", path, tables=tables)
    check_graph(graph)
    assert graph.labels is not None
    how = {"memory_bytes": 200_000_000, "name": "edges", "made_of": {}, "tables": tables}
    stored = write_large_store(folder / "edges.csv", folder / "store", path, **how).to_graph()
    assert np.array_equal(stored.labels, graph.labels)
    assert (stored.features is None) == (graph.features is None)
    assert graph.features is None or np.array_equal(stored.features, graph.features)


def read_large(folder):
    """DuckDB reads Parquet files itself: it must refuse what the reader refuses, and give the same graph."""
    check_stored(only(folder), folder / "store")


def read_text_parts(folder):
    """A folder of parts: in memory and by DuckDB the same graph, or refused by both."""
    check_stored(folder, folder / "store")


def check_stored(path, store):
    from l2g2g.errors import InputError
    from l2g2g.graphs.duckdb_store import write_large_store
    from l2g2g.graphs.read import read_graph

    try:
        stored = write_large_store(path, store, memory_bytes=200_000_000, name="edges", made_of={}).to_graph()
    except InputError:
        read_graph(path)
        raise AssertionError("read in memory but refused by DuckDB") from None
    graph = read_graph(path)
    check_graph(graph)
    assert stored.cleaning == graph.cleaning
    assert np.array_equal(stored.adjacency.indices, graph.adjacency.indices)
    assert graph.node_ids is not None
    assert np.array_equal(stored.node_ids, graph.node_ids)


def read_named(folder):
    from l2g2g.graphs.datasets import list_datasets, load_dataset

    list_datasets(folder)
    check_graph(load_dataset("some", folder))


def read_folder(folder):
    from l2g2g.graphs.read import read_graph

    check_graph(read_graph(folder))


def read_vectors(folder):
    from l2g2g.graphs.node_columns import read_embedding

    check_vectors(*read_embedding(only(folder, ".csv", "vectors.txt", ".parquet", ".npy", ".arrow")))


def read_vectors_of_others(folder):
    from l2g2g.graphs.node_columns import read_embedding_table

    table = read_embedding_table(only(folder))
    check_vectors(table.ids, table.vectors)
    assert all(len(column) == len(table.ids) and column.dtype.kind in "fO" for column in table.columns.values())


def read_node_table(folder):
    from l2g2g.graphs.node_columns import read_node_columns
    from l2g2g.reports.layout import make_columns
    from l2g2g.runs.record import read_vector_record

    found = read_node_columns(only(folder))
    np.save(folder / "vectors.npy", np.zeros((len(found.ids), 2), np.float32))
    record = replace(read_vector_record(folder / "vectors.npy"), columns=found.by_node(found.ids))
    assert all(len(column.values) == len(found.ids) for column in make_columns(record))


def align_patches(folder):
    from l2g2g.alignment.align import align
    from l2g2g.graphs.node_columns import read_embedding

    paths = [path for path in sorted(folder.iterdir()) if not path.name.endswith(".ids.txt")]
    aligned = align([read_embedding(path) for path in paths])
    assert np.isfinite(aligned.embedding).all()


def solve_parties(folder):
    from l2g2g.alignment.parties import solve_transforms

    for transform in solve_transforms(sorted(folder.iterdir())):
        assert np.isfinite(transform.rotation).all()


def apply_party(folder):
    from l2g2g.alignment.parties import apply_transform

    assert np.isfinite(apply_transform(features(), only(folder))).all()


def read_shared_ids(folder):
    from l2g2g.alignment.parties import read_ids

    assert read_ids(only(folder)).ndim == 1


def read_checkpoints(folder):
    from l2g2g.training.checkpoint import CheckpointStore

    CheckpointStore(folder).load()


def checkpoint_files():
    """A run of two epochs with its checkpoints."""
    from l2g2g.config import make_config
    from l2g2g.graphs.read import read_graph
    from l2g2g.runs.embed import embed_graph
    from l2g2g.runs.run_directory import open_run

    folder = Path(tempfile.mkdtemp(dir="."))
    config = make_config("l2g2g", epochs=3, structure="none", **SMALL)
    with open_run(folder, interval=0) as directory:
        embed_graph(read_graph(np.array(RING), features()), config, directory=directory)
    place = folder / "checkpoints" / "embed"
    found = {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.glob("epoch-*/*"))}
    return [{name: data for name, data in found.items() if "epoch-00000002" in name}]


SMALL = {"dim": 2, "hidden": 4, "patches": 2, "threads": 1}


def seal(files):
    """Give a checkpoint the checksums of what it holds now: not damaged, but hostile."""
    from l2g2g.graphs.array_folder import describe_bytes, manifest_hash

    for name in [name for name in files if name.endswith("manifest.json")]:
        data = files[name.replace("manifest.json", "state.safetensors")]
        try:
            manifest = json.loads(files[name])
            manifest["files"]["state.safetensors"] |= describe_bytes(data)
            manifest["sha256"] = manifest_hash(manifest)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        files[name] = json.dumps(manifest).encode()
    return files


def resume(folder):
    from l2g2g.config import make_config
    from l2g2g.graphs.read import read_graph
    from l2g2g.runs.embed import embed_graph
    from l2g2g.runs.run_directory import open_run

    run = folder / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "lock").touch()
    (run / "checkpoints" / "embed").mkdir()
    for path in list(folder.glob("epoch-*")):
        path.rename(run / "checkpoints" / "embed" / path.name)
    config = make_config("l2g2g", epochs=3, structure="none", **SMALL)
    with open_run(run, resume=True, interval=0) as directory:
        done = embed_graph(read_graph(np.array(RING), features()), config, directory=directory)
    assert np.isfinite(done.embedding).all()


def store_files():
    """A store with patches."""
    from l2g2g.graphs.feature_columns import FeatureColumn, FeatureColumns
    from l2g2g.graphs.read import read_graph
    from l2g2g.graphs.store import write_graph
    from l2g2g.patches.overlap import make_patches
    from l2g2g.patches.partition import partition
    from l2g2g.patches.store import write_patches

    found = []
    for kind in ("dense", "sparse"):
        folder = Path(tempfile.mkdtemp(dir="."))
        columns = features() if kind == "dense" else sp.csr_array(features())
        graph = read_graph((np.array(RING), columns))
        if kind == "dense":
            titles = [FeatureColumn("age", None, (0.5,)), FeatureColumn("town", ("a", "b", "c"), (0.0, 0.0, 0.0))]
            graph = replace(graph, columns=FeatureColumns(tuple(titles), "mean"))
        if kind == "sparse":
            graph = replace(graph, node_ids=np.array([f"n{node}" for node in range(graph.num_nodes)], object))
        stored = write_graph(graph, folder)
        write_patches(stored, make_patches(graph, partition(graph.adjacency, 2), min_overlap=3))
        found.append({str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("*/*"))})
    return found


def read_store(folder):
    from l2g2g.graphs.store import open_graph
    from l2g2g.patches.overlap import make_patches
    from l2g2g.patches.partition import stream_partition
    from l2g2g.patches.store import open_patches, write_patches

    graph = open_graph(folder)
    patches = open_patches(folder)
    assert patches.patch_set.num_patches == patches.num_patches
    for patch in range(patches.num_patches):
        adjacency, rows = patches.load_patch(patch)
        assert rows is None or len(rows.shape) == 2
        assert adjacency.shape[0] == adjacency.shape[1]
    assert graph.to_graph().num_nodes == graph.num_nodes
    graph.read_adjacency_of(np.arange(0, graph.num_nodes, 3))
    write_patches(graph, make_patches(graph, stream_partition(graph, 3), min_overlap=3), folder / "again")


def seal_store(files):
    """Give the manifests of a store the checksum of what they hold now."""
    from l2g2g.graphs.array_folder import manifest_hash

    for name in [name for name in files if name.endswith("manifest.json")]:
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            manifest = json.loads(files[name])
            files[name] = json.dumps({**manifest, "sha256": manifest_hash(manifest)}).encode()
    return files


def model_files():
    """A saved model, and one with a learned decoder."""
    from l2g2g import L2G2G

    found = []
    for decoder in ("inner", "product"):
        L2G2G(epochs=2, decoder=decoder, **SMALL).fit((np.array(RING), features())).save("seeds/model")
        folder = Path("seeds/model/trainings/embed")
        found.append({f"trainings/embed/{path.name}": path.read_bytes() for path in folder.iterdir()})
    return found


def load_model(folder):
    from l2g2g import L2G2G

    model = L2G2G.load(folder)
    assert model.embedding_.ndim == 2
    model.save(folder / "again")
    rows = features()
    grown = (np.array([*RING, (len(rows), 0)]), np.concatenate([rows, rows[:1]]))
    assert model.transform(grown).shape == (len(rows) + 1, model.embedding_.shape[1])


def seal_model(files):
    """Give a manifest the checksums of what the other files hold now."""
    from l2g2g.graphs.array_folder import HEADER_BYTES, describe_bytes

    with suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
        (place,) = [name for name in files if name.endswith("manifest.json")]
        manifest = json.loads(files[place])
        for name, item in manifest["arrays"].items():
            data = files[f"trainings/embed/{name}.npy"][HEADER_BYTES:]
            item["sha256"] = hashlib.sha256(data).hexdigest()
        manifest["files"] = {name: describe_bytes(files[f"trainings/embed/{name}"]) for name in manifest["files"]}
        files = {**files, place: json.dumps(manifest).encode()}
    return seal_store(files)


def render_record(folder):
    from l2g2g.reports.projection import project
    from l2g2g.reports.run_page import render_run
    from l2g2g.runs.artefact import open_artefact
    from l2g2g.runs.record import read_record

    record = read_record(open_artefact(folder))
    page = render_run(
        record, {"pca": project(record.vectors)}, others=[{"name": "a", **record.row}, {"name": "b", **record.row}]
    )
    assert page.endswith("</html>\n")


def journal_lines():
    from l2g2g.paper.cells import CONTENDERS, Cell, GraphCell, run_cell

    graph = __import__("l2g2g").read_graph(np.array([(u % 40, v % 40) for u in range(40) for v in (u + 1, u + 2)]))
    lines = [run_cell(GraphCell("some"), lambda _: graph)]
    for contender in list(CONTENDERS.values())[:3]:
        options = {"epochs": 1, **({"patches": 2} if "l2g" in contender.method else {})}
        lines.append(run_cell(Cell("some", contender.method, contender.preset, options), lambda _: graph, 1))
    assert all("error" not in line for line in lines), lines
    return [{"performance.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode()}]


def read_journal(folder):
    from l2g2g.paper.cells import Cell
    from l2g2g.paper.journal import Journal
    from l2g2g.paper.report import build_document, read_evidence
    from l2g2g.paper.runner import expect_seconds
    from l2g2g.reports.page import render_page
    from l2g2g.reports.tables import render_markdown

    cell = Cell("some", options={"epochs": 1})
    journal = Journal(folder / "performance.jsonl")
    rows = [row for _, row in journal.rows()]
    journal.settled([cell], 0)
    expect_seconds([cell], rows)
    journal.close()
    document = build_document(read_evidence(folder, True), [])
    for chart in document.charts():
        (folder / f"{chart.name}.svg").write_text("<svg/>")  # drawing takes a second
    page = render_page(document, folder)
    assert "<script>alert(1)" not in page
    render_markdown(document, "figures")


# --- the same by the command line -------------------------------------------------------------------

FAST = ("-m", "gae", "--epochs", "1", "--dim", "4", "--threads", "1", "--quiet")


def embed(folder, output):
    return ["embed", only(folder), "-o", output / "o.npy", *FAST]


def embed_folder(folder, output):
    return ["embed", folder, "-o", output / "o.npy", *FAST]


def embed_joined(folder, output):
    features = next(path for path in folder.iterdir() if path.name != "edges.csv")
    return ["embed", folder / "edges.csv", "--features", features, "-o", output / "o.npy", *FAST]


def align_command(folder, output):
    return ["align", *sorted(folder.iterdir()), "-o", output / "o.parquet", "--quiet"]


def solve_command(folder, output):
    return ["party", "solve", *sorted(folder.iterdir()), "-o", output]


# --- the list ---------------------------------------------------------------------------------------


def apart(make):
    """What a function returns, run in a child: this process must stay small and without threads to be forked."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as file:
                pickle.dump(make(), file)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        content = file.read()
    os.waitpid(child, 0)
    return pickle.loads(content)


def targets():
    """All of them. Called once, in a folder where seeds may be written."""
    with_bombs = {".npz": (m.zip_bomb,), ".gz": (m.gzip_bomb,), ".parquet": (m.parquet_bomb,)}
    ids = [f"n{number}" for number in range(NUM_NODES)]
    columns = {f"dim_{place}": features()[:, place] for place in range(3)}
    feature_csv = io.BytesIO()
    pyarrow.csv.write_csv(pa.table({"id": np.arange(NUM_NODES), **columns}), feature_csv)
    csv = feature_csv.getvalue()
    embeddings = tables()
    mixed = {"word": [f"w{i}" for i in range(NUM_NODES)], "kind": ["a", "b"] * (NUM_NODES // 2)}
    lines = [f"w{i},{'ab'[i % 2]},{i / 7:.3f},{-i},{2000 + i}" for i in range(NUM_NODES)]
    words = "\n".join(["word,kind,x1,x2,year", *lines]).encode()
    others = [
        {"v.csv": words},
        {"v.parquet": parquet(**mixed, embedding=features().tolist(), year=np.arange(NUM_NODES))},
    ]
    node_tables = [{"t.csv": words}, {"t.parquet": parquet(**mixed, year=np.linspace(0, 1, NUM_NODES))}]
    arrays = (features(), features().astype(np.float64), np.eye(NUM_NODES, dtype=np.int32))
    graphs = npz_graphs()
    sources, far = (np.array(part) for part in zip(*RING, strict=True))
    edges_parquet = [
        {"edges.parquet": parquet(source=sources, target=far)},
        {"edges.parquet": parquet(source=[ids[u] for u in sources], target=[ids[v] for v in far])},
        {"edges.parquet": parquet(source=sources, target=far, weight=np.ones(len(far)))},
    ]
    saint = {
        "adj_full.npz": saved(adjacency()),
        "feats.npy": m.npy(features().astype(np.float64)),
        "role.json": json.dumps({"tr": [0, 1, 2, 3, 4, 5], "va": [6, 7, 8], "te": [9, 10, 11]}).encode(),
        "class_map.json": json.dumps({str(node): node % 3 for node in range(NUM_NODES)}).encode(),
    }
    overlap = npz(False, nodes=np.arange(8).astype(str), coordinates=features()[:8], num_nodes=np.int64(NUM_NODES))
    other = npz(False, nodes=np.arange(3, 11).astype(str), coordinates=features()[2:10], num_nodes=np.int64(NUM_NODES))
    transform = npz(False, rotation=np.eye(4), translation=np.ones(4), scale=np.float64(1))
    pairs = [
        {f"a{ending}": next(iter(embeddings["numbers", ending].values())), "b.csv": b""}
        for ending in (".txt", ".parquet", ".npy")
    ]
    second = io.BytesIO()
    pyarrow.csv.write_csv(pa.table({"id": np.arange(4, 16), **{f"d{i}": features()[:, i] for i in range(4)}}), second)
    for pair in pairs:
        pair["b.csv"] = second.getvalue()
    return [
        Target(
            "edges as text",
            [
                {"edges.csv": text()},
                {"edges.csv": text(header="source,target\n")},
                {"edges.tsv": text("\t", weight="\t1.5")},
                {"edges.txt": text(" ", header="# a comment\n")},
                {"edges.csv": text(names=lambda node: f'"node, {node}"', header="source,target\n")},
                {"edges.edges": text(";", names=lambda node: node * 10**15, weight=";2")},
            ],
            read_edges,
            share=3,
            command=embed,
        ),
        Target(
            "edges as packed text",
            [{"edges.csv.gz": gzip.compress(text())}],
            read_edges,
            bombs=with_bombs,
            command=embed,
        ),
        Target(
            "edges as Parquet",
            edges_parquet,
            read_edges,
            share=2,
            bombs=with_bombs,
            command=embed,
        ),
        Target(
            "graph as .npz",
            [{"graph.npz": graph} for graph in graphs],
            read_edges,
            share=3,
            bombs=with_bombs,
            command=embed,
        ),
        Target(
            "labels in .npz",
            [
                {"labels.npy": m.npy(labels)}
                for labels in (np.arange(NUM_NODES), np.array(ids), np.array(ids, "S4"), np.arange(NUM_NODES) / 1.0)
            ],
            read_labels,
        ),
        Target("named data set", [{"some.npz": graph} for graph in graphs[:4]], read_named, bombs=with_bombs),
        Target("features as .npy", [{"f.npy": m.npy(array)} for array in arrays], read_features),
        Target(
            "features as .npz",
            [
                {"f.npz": npz(a=features())},
                {"f.npz": npz(**parts(sparse_features(), "attr_"))},
                {"f.npz": saved(sparse_features())},
            ],
            read_features,
            share=2,
            bombs=with_bombs,
        ),
        Target(
            "features as text",
            [{"edges.csv": text(), "features.csv": csv}],
            read_joined,
            ("features.csv",),
            share=2,
            command=embed_joined,
        ),
        Target(
            "features as Parquet",
            [
                {"edges.csv": text(), "f.parquet": parquet(id=np.arange(NUM_NODES), **columns)},
                {"edges.csv": text(), "f.parquet": parquet(id=np.arange(NUM_NODES), x=features().tolist())},
            ],
            read_joined,
            ("f.parquet",),
            bombs=with_bombs,
            command=embed_joined,
        ),
        Target(
            "edge list, columns by name",
            [{"edges.csv": text(header=header, weight=more)} for header, more in WIDE_TABLES],
            read_chosen,
            share=2,
        ),
        Target(
            "Parquet parts",
            [
                {
                    "part-0.parquet": parquet(source=sources[:9], target=far[:9], weight=np.ones(9)),
                    "part-1.parquet": parquet(source=sources[9:], target=far[9:], weight=np.ones(len(far) - 9)),
                }
            ],
            read_folder,
            bombs=with_bombs,
        ),
        Target(
            "text parts",
            [
                {f"part-{number}.csv": header + b"".join(lines) for number, lines in enumerate((rows[:9], rows[9:]))}
                for header in (b"", b"source,target\n", b"person,friend\n")
                for rows in [text().splitlines(keepends=True), text(names=lambda node: ids[node]).splitlines(True)]
            ],
            read_text_parts,
            share=2,
        ),
        Target(
            "labels and categories as text",
            [{"edges.csv": text(), "features.csv": PEOPLE}],
            read_labelled,
            ("features.csv",),
            share=2,
        ),
        Target(
            "labels and categories as Parquet",
            [{"edges.csv": text(), "f.parquet": people_parquet()}],
            read_labelled,
            ("f.parquet",),
            bombs=with_bombs,
        ),
        Target(
            "large edges as Parquet",
            edges_parquet,
            read_large,
            share=0.3,
        ),
        Target("GraphML", [{"graph.graphml": content} for content in GRAPHML], read_edges, share=2),
        Target("Matrix Market", [{"graph.mtx": content} for content in MATRIX_MARKET], read_edges, share=2),
        Target("GraphSAINT folder", [saint], read_folder, share=2, bombs=with_bombs, command=embed_folder),
        Target(
            "embedding as text",
            [embeddings[kind, ending] for kind in ("numbers", "names") for ending in (".csv", ".txt")],
            read_vectors,
            share=2,
        ),
        Target(
            "embedding as Parquet",
            [embeddings[kind, ".parquet"] for kind in ("numbers", "names")],
            read_vectors,
            bombs=with_bombs,
        ),
        Target("embedding of others", others, read_vectors_of_others, bombs=with_bombs),
        Target("table of nodes", node_tables, read_node_table, bombs=with_bombs),
        Target("embedding as Arrow", [embeddings[kind, ".arrow"] for kind in ("numbers", "names")], read_vectors),
        Target("embedding as .npy", [embeddings[kind, ".npy"] for kind in ("numbers", "names")], read_vectors),
        Target("patches of align", pairs, align_patches, command=align_command),
        Target(
            "exports of parties",
            [{"a.npz": overlap, "b.npz": other}],
            solve_parties,
            bombs=with_bombs,
            command=solve_command,
        ),
        Target("transform of a party", [{"t.npz": transform}], apply_party),
        Target("shared ids of a party", [{"ids.txt": "\n".join(ids).encode()}], read_shared_ids, share=0.3),
        Target("checkpoint, damaged", checkpoint_files, read_checkpoints, share=0.5),
        Target("checkpoint, sealed", checkpoint_files, resume, after=seal, share=0.7),
        Target("page of a run, damaged", model_files, render_record, share=0.3),
        Target("page of a run, sealed", model_files, render_record, after=seal_model),
        Target("saved model, damaged", model_files, load_model, share=0.5),
        Target("saved model, sealed", model_files, load_model, after=seal_model),
        Target("store, damaged", store_files, read_store, share=0.5),
        Target("store, sealed", store_files, read_store, after=seal_store),
        Target("lines of reproduce", journal_lines, read_journal),
        Target("split", [split_parts(str), split_parts(int)], read_pinned_split, share=2, bombs=with_bombs),
    ]


def split_parts(kind):
    """The files of a split of the ring, its nodes named by numbers or by text."""
    pairs = {
        "train": RING[:18],
        "validation": [*RING[18:20], (0, 6), (1, 7)],
        "test": [*RING[20:], *((u, u + 5) for u in range(4))],
    }
    files = {"split.json": b'{"kind": "l2g2g split", "version": 1, "num_nodes": 12, "directed": false}'}
    for name, listed in pairs.items():
        labels = [int(pair in RING) for pair in listed]
        columns = {"source": [kind(u) for u, _ in listed], "target": [kind(v) for _, v in listed], "label": labels}
        weights = {"weight": np.ones(len(listed))} if name == "train" else {}
        files[f"{name}.parquet"] = parquet(**columns, **weights)
    return files


def read_pinned_split(folder):
    from l2g2g.graphs.graph import Graph
    from l2g2g.graphs.split_files import read_held_out, read_split

    ring = Graph.from_arcs(*np.transpose(RING), name="ring")
    split = read_split(folder, None, NUM_NODES, "ring").in_memory(ring)
    check_graph(split.train)
    assert split.train.adjacency.multiply(split.held_out).nnz == 0
    assert len(split.test.positive) > 0
    assert len(split.test.negative) > 0
    read_held_out(folder, np.arange(NUM_NODES), "vectors")


def read_labels(folder):
    from l2g2g.graphs.read import read_graph

    content = (folder / "labels.npy").read_bytes()
    members = {name: m.npy(value) for name, value in parts(adjacency(), "adj_").items()} | {"labels": content}
    (folder / "graph.npz").write_bytes(m._write_zip([(f"{name}.npy", data) for name, data in members.items()]))
    check_graph(read_graph(folder / "graph.npz"))


def read_seeds(target):
    """What is mutated must be in order before; and what the compiler does the first time, it does here."""
    for files in target.seeds:
        folder = Path("seeds") / "whole"
        shutil.rmtree(folder, ignore_errors=True)
        write_files(folder, files)
        with warnings.catch_warnings(action="ignore"):
            target.read(folder)


def write_files(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def mutate(target, generator, others):
    """One set of files of a target with one of them mutated: (files, what was done)."""
    files = dict(m.pick(generator, target.seeds))
    name = m.pick(generator, [name for name in files if not target.mutated or name in target.mutated])
    ending = Path(name).suffix
    bombs = target.bombs.get(ending, ())
    ways = BY_ENDING.get(ending, m.TEXT)
    done = []
    for _ in range(1 if generator.random() < 0.8 else 2):
        way = m.pick(generator, bombs) if bombs and generator.random() < 0.004 else m.pick(generator, ways)
        try:
            files[name] = way(files[name], generator, others)
        except Exception:  # not every way fits what an earlier one left
            way = m.flip
            files[name] = way(files[name], generator, others)
        done.append(way.__name__)
    if target.after is not None:
        files = target.after(files)
    return files, f"{name}: {' + '.join(done)}"
