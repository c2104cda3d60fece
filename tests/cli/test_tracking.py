import sys

import pytest

from l2g2g import L2G2G, InputError, ResourceError, cli
from l2g2g.cli.run_flags import check_tracking, track, watch_training
from l2g2g.training.loop import EpochReport

pytest.importorskip("tensorboard")


def read_curves(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_curves_are_written(tmp_path):
    with track(tmp_path / "run") as listener:
        listener(EpochReport(1, 0.5, 0.1))
        listener(EpochReport(2, 0.25, 0.1, validation=0.75, refreshed=True, measure=lambda: 0.125))
    curves = read_curves(tmp_path / "run")
    assert curves == {
        "loss": [(1, 0.5), (2, 0.25)],
        "validation AUC": [(2, 0.75)],
        "refresh residual": [(2, 0.125)],
    }


def test_nothing_without_a_folder():
    with track(None) as listener:
        assert listener is None
    with watch_training(3, "gae", silent=True) as listener:
        assert listener is None


def test_a_bar_and_curves_at_once(tmp_path):
    with watch_training(3, "gae", silent=False, tensorboard=tmp_path) as listener:
        listener(EpochReport(1, 0.5, 0.1))
    assert read_curves(tmp_path)["loss"] == [(1, 0.5)]


def test_embed_writes_them(noisy, tmp_path, capsys):
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{u},{v}\n" for u, v in zip(*noisy.edges(), strict=True)))
    options = ["--epochs", "6", "--dim", "4", "--patches", "2", "--separate-encoders", "-q"]
    with pytest.raises(SystemExit) as stop:
        cli.main(
            ["embed", str(edges), "-o", str(tmp_path / "out.npy"), "--tensorboard", str(tmp_path / "tb"), *options]
        )
    assert stop.value.code == 0, capsys.readouterr().err
    curves = read_curves(tmp_path / "tb")
    assert [step for step, _ in curves["loss"]] == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in curves["validation AUC"]] == [5, 6]
    assert [step for step, _ in curves["refresh residual"]] == [1]


def test_several_trainings_are_kept_apart(noisy, tmp_path, capsys):
    edges = tmp_path / "edges.csv"
    edges.write_text("".join(f"{u},{v}\n" for u, v in zip(*noisy.edges(), strict=True)))
    options = [
        "-m",
        "gae",
        "-m",
        "l2g2g",
        "--epochs",
        "2",
        "--dim",
        "4",
        "--tensorboard",
        str(tmp_path / "tb"),
        "--json",
    ]
    with pytest.raises(SystemExit) as stop:
        cli.main(["evaluate", str(edges), *options])
    assert stop.value.code == 0, capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "tb").iterdir()) == ["gae-seed-0", "l2g2g-seed-0"]


def test_an_estimator_tells_whoever_listens(noisy):
    seen = []
    model = L2G2G(dim=4, patches=2, epochs=6, structure="none").fit(noisy, on_epoch=seen.append)
    assert [report.loss for report in seen] == model.history_.losses
    assert [(report.epoch, report.validation) for report in seen if report.validation is not None] == (
        model.history_.validations
    )


def test_what_cannot_be_tracked(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        check_tracking(tmp_path / "file")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"l2g2g\[tracking\]"):
        check_tracking(tmp_path)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ResourceError, match=r"l2g2g\[tracking\]"), track(tmp_path):
        pass
