"""Every bad input of the list: one clear line, the contracted exit code, and no file left behind."""

import gzip
import os
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g import cli, read_graph

RING = [(node, (node + step) % 30) for node in range(30) for step in (1, 2)]
EDGES = "\n".join(f"{u},{v}" for u, v in RING) + "\n"
FAST = ["--method", "gae", "--epochs", "1", "--dim", "3"]


@pytest.fixture
def embed(capsys, tmp_path):
    """Write the files, embed in this process: (exit code, stderr, output path)."""

    def call(files, *arguments, graph="edges.csv", output="out/vectors.parquet"):
        (tmp_path / "out").mkdir(exist_ok=True)
        for name, content in files.items():
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        asked = [str(tmp_path / part[1:]) if part.startswith("@") else part for part in arguments]
        with pytest.raises(SystemExit) as stop:
            cli.main(["embed", str(tmp_path / graph), "-o", str(tmp_path / output), "--quiet", *asked])
        captured = capsys.readouterr()
        assert captured.out == ""
        return stop.value.code, captured.err, tmp_path / output

    return call


def is_refused(result, code, *words):
    found, err, output = result
    assert found == code, err
    lines = err.splitlines()
    assert 1 <= len(lines) <= 2
    assert lines[0].startswith("l2g2g: ")
    assert "Traceback" not in err
    for word in words:
        assert word in err
    if output.parent.is_dir():
        assert list(output.parent.iterdir()) == []


def npy(array):
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def features_csv(rows):
    return "id,a,b\n" + "\n".join(f"{node},{a},{b}" for node, a, b in rows) + "\n"


GOOD_ROWS = [(node, node / 7, 1 - node / 9) for node in range(30)]

BAD_GRAPHS = {
    "empty file": ("", ["edges.csv", "empty"]),
    "only comments": ("# a\n% b\n", ["edges.csv", "empty"]),
    "only a header": ("source,target\n", ["edges.csv", "header"]),
    "missing column": ("node\n1\n2\n", ["edges.csv", "column"]),
    "missing value": ("1,2\n3,\n", ["edges.csv", "line 2"]),
    "ragged row": ("1,2\n3,4\n5\n", ["edges.csv", "line 3"]),
    "negative id": ("0,1\n1,-2\n", ["edges.csv", "line 2", "-2", "negative"]),
    "NaN weight": ("source,target,weight\n0,1,1\n1,2,nan\n", ["edges.csv", "line 3", "nan"]),
    "infinite weight": ("0,1,1\n1,2,inf\n", ["edges.csv", "line 2", "inf"]),
    "negative weight": ("0,1,1\n1,2,-3\n", ["edges.csv", "line 2", "-3"]),
    "zero weight": ("0,1,1\n1,2,0\n", ["edges.csv", "line 2"]),
    "text weight": ("0,1,1\n1,2,heavy\n", ["edges.csv", "line 2", "heavy"]),
    "only self-loops": ("1,1\n2,2\n", ["edges.csv", "self-loops"]),
    "binary rubbish": (bytes(range(256)), ["edges.csv"]),
}


GRAPH_ROWS = {"negative id": 15, "empty file": 23, "only comments": 23, "only a header": 23} | {
    kind: 18 for kind in BAD_GRAPHS if "weight" in kind
}


def marked(kinds, rows):
    """Every kind with its row of the scoreboard, where it has one."""
    return [pytest.param(kind, marks=[pytest.mark.fault(rows[kind])] if kind in rows else []) for kind in kinds]


@pytest.mark.parametrize("kind", marked(BAD_GRAPHS, GRAPH_ROWS))
def test_bad_graphs(embed, kind):
    content, words = BAD_GRAPHS[kind]
    is_refused(embed({"edges.csv": content}, *FAST), 2, *words)


@pytest.mark.parametrize("graph", ["missing.csv", "missing.npz", "folder.csv", "edges.doc"])
def test_files_that_are_not_there_or_not_graphs(embed, tmp_path, graph):
    (tmp_path / "folder.csv").mkdir()
    is_refused(embed({"edges.doc": EDGES}, *FAST, graph=graph), 2, graph)


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv.gz"])
def test_damaged_archives(embed, ending):
    is_refused(embed({f"edges{ending}": b"PK\x03\x04 not really"}, *FAST, graph=f"edges{ending}"), 2, f"edges{ending}")


