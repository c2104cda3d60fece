"""`l2g2g prepare`: what it writes, what it uses again, and what it refuses."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g import cli
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.store import open_graph
from l2g2g.patches.overlap import make_patches
from l2g2g.patches.partition import partition
from l2g2g.patches.store import open_patches


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(0)
    sources = generator.integers(0, 400, 3000)
    targets = np.where(
        generator.random(3000) < 0.8, sources // 50 * 50 + generator.integers(0, 50, 3000), sources[::-1]
    )
    pq.write_table(pa.table({"a": sources, "b": targets}), tmp_path / "edges.parquet")
    np.save(tmp_path / "features.npy", generator.normal(size=(400, 8)).astype(np.float32))
    return tmp_path


@pytest.fixture
def prepare(files, capsys):
    """Run the command: (exit code, the JSON row or None, stderr)."""

    def call(*arguments, graph="edges.parquet"):
        source = files / graph if (files / graph).exists() else graph
        with pytest.raises(SystemExit) as leaving:
            cli.main(["prepare", str(source), *map(str, arguments), "--json"])
        captured = capsys.readouterr()
        return leaving.value.code, json.loads(captured.out) if captured.out else None, captured.err

    return call


def test_a_store_with_patches(prepare, files):
    code, row, err = prepare("--store", files / "s", "--features", files / "features.npy", "--patches", 4, "--dim", 4)
    assert (code, err) == (0, "")
    graph = read_graph(files / "edges.parquet", files / "features.npy")
    stored = open_graph(files / "s", verify=True)
    patches = open_patches(files / "s", graph=stored, verify=True)
    assert (stored.to_graph().adjacency != graph.adjacency).nnz == 0
    expected = make_patches(graph, partition(graph.adjacency, 4), min_overlap=5, target_overlap=10)
    assert np.array_equal(patches.patch_set.global_nodes, expected.global_nodes)
    assert row["store"] == str(files / "s")
    assert (row["num_nodes"], row["num_edges"], row["num_features"]) == (400, graph.num_edges, 8)
    assert (row["num_duplicates"], row["num_self_loops"]) == (
        graph.cleaning.num_duplicates,
        graph.cleaning.num_self_loops,
    )
    assert (row["partition"], row["num_patches"], row["name"]) == ("metis", 4, "edges")
    assert row["kept_edge_fraction"] == expected.count_covered_edges(graph) / graph.num_edges
    assert row["node_duplication"] == expected.node_duplication
    assert 1 <= row["balance"] < 1.2
    assert row["store_bytes"] == row["graph_bytes"] + row["patch_bytes"] > 400 * 8 * 4 * 2
    assert {"read", "write", "partition", "overlap", "patches", "total"} == set(row["seconds"])
    assert row["peak_memory_bytes"] > 10_000_000
    assert row["reused"] == {"graph": False, "patches": False}


def test_what_is_there_is_used_again(prepare, files):
    arguments = ("--store", files / "s", "--patches", 4)
    first = prepare(*arguments)[1]
    again = prepare(*arguments)[1]
    assert again["reused"] == {"graph": True, "patches": True}
    assert again["seconds"] == {"total": 0}
    assert {**again, "reused": 0, "seconds": 0, "peak_memory_bytes": 0} == {
        **first,
        "reused": 0,
        "seconds": 0,
        "peak_memory_bytes": 0,
    }
    other = prepare("--store", files / "s", "--patches", 5, "--partition", "streaming")[1]
    assert other["reused"] == {"graph": True, "patches": False}
    assert "read" not in other["seconds"]
    assert (other["num_patches"], other["partition"]) == (5, "streaming")


@pytest.mark.parametrize("method", ["metis", "fennel", "streaming", "random"])
def test_a_store_is_cut_again(prepare, files, method):
    prepare("--store", files / "s", "--patches", 2)
    (files / "edges.parquet").unlink()
    code, row, _ = prepare("--partition", method, "--patches", 3, graph="s")
    assert (code, row["partition"], row["num_patches"]) == (0, method, 3)
    assert row["reused"]["graph"]
    labels = partition(
        open_graph(files / "s").to_graph().adjacency, 3, method="fennel" if method == "streaming" else method
    )
    if method != "streaming":
        assert row["balance"] == np.bincount(labels).max() * 3 / 400


def test_named_graphs(prepare, files):
    code, row, _ = prepare("--store", files / "s", "--patches", 3, graph="sbm-small")
    assert (code, row["num_nodes"], row["name"]) == (0, 10_000, "sbm-small")
    assert {"read", "write"} < set(row["seconds"])


def test_seeds_of_a_random_partition_differ(prepare, files):
    prepare("--store", files / "s", "--partition", "random", "--patches", 4)
    first = open_patches(files / "s").patch_set.global_nodes
    row = prepare("--store", files / "s", "--partition", "random", "--patches", 4, "--seed", 1)[1]
    assert not row["reused"]["patches"]
    assert not np.array_equal(first, open_patches(files / "s").patch_set.global_nodes)


REFUSED = {
    "no store": ([], 2, "--store DIR is needed"),
    "unknown partition": (["--store", "S", "--partition", "kmeans"], 2, "streaming"),
    "no size": (["--store", "S", "--memory", "much"], 2, "4GB"),
    "too little memory": (["--store", "S", "--memory", "1MB"], 3, "is the least that will do"),
    "too many patches": (["--store", "S", "--patches", "401"], 2, "only 400 nodes"),
    "no features": (["--store", "S", "--features", "nothing.npy"], 2, "no such feature file"),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_refusals(prepare, files, refused):
    arguments, code, words = refused
    found = prepare(*[files / "s" if argument == "S" else argument for argument in arguments])
    assert found[:2] == (code, None)
    assert words in found[2]
    assert len(found[2].splitlines()) == 1


@pytest.mark.parametrize("place", ["s", "deep/in/s"])
def test_a_failed_command_leaves_no_folder(prepare, files, place):
    (files / "empty.csv").write_text("")
    before = sorted(files.rglob("*"))
    assert prepare("--store", files / place, graph="empty.csv")[0] == 2
    assert sorted(files.rglob("*")) == before


def test_a_failed_command_leaves_what_was_there(prepare, files):
    (files / "empty.csv").write_text("")
    (files / "s").mkdir()
    assert prepare("--store", files / "s", graph="empty.csv")[0] == 2
    assert list((files / "s").iterdir()) == []
    (files / "s" / "notes.txt").write_text("mine")
    assert prepare("--store", files / "s", graph="empty.csv")[0] == 2
    assert [path.name for path in (files / "s").iterdir()] == ["notes.txt"]
    assert prepare("--store", files / "s", "--patches", 2)[0] == 0
    assert prepare("--store", files / "s", "--patches", 401)[0] == 2
    assert {"graph", "patches"} <= {path.name for path in (files / "s").iterdir()}


def test_the_store_of_another_graph_is_not_replaced(prepare, files):
    prepare("--store", files / "s", "--patches", 2)
    code, _, err = prepare("--store", files / "s", "--patches", 2, graph="sbm-small")
    assert code == 2
    assert "holds the store of another graph (edges)" in err
    assert open_graph(files / "s").num_nodes == 400


def test_a_store_takes_no_features_and_no_other_place(prepare, files):
    prepare("--store", files / "s", "--patches", 2)
    assert "leave --features out" in prepare("--features", files / "features.npy", graph="s")[2]
    assert "is a store already" in prepare("--store", files / "t", graph="s")[2]


def test_a_damaged_store_is_written_again(prepare, files):
    arguments = ("--store", files / "s", "--patches", 2)
    prepare(*arguments)
    file = files / "s" / "graph" / "indices.npy"
    file.write_bytes(file.read_bytes()[:-1])
    code, row, err = prepare(*arguments)
    assert (code, row["reused"]) == (0, {"graph": False, "patches": True})
    assert "indices.npy: is damaged" in err
    open_graph(files / "s", verify=True)


def test_metis_beyond_the_budget_is_refused_and_not_the_default(prepare, files, monkeypatch):
    from l2g2g.patches import partition

    monkeypatch.setattr(partition, "_METIS_PER_ARC", 10**9)
    code, row, _ = prepare("--store", files / "s", "--patches", 2)
    assert (code, row["partition"]) == (0, "streaming")
    code, _, err = prepare("--store", files / "s", "--patches", 2, "--partition", "metis")
    assert code == 3
    assert "--partition streaming" in err


def test_for_people(files, capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["prepare", str(files / "edges.parquet"), "--store", str(files / "s"), "--patches", "2"])
    assert leaving.value.code == 0
    assert "in 2 patches" in capsys.readouterr().out
