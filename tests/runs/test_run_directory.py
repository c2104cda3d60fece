"""Run directories: one run each, locked while it lasts, and resumed only as it was."""

import subprocess
import sys

import numpy as np
import pytest

from l2g2g import GAE, cli
from l2g2g.config import make_config
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.graph import Graph
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.runs.run_directory import differences, open_run
from l2g2g.training.checkpoint import CheckpointWarning

# Without the trial of structural columns, which is not saved: see below.
SMALL = {"dim": 4, "hidden": 8, "patches": 3, "threads": 1, "structure": "none"}
METHODS = {
    "l2g2g": {},
    "l2g2g aligned": {"rotate": True, "translate": True, "refresh_every": 3},
    "l2g2g through": {"rotate": True, "align_gradient": "through"},
    "l2g2g in turn": {"together": False},
    "gae": {},
    "gae+l2g": {},
    "fastgae": {"sample_size": 40},
    "vl2g2g": {},
    "gae accurate": {"preset": "accurate", "epochs": 24, "hidden": 4},
    "l2g2g paper": {"preset": "paper"},
}


class Stop(Exception):
    pass


def config_of(name, **more):
    options = {"epochs": 23, **SMALL, **METHODS[name], **more}
    return make_config(name.split()[0], options.pop("preset", "default"), **options)


def embed(graph, config, folder=None, *, resume=False, stop=None, **options):
    """Embed, keeping every epoch; stop: leave by an error in this epoch."""

    def on_epoch(report):
        if report.epoch == stop:
            raise Stop

    with open_run(folder, resume=resume, interval=0 if folder else None) as directory:
        return embed_graph(graph, config, directory=directory, on_epoch=on_epoch, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_resumed_runs_end_with_the_same_bits(noisy, tmp_path, name):
    whole = embed(noisy, config_of(name))
    stops = np.random.default_rng(len(name)).choice(np.arange(2, whole.trained.history.num_epochs), 3, replace=False)
    for stop in map(int, stops):
        folder = tmp_path / str(stop)
        with pytest.raises(Stop):
            embed(noisy, config_of(name), folder, stop=stop)
        run = embed(noisy, config_of(name), folder, resume=True)
        assert run.describe()["resumed_from_epoch"] == stop - 1
        assert run.embedding.tobytes() == whole.embedding.tobytes()
        first, second = whole.trained.history, run.trained.history
        assert (first.losses, first.validations, first.best_epoch) == (
            second.losses,
            second.validations,
            second.best_epoch,
        )


def test_a_run_that_ended_early_ends_there_again(noisy, tmp_path):
    config = config_of("gae", epochs=400, lr=0.2, patience=2, validate_every=1)
    first = embed(noisy, config, tmp_path / "run")
    assert first.trained.history.num_epochs < 400
    again = embed(noisy, config, tmp_path / "run", resume=True)
    assert again.trained.history.num_epochs == again.trained.history.resumed_from_epoch
    assert again.trained.history.num_epochs == first.trained.history.num_epochs
    assert again.embedding.tobytes() == first.embedding.tobytes()


@pytest.mark.slow
def test_a_training_that_recovered_is_resumed_with_its_smaller_steps(noisy, tmp_path):
    config = config_of("gae", epochs=40, lr=5.0)
    whole = embed(noisy, config)
    assert whole.trained.history.recoveries > 0
    for stop in (3, 6, 30):
        with pytest.raises(Stop):
            embed(noisy, config, tmp_path / str(stop), stop=stop)
        run = embed(noisy, config, tmp_path / str(stop), resume=True)
        assert run.embedding.tobytes() == whole.embedding.tobytes()
        assert run.trained.history.recoveries == whole.trained.history.recoveries


def test_another_graph_or_other_settings_are_refused_with_the_differences(noisy, planted, tmp_path):
    with pytest.raises(Stop):
        embed(noisy, config_of("gae"), tmp_path, stop=5)
    with pytest.raises(
        InputError, match=r"settings lr was [0-9.]+, is 0.5; settings seed was 0, is 3; run it as it was"
    ):
        embed(noisy, config_of("gae", lr=0.5, seed=3), tmp_path, resume=True)
    with pytest.raises(InputError, match=r"graph num_features was 12, is 4; graph features not the same"):
        embed(planted, config_of("gae"), tmp_path, resume=True)
    fewer = Graph.from_arcs(*(part[1:] for part in noisy.edges()), num_nodes=120, features=noisy.features)
    with pytest.raises(InputError, match=r"graph num_edges was \d+, is \d+; graph edges not the same"):
        embed(fewer, config_of("gae"), tmp_path, resume=True)
    with pytest.raises(InputError, match=r"settings method was gae, is l2g2g"):
        embed(noisy, config_of("l2g2g"), tmp_path, resume=True)
    with pytest.raises(InputError, match=r"validation_fraction was 0.05, is 0.0"):
        embed(noisy, config_of("gae"), tmp_path, resume=True, validation_fraction=0.0)
    with pytest.warns(CheckpointWarning, match=r"machine threads was 1, is 2.*not the same bits"):
        embed(noisy, config_of("gae", threads=2), tmp_path, resume=True)


def test_differences_in_words():
    then = {"graph": {"edges": "a" * 64, "num_nodes": 3}, "settings": {"lr": 1, "old": 2}}
    now = {"graph": {"edges": "b" * 64, "num_nodes": 3}, "settings": {"lr": 1, "new": 3}}
    assert differences(then, now) == [
        "graph edges not the same",
        "settings new was not given, is 3",
        "settings old was 2, is not given",
    ]
    assert differences(now, now) == []


def test_a_directory_holds_one_run(noisy, tmp_path):
    embed(noisy, config_of("gae", epochs=2), tmp_path)
    with pytest.raises(InputError, match="holds a run already; add --resume"):
        embed(noisy, config_of("gae", epochs=2), tmp_path)


def test_nothing_to_resume(noisy, tmp_path):
    with pytest.raises(InputError, match="nothing to resume"):
        embed(noisy, config_of("gae"), tmp_path / "none", resume=True)
    assert list(tmp_path.iterdir()) == []
    for options, name in (({"resume": True}, "--resume"), ({"interval": 3.0}, "--checkpoint-every")):
        with pytest.raises(InputError, match=f"{name} needs --run-dir"), open_run(None, **options):
            pass
    with pytest.raises(InputError, match="must not be negative"), open_run(tmp_path, interval=-1):
        pass


def test_a_run_that_ended_before_anything_was_saved_starts_anew(noisy, tmp_path):
    with open_run(tmp_path):
        pass
    with pytest.warns(CheckpointWarning, match="nothing was saved of embed; it starts anew"):
        assert embed(noisy, config_of("gae"), tmp_path, resume=True).describe()["resumed_from_epoch"] == 0


def test_a_second_run_is_refused_while_the_first_lasts(tmp_path):
    refused = pytest.raises(InputError, match=r"another process is using it \(process \d+\)")
    with open_run(tmp_path), refused, open_run(tmp_path):
        pass
    with open_run(tmp_path):
        pass


@pytest.mark.slow
def test_the_lock_dies_with_its_process(tmp_path):
    hold = "import sys, time; from l2g2g.runs.run_directory import open_run\n"
    hold += "with open_run(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"process {holder.pid}\)"), open_run(tmp_path):
            pass
        holder.kill()
    with open_run(tmp_path):
        pass