BAD_FEATURES = {
    "id beyond the features": ("f.npy", npy(np.ones((20, 2))), ["20"]),
    "NaN feature": ("f.npy", npy(np.where(np.arange(60).reshape(30, 2) == 9, np.nan, 1.0)), ["row 4", "nan"]),
    "infinite feature": ("f.npy", npy(np.where(np.arange(60).reshape(30, 2) == 9, np.inf, 1.0)), ["row 4", "inf"]),
    "text features": ("f.npy", npy(np.full((30, 2), "x")), ["f.npy"]),
    "complex features": ("f.npy", npy(np.full((30, 2), 1j)), ["f.npy"]),
    "one number per node": ("f.npy", npy(np.ones(30)), ["f.npy"]),
    "pickled objects": ("f.npy", npy(np.array([{}] * 30, dtype=object)), ["f.npy", "pickle"]),
    "fewer rows than nodes": ("f.csv", features_csv(GOOD_ROWS[:-1]), ["f.csv", "29"]),
    "a node twice": ("f.csv", features_csv([*GOOD_ROWS, GOOD_ROWS[3]]), ["f.csv", "3"]),
    "NaN in a table": ("f.csv", features_csv([*GOOD_ROWS[:-1], (29, "nan", 1)]), ["f.csv", "nan"]),
    "text in a table": ("f.csv", features_csv([*GOOD_ROWS[:-1], (29, "red", 1)]), ["f.csv", "red"]),
    "empty table": ("f.csv", "", ["f.csv", "empty"]),
}


FEATURE_ROWS = {
    "id beyond the features": 16,
    "NaN feature": 14,
    "infinite feature": 14,
    "NaN in a table": 14,
    "text features": 26,
    "complex features": 26,
    "pickled objects": 26,
    "fewer rows than nodes": 25,
    "a node twice": 18,
}


@pytest.mark.parametrize("kind", marked(BAD_FEATURES, FEATURE_ROWS))
def test_bad_features(embed, kind):
    name, content, words = BAD_FEATURES[kind]
    is_refused(embed({"edges.csv": EDGES, name: content}, "--features", f"@{name}", *FAST), 2, *words)


@pytest.mark.fault(25)
def test_more_feature_rows_than_nodes_of_a_fixed_graph(embed, tmp_path):
    matrix = read_graph(np.array(RING)).adjacency
    parts = {"adj_data": matrix.data, "adj_indices": matrix.indices, "adj_indptr": matrix.indptr}
    np.savez(tmp_path / "g.npz", **parts, adj_shape=matrix.shape)
    result = embed({"f.npy": npy(np.ones((31, 2)))}, "--features", "@f.npy", *FAST, graph="g.npz")
    is_refused(result, 2, "31", "30")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "l2g3g"], ["unknown method 'l2g3g'", "did you mean 'l2g2g'"]),
        (["--preset", "fast"], ["unknown preset 'fast'"]),
        pytest.param(["--dim", "0"], ["--dim is 0", "at least 1"], marks=pytest.mark.fault(38)),
        (["--dim", "-4"], ["--dim is -4"]),
        pytest.param(["--patches", "0"], ["--patches is 0", "at least 1"], marks=pytest.mark.fault(38)),
        pytest.param(["--patches", "31", "--method", "l2g2g"], ["31 patches", "30 nodes"], marks=pytest.mark.fault(38)),
        (["--layers", "0"], ["--layers is 0"]),
        pytest.param(["--epochs", "-1"], ["--epochs is -1"], marks=pytest.mark.fault(38)),
        (["--lr", "0"], ["--lr is 0"]),
        (["--seed", "-1"], ["--seed is -1"]),
        (["--partition", "louvain"], ["unknown partition 'louvain'"]),
        (["--dim", "1.5"], ["--dim"]),
        (["--features", "@nothing.npy"], ["nothing.npy", "no such"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_bad_options(embed, arguments, words):
    is_refused(embed({"edges.csv": EDGES}, *arguments), 2, *words)


def test_options_are_checked_before_the_graph_is_read(embed):
    is_refused(embed({}, "--dim", "0", graph="missing.csv"), 2, "--dim is 0")


@pytest.mark.fault(18)
@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("out/vectors.xlsx", ["vectors.xlsx", "unknown ending", ".parquet"]),
        ("out/vectors", ["unknown ending"]),
        ("nowhere/vectors.csv", ["nowhere", "no such folder"]),
        ("edges.csv/vectors.csv", ["edges.csv", "not a folder"]),
    ],
)
def test_outputs_that_cannot_be(embed, tmp_path, output, words):
    is_refused(embed({"edges.csv": EDGES}, *FAST, output=output), 2, *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "out"]


