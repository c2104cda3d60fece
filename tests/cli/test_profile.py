"""--profile: a file with stages and functions of every run, tables on stderr, results as without it."""

import json

import pytest

from l2g2g import core
from l2g2g.cli import profile

FAST = ["--epochs", "3", "--dim", "4", "--threads", "1", "--patience", "0"]


@pytest.fixture
def edges(planted, tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in zip(*planted.edges(), strict=True)))
    return path


def test_embed_says_where_its_time_went(run, edges, tmp_path):
    file = tmp_path / "profile.json"
    code, _, err = run("embed", edges, "-o", tmp_path / "out.csv", "-m", "gae", "--profile", file, *FAST)
    assert code == 0
    assert "stages" in err
    (found,) = json.loads(file.read_text())["runs"]
    assert {"read", "split", "partition", "train", "assemble", "write"} <= set(found["stages"])
    assert found["functions"][0]["calls"] >= 1
    assert any(each["name"] == "training.loop.embed_nodes" for each in found["functions"])


def test_constants_of_the_native_core_stay_constants():
    native = core.native()
    if native is None:
        pytest.skip("the compiled core is not built")
    constants = {name: value for name, value in vars(native).items() if isinstance(value, int | tuple)}
    assert constants
    with profile.record():
        assert {name: getattr(native, name) for name in constants} == constants


@pytest.mark.slow
def test_evaluate_has_one_profile_per_method_and_the_same_results(run, edges, tmp_path):
    file = tmp_path / "profile.json"
    command = ["evaluate", edges, "-m", "gae", "-m", "fastgae", "--json", *FAST]
    code, plain, _ = run(*command)
    assert code == 0
    code, out, err = run(*command, "--profile", file)
    assert (code, err) == (0, "")
    scores = [[json.loads(line)["auc"] for line in text.splitlines()] for text in (plain, out)]
    assert scores[0] == scores[1]
    runs = json.loads(file.read_text())["runs"]
    assert [each["method"] for each in runs] == ["gae", "fastgae"]
    assert all(each["stages"]["train"] > 0 for each in runs)


def test_a_folder_that_is_not_there_is_refused_before_any_work(run, edges, tmp_path):
    code, _, err = run("embed", edges, "-o", tmp_path / "out.csv", "--profile", tmp_path / "none" / "file.json")
    assert code == 2
    assert "--profile" in err
    assert not (tmp_path / "out.csv").exists()
