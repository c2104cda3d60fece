"""Feature columns: numbers, categories, labels and missing values of a table, by hand."""

import numpy as np
import pyarrow as pa
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.formats import TableOptions
from l2g2g.graphs.read_features import read_features


def read(options=None, known=None, **columns):
    return read_features(pa.table({"id": [1, 2, 3], **columns}), None, TableOptions(**(options or {})), known)


def test_categories_are_one_hot_in_the_order_of_their_values():
    found = read(town=["rome", "oslo", "rome"], age=[1, 2, 3])
    assert found.columns.titles() == ["town=oslo", "town=rome", "age"]
    assert found.vectors.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]


def test_missing_values_become_what_is_asked_for():
    given = {"town": ["rome", None, "rome"], "age": ["1", "n/a", "4"]}
    assert read({"missing": "zero"}, **given).vectors.tolist() == [[1, 1], [0, 0], [1, 4]]
    assert read({"missing": "mean"}, **given).vectors.tolist() == [[1, 1], [1, 2.5], [1, 4]]
    with pytest.raises(InputError, match="row 2: town is missing"):
        read(**given)


def test_a_later_table_is_read_with_the_columns_of_the_first():
    first = read({"missing": "mean"}, town=["rome", "oslo", "rome"], age=[1.0, None, 3.0]).columns
    known = FeatureColumns.from_dict(first.to_dict())
    assert known == first
    later = read(None, known, age=[None, 5.0, 6.0], extra=[0, 0, 0], town=["oslo", "paris", ""])
    assert later.vectors.tolist() == [[1, 0, 2], [0, 0, 5], pytest.approx([1 / 3, 2 / 3, 6])]
    with pytest.raises(InputError, match="no column 'town', which the model was trained on"):
        read(None, known, age=[1, 2, 3])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["a", None, "b"], ["a", "", "b"]),
        (["1", "", "3"], [1, -1, 3]),
        ([1.0, None, 3.0], [1, -1, 3]),
        ([0.5, None, 3.0], ["0.5", "", "3"]),
        ([True, False, True], ["true", "false", "true"]),
        ([1e30, 2.0, 3.0], ["1e+30", "2", "3"]),
    ],
)
def test_labels_are_integers_or_text(labels, expected):
    assert read({"label_column": "team"}, team=labels, x=[1, 2, 3]).labels.tolist() == expected


def test_what_fuzzing_found():
    large = pa.array([2**63, 1, 2], pa.uint64())
    assert read({"missing": "mean"}, x=large).vectors[0, 0] == np.float32(2**63)
    with pytest.raises(InputError, match=r"column 'team' holds list.*labels are whole numbers or text"):
        read({"label_column": "team"}, team=[[1.0], [2.0], [3.0]], x=[1, 2, 3])
    with pytest.raises(InputError, match="--missing is for columns of numbers and text, not for lists"):
        read({"missing": "mean"}, x=[[1.0], [2.0], [3.0]])
    for broken in ({"columns": []}, {"columns": [{"title": "x", "values": ["a"], "fill": []}], "missing": "error"}):
        with pytest.raises((KeyError, ValueError)):
            FeatureColumns.from_dict(broken)
