"""`l2g2g align` and `l2g2g party`, from files to files."""

import json

import numpy as np
import pytest

from l2g2g.cli import main
from l2g2g.graphs.node_columns import read_embedding
from l2g2g.graphs.write import write_embedding


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return left.value.code


@pytest.fixture
def pieces(tmp_path):
    """Two overlapping pieces of one embedding, the second turned and shifted. Returns (truth, paths)."""
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(60, 3)).astype(np.float32)
    turn = np.linalg.qr(generator.normal(size=(3, 3)))[0].astype(np.float32)
    names = np.array([f"n{i:02d}" for i in range(60)], object)
    first, second = tmp_path / "first.parquet", tmp_path / "second.csv"
    write_embedding(first, truth[:40], names[:40])
    write_embedding(second, truth[20:] @ turn + 2.0, names[20:])
    return truth, (first, second)


def test_align_recovers_the_whole(pieces, tmp_path, capsys):
    truth, (first, second) = pieces
    out, page = tmp_path / "global.npy", tmp_path / "align.html"
    assert run("align", first, second, "-o", out, "--anchor", first, "--report", page) == 0
    ids, vectors = read_embedding(out)
    assert list(ids) == [f"n{i:02d}" for i in range(60)]
    np.testing.assert_allclose(vectors, truth, atol=1e-5)
    assert "share 20 to 20" in capsys.readouterr().out
    assert "<table>" in page.read_text()


def test_align_json_is_one_line(pieces, tmp_path, capsys):
    _, (first, second) = pieces
    assert run("align", first, second, "-o", tmp_path / "g.parquet", "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    row = json.loads(line)
    assert row["num_pairs"] == 1
    assert row["residual_after"] < 1e-5 < row["residual_before"]


def test_names_in_the_page_stay_text(pieces, tmp_path):
    _, (first, second) = pieces
    hostile = tmp_path / "<script>alert(1)<"
    hostile.mkdir()
    moved = hostile / "first.parquet"
    first.rename(moved)
    page = tmp_path / "align.html"
    assert run("align", moved, second, "-o", tmp_path / "g.parquet", "--report", page, "-q") == 0
    assert "<script>" not in page.read_text()
    assert "&lt;script&gt;" in page.read_text()


def test_parties_reach_the_joint_result_by_files(pieces, tmp_path):
    truth, paths = pieces
    shared = tmp_path / "shared.txt"
    shared.write_text("".join(f"n{i:02d}\n" for i in range(20, 40)))
    exports = []
    for path in paths:
        exports.append(tmp_path / f"{path.stem}.npz")
        assert run("party", "export", path, "--shared", shared, "-o", exports[-1]) == 0
        with np.load(exports[-1], allow_pickle=False) as archive:
            assert sorted(archive["nodes"].tolist()) == [f"n{i:02d}" for i in range(20, 40)]
            assert archive["coordinates"].shape == (20, 3)
    assert run("party", "solve", *exports, "-o", tmp_path / "transforms") == 0
    moved = {}
    for path in paths:
        out = tmp_path / f"{path.stem}-moved.parquet"
        assert run("party", "apply", path, tmp_path / "transforms" / f"{path.stem}.transform.npz", "-o", out) == 0
        moved[path.stem] = dict(zip(*read_embedding(out), strict=True))
    for i in range(20, 40):
        np.testing.assert_allclose(moved["first"][f"n{i}"], moved["second"][f"n{i}"], atol=1e-4)
    distances = np.linalg.norm(moved["second"]["n59"] - moved["first"]["n00"])
    assert distances == pytest.approx(np.linalg.norm(truth[59] - truth[0]), abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["missing.parquet"], "missing.parquet"),
        (["FIRST", "--weights", "odd"], "overlap"),
        (["FIRST", "--report", "page.txt"], ".html"),
    ],
)
def test_bad_input_is_one_line(pieces, tmp_path, capsys, arguments, word):
    _, (first, _) = pieces
    given = [str(first) if argument == "FIRST" else argument for argument in arguments]
    assert run("align", *given, "-o", tmp_path / "never.parquet") == 2
    message = capsys.readouterr().err.strip()
    assert message.startswith("l2g2g: ")
    assert word in message
    assert not (tmp_path / "never.parquet").exists()
