"""Stopwatch: seconds of a run by stage."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from l2g2g.training.checkpoint_writer import CheckpointWriter
from l2g2g.training.state import History


@dataclass
class Stopwatch:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    _measured: float = 0.0

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage, without that of stages within it."""
        started, before = time.perf_counter(), self._measured
        yield
        elapsed, within = time.perf_counter() - started, self._measured - before
        self.seconds[stage] = self.seconds.get(stage, 0.0) + elapsed - within
        self._measured = before + elapsed


def note_seconds(clock: Stopwatch, history: History, checkpoints: CheckpointWriter | None) -> None:
    """Note parts of the training time that are reported beside the whole."""
    clock.seconds["epoch_median"] = statistics.median(history.epoch_seconds) if history.epoch_seconds else 0.0
    clock.seconds["synchronise"] = sum(history.refresh_seconds)
    if checkpoints is not None:
        clock.seconds["checkpoint"] = checkpoints.seconds
