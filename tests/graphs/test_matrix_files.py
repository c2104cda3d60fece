"""Matrix Market files, as SciPy reads them, and GraphSAINT folders, on small files that the tests write."""

import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from l2g2g import read_graph
from l2g2g.errors import InputError
from l2g2g.graphs.datasets import list_datasets, load_dataset
from l2g2g.graphs.matrix_files import read_matrix_market


@pytest.mark.parametrize("field", [None, "pattern", "integer"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_reads_what_scipy_reads(tmp_path, field, symmetric):
    generator = np.random.default_rng(0)
    matrix = generator.integers(1, 9, (6, 6)) * (generator.random((6, 6)) < 0.4)
    matrix = matrix + matrix.T if symmetric else matrix[:, :4]
    path = tmp_path / "matrix.mtx"
    scipy.io.mmwrite(path, sp.coo_array(matrix), field=field)
    expected = scipy.io.mmread(path, spmatrix=False).toarray()
    np.testing.assert_array_equal(read_matrix_market(path).toarray(), expected)


def test_a_matrix_may_have_no_entries(tmp_path):
    path = tmp_path / "matrix.mtx"
    for rest in ("", "% nothing\n"):
        path.write_text("%%MatrixMarket matrix coordinate real general\n3 2 0\n" + rest)
        assert (read_matrix_market(path).shape, read_matrix_market(path).nnz) == ((3, 2), 0)


HEADER = "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 2\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("1 2\n", "does not begin with"),
        (HEADER.replace("real", "complex"), "complex"),
        (HEADER.replace("general", "skew-symmetric"), "needed: general or symmetric"),
        (HEADER.replace("coordinate", "array"), "holds a dense matrix"),
        (HEADER.replace("3 3 2", "3 3"), "how large"),
        (HEADER.replace("3 3 2", "3 -3 2"), "sizes"),
        (HEADER.replace("3 3 2", "3 3 2000000"), "cannot hold"),
        (HEADER + "1 2 1.5\n", "1 entries of 3 numbers where its header tells of 2 of 3"),
        (HEADER + "1 2\n2 3\n", "2 entries of 2 numbers where its header tells of 2 of 3"),
        (HEADER + "1 2 1.5\n2 x 1\n", "is no Matrix Market file"),
        (HEADER + "1 2 1.5\n2 4 1\n", "entry 2 lies outside"),
        (HEADER + "0 2 1.5\n2 3 1\n", "entry 1 lies outside"),
        (HEADER + "1 2 1.5\n2 2.5 1\n", "entry 2 lies outside"),
        (HEADER + "1 2 1.5\n2 inf 1\n", "entry 2 lies outside"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, content, told):
    path = tmp_path / "matrix.mtx"
    path.write_text(content)
    with pytest.raises(InputError, match=told) as refused:
        read_matrix_market(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


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