def test_places_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, not a directory"), open_run(tmp_path / "file"):
        pass
    with pytest.raises(ResourceError, match="cannot be written to"), open_run("/proc/run"):
        pass


@pytest.mark.slow
def test_evaluations_keep_every_training_apart(noisy, tmp_path):
    def evaluate(folder, *, resume=False, stop=None, seeds=(0, 1)):
        def on_epoch(report):
            if report.epoch == stop and config.seed == 1:
                raise Stop

        rows = []
        with open_run(folder, resume=resume, interval=0 if folder else None) as directory:
            for config in (config_of("gae", epochs=8, seed=seed) for seed in seeds):
                rows.append(evaluate_graph(noisy, config, on_epoch=on_epoch, directory=directory)[0])
        return rows

    whole = evaluate(None)
    with pytest.raises(Stop):
        evaluate(tmp_path, stop=5)
    rows = evaluate(tmp_path, resume=True)
    assert [row["resumed_from_epoch"] for row in rows] == [8, 4]
    assert [(row["auc"], row["ap"]) for row in rows] == [(row["auc"], row["ap"]) for row in whole]


def test_estimators_resume(noisy, tmp_path):
    options = {"dim": 4, "epochs": 6, "threads": 1}
    whole = GAE(**options).fit(noisy)
    GAE(**options, run_dir=tmp_path / "run").fit(noisy)
    again = GAE(**options, run_dir=tmp_path / "run", resume=True).fit(noisy)
    assert again.embedding_.tobytes() == whole.embedding_.tobytes()
    assert again.history_.resumed_from_epoch == 6
    again.save(tmp_path / "model")  # a folder of a run is no part of a model
    assert GAE.load(tmp_path / "model").run_dir is None


@pytest.mark.filterwarnings("default")
def test_evaluate_refuses_to_resume_other_trainings(capsys, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{u},{(u + step) % 40}\n" for u in range(40) for step in (1, 2)))
    base = ["evaluate", str(edges), "--run-dir", str(tmp_path / "run"), "--json", "--epochs", "2", "--dim", "3"]
    codes = []
    for extra in (["-m", "gae"], ["-m", "vgae", "--resume"], ["-m", "gae", "-m", "vgae", "--resume"]):
        with pytest.raises(SystemExit) as stop:
            cli.main([*base, *extra])
        codes.append((stop.value.code, capsys.readouterr()))
    assert [code for code, _ in codes] == [0, 2, 0]
    assert "holds gae-seed-0, and not vgae-seed-0" in codes[1][1].err
    assert len(codes[2][1].out.splitlines()) == 2
    assert codes[2][1].err == f"l2g2g: {tmp_path / 'run'}: nothing was saved of vgae-seed-0; it starts anew\n"
