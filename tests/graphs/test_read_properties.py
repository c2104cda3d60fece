"""Readers, for any graph: what is written is what is read, whatever the ids, the order and the format."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.write import write_embedding

BOUNDED = settings(max_examples=15, deadline=None, derandomize=True)
NUMBERS = st.integers(0, 2**63 - 1)
# Names that no reader takes for numbers, comments or quotes: those are tested where they are.
NAMES = st.text(st.characters(categories=("L", "Nd")), min_size=1, max_size=12).map(lambda name: f"n{name}")


def edges_of(ids):
    """At least one edge between two nodes among up to twenty, in any order and direction, with repeats."""
    pairs = st.lists(st.tuples(ids, ids), min_size=1, max_size=20)
    return pairs.filter(lambda found: any(u != v for u, v in found))


def edge_set(graph):
    ids = graph.node_ids.tolist()
    return {frozenset((ids[u], ids[v])) for u, v in zip(*graph.edges(), strict=True)}


def wanted(pairs):
    return {frozenset(pair) for pair in pairs if pair[0] != pair[1]}


def write(folder, ending, pairs):
    path = folder / f"edges{ending}"
    if ending == ".parquet":
        pq.write_table(pa.table([[u for u, _ in pairs], [v for _, v in pairs]], names=["a", "b"]), path)
        return path
    delimiter = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".txt": " "}[ending]
    text = f"source{delimiter}target\n" + "".join(f"{u}{delimiter}{v}\n" for u, v in pairs)
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".txt", ".parquet"])
@pytest.mark.parametrize("ids", [NUMBERS, NAMES], ids=["numbers", "names"])
def test_every_edge_comes_back_and_no_other(tmp_path_factory, ending, ids):
    folder = tmp_path_factory.mktemp("graphs")

    @BOUNDED
    @given(pairs=edges_of(ids))
    def check(pairs):
        graph = read_graph(write(folder, ending, pairs))
        assert edge_set(graph) == wanted(pairs)
        first_seen = list(dict.fromkeys(node for pair in pairs for node in pair))
        assert graph.node_ids.tolist() == first_seen
        loops = sum(u == v for u, v in pairs)
        assert graph.cleaning.num_self_loops == loops
        merged = graph.cleaning.num_duplicates + graph.cleaning.num_reversed
        assert graph.num_edges == len(pairs) - loops - merged == len(wanted(pairs))

    check()


@BOUNDED
@given(pairs=edges_of(st.integers(0, 12)), seed=st.integers(0, 99))
def test_the_order_of_the_rows_does_not_change_the_graph(tmp_path_factory, pairs, seed):
    folder = tmp_path_factory.mktemp("graphs")
    turned = [pairs[place] for place in np.random.default_rng(seed).permutation(len(pairs))]
    assert edge_set(read_graph(write(folder, ".csv", pairs))) == edge_set(read_graph(write(folder, ".csv", turned)))


@pytest.mark.slow
@BOUNDED
@given(pairs=edges_of(st.integers(0, 9)), width=st.integers(1, 4), seed=st.integers(0, 99))
def test_features_follow_their_nodes_through_every_format(tmp_path_factory, pairs, width, seed):
    folder = tmp_path_factory.mktemp("graphs")
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(10, width)).astype(np.float32)
    edges = write(folder, ".csv", pairs)
    order = generator.permutation(10)
    columns = {"id": order, **{f"x{place}": features[order, place] for place in range(width)}}
    pq.write_table(pa.table(columns), folder / "f.parquet")
    pq.write_table(pa.table({"id": order, "x": features[order].tolist()}), folder / "lists.parquet")
    lines = [",".join(["id", *columns][1:])]
    lines += [",".join([str(node), *(repr(float(value)) for value in features[node])]) for node in order]
    (folder / "f.csv").write_text("\n".join(lines) + "\n")
    np.save(folder / "f.npy", features)
    sp.save_npz(folder / "f.npz", sp.csr_matrix(features))
    for name in ("f.parquet", "lists.parquet", "f.csv", "f.npy", "f.npz"):
        graph = read_graph(edges, features=folder / name)
        nodes = np.arange(10) if graph.node_ids is None else graph.node_ids
        assert graph.num_nodes == 10
        found = graph.features.toarray() if sp.issparse(graph.features) else graph.features
        assert np.array_equal(found, features[nodes])


@pytest.mark.parametrize("ending", [".csv", ".txt", ".parquet", ".npy"])
@pytest.mark.parametrize("ids", [NUMBERS, NAMES], ids=["numbers", "names"])
def test_an_embedding_comes_back_to_the_bit(tmp_path_factory, ending, ids):
    path = tmp_path_factory.mktemp("vectors") / f"o{ending}"
    numbers = st.floats(-(2.0**100), 2.0**100, width=32)

    @BOUNDED
    @given(data=st.data(), names=st.lists(ids, min_size=1, max_size=8, unique=True), dim=st.integers(1, 4))
    def check(data, names, dim):
        rows = st.lists(st.lists(numbers, min_size=dim, max_size=dim), min_size=len(names), max_size=len(names))
        vectors = np.array(data.draw(rows), np.float32).reshape(len(names), dim)
        write_embedding(path, vectors, np.array(names, dtype=np.int64 if isinstance(names[0], int) else object))
        found, back = read_embedding(path)
        assert found.tolist() == names
        assert np.array_equal(back, vectors)

    check()
