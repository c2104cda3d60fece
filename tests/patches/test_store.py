"""Patches on disk: what is loaded is what memory would hold."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import HEADER_BYTES
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import write_graph
from l2g2g.patches import store as store_module
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition
from l2g2g.patches.store import has_patches, open_patches, write_patches

KINDS = ["dense", "half", "sparse", "none"]


def make_graph(kind="dense", weighted=False, seed=0, num_nodes=300, num_edges=1200):
    generator = np.random.default_rng(seed)
    sources, targets = generator.integers(0, num_nodes, (2, num_edges))
    targets = np.where(generator.random(num_edges) < 0.7, (sources + generator.integers(1, 9, num_edges)), targets)
    weights = generator.random(num_edges) + 0.5 if weighted else None
    features = None
    if kind in ("dense", "half"):
        features = generator.normal(size=(num_nodes, 5)).astype(np.float32)
    elif kind == "sparse":
        features = sp.random_array((num_nodes, 40), density=0.1, format="csr", dtype=np.float32, rng=generator)
    graph = Graph.from_arcs(sources, targets % num_nodes, weights, num_nodes=num_nodes, features=features)
    if kind == "half":
        object.__setattr__(graph, "features", graph.features.astype(np.float16))
    return graph


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(store_module, "_ENTRIES_AT_ONCE", 101)
    monkeypatch.setattr(store_module, "_FEATURE_BYTES_AT_ONCE", 500)


def cut(graph, num_patches, **options):
    return make_patches(graph, partition(graph.adjacency, num_patches, method="fennel"), **options)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_patches_come_back(kind, weighted, tmp_path):
    graph = make_graph(kind, weighted)
    stored = write_graph(graph, tmp_path)
    patches = cut(graph, 6, min_overlap=5, target_overlap=10)
    write_patches(stored, patches, settings={"patches": 6})
    store = open_patches(tmp_path, graph=stored, verify=True)
    whole = patches.induce(graph.adjacency)
    for patch in range(6):
        adjacency, features = store.load_patch(patch)
        low, high = patches.offsets[patch : patch + 2]
        expected = whole[low:high, low:high]
        expected.sort_indices()
        assert np.array_equal(adjacency.indptr, expected.indptr)
        assert np.array_equal(adjacency.indices, expected.indices)
        assert np.array_equal(adjacency.data, expected.data)
        if kind == "none":
            assert features is None
        else:
            assert features.dtype == (np.float16 if kind == "half" else np.float32)
            assert abs(features - graph.features[patches.nodes_of(patch)]).max() == 0
    found = store.patch_set
    assert (found.num_nodes, found.num_joined) == (patches.num_nodes, patches.num_joined)
    assert np.array_equal(found.global_nodes, patches.global_nodes)
    assert np.array_equal(found.offsets, patches.offsets)
    for part in ("edges", "pointers", "first_rows", "second_rows"):
        assert getattr(found.overlaps, part).equal(getattr(patches.overlaps, part))
    assert patches.count_covered_edges(stored) == patches.count_covered_edges(graph)
    assert (store.num_edges, store.settings) == (graph.num_edges, {"patches": 6})


def test_the_whole_graph_is_one_patch(tmp_path):
    graph = make_graph()
    store = write_patches(write_graph(graph, tmp_path), whole_graph(graph.num_nodes))
    adjacency, features = store.load_patch(0)
    assert (adjacency != graph.adjacency).nnz == 0
    assert np.array_equal(features, graph.features)


def test_other_patches_replace_those_that_were_there(tmp_path):
    graph = make_graph()
    stored = write_graph(graph, tmp_path)
    write_patches(stored, cut(graph, 3))
    assert write_patches(stored, cut(graph, 5)).num_patches == 5
    assert open_patches(tmp_path, graph=stored).num_patches == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "lock", "patches"]


def test_patches_of_another_graph_are_refused(tmp_path):
    first = make_graph()
    write_patches(write_graph(first, tmp_path), cut(first, 3))
    other = write_graph(make_graph(seed=1), tmp_path)
    with pytest.raises(InputError, match="another graph"):
        open_patches(tmp_path, graph=other)


def test_a_store_without_patches_says_so(tmp_path):
    write_graph(make_graph(), tmp_path)
    assert not has_patches(tmp_path)
    with pytest.raises(InputError, match="holds no patches"):
        open_patches(tmp_path)


def damaged(tmp_path, damage):
    graph = make_graph()
    write_patches(write_graph(graph, tmp_path), cut(graph, 3))
    file = tmp_path / "patches" / "indices.npy"
    damage(file)
    return file


def test_a_truncated_array_is_refused(tmp_path):
    file = damaged(tmp_path, lambda file: file.write_bytes(file.read_bytes()[:-1]))
    with pytest.raises(InputError, match=r"indices\.npy: is damaged"):
        open_patches(tmp_path)
    file.unlink()
    with pytest.raises(InputError, match=r"indices\.npy: is missing"):
        open_patches(tmp_path)


def test_a_changed_number_is_found_by_its_hash(tmp_path):
    def flip(file):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)

    damaged(tmp_path, flip)
    open_patches(tmp_path)
    with pytest.raises(InputError, match=r"indices.npy: is damaged \(its checksum differs\)"):
        open_patches(tmp_path, verify=True)


def test_a_changed_manifest_is_refused(tmp_path):
    damaged(tmp_path, lambda file: None)
    path = tmp_path / "patches" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["values"]["num_edges"] += 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"manifest.json: is damaged \(its checksum differs\)"):
        open_patches(tmp_path)


HOSTILE = {
    "nodes": lambda array: array.__setitem__(0, 300),
    "offsets": lambda array: array.__setitem__(1, 10**9),
    "entry_offsets": lambda array: array.__setitem__(1, -1),
    "indptr": lambda array: array.__setitem__(3, 10**9),
    "indices": lambda array: array.__setitem__(slice(None), 299),
    "features_indices": lambda array: array.__setitem__(slice(None), 40),
    "features_indptr": lambda array: array.__setitem__(slice(None), -1),
    "overlap_edges": lambda array: array.__setitem__((0, 0), 3),
    "overlap_pointers": lambda array: array.__setitem__(1, 10**9),
    "overlap_second_rows": lambda array: array.__setitem__(0, 10**9),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_numbers_that_compiled_code_would_follow_are_checked(name, tmp_path):
    graph = make_graph("sparse")
    write_patches(write_graph(graph, tmp_path), cut(graph, 3))
    path = tmp_path / "patches" / f"{name}.npy"
    array = np.load(path)
    HOSTILE[name](array)
    path.write_bytes(path.read_bytes()[:HEADER_BYTES] + array.tobytes())

    def use():
        store = open_patches(tmp_path)
        assert store.patch_set.num_patches == 3
        for patch in range(3):
            store.load_patch(patch)

    with pytest.raises(InputError, match="is damaged"):
        use()
