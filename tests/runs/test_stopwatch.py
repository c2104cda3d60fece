"""Seconds by stage: a stage within another counts once."""

import time

import pytest

from l2g2g.runs.resources import Stopwatch


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
