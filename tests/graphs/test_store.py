"""A graph on disk: what is read is what was written, in any piece, and what is damaged or unfinished is refused."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import array_folder
from l2g2g.graphs.array_writer import locked, write_folder
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import is_store, open_graph, write_graph


def make_graph(*, sparse=False, weighted=False, named=False, seed=0):
    generator = np.random.default_rng(seed)
    sources, targets = generator.integers(0, 80, (2, 500))
    features = generator.normal(size=(90, 7)).astype(np.float32)
    if sparse:
        features = sp.random_array((90, 30), density=0.2, format="csr", dtype=np.float32, rng=generator)
    return Graph.from_arcs(
        sources,
        targets,
        generator.random(500) + 0.1 if weighted else None,
        num_nodes=90,
        features=features,
        node_ids=np.array([f"né {n}" for n in range(90)], object) if named else generator.permutation(90) * 7,
        labels=np.array(["a", "b", "c"] * 30, object) if named else np.arange(90) % 4,
        name="test graph",
    )


@pytest.fixture(params=[{}, {"sparse": True, "weighted": True, "named": True}], ids=["plain", "rich"])
def graph(request):
    return make_graph(**request.param)


def same_rows(found, expected):
    assert found.shape == expected.shape
    assert np.array_equal(found.indptr, expected.indptr)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.data, expected.data)


def test_a_graph_comes_back(graph, tmp_path):
    write_graph(graph, tmp_path / "s")
    found = open_graph(tmp_path / "s", verify=True).to_graph()
    same_rows(found.adjacency, graph.adjacency)
    assert abs(found.features - graph.features).max() == 0
    assert found.node_ids.tolist() == graph.node_ids.tolist()
    assert found.labels.tolist() == graph.labels.tolist()
    assert (found.name, found.weighted, found.cleaning) == (graph.name, graph.weighted, graph.cleaning)


def test_rows_and_features_in_pieces(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(array_folder, "_BLOCK_BYTES", 300)
    monkeypatch.setattr(array_folder, "_GAP_BYTES", 40)
    stored = write_graph(graph, tmp_path)
    assert stored.num_bytes == sum(path.stat().st_size for path in (tmp_path / "graph").glob("*.npy"))
    for low, high in ((0, 90), (0, 1), (17, 40), (89, 90), (30, 30)):
        same_rows(stored.read_adjacency_of(np.arange(low, high)), graph.adjacency[low:high])
        assert abs(stored.read_features(slice(low, high)) - graph.features[low:high]).sum() == 0
    assert stored.read_node_ids(5, 9).tolist() == graph.node_ids[5:9].tolist()
    generator = np.random.default_rng(0)
    for nodes in (np.array([3]), np.arange(0, 90, 7), generator.permutation(90), generator.integers(0, 90, 200)):
        same_rows(stored.read_adjacency_of(nodes), graph.adjacency[nodes])
        assert abs(stored.read_features(nodes) - graph.features[nodes]).sum() == 0
    assert stored.read_adjacency_of(np.empty(0, int)).shape == (0, 90)
    assert stored.read_features(np.empty(0, int)).shape[0] == 0


@pytest.mark.parametrize("num_entries", [1, 50, 10**6])
def test_blocks_cover_all_rows(graph, num_entries, tmp_path):
    blocks = list(write_graph(graph, tmp_path).row_blocks(num_entries))
    assert [block.low for block in blocks] == [0, *(block.high for block in blocks[:-1])]
    assert blocks[-1].high == graph.num_nodes
    for block in blocks:
        expected = graph.adjacency[block.low : block.high]
        assert np.array_equal(block.indptr, expected.indptr)
        assert np.array_equal(block.indices, expected.indices)
        assert block.first_entry == graph.adjacency.indptr[block.low]
        assert len(block.indices) <= num_entries or block.high == block.low + 1


def test_arrays_are_plain_npy_files(graph, tmp_path):
    write_graph(graph, tmp_path)
    assert np.array_equal(np.load(tmp_path / "graph" / "indices.npy"), graph.adjacency.indices)
    indptr = open_graph(tmp_path).indptr
    assert np.array_equal(indptr.map(), graph.adjacency.indptr)
    assert [block.tolist() for block in indptr.blocks(60)] == [
        graph.adjacency.indptr[:60].tolist(),
        graph.adjacency.indptr[60:].tolist(),
    ]
    with pytest.raises(IndexError, match="rows 90:95"):
        indptr.read(90, 95)


def test_the_same_graph_has_the_same_manifest(tmp_path):
    first, second = (write_graph(make_graph(), tmp_path / name) for name in "ab")
    assert first.sha256 == second.sha256 != write_graph(make_graph(seed=1), tmp_path / "c").sha256


def test_a_graph_without_features_says_so(tmp_path):
    stored = write_graph(Graph.from_arcs([0, 1], [1, 2]), tmp_path)
    assert (stored.num_features, stored.feature_dtype, stored.has_node_ids) == (0, None, False)
    assert stored.read_node_ids() is None
    with pytest.raises(InputError, match="no features"):
        stored.read_features(np.array([0]))


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-3])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-2] ^= 4
    path.write_bytes(data)


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES = {
    "cut off": ("indices.npy", cut_off, "bytes of"),
    "missing": ("features.npy", lambda path: path.unlink(), "is missing"),
    "another header": ("indptr.npy", lambda path: path.write_bytes(b"?" + path.read_bytes()[1:]), "header differs"),
    "no manifest": ("manifest.json", lambda path: path.unlink(), "never finished"),
    "no JSON": ("manifest.json", lambda path: path.write_text("{"), "no JSON"),
    "edited manifest": ("manifest.json", lambda path: edit(path, kind="patches"), "checksum differs"),
    "no object": ("manifest.json", lambda path: path.write_text("[]"), "checksum differs"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_what_is_damaged_is_refused(damage, tmp_path):
    write_graph(make_graph(), tmp_path)
    name, harm, words = damage
    harm(tmp_path / "graph" / name)
    with pytest.raises(InputError, match=words):
        open_graph(tmp_path)


def test_a_wrong_number_is_found_by_its_hash(tmp_path):
    write_graph(make_graph(), tmp_path)
    flip(tmp_path / "graph" / "features.npy")
    open_graph(tmp_path)
    with pytest.raises(InputError, match=r"features\.npy: is damaged \(its checksum differs\)"):
        open_graph(tmp_path, verify=True)


def test_a_file_cut_off_while_it_is_open_is_refused(tmp_path):
    stored = write_graph(make_graph(), tmp_path)
    cut_off(tmp_path / "graph" / "indices.npy")
    with pytest.raises(InputError, match="is cut off"):
        stored.row_block(0, 90)


def test_another_format_is_refused(tmp_path):
    write_graph(make_graph(), tmp_path)
    path = tmp_path / "graph" / "manifest.json"
    manifest = {**json.loads(path.read_text()), "format": "l2g2g arrays 99"}
    manifest["sha256"] = array_folder.manifest_hash(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="l2g2g arrays 99"):
        open_graph(tmp_path)


def write_half(folder, error):
    with write_folder(folder / "graph", "graph") as writer:
        writer.save("half", np.arange(5))
        raise error


def test_nothing_is_left_of_a_store_that_fails(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_half(tmp_path, ZeroDivisionError())
    assert list(tmp_path.iterdir()) == []


def test_a_failed_store_leaves_the_one_before(tmp_path):
    write_graph(make_graph(), tmp_path)
    with pytest.raises(ResourceError, match="no space"):
        write_half(tmp_path, OSError(28, "no space"))
    assert open_graph(tmp_path, verify=True).num_nodes == 90


def test_a_folder_that_is_no_store_is_never_replaced(tmp_path):
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="in the way"):
        write_graph(make_graph(), tmp_path)
    assert (tmp_path / "graph" / "thesis.txt").read_text() == "years of work"


def test_a_file_in_the_place_of_the_store_is_refused(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write_graph(make_graph(), tmp_path / "s")


def test_one_writer_at_a_time(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match=r"another process is using it \(process \d+\)"):
        write_graph(make_graph(), tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_a_resource_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ResourceError, match="cannot be written"):
        write_graph(make_graph(), tmp_path / "s")


WRITER = """
import sys, time
import numpy as np
from pathlib import Path
from l2g2g.graphs.array_writer import locked, write_folder
folder = Path(sys.argv[1])
with locked(folder), write_folder(folder / "graph", "graph") as writer:
    writer.save("indptr", np.arange(1000))
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_no_store_and_the_next_one_clears_up(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert (tmp_path / ".graph.part").exists()
    assert not is_store(tmp_path)
    with pytest.raises(InputError, match="never finished"):
        open_graph(tmp_path)
    deadline = time.monotonic() + 10
    assert write_graph(make_graph(), tmp_path).num_nodes == 90
    assert time.monotonic() < deadline
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "lock"]


