"""Profiling: times add up, compiled functions are seen, results do not change, and nothing stays wrapped."""

import json
import threading
import time

import numpy as np
import pytest

from l2g2g.cli.profile import (
    Recording,
    _functions_of,
    _load_layers,
    _native_kernels,
    check_profile,
    describe_run,
    record,
    render_profile,
    write_profile,
)
from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.runs import training
from l2g2g.runs.evaluate import evaluate_graph


def evaluate(graph):
    return evaluate_graph(graph, make_config("l2g2g", "paper", patches=2, epochs=3, dim=2, hidden=16, threads=1))


def test_own_time_is_what_others_do_not_take(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    recording = Recording()
    inner = recording.wrap("inner", lambda: wait(2.0))

    def work():
        wait(1.0)
        inner()
        inner()
        wait(3.0)

    recording.wrap("outer", work)()
    wait(2.0)
    rows = {row["name"]: row for row in recording.take()}
    assert (rows["outer"]["seconds"], rows["outer"]["own_seconds"], rows["outer"]["share"]) == (8.0, 4.0, 0.4)
    assert (rows["inner"]["calls"], rows["inner"]["own_seconds"]) == (2, 4.0)
    assert recording.take() == []


def test_an_error_is_passed_on_and_counted():
    recording = Recording()
    with pytest.raises(ZeroDivisionError):
        recording.wrap("wrong", lambda: 1 / 0)()
    (row,) = recording.take()
    assert row["calls"] == 1


def test_other_threads_are_not_counted():
    recording = Recording()
    found = []
    worker = threading.Thread(target=recording.wrap("work", lambda: found.append(1)))
    worker.start()
    worker.join()
    assert found == [1]
    assert recording.take() == []


def functions_of_now():
    return {label: value for _, _, label, value in _functions_of(_load_layers()) + _native_kernels()}


@pytest.fixture(scope="module")
def recorded(planted):
    """(row, finished run, functions) under the clock; all functions are looked up, which takes a second."""
    before = functions_of_now()
    with record() as recording:
        row, run = evaluate(planted)
        functions = recording.take()
    assert functions_of_now() == before
    assert training.embed_nodes is before["training.loop.embed_nodes"]
    return row, run, functions


def test_a_run_is_the_same_under_the_clock(recorded, planted):
    plain, run = evaluate(planted)
    row, under_the_clock, functions = recorded
    assert row["auc"] == plain["auc"]
    np.testing.assert_array_equal(under_the_clock.embedding, run.embedding)
    names = {each["name"]: each for each in functions}
    assert names["graphs.splits.split_edges"]["calls"] == 1
    assert names["training.objective.accumulate_gradients"]["calls"] >= 1
    assert names["core.backward_layer"]["calls"] == 3
    assert "torch.Tensor.backward" not in names  # the native kernels have gradients of their own
    assert any(name.startswith("models.") for name in names)
    assert names["core.areas_under_curves"]["calls"] >= 1
    assert 0.5 < sum(each["share"] for each in functions) <= 1.001


def test_functions_that_compiled_ones_call_are_not_recorded():
    labels = {label for _, _, label, _ in _functions_of(_load_layers())}
    assert "core.randomness.random_word" not in labels


def test_the_file_and_the_tables(recorded, tmp_path):
    row, _, functions = recorded
    write_profile(tmp_path / "profile.json", [describe_run(row, functions)])
    (read,) = json.loads((tmp_path / "profile.json").read_text())["runs"]
    assert read["method"] == "l2g2g"
    assert set(read["stages"]) >= {"split", "partition", "train", "assemble", "evaluate"}
    own = [each["own_seconds"] for each in read["functions"]]
    assert own == sorted(own, reverse=True)
    stages, functions = render_profile(read)
    assert stages.row_count == len(read["stages"])
    assert functions.row_count == 15


def test_messages_of_ranks_have_a_table():
    """Of each rank in bytes, and the sum of what is sent in every epoch."""
    messages = {
        "gradient": {"bytes": 30.0, "times": 4, "by_rank": [10.0, 20.0]},
        "pair_rows": {"bytes": 3000.0, "times": 8, "by_rank": [1000.0, 2000.0]},
        "node_means": {"bytes": 7.0, "times": 1, "by_rank": [0.0, 7.0]},
    }
    row = {"method": "l2g2g", "epochs": 4, "messages": messages, "seconds": {"train": 1.0, "total": 2.0}}
    table = render_profile(describe_run(row, []))[-1]
    cells = [list(column.cells) for column in table.columns]
    assert cells[0] == ["pair rows", "gradient", "node means", "every epoch"]
    assert cells[2] == ["2", "1", "0.25", "3"]
    assert cells[3:] == [["1,000", "10", "0", "2,010"], ["2,000", "20", "7", "4,020"]]


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path):
    check_profile(tmp_path / "profile.json")
    for wrong in (tmp_path, tmp_path / "none" / "profile.json"):
        with pytest.raises(InputError, match="--profile"):
            check_profile(wrong)
