"""`embed --model` and `embed --warm-start`, from a table with names to new nodes in the same coordinates."""

import json

import numpy as np
import pytest

from l2g2g import GAE, cli
from l2g2g.estimators.estimator import load_model
from l2g2g.graphs.node_columns import read_embedding

FAST = ["--epochs", "4", "--dim", "4", "--patches", "2", "--structure", "none"]


def write_graph(folder, name, edges, features):
    """An edge list and a feature table of named nodes."""
    (folder / f"{name}.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in edges))
    rows = "".join(f"{node}," + ",".join(repr(float(value)) for value in row) + "\n" for node, row in features.items())
    head = ",".join(["id", *(f"f{column}" for column in range(12))])
    (folder / f"{name}-features.csv").write_text(f"{head}\n{rows}")
    return [folder / f"{name}.csv", "--features", folder / f"{name}-features.csv"]


@pytest.fixture(scope="module")
def files(noisy, tmp_path_factory):
    """The first hundred nodes; all of them; and the last twenty with their edges and features only."""
    folder = tmp_path_factory.mktemp("graphs")
    edges = [(f"n{u}", f"n{v}") for u, v in zip(*noisy.edges(), strict=True)]
    features = {f"n{node}": row for node, row in enumerate(noisy.features)}
    names = [f"n{node}" for node in range(120)]
    old = set(names[:100])
    return {
        "old": write_graph(
            folder, "old", [pair for pair in edges if set(pair) <= old], {name: features[name] for name in names[:100]}
        ),
        "all": write_graph(folder, "all", edges, features),
        "new": write_graph(
            folder,
            "new",
            [pair for pair in edges if not set(pair) <= old],
            {name: features[name] for name in names[100:]},
        ),
    }


@pytest.fixture(scope="module")
def finished(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    with pytest.raises(SystemExit) as stop:
        cli.main([str(a) for a in ["embed", *files["old"], "-o", folder / "old.csv", "--run-dir", folder, "-q", *FAST]])
    assert stop.value.code == 0
    return folder


def vectors_of(path):
    ids, vectors = read_embedding(path)
    return {str(name): vector for name, vector in zip(ids, vectors, strict=True)}


@pytest.mark.parametrize("which", ["all", "new"])
def test_new_nodes_come_by_name(run, files, finished, tmp_path, which):
    output = tmp_path / "grown.parquet"
    code, out, err = run("embed", *files[which], "--model", finished, "-o", output, "--json")
    assert (code, err) == (0, "")
    row = json.loads(out)
    assert (row["num_new"], row["epochs"], row["method"], row["dim"]) == (20, 0, "l2g2g", 4)
    assert row["num_known"] == row["num_nodes"] - 20
    assert set(row) >= {"preset", "resumed_from_epoch", "num_patches", "seconds", "peak_memory_bytes", "output"}
    before, after = vectors_of(finished / "old.csv"), vectors_of(output)
    known = set(before) & set(after)
    assert len(known) == row["num_known"]
    published = dict(zip(load_model(finished).node_ids_, load_model(finished).embedding_, strict=True))
    assert all((published[name] == after[name]).all() for name in known)
    assert all(np.isfinite(after[f"n{node}"]).all() for node in range(100, 120))


def test_increment_and_whole_graph_give_new_nodes_the_same(run, files, finished, tmp_path):
    for which in ("all", "new"):
        assert run("embed", *files[which], "--model", finished, "-o", tmp_path / f"{which}.csv", "-q") == (0, "", "")
    whole, increment = (vectors_of(tmp_path / f"{which}.csv") for which in ("all", "new"))
    for node in range(100, 120):
        assert increment[f"n{node}"] == pytest.approx(whole[f"n{node}"], abs=1e-5)


def test_a_line_for_people_and_a_new_graph(run, files, finished, tmp_path):
    code, out, _ = run("embed", *files["all"], "--model", finished, "--new-graph", "-o", tmp_path / "a.csv")
    assert code == 0
    assert "120 vectors, 4-dimensional, 120 of them of new nodes" in out


def test_training_goes_on_from_a_finished_run(run, files, finished, tmp_path):
    arguments = ["embed", *files["all"], "--warm-start", finished, "-o", tmp_path / "a.parquet"]
    code, out, err = run(*arguments, "--run-dir", tmp_path / "next", "--json")
    assert (code, err) == (0, "")
    row = json.loads(out)
    assert (row["num_known"], row["num_new"], row["epochs"], row["dim"]) == (100, 20, 4, 4)
    assert 0 < row["mean_movement_relative"] < 1
    assert row["mean_movement"] > 0
    assert row["warm_start"] == str(finished)
    again = load_model(tmp_path / "next")
    assert again.embedding_.shape == (120, 4)
    assert again.get_params()["dim"] == 4
    code, out, _ = run(*arguments, "--epochs", 2, "--lr", 0.01)
    assert code == 0
    assert "20 new nodes; " in out
    assert "% of their length on average" in out


def test_a_model_that_was_saved_from_python_serves_the_command_line(run, noisy, tmp_path):
    GAE(dim=4, epochs=3).fit((noisy.adjacency, noisy.features)).save(tmp_path / "model")
    sources, targets = noisy.edges()
    lines = "".join(f"{u},{v}\n" for u, v in zip(sources, targets, strict=True))
    (tmp_path / "edges.csv").write_text("source,target\n" + lines + "200,3\n")
    code, _, err = run("embed", tmp_path / "edges.csv", "--model", tmp_path / "model", "-o", tmp_path / "a.csv")
    assert code == 2
    assert "has 0 features, the model was trained on 12" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "RUN", "--epochs", 3], "--model trains nothing; leave --epochs out"),
        (["--model", "RUN", "--method", "gae"], "leave --method out"),
        (["--model", "RUN", "--seed", 0], "leave --seed out"),
        (["--model", "RUN", "--no-validation"], "leave --no-validation out"),
        (["--model", "RUN", "--run-dir", "x"], "leave --run-dir out"),
        (["--model", "RUN", "--warm-start", "RUN"], "give one of them"),
        (["--new-graph"], "it needs --model"),
        (["--model", "nowhere"], "no such directory"),
        (["--warm-start", "nowhere"], "no such directory"),
        (["--warm-start", "RUN", "--dim", 8], "the model differs: dim was 4, is 8"),
        (["--warm-start", "RUN", "--method", "gae"], "the model differs: method was l2g2g, is gae"),
        (["--warm-start", "RUN", "--preset", "paper"], "leave --preset out"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, files, finished, tmp_path, options, message):
    options = [finished if option == "RUN" else option for option in options]
    code, out, err = run("embed", *files["all"], "-o", tmp_path / "a.csv", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "a.csv").exists()
