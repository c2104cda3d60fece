"""Seconds by stage: a stage within another counts once, one that fails too; peak memory in bytes."""

import time
from types import SimpleNamespace

import pytest

from l2g2g.config import make_config
from l2g2g.runs.environment import peak_memory
from l2g2g.runs.resources import Stopwatch, choose_threads


def test_a_stage_within_another_counts_once(monkeypatch):
    times = iter([0.0, 1.0, 3.0, 3.5, 3.75, 4.0, 10.0, 12.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(times))
    clock = Stopwatch()
    with clock.measure("read"):
        with clock.measure("sort"):
            pass
        with clock.measure("read"):
            pass
    with clock.measure("write"):
        pass
    assert clock.seconds == pytest.approx({"sort": 2.0, "read": 2.0, "write": 2.0})


def test_a_stage_that_fails_is_noted_too(monkeypatch):
    times = iter([0.0, 1.0, 3.0, 4.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(times))
    clock = Stopwatch()
    with pytest.raises(ValueError, match="damaged"), clock.measure("read"), clock.measure("sort"):
        raise ValueError("damaged")
    assert clock.seconds == pytest.approx({"sort": 2.0, "read": 2.0})


@pytest.mark.parametrize(("platform", "expected"), [("linux", 7 * 1024), ("darwin", 7)])
def test_peak_memory_is_in_bytes_where_the_system_counts_kilobytes(monkeypatch, platform, expected):
    monkeypatch.setattr("sys.platform", platform)
    usage = SimpleNamespace(ru_maxrss=7)
    monkeypatch.setattr("l2g2g.runs.environment.resource.getrusage", lambda who: usage)
    assert peak_memory() == expected


@pytest.mark.parametrize(
    ("given", "num_nodes", "num_edges", "expected"),
    [(0, 3_000, 7_000, 1), (0, 10_000, 12_500, 4), (0, 1_000, 100_000, 4), (1, 100_000, 1_000_000, 1), (2, 10, 20, 2)],
    ids=["small", "many nodes", "many edges", "one asked for", "two asked for"],
)
def test_threads_are_those_asked_for_or_as_the_work_needs(monkeypatch, given, num_nodes, num_edges, expected):
    monkeypatch.setattr("l2g2g.runs.resources.available_cores", lambda: 4)
    config = make_config("gae", "default", threads=given)
    assert choose_threads(config, num_nodes, num_edges) == expected
