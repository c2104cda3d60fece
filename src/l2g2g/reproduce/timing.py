"""Timing: short runs whose seconds are of interest, not their scores."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from l2g2g.reproduce.cells import AnyCell, Cell
from l2g2g.reproduce.contenders import CONTENDERS
from l2g2g.reproduce.results import Row, epoch_seconds, pick

EPOCHS, QUICK_EPOCHS = 20, 5


def timing_options(quick: bool, **more: Any) -> dict[str, Any]:
    """So many epochs, without early stopping."""
    return {"epochs": QUICK_EPOCHS if quick else EPOCHS, "patience": 0, **more}


def timing_cell(dataset: str, contender: str, quick: bool, seed: int = 0, **more: Any) -> AnyCell:
    """A run for its times. more: settings that are varied."""
    chosen = CONTENDERS[contender]
    return Cell(dataset, chosen.method, chosen.preset, timing_options(quick, **more), seed)


def epoch_time(rows: Iterable[Row], dataset: str, contender: str, quick: bool, **more: Any) -> float | None:
    """Median over seeds of the seconds of an epoch; None where nothing was run."""
    found = pick(rows, dataset=dataset, contender=contender, options=timing_options(quick, **more))
    return median(epoch_seconds(row) for row in found) if found else None
