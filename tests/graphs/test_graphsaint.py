"""GraphSAINT's folders, on small files of the same formats that the test writes."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g import read_graph
from l2g2g.errors import InputError
from l2g2g.graphs.datasets import list_datasets, load_dataset


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "reddit"
    folder.mkdir()
    # 0 - 1 - 2 - 3 in both directions with a self-loop, as the published adjacency has them
    matrix = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    matrix[2, 2] = 1
    sp.save_npz(folder / "adj_full.npz", sp.csr_matrix(matrix.astype(bool)))
    np.save(folder / "feats.npy", np.arange(8.0).reshape(4, 2))
    (folder / "role.json").write_text(json.dumps({"tr": [0, 1], "va": [2], "te": [3]}))
    (folder / "class_map.json").write_text(json.dumps({"0": 1, "1": 0, "2": 1, "3": 2}))
    return folder


def test_a_folder_becomes_a_graph(folder):
    graph = load_dataset("reddit", folder.parent)
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("reddit", 4, 3)
    assert graph.features.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert graph.labels.tolist() == [1, 0, 1, 2]
    assert graph.cleaning.num_self_loops == 1
    assert not graph.weighted
    assert {info.name: info.available for info in list_datasets(folder.parent)}["reddit"]
    assert read_graph(folder).num_edges == read_graph(str(folder)).num_edges == 3


def test_several_classes_per_node_are_left_aside(folder):
    (folder / "class_map.json").write_text(json.dumps({str(node): [0, 1, 1] for node in range(4)}))
    assert load_dataset("reddit", folder.parent).labels is None
    (folder / "class_map.json").unlink()
    assert load_dataset("reddit", folder.parent).labels is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("role.json", '{"tr": [0, 9], "va": [], "te": []}', "node 9 is none of the 4"),
        ("role.json", '{"tr": [0, 1], "va": [1], "te": []}', "two roles"),
        ("role.json", '{"tr": [0]}', "lists tr, va and te"),
        ("role.json", "[1]", "no JSON object"),
        ("role.json", '{"tr": [0', "damaged"),
        ("class_map.json", '{"17": 1}', "node '17' is none of the 4"),
        ("class_map.json", '{"²": 1}', "node '²' is none of the 4"),
        ("class_map.json", '{"0": 99999999999999999999}', "64 bits"),
        ("class_map.json", "[" * 100_000, "damaged"),
        ("role.json", '{"tr": [true], "va": [], "te": []}', "node True is none of the 4"),
    ],
)
def test_files_that_do_not_fit_are_refused(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load_dataset("reddit", folder.parent)


def test_features_that_are_an_archive_are_refused(folder):
    np.savez(folder / "other.npz", a=np.zeros((4, 2)))
    (folder / "other.npz").rename(folder / "feats.npy")
    with pytest.raises(InputError, match="an archive, not one array"):
        load_dataset("reddit", folder.parent)


def test_a_missing_file_is_named(folder):
    (folder / "feats.npy").unlink()
    with pytest.raises(InputError, match=r"feats\.npy: no such file"):
        load_dataset("reddit", folder.parent)


def test_pickled_features_are_refused(folder):
    np.save(folder / "feats.npy", np.array([[{}, {}]] * 4, dtype=object))
    with pytest.raises(InputError, match="pickled objects"):
        load_dataset("reddit", folder.parent)
