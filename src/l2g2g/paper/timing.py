"""Timing: short runs whose seconds are of interest, not their scores."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from l2g2g.paper.cells import AnyCell, Cell
from l2g2g.paper.contenders import CONTENDERS
from l2g2g.paper.results import Row, epoch_seconds, pick
from l2g2g.reports.charts import Series

EPOCHS, QUICK_EPOCHS = 20, 5


def timing_options(quick: bool, **more: Any) -> dict[str, Any]:
    """So many epochs, without early stopping."""
    return {"epochs": QUICK_EPOCHS if quick else EPOCHS, "patience": 0, **more}


def timing_cell(dataset: str, contender: str, quick: bool, seed: int = 0, **more: Any) -> AnyCell:
    """A run for its times. more: settings that are varied."""
    chosen = CONTENDERS[contender]
    return Cell(dataset, chosen.method, chosen.preset, timing_options(quick, **more), seed)


def epoch_times(rows: Iterable[Row], dataset: str, contender: str, quick: bool, **more: Any) -> list[float]:
    """Seconds of an epoch, of every seed."""
    found = pick(rows, dataset=dataset, contender=contender, options=timing_options(quick, **more))
    return [epoch_seconds(row) for row in found]


def time_series(label: str, times: dict[float, list[float]], colour: int) -> Series:
    """Medians, with a band from the fastest repetition to the slowest. times: by x."""
    bounds = [(min(own), max(own)) for own in times.values()]
    return Series(label, list(times), [median(own) for own in times.values()], bounds, colour=colour)