def rewrite(path, change):
    """Other numbers in an array, of the same type and shape."""
    array = np.load(path)
    change(array)
    with path.open("r+b") as file:
        file.seek(array_folder.HEADER_BYTES)
        file.write(array.tobytes())


HOSTILE = {
    "a node beyond": ("indices", lambda array: array.__setitem__(5, 90)),
    "a node below": ("indices", lambda array: array.__setitem__(5, -1)),
    "rows that fall": ("indptr", lambda array: array.__setitem__(4, 400)),
    "rows beyond": ("indptr", lambda array: array.__setitem__(slice(60, None), 10**12)),
    "a row below": ("indptr", lambda array: array.__setitem__(0, -5)),
    "a feature beyond": ("features_indices", lambda array: array.__setitem__(3, 30)),
    "feature rows that fall": ("features_indptr", lambda array: array.__setitem__(4, 10**9)),
    "names beyond": ("ids_offsets", lambda array: array.__setitem__(-1, 10**9)),
    "names that are no text": ("ids_bytes", lambda array: array.__setitem__(slice(None), 255)),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_numbers_that_compiled_code_would_follow_are_checked(hostile, tmp_path):
    stored = write_graph(make_graph(sparse=True, weighted=True, named=True), tmp_path)
    name, change = hostile
    rewrite(tmp_path / "graph" / f"{name}.npy", change)
    with pytest.raises(InputError, match="is damaged"):
        stored.to_graph()
    if name in ("indices", "indptr"):
        with pytest.raises(InputError, match="is damaged"):
            list(stored.row_blocks(50))
        with pytest.raises(InputError, match="is damaged"):
            stored.read_adjacency_of(np.arange(90))


SENSELESS = {
    "an array of objects": lambda manifest: manifest["arrays"]["indices"].__setitem__("dtype", "|O"),
    "a path as name": lambda manifest: manifest["arrays"].__setitem__("../x", manifest["arrays"].pop("labels")),
    "a shape below 0": lambda manifest: manifest["arrays"]["indices"].__setitem__("shape", [-1]),
    "no values": lambda manifest: manifest["values"].clear(),
    "text as number": lambda manifest: manifest["values"].__setitem__("num_nodes", "many"),
    "fewer nodes": lambda manifest: manifest["values"].__setitem__("num_nodes", 89),
    "no arrays": lambda manifest: manifest["arrays"].clear(),
    "a list of arrays": lambda manifest: manifest.__setitem__("arrays", []),
}


@pytest.mark.parametrize("change", SENSELESS.values(), ids=SENSELESS.keys())
def test_manifests_that_make_no_sense_are_refused(change, tmp_path):
    write_graph(make_graph(), tmp_path)
    path = tmp_path / "graph" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps({**manifest, "sha256": array_folder.manifest_hash(manifest)}))
    with pytest.raises(InputError, match="l2g2g prepare"):
        open_graph(tmp_path)
