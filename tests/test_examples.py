"""The examples run, leave what they say, and the README's code does what it shows."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

from l2g2g import read_graph
from l2g2g.graphs.write import read_embedding

ROOT = Path(__file__).parents[1]


def load_example(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_demo_leaves_embedding_results_and_figure(tmp_path, capsys):
    rows = load_example("demo").run(tmp_path, epochs=4)
    assert [row["method"] for row in rows] == ["gae", "fastgae", "gae+l2g", "l2g2g"]
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["auc"] for line in lines] == [row["auc"] for row in rows]
    _, vectors = read_embedding(tmp_path / "embedding.parquet")
    assert vectors.shape == (10_000, 16)
    assert np.isfinite(vectors).all()
    assert (tmp_path / "training.png").stat().st_size > 10_000
    assert "best possible" in capsys.readouterr().out


def test_two_runs_agree_better_after_alignment(planted, capsys):
    found = load_example("align_two_runs").run(read_graph(planted), epochs=40)
    assert found["residual_after"] < 0.9 * found["residual_before"]
    assert found["auc_aligned_mean"] > 0.5
    assert "residual_before" in capsys.readouterr().out


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S))
def test_python_of_the_readme_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_options_of_the_readme_exist():
    """Every l2g2g command in the README is understood; those on data of our own are run by other tests."""
    from typer.main import get_command

    from l2g2g.cli import app

    commands = get_command(app).commands
    lines = re.findall(r"^l2g2g (\w+)([^#\n]*)", (ROOT / "README.md").read_text(), re.M)
    assert {name for name, _ in lines} >= {"embed", "evaluate", "align", "datasets"}
    for name, rest in lines:
        command = commands[name]
        if rest.split()[:1] and rest.split()[0] in getattr(command, "commands", {}):  # a command of a group
            command = command.commands[rest.split()[0]]
        known = {option for item in command.params for option in item.opts}
        assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest)) <= known