def test_outputs_are_checked_before_the_graph_is_read(embed):
    is_refused(embed({}, *FAST, graph="missing.csv", output="out/vectors.xlsx"), 2, "unknown ending")


def test_ids_that_the_format_cannot_hold_are_refused_before_training(embed, monkeypatch):
    monkeypatch.setattr("l2g2g.training.loop.Training.run", lambda *_, **__: pytest.fail("trained for nothing"))
    names = "\n".join(f"node {u},node {v}" for u, v in RING) + "\n"
    is_refused(embed({"edges.csv": names}, *FAST, output="out/vectors.txt"), 2, "vectors.txt", "node 0")


def test_a_folder_that_cannot_be_written_to(embed, tmp_path):
    # Root may write anywhere but into /proc; everyone else is stopped by the permission.
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    output = "/proc/vectors.csv" if os.access(folder, os.W_OK) else "locked/vectors.csv"
    code, err, _ = embed({"edges.csv": EDGES}, *FAST, output=output)
    assert code == 3
    (line,) = err.splitlines()
    assert line.startswith("l2g2g: ")
    assert "cannot be written to" in line
    assert list(folder.iterdir()) == []


def test_a_run_that_fails_leaves_the_old_file_alone(embed, tmp_path):
    assert embed({"edges.csv": EDGES}, *FAST)[0] == 0
    output = tmp_path / "out" / "vectors.parquet"
    before = output.read_bytes()
    code, err, _ = embed({"edges.csv": EDGES}, *FAST, "--lr", "1e30")
    assert (code, len(err.splitlines())) == (4, 1)
    assert output.read_bytes() == before
    assert [path.name for path in output.parent.iterdir()] == ["vectors.parquet"]


DIALECTS = {
    "header": ("edges.csv", "source,target\n" + EDGES),
    "tabs": ("edges.tsv", EDGES.replace(",", "\t")),
    "tabs and header": ("edges.txt", "from\tto\n" + EDGES.replace(",", "\t")),
    "blanks": ("edges.txt", EDGES.replace(",", "   ")),
    "comments": ("edges.csv", "# a graph\n% of thirty\n" + EDGES.replace("\n", "\n# next\n", 3)),
    "windows": ("edges.csv", EDGES.replace("\n", "\r\n")),
    "packed": ("edges.csv.gz", gzip.compress(EDGES.encode())),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_dialects_give_the_same_bits(embed, tmp_path, method):
    arguments = ["--method", method, "--patches", "2", "--epochs", "3", "--dim", "3"]

    def vectors(name, content, output):
        assert embed({name: content}, *arguments, graph=name, output=output)[:2] == (0, "")
        return (tmp_path / output).read_bytes(), (tmp_path / f"{output}.ids.txt").read_text()

    expected = vectors("plain.csv", EDGES, "out/plain.npy")
    for dialect, (name, content) in DIALECTS.items():
        assert vectors(name, content, f"out/{dialect}.npy") == expected, dialect
    pq.write_table(pa.table({"a": [u for u, _ in RING], "b": [v for _, v in RING]}), tmp_path / "edges.parquet")
    assert embed({}, *arguments, graph="edges.parquet", output="out/table.npy")[:2] == (0, "")
    assert (tmp_path / "out" / "table.npy").read_bytes() == expected[0]
