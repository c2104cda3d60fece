"""Series of charts: scores and times by graph or by a varied quantity."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median
from typing import TypeAlias

from l2g2g.paper.contenders import CONTENDERS, Contender
from l2g2g.paper.results import Row, deviation, limits, percents, pick
from l2g2g.reports.charts import Series, around

ByX: TypeAlias = Mapping[float, list[float]] | Mapping[int, list[float]]


def score_series(contender: Contender, scores: ByX, joined: bool = True) -> Series:
    """Means with bands of one standard deviation. scores: by x, empty ones are left out."""
    found = {x: values for x, values in scores.items() if values}
    means = [fmean(values) for values in found.values()]
    bounds = around(means, [deviation(values) for values in found.values()])
    return Series(contender.label, list(found), means, bounds, joined, colour=contender.colour)


def time_series(contender: Contender, times: ByX) -> Series:
    """Medians with bands from the fastest repetition to the slowest. times: by x, empty ones are left out."""
    found = {x: values for x, values in times.items() if values}
    bounds = [(min(values), max(values)) for values in found.values()]
    medians = [median(values) for values in found.values()]
    return Series(contender.label, list(found), medians, bounds, colour=contender.colour)


def by_position(rows: list[Row], datasets: list[str]) -> dict[float, list[Row]]:
    """Lines of every graph by its place on an axis of graphs."""
    return {float(place): pick(rows, dataset=dataset) for place, dataset in enumerate(datasets)}


def auc_by_graph(rows: list[Row], datasets: list[str]) -> list[Series]:
    """AUC of all methods side by side on an axis of graphs, and the best possible AUC where it is known."""
    series = []
    for name, contender in CONTENDERS.items():
        runs = by_position(pick(rows, contender=name), datasets)
        scores = {place + contender.shift: percents(own, "auc") for place, own in runs.items()}
        series.append(score_series(contender, scores, joined=False))
    best = {place: limits(own) for place, own in by_position(rows, datasets).items()}
    known = {place: fmean(values) for place, values in best.items() if values}
    return [*series, Series("best possible", list(known), list(known.values()), joined=False, colour=6)]
