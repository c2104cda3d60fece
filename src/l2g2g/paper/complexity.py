"""Complexity: how the time of an epoch grows in N, M, F, k and L, beside the paper's complexity table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from l2g2g.paper.cells import CONTENDERS, DEFAULT_MEANS, PATCHED, AnyCell, choose_contenders
from l2g2g.paper.results import Row, epoch_seconds, pick
from l2g2g.paper.study import Choice, time_series, timing_options
from l2g2g.reports.charts import Chart, Panel
from l2g2g.reports.page import Block, DataTable, Entry

TITLE = "Complexity"


class Point(NamedTuple):
    """One graph and one setting of a sweep. value: of the varied quantity."""

    value: int
    dataset: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """One quantity varied, the others constant. bounds: the paper's largest exponent for each contender."""

    name: str
    title: str
    points: list[Point]
    bounds: dict[str, float]


def sweeps(quick: bool) -> list[Sweep]:
    """Vary N with M / N constant; M, F, k and L each with the rest constant; and N for the decoder of all pairs."""
    nodes, edges, features = (2_000, 10_000, 32) if quick else (16_000, 160_000, 128)
    steps = (1, 2, 4) if quick else (1, 2, 4, 8)
    base = f"sized-{nodes}-{edges}-{features}"
    linear = dict.fromkeys(CONTENDERS, 1.0)
    # Aligning costs kF³ once after training for GAE+L2G, and kF³ · F in every epoch for L2G2G as the table is printed.
    in_features = {**dict.fromkeys(CONTENDERS, 2.0), "gae+l2g": 3.0, "l2g2g": 4.0, "default": 4.0}
    # FastGAE scores all pairs of a sample in any case, and the default scores pairs of all nodes.
    all_pairs = dict.fromkeys(("gae", "gae+l2g", "l2g2g"), 2.0)
    grown = [Point(s * nodes, f"sized-{s * nodes}-{s * edges}-{features}", {}) for s in steps]
    denser = [Point(s * edges, f"sized-{nodes}-{s * edges}-{features}", {}) for s in steps]
    wider = [Point(s * features, f"sized-{nodes}-{edges}-{s * features}", {}) for s in steps]
    cut = [Point(count, base, {"patches": count}) for count in ((2, 10) if quick else (2, 5, 10, 20, 40))]
    deeper = [Point(depth, base, {"layers": depth}) for depth in (1, 2, 4)]
    small = (500, 1000) if quick else (1000, 2000, 4000)
    paired = [Point(count, f"sized-{count}-{5 * count}-{features}", {"pairs": "all"}) for count in small]
    return [
        Sweep("n", "N (M / N constant)", grown, linear),
        Sweep("m", "M (N constant)", denser, linear),
        Sweep("f", "F", wider, in_features),
        Sweep("k", "k patches", cut, {name: 0.0 if name == "gae+l2g" else 1.0 for name in PATCHED}),
        Sweep("l", "L layers", deeper, linear),
        Sweep("pairs", "N, all pairs decoded", paired, all_pairs),
    ]


def plan(choice: Choice) -> list[AnyCell]:
    """Plan the cells of all sweeps. The graphs are generated, so --datasets has nothing to choose."""
    chosen = choose_contenders(choice.methods)
    cells = [
        CONTENDERS[name].cell(point.dataset, timing_options(choice.quick, **point.options), seed)
        for sweep in sweeps(choice.quick)
        for point in sweep.points
        for name in sweep.bounds
        if name in chosen
        for seed in range(choice.seeds or 1)
    ]
    return sorted({cell.key: cell for cell in cells}.values(), key=lambda cell: cell.dataset)


class Fit(NamedTuple):
    """time ∝ value^exponent. error: standard error, infinite with fewer than three points."""

    exponent: float
    error: float


def fit_exponent(values: Iterable[float], times: Iterable[float]) -> Fit | None:
    """Fit a straight line to the logarithms; None with fewer than two points.

    Example:
        >>> fit_exponent([1, 2, 4], [3, 12, 48]).exponent.round(6)
        np.float64(2.0)
    """
    x, y = np.log(np.fromiter(values, float)), np.log(np.fromiter(times, float))
    if len(x) < 2:
        return None
    slope, start = np.polyfit(x, y, 1)
    if len(x) < 3:
        return Fit(slope, float("inf"))
    residual = y - start - slope * x
    return Fit(slope, float(np.sqrt((residual**2).sum() / (len(x) - 2) / ((x - x.mean()) ** 2).sum())))


def times_of(rows: list[Row], sweep: Sweep, contender: str, quick: bool) -> dict[int, list[float]]:
    """Return seconds of an epoch over seeds, by the varied quantity."""
    found = {}
    for point in sweep.points:
        options = timing_options(quick, **point.options)
        own = pick(rows, dataset=point.dataset, contender=contender, options=options)
        found[point.value] = list(map(epoch_seconds, own))
    return {value: own for value, own in found.items() if own}


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return the fitted exponents beside the paper's bounds, and a figure."""
    entries: list[list[str | Entry]] = []
    panels = []
    for sweep in sweeps(quick):
        series = []
        for name, bound in sweep.bounds.items():
            times = times_of(rows, sweep, name, quick)
            fit = fit_exponent(times, map(median, times.values()))
            if fit is None:
                continue
            error = "" if np.isinf(fit.error) else f" ± {fit.error:.2f}"
            exponents = [f"{fit.exponent:.2f}{error}", f"{bound:g}", "yes" if fit.exponent <= bound + 0.15 else "no"]
            span = f"{min(times):,} – {max(times):,}"
            entries.append([sweep.title, CONTENDERS[name].heading, span, *exponents])
            series.append(time_series(CONTENDERS[name], times))
        panels.append(Panel(sweep.title, series, sweep.title, "seconds per epoch", "log", "log", counts=True))
    return [
        "Time of an epoch against one quantity, the others constant, on generated graphs with dense features; the "
        "exponent is the slope in logarithms. The paper's table: GAE O(TF(LNF + LM + M)), "
        "FastGAE O(TF(LNF + LM + M/N)), GAE+L2G O(TF(LNF + LM + M) + kF³), L2G2G O(TF(LNF + LM + M + kF³)), with "
        "hidden layers as wide as the features; its general column has N² (or N²/k) for a decoder of all pairs instead "
        "of M. The bound is the largest exponent that these give. Here hidden layers have 32 and 16 columns whatever F "
        f"is, so growth in F is at most linear. {DEFAULT_MEANS}",
        DataTable(
            "Fitted exponents of the time of an epoch.",
            ["quantity", "method", "range", "exponent", "the paper's bound", "within (+ 0.15)"],
            entries,
            num_labels=3,
            num_notes=1,
        ),
        Chart(
            "complexity",
            "Seconds of one epoch against N, M, F, the patches and the layers; both scales log. Medians, with bands "
            "from the fastest repetition to the slowest.",
            panels,
        ),
    ]
