"""Directions on disk: the same arcs, blocks, splits and files of pairs as in memory."""

import json

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs import duckdb_steps, store_writer
from l2g2g.graphs.adjacency import BACK, FORTH
from l2g2g.graphs.array_folder import manifest_hash
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.split_files import read_split, write_split
from l2g2g.graphs.splits import split_edges, split_links
from l2g2g.graphs.store import open_graph, write_graph
from l2g2g.graphs.store_writer import LEAST_MEMORY, write_store

GENERATOR = np.random.default_rng(5)
PAIRS = GENERATOR.integers(0, 60, (300, 2))  # some twice, some in both directions, some loops


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def graph(request):
    weights = GENERATOR.random(len(PAIRS)).astype(np.float32) + 0.5 if request.param else None
    return Graph.from_arcs(*PAIRS.T, weights, num_nodes=60, directed=True, name="arcs")


@pytest.fixture
def stored(graph, tmp_path):
    return write_graph(graph, tmp_path / "store")


def same_arcs(found, graph):
    assert found.directed
    assert (found.num_arcs, found.num_edges, found.cleaning) == (graph.num_arcs, graph.num_edges, graph.cleaning)
    back = found.to_graph()
    for one, other in ((back.arcs, graph.arcs), (back.adjacency, graph.adjacency)):
        assert np.array_equal(one.indptr, other.indptr)
        assert np.array_equal(one.indices, other.indices)
        assert np.array_equal(one.data, other.data)


def test_arcs_come_back(graph, stored):
    same_arcs(stored, graph)
    same_arcs(open_graph(stored.directory, verify=True), graph)


def test_blocks_say_which_arcs_exist(graph, stored):
    dense = graph.arcs.toarray()
    for source in (graph, stored):
        num_arcs = 0
        for block in source.row_blocks(70, directions=True):
            rows = np.repeat(np.arange(block.low, block.high), np.diff(block.indptr))
            assert np.array_equal((block.directions & FORTH) > 0, dense[rows, block.indices] > 0)
            assert np.array_equal((block.directions & BACK) > 0, dense[block.indices, rows] > 0)
            if graph.weighted:
                assert np.array_equal(block.arc_weights, dense[rows, block.indices])
            else:
                assert block.arc_weights is None
            num_arcs += len(block.arcs()[0])
        assert num_arcs == graph.num_arcs
    nodes = np.array([3, 7, 20])
    for one, other in zip(graph.read_directions_of(nodes), stored.read_directions_of(nodes), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_edge_list_keeps_its_directions(tmp_path, monkeypatch, weighted):
    monkeypatch.setattr(store_writer, "_EDGE_FACTOR", 1 << 60)  # larger than memory
    monkeypatch.setattr(duckdb_steps, "_ROWS_AT_ONCE", 23)
    third = [f",{1 + place % 5}" if weighted else "" for place in range(len(PAIRS))]
    text = "".join(f"n{u},n{v}{more}\n" for (u, v), more in zip(PAIRS.tolist(), third, strict=True))
    (tmp_path / "e.csv").write_text(text)
    found = write_store(tmp_path / "e.csv", tmp_path / "store", memory_bytes=LEAST_MEMORY, directed=True)
    same_arcs(found, read_graph(tmp_path / "e.csv", directed=True))


def test_edges_in_both_directions_have_none_to_learn(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,0\n1,2\n2,1\n")
    with pytest.raises(InputError, match="no direction to learn"):
        write_store(tmp_path / "e.csv", tmp_path / "store", memory_bytes=LEAST_MEMORY, directed=True)
    assert not (tmp_path / "store").exists()


def test_splits_are_the_same(graph, stored):
    one, other = (split_links(source, seed=3) for source in (graph, stored))
    for name in ("validation", "test"):
        pairs, same = getattr(one, name), getattr(other, name)
        assert pairs.num_reversed == same.num_reversed > 0
        assert np.array_equal(pairs.positive, same.positive)
        assert np.array_equal(pairs.negative, same.negative)
    assert (one.held_out != other.held_out).nnz == 0
    assert (other.train.to_graph().arcs != one.train.arcs).nnz == 0
    small = split_edges(stored, seed=3, block_entries=50)
    assert np.array_equal(small.test.negative, one.test.negative)
    nodes = np.arange(0, 60, 7)
    for one_part, other_part in zip(
        one.train.read_directions_of(nodes), other.train.read_directions_of(nodes), strict=True
    ):
        assert np.array_equal(one_part, other_part)


def test_files_of_a_split_hold_the_same_arcs(graph, stored, tmp_path):
    found = []
    for name, source in (("one", graph), ("other", stored)):
        write_split(tmp_path / name, source, split_edges(source, seed=1), None)
        split = read_split(tmp_path / name, None, 60, "arcs", directed=True)
        found.append(split.training_edges(60, directed=True).arcs)
    assert (found[0] != found[1]).nnz == 0
    assert (found[0] != split_links(graph, seed=1).train.arcs).nnz == 0


def test_stores_of_an_older_version_are_refused(stored):
    path = stored.directory / "graph" / "manifest.json"
    manifest = {**json.loads(path.read_text()), "format": "l2g2g arrays 1"}
    path.write_text(json.dumps({**manifest, "sha256": manifest_hash(manifest)}))
    message = r"'l2g2g arrays 1', this version reads graph of 'l2g2g arrays 2'; write the store again .*prepare$"
    with pytest.raises(InputError, match=message):
        open_graph(stored.directory)
