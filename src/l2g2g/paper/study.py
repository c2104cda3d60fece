"""Common parts of the studies: selections, protocols, options of timed runs, series of points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Protocol, TypeAlias

from l2g2g.graphs import splits
from l2g2g.paper.cells import CONTENDERS, AnyCell, Contender
from l2g2g.paper.results import Row, deviation, limits, percents, pick
from l2g2g.reports.charts import Series, around
from l2g2g.reports.page import Block

PROTOCOLS: dict[splits.Protocol, str] = {
    "paper": "the paper's evaluation (validation edges and a self-loop for every node)",
    "heldout": "held-out links (no self-loops, nothing of the test seen)",
}
SHORT_PROTOCOLS = {"paper": "under the paper's evaluation", "heldout": "on held-out links"}
TIMED_EPOCHS, QUICK_TIMED_EPOCHS = 20, 5
ByX: TypeAlias = Mapping[float, list[float]] | Mapping[int, list[float]]


@dataclass(frozen=True)
class Choice:
    """Selections of the command line; None leaves the choice to the study."""

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    quick: bool = False

    def graphs_and_seeds(
        self, full: Mapping[str, int], quick: Mapping[str, int], otherwise: int = 1
    ) -> list[tuple[str, int]]:
        """Return (graph, seed) pairs to run, all seeds of one graph together.

        full, quick: graphs of the study and their number of seeds; otherwise: seeds of other graphs in a full run.
        """
        usual = quick if self.quick else full
        return [
            (name, seed)
            for name in self.datasets or usual
            for seed in range(self.seeds or usual.get(name, 1 if self.quick else otherwise))
        ]


class Study(Protocol):
    """A module with these names; one section of the report."""

    TITLE: str

    def plan(self, choice: Choice) -> list[AnyCell]:
        """Return all cells, grouped by graph."""

    def present(self, rows: list[Row], quick: bool) -> list[Block]:
        """Return tables, figures and text. rows: the latest line of each cell, those of earlier commands included."""


def timing_options(quick: bool, **more: Any) -> dict[str, Any]:
    """Return options of a timed run: a fixed number of epochs without early stopping, and more settings."""
    return {"epochs": QUICK_TIMED_EPOCHS if quick else TIMED_EPOCHS, "patience": 0, **more}


def score_series(contender: Contender, scores: ByX, joined: bool = True) -> Series:
    """Return means with bands of one standard deviation. scores: by x; empty lists are skipped."""
    found = {x: values for x, values in scores.items() if values}
    means = [fmean(values) for values in found.values()]
    bounds = around(means, [deviation(values) for values in found.values()])
    return Series(contender.label, list(found), means, bounds, joined, colour=contender.colour)


def time_series(contender: Contender, times: ByX) -> Series:
    """Return medians with bands from the fastest repetition to the slowest. times: by x; empty lists are skipped."""
    found = {x: values for x, values in times.items() if values}
    bounds = [(min(values), max(values)) for values in found.values()]
    medians = [median(values) for values in found.values()]
    return Series(contender.label, list(found), medians, bounds, colour=contender.colour)


def by_position(rows: list[Row], datasets: list[str]) -> dict[float, list[Row]]:
    """Return the lines of every graph by its place on an axis of graphs."""
    return {float(place): pick(rows, dataset=dataset) for place, dataset in enumerate(datasets)}


def auc_by_graph(rows: list[Row], datasets: list[str]) -> list[Series]:
    """Return series of AUC by graph for all methods, and of the best possible AUC if known."""
    series = []
    for name, contender in CONTENDERS.items():
        runs = by_position(pick(rows, contender=name), datasets)
        scores = {place + contender.shift: percents(own, "auc") for place, own in runs.items()}
        series.append(score_series(contender, scores, joined=False))
    best = {place: limits(own) for place, own in by_position(rows, datasets).items()}
    known = {place: fmean(values) for place, values in best.items() if values}
    return [*series, Series("best possible", list(known), list(known.values()), joined=False, colour=6)]
