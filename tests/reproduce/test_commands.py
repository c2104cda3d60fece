"""The command: plan and progress on stderr, results on stdout, files in the folder."""

import json

import pytest

from l2g2g.cli import main
from l2g2g.reproduce import ablation


def run(capfd, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *map(str, arguments)])
    return stop.value.code, *capfd.readouterr()


def test_a_small_ablation_from_start_to_files(capfd, monkeypatch, data_dir, tmp_path):
    monkeypatch.setattr(ablation, "QUICK_EPOCHS", 2)
    command = ["ablation", "--quick", "--datasets", "tiny", "--data-dir", data_dir, "--out", tmp_path, "--threads", 1]
    code, out, err = run(capfd, *command)
    assert code == 0
    total = len(ablation.variants())
    assert f"{total} cells on tiny; about" in err
    assert f"{total}/{total} tiny l2g2g default heldout seed 0: AUC" in err
    lines = [json.loads(text) for text in (tmp_path / "ablation.jsonl").read_text().splitlines()]
    assert len(lines) == total
    assert not [row for row in lines if "error" in row]
    report = (tmp_path / "ablation.md").read_text()
    assert report in out
    assert "### One change to the default" in report
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
        (["--datasets", ","], "--datasets is empty"),
        (["--datasets", "sbm-smal"], "sbm-small"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(capfd, tmp_path, arguments, message):
    code, out, err = run(capfd, "ablation", "--quick", "--out", tmp_path, *arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert not (tmp_path / "ablation.jsonl").exists()


def test_help(capfd):
    code, out, _ = run(capfd, "ablation", "--help")
    assert code == 0
    for option in ("--datasets", "--seeds", "--data-dir", "--quick", "--out", "--workers"):
        assert option in out
