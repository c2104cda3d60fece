"""The command: plan and progress on stderr, results on stdout, files in the folder."""

import json

import pytest

from l2g2g.__main__ import main
from l2g2g.paper import ablation, patches


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *map(str, arguments)])
    return stop.value.code, *capfd.readouterr()


# Two epochs align badly, and say so.
@pytest.mark.filterwarnings("ignore::l2g2g.alignment.procrustes.AlignmentWarning")
@pytest.mark.slow
def test_a_small_ablation_from_start_to_files(capfd, monkeypatch, data_dir, tmp_path):
    monkeypatch.setattr(ablation, "QUICK_EPOCHS", 2)
    plan = ablation.plan  # that all variants have settings which can be used is in test_ablation
    monkeypatch.setattr(ablation, "plan", lambda choice: plan(choice)[::5])
    command = ["ablation", "--quick", "--datasets", "tiny", "--data-dir", data_dir, "--out", tmp_path, "--threads", 1]
    code, out, err = run(capfd, *command)
    assert code == 0
    total = len(ablation.variants()[::5])
    assert f"{total} cells on tiny; about" in err
    assert f"{total}/{total} tiny l2g2g default heldout seed 0: AUC" in err
    lines = [json.loads(text) for text in (tmp_path / "ablation.jsonl").read_text().splitlines()]
    assert len(lines) == total
    assert [row["error"] for row in lines if "error" in row] == []
    report = (tmp_path / "ablation.md").read_text()
    assert report in out
    assert "One change to the default, compared with the default." in report
    assert "<svg" in (tmp_path / "ablation.svg").read_text()
    assert (tmp_path / "ablation.png").stat().st_size > 10_000
    figure = (tmp_path / "ablation.svg").read_bytes()
    code, out, err = run(capfd, *command)  # again: nothing to do, the same report
    assert code == 0
    assert f"{total} of them done; about 0 s to go" in err
    assert len((tmp_path / "ablation.jsonl").read_text().splitlines()) == total
    assert (tmp_path / "ablation.md").read_text() == report
    assert (tmp_path / "ablation.svg").read_bytes() == figure


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "--seeds is 0; at least 1 is needed"),
        (["--workers", "0"], "--workers is 0; at least 1 is needed"),
        (["--seeds", "300000"], "--seeds is 300000; at most 1,000"),
        (["--threads", "0"], "--threads is 0; at least 1 is needed"),
        (["--datasets", ","], "--datasets is empty"),
        (["--datasets", "sized-0-0-0"], "sized-0-0-0: give 2 nodes, an edge and a feature"),
        (["--datasets", "sbm-smal"], "sbm-small"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(capfd, tmp_path, arguments, message):
    code, out, err = run(capfd, "ablation", "--quick", "--out", tmp_path, *arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert not (tmp_path / "ablation.jsonl").exists()


@pytest.mark.parametrize("place", ["file", "file/in it"])
def test_a_file_in_the_place_of_the_folder_is_refused(capfd, tmp_path, place):
    (tmp_path / "file").write_text("something of mine")
    code, out, err = run(capfd, "datasets", "--quick", "--out", tmp_path / place)
    assert (code, out) == (2, "")
    assert err == f"l2g2g: {tmp_path / place}: is or lies in a file; give a folder\n"
    code, _, err = run(capfd, "report", "--out", tmp_path / "file")
    assert code == 2
    assert "is a file, not a folder" in err
    assert (tmp_path / "file").read_text() == "something of mine"


def test_methods_that_a_study_does_not_have_are_told(capfd, tmp_path):
    code, _, err = run(capfd, "patches", "--quick", "--methods", "gae", "--out", tmp_path)
    assert code == 2
    assert "nothing to run: patches has no cell with these --methods and --datasets" in err


@pytest.mark.slow
def test_where_no_cell_goes_well_the_command_fails_too(capfd, data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(patches, "QUICK_COUNTS", (5000,))
    command = ["patches", "--datasets", "tiny", "--quick", "--data-dir", data_dir, "--methods", "l2g2g"]
    code, out, err = run(capfd, *command, "--threads", 1, "--out", tmp_path)
    assert code == 2
    assert "all 2 cells failed, the first with InputError: 5000 patches were asked for" in err.splitlines()[-1]
    assert "Cells that failed" in out


def test_a_quick_folder_is_read_as_one_and_refused_commands_leave_no_trace(capfd, data_dir, tmp_path):
    command = ["datasets", "--datasets", "TINY,tiny", "--data-dir", data_dir, "--quick", "--out", tmp_path]
    assert run(capfd, *command)[0] == 0
    lines = (tmp_path / "datasets.jsonl").read_text().splitlines()
    assert [json.loads(line)["cell"]["dataset"] for line in lines] == ["tiny"]  # one graph by two spellings
    page = (tmp_path / "report.html").read_bytes()
    assert run(capfd, *command, "--datasets", "tinny")[0] == 2
    assert (tmp_path / "commands.txt").read_text().count("\n") == 1
    code, _, err = run(capfd, "report", "--out", tmp_path)
    assert code == 2
    assert err.endswith("holds a quick run; add --quick, or give another --out\n")
    assert (tmp_path / "report.html").read_bytes() == page


def test_without_a_command_there_is_help_and_nothing_else(capfd):
    code, out, err = run(capfd)
    assert code == 2
    assert "training-time" in out + err
    assert "l2g2g:" not in out + err


def test_help(capfd):
    code, out, _ = run(capfd, "ablation", "--help")
    assert code == 0
    for option in ("--datasets", "--seeds", "--data-dir", "--quick", "--out", "--workers"):
        assert option in out
