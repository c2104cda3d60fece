"""Labels: what is taken, and what is refused in one clear line."""

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.checks import check_labels, find_classes
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([2, 0, -1], np.int8), [2, 0, -1]),
        (np.array([2, 0, 1], np.uint64), [2, 0, 1]),
        (np.array([2.0, 0.0, 1.0]), [2, 0, 1]),
        (np.array([True, False, True]), [1, 0, 1]),
        (np.array([[4], [5], [6]]), [4, 5, 6]),
        (np.array(["a", "", "c"]), ["a", "", "c"]),
        (np.array([b"a", "é".encode(), b"c"]), ["a", "é", "c"]),
    ],
)
def test_integers_and_text_are_taken(given, expected):
    assert check_labels(given, 3, "graph").tolist() == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([1, 2]), "labels have shape .2,. but there are 3 nodes"),
        (np.array(5), "labels have shape"),
        (np.array([0, np.nan, 1]), "label nan in row 1"),
        (np.array([0, 1, np.inf]), "label inf in row 2"),
        (np.array([0.5, 1, 2]), "label 0.5 in row 0"),
        (np.array([1e300, 1, 2]), "label 1e.300 in row 0"),
        (np.array([1j, 1, 2]), "labels are complex128"),
        (np.array([1, 2, 3], "datetime64[s]"), "labels are datetime64"),
        (np.zeros(3, [("a", int)]), "labels are"),
        (np.array([b"a", b"\xff", b"c"]), "not UTF-8"),
    ],
)
def test_anything_else_is_refused(given, message, tmp_path):
    with pytest.raises(InputError, match=message) as caught:
        check_labels(given, 3, "graph")
    assert "\n" not in str(caught.value)
    archive = {"adj_indptr": [0, 1, 2, 2], "adj_indices": [1, 2], "adj_shape": [3, 3], "labels": given}
    np.savez(tmp_path / "g.npz", **archive)
    with pytest.raises(InputError, match=message):
        read_graph(tmp_path / "g.npz")
    with pytest.raises(InputError, match=message):
        Graph.from_arcs([0, 1], [1, 2], labels=given)


def test_text_and_several_labels_in_an_archive(tmp_path):
    archive = {"adj_indptr": [0, 1, 2, 2], "adj_indices": [1, 2], "adj_shape": [3, 3]}
    np.savez(tmp_path / "text.npz", **archive, labels=np.array(["x", "y", "x"]))
    assert read_graph(tmp_path / "text.npz").labels.tolist() == ["x", "y", "x"]
    np.savez(tmp_path / "several.npz", **archive, labels=np.eye(3))
    assert read_graph(tmp_path / "several.npz").labels is None
    np.savez(tmp_path / "pickled.npz", **archive, labels=np.array(["x", None, 3], dtype=object))
    with pytest.raises(InputError, match="pickled"):
        read_graph(tmp_path / "pickled.npz")


def test_classes_are_numbered_in_their_order():
    assert find_classes(np.array([7, -3, 3, 7]))[1].tolist() == [1, -1, 0, 1]
    assert find_classes(np.array(["b", "", "a"], dtype=object))[1].tolist() == [1, -1, 0]
