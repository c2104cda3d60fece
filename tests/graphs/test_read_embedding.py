"""Embedding files that others wrote: where the vector is, where the ids are, and what else there is."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.node_columns import read_embedding, read_embedding_table

VECTORS = np.array([[0.5, 1.0], [1.5, 2.0], [-2.5, 3.0]], np.float32)
COLUMNS = [VECTORS[:, 0], VECTORS[:, 1]]


def write(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_a_list_column_among_others(tmp_path):
    columns = {"text": ["x", "y", "z"], "embedding": VECTORS.tolist(), "year": [1990, 2001, 2010], "id": [4, 7, 9]}
    found = read_embedding_table(write(tmp_path / "v.parquet", columns))
    assert found.ids.tolist() == [4, 7, 9]
    assert np.array_equal(found.vectors, VECTORS)
    assert found.columns["text"].tolist() == ["x", "y", "z"]
    assert found.columns["year"].tolist() == [1990, 2001, 2010]


def test_lists_of_fixed_size_in_half_precision_without_ids(tmp_path):
    values = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.astype(np.float16).ravel()), 2)
    found = read_embedding_table(write(tmp_path / "v.parquet", {"vector": values}))
    assert found.ids.tolist() == [0, 1, 2]
    assert np.array_equal(found.vectors, VECTORS)


def test_one_column_per_dimension(tmp_path):
    columns = {"name": ["a", "b", "c"], "dim_0": COLUMNS[0], "age": [3, 4, 5], "dim_1": COLUMNS[1]}
    found = read_embedding_table(write(tmp_path / "v.parquet", columns))
    assert found.ids.tolist() == ["a", "b", "c"]
    assert np.array_equal(found.vectors, VECTORS)
    assert found.columns["age"].tolist() == [3, 4, 5]


def test_what_pandas_writes(tmp_path):
    frame = pd.DataFrame(VECTORS, index=["a", "b", "c"])
    frame.to_csv(tmp_path / "v.csv")
    ids, vectors = read_embedding(tmp_path / "v.csv")
    assert (ids.tolist(), vectors.tolist()) == (["a", "b", "c"], VECTORS.tolist())
    frame.columns = ["0", "1"]
    frame.to_parquet(tmp_path / "v.parquet")
    ids, vectors = read_embedding(tmp_path / "v.parquet")
    assert (ids.tolist(), vectors.tolist()) == (["a", "b", "c"], VECTORS.tolist())


def test_text_with_labels_between(tmp_path):
    (tmp_path / "v.tsv").write_text("word\tlabel\tx1\tx2\nsun\tstar\t0.5\t1\nmoon\tother\t1.5\t2\n")
    found = read_embedding_table(tmp_path / "v.tsv")
    assert found.ids.tolist() == ["sun", "moon"]
    assert np.array_equal(found.vectors, VECTORS[:2])
    assert found.columns["label"].tolist() == ["star", "other"]


def test_numbers_alone_and_glove(tmp_path):
    np.savetxt(tmp_path / "v.csv", VECTORS, delimiter=",")
    found = read_embedding_table(tmp_path / "v.csv")
    assert (found.ids.tolist(), found.vectors.tolist()) == ([0, 1, 2], VECTORS.tolist())
    (tmp_path / "glove.txt").write_text("the 0.5 1\nof 1.5 2\n")
    ids, vectors = read_embedding(tmp_path / "glove.txt")
    assert (ids.tolist(), vectors.tolist()) == (["the", "of"], VECTORS[:2].tolist())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "text": ["a"]}, "no column holds vectors"),
        ({"id": [1], "a": [[1.0]], "b": [[1.0]]}, "several columns hold lists"),
        ({"id": [1, 2], "a": [[1.0], [float("nan")]]}, "row 1 holds a number that is not finite"),
        ({"id": [1, None], "a": [[1.0], [2.0]]}, "row 2: an id is missing"),
        ({"id": [1.5], "a": [[1.0]]}, "id 1.5 is a decimal number"),
    ],
)
def test_what_is_refused(tmp_path, columns, message):
    with pytest.raises(InputError, match=message):
        read_embedding_table(write(tmp_path / "v.parquet", columns))
