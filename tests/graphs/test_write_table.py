import csv
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.write_table import print_csv, print_lines, write_table

COLUMNS = {
    "source": np.array(["a,b", 'c"d'], dtype=object),
    "target": np.array(["x\ny", "z"], dtype=object),
    "score": np.array([0.1, -2.5], dtype=np.float32),
}


def test_csv_gives_the_cells_back():
    stream = io.StringIO()
    print_csv(stream, COLUMNS)
    assert list(csv.reader(io.StringIO(stream.getvalue()))) == [
        ["source", "target", "score"],
        ["a,b", "x\ny", "0.1"],
        ['c"d', "z", "-2.5"],
    ]


def test_lines_are_json_with_what_all_of_them_say():
    stream = io.StringIO()
    print_lines(stream, COLUMNS, {"recall": None})
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert rows[0] == {"source": "a,b", "target": "x\ny", "score": 0.1, "recall": None}


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_files(ending, tmp_path):
    path = tmp_path / f"table{ending}"
    write_table(path, COLUMNS)
    if ending == ".parquet":
        sources = pq.read_table(path)["source"].to_pylist()
    elif ending == ".csv":
        with path.open(newline="") as file:
            sources = [row["source"] for row in csv.DictReader(file)]
    else:
        sources = [json.loads(line)["source"] for line in path.read_text().splitlines()]
    assert sources == ["a,b", 'c"d']


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.jsonl"):
        write_table(tmp_path / "table.xls", COLUMNS)
