"""Threads and device of a run, and the time of its stages."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from l2g2g.config import Config
from l2g2g.core import instruction_set, is_built, set_backend, set_num_threads
from l2g2g.errors import NO_NATIVE_CORE, ResourceError, first_line
from l2g2g.runs.environment import available_cores
from l2g2g.training.checkpoint_writer import CheckpointWriter
from l2g2g.training.state import History

# Below this, threads gain nothing: most steps of an epoch are over before a second thread is awake.
_LITTLE_WORK = 1_600_000  # arcs times columns
_ARCS_PER_NODE = 8  # as many arcs cost as much as the layers and the decoder of one node


def choose_threads(config: Config, num_nodes: int, num_edges: int) -> int:
    """Return the number of threads: the configured one, or one for little work and all cores otherwise."""
    if config.threads:
        return config.threads
    work = (2 * num_edges + _ARCS_PER_NODE * num_nodes) * config.dim
    return 1 if work < _LITTLE_WORK else available_cores()


def prepare_torch(config: Config, num_nodes: int, num_edges: int) -> None:
    """Set threads and kernels of torch and of the native core. Raises ResourceError for an unusable device."""
    threads = choose_threads(config, num_nodes, num_edges)
    torch.set_num_threads(threads)
    set_num_threads(threads)
    set_backend(config.backend)
    if config.backend == "auto" and not is_built():
        _warn_of_missing_core()
    try:
        torch.empty(1, device=config.device)
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)
        raise ResourceError(f"device '{config.device}' cannot be used ({reason}); choose --device cpu") from error


@cache
def _warn_of_missing_core() -> None:
    """Log, once per process, that the slower reference kernels run."""
    logging.getLogger(__name__).warning(NO_NATIVE_CORE)


def describe_machine(config: Config, num_nodes: int, num_edges: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Move settings that change only the rounding of results out of `settings`, with facts about the machine."""
    del settings["threads"], settings["memory"], settings["backend"]
    return {
        "threads": choose_threads(config, num_nodes, num_edges),
        "device": settings.pop("device"),
        "torch": str(torch.__version__),
        "instructions": instruction_set(),
    }


@dataclass
class Stopwatch:
    """Measure seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    _measured: float = 0.0

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage, without the time of nested stages. Counts blocks that raise, too."""
        started, before = time.perf_counter(), self._measured
        try:
            yield
        finally:
            elapsed, within = time.perf_counter() - started, self._measured - before
            self.seconds[stage] = self.seconds.get(stage, 0.0) + elapsed - within
            self._measured = before + elapsed


def note_seconds(clock: Stopwatch, history: History, checkpoints: CheckpointWriter | None) -> None:
    """Add parts of the training time that are reported beside the total."""
    clock.seconds["epoch_median"] = statistics.median(history.epoch_seconds) if history.epoch_seconds else 0.0
    clock.seconds["synchronise"] = sum(history.refresh_seconds)
    if checkpoints is not None:
        clock.seconds["checkpoint"] = checkpoints.seconds


def show_seconds(seconds: float) -> str:
    """Format an estimate in seconds, minutes or hours.

    Example:
        >>> show_seconds(42), show_seconds(600), show_seconds(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
