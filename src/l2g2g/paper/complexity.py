"""Complexity: how the time of an epoch grows in N, M, F, k and L, beside the paper's complexity table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from l2g2g.paper.cells import CONTENDERS, DEFAULT_MEANS, PATCHED, AnyCell, choose_contenders
from l2g2g.paper.results import Row, epoch_seconds, pick
from l2g2g.paper.study import Choice, time_series, timing_options
from l2g2g.reports.charts import Chart, Panel
from l2g2g.reports.page import Block, DataTable, Entry

TITLE = "Complexity"


@dataclass(frozen=True)
class Point:
    """One graph and one setting of a sweep. value: of what is varied."""

    value: int
    dataset: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """One quantity varied, the others constant.

    Attributes:
        bound: The exponent that the paper's table gives at most.
        other_bounds: The same for contenders whose terms differ: aligning costs kF³ once after training for GAE+L2G,
            and kF³ · F in every epoch for L2G2G as the table is printed.
    """

    name: str
    title: str
    points: list[Point]
    bound: float
    contenders: tuple[str, ...] = tuple(CONTENDERS)
    other_bounds: dict[str, float] = field(default_factory=dict)

    def bound_of(self, contender: str) -> float:
        """The largest exponent that the paper's table gives for a contender."""
        return self.other_bounds.get(contender, self.bound)


def sweeps(quick: bool) -> list[Sweep]:
    """N with M / N constant; M, F, k and L each with the rest constant; and N for the decoder of all pairs."""
    base_nodes, base_edges, base_features = (2_000, 10_000, 32) if quick else (16_000, 160_000, 128)
    steps = (1, 2, 4) if quick else (1, 2, 4, 8)
    # FastGAE scores all pairs of a sample in any case, and the default scores pairs of all nodes.
    all_pairs = ("gae", "gae+l2g", "l2g2g")

    def sized(nodes: int = base_nodes, edges: int = base_edges, features: int = base_features) -> str:
        return f"sized-{nodes}-{edges}-{features}"

    small = (500, 1000) if quick else (1000, 2000, 4000)
    counts = (2, 10) if quick else (2, 5, 10, 20, 40)
    depths = (1, 2, 4)
    alignment = {"gae+l2g": 3.0, "l2g2g": 4.0, "default": 4.0}
    return [
        Sweep(
            "n",
            "N (M / N constant)",
            [Point(s * base_nodes, sized(s * base_nodes, s * base_edges), {}) for s in steps],
            1,
        ),
        Sweep("m", "M (N constant)", [Point(s * base_edges, sized(edges=s * base_edges), {}) for s in steps], 1),
        Sweep(
            "f",
            "F",
            [Point(s * base_features, sized(features=s * base_features), {}) for s in steps],
            2,
            other_bounds=alignment,
        ),
        Sweep(
            "k",
            "k patches",
            [Point(count, sized(), {"patches": count}) for count in counts],
            1,
            tuple(PATCHED),
            other_bounds={"gae+l2g": 0.0},
        ),
        Sweep("l", "L layers", [Point(depth, sized(), {"layers": depth}) for depth in depths], 1),
        Sweep(
            "pairs",
            "N, all pairs decoded",
            [Point(nodes, sized(nodes, 5 * nodes, base_features), {"pairs": "all"}) for nodes in small],
            2,
            all_pairs,
        ),
    ]


def plan(choice: Choice) -> list[AnyCell]:
    """Cells of all sweeps. The graphs are generated, so that --datasets has nothing to choose."""
    chosen = choose_contenders(choice.methods)
    cells = [
        CONTENDERS[name].cell(point.dataset, timing_options(choice.quick, **point.options), seed)
        for sweep in sweeps(choice.quick)
        for point in sweep.points
        for name in sweep.contenders
        if name in chosen
        for seed in range(choice.seeds or 1)
    ]
    return sorted({cell.key: cell for cell in cells}.values(), key=lambda cell: cell.dataset)


@dataclass(frozen=True)
class Fit:
    """time ∝ value^exponent. error: standard error, infinite with fewer than three points."""

    exponent: float
    error: float


def fit_exponent(values: Iterable[float], times: Iterable[float]) -> Fit | None:
    """Slope of a straight line through the logarithms; None with fewer than two points.

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


def times_of(rows: list[Row], sweep: Sweep, contender: str, quick: bool) -> dict[int, float]:
    """Seconds of an epoch by the varied quantity, the median over seeds."""
    return {value: median(own) for value, own in _runs_of(rows, sweep, contender, quick).items()}


def _runs_of(rows: list[Row], sweep: Sweep, contender: str, quick: bool) -> dict[int, list[float]]:
    found = {}
    for point in sweep.points:
        options = timing_options(quick, **point.options)
        own = pick(rows, dataset=point.dataset, contender=contender, options=options)
        found[point.value] = list(map(epoch_seconds, own))
    return {value: own for value, own in found.items() if own}


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Fitted exponents beside the paper's bounds, and a figure."""
    entries: list[list[str | Entry]] = []
    panels = []
    for sweep in sweeps(quick):
        series = []
        for name in sweep.contenders:
            runs = _runs_of(rows, sweep, name, quick)
            times = times_of(rows, sweep, name, quick)
            fit = fit_exponent(times, times.values())
            if fit is None:
                continue
            error = "" if np.isinf(fit.error) else f" ± {fit.error:.2f}"
            within = "yes" if fit.exponent <= sweep.bound_of(name) + 0.15 else "no"
            span = f"{min(times):,} – {max(times):,}"
            exponents = [f"{fit.exponent:.2f}{error}", f"{sweep.bound_of(name):g}", within]
            entries.append([sweep.title, CONTENDERS[name].heading, span, *exponents])
            series.append(time_series(CONTENDERS[name], runs))
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
