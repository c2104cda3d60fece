"""Charts: lines with bands, points over categories and rows of dots, as SVG and PNG files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from l2g2g.errors import InputError
from l2g2g.reports.figures import nice_ticks

if TYPE_CHECKING:
    from l2g2g.training.loop import History

Scale = Literal["linear", "log"]
# Text stays text and identifiers repeat, so that the same chart gives the same SVG.
SVG_STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "l2g2g", "font.size": 9}
MARKERS = ["o", "s", "D", "^", "v", "P", "X"]
# Ticks within a power of ten, the coarse ones first.
_STEPS = [(1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)]


@dataclass(frozen=True)
class Series:
    """Points with one label and colour.

    Attributes:
        bounds: Lower and upper bound of each y, drawn as a band or, where points are not joined, as error bars.
        hollow: Whether markers have no fill.
        colour: Number in the cycle of colours.
    """

    label: str
    x: list[float]
    y: list[float]
    bounds: list[tuple[float, float]] | None = None
    joined: bool = True
    hollow: bool = False
    colour: int = 0


@dataclass(frozen=True)
class Panel:
    """One pair of axes. counts: whether x are counts, each with a tick; ticks: labels of x = 0, 1, 2, ..."""

    title: str
    series: list[Series]
    xlabel: str
    ylabel: str
    xscale: Scale = "linear"
    yscale: Scale = "linear"
    ticks: list[str] | None = None
    counts: bool = False


@dataclass(frozen=True)
class Chart:
    """A figure: panels side by side with one legend. name: of its files; caption: also the alternative text."""

    name: str
    caption: str
    panels: list[Panel]


def around(means: list[float], deviations: list[float]) -> list[tuple[float, float]]:
    """Bounds of a series: one deviation below and above."""
    return [(mean - deviation, mean + deviation) for mean, deviation in zip(means, deviations, strict=True)]


def require_matplotlib() -> Any:
    """pyplot with a backend for files; an InputError without matplotlib. Long runs call this before they start."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError("figures need matplotlib; install it with: pip install 'l2g2g[report]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw_chart(chart: Chart, folder: Path) -> list[Path]:
    """Write NAME.svg and NAME.png, and return their paths. Series and panels without points are left out."""
    pyplot = require_matplotlib()
    panels = _with_points(chart.panels)
    columns = 2 if len(panels) == 4 else min(3, len(panels)) or 1
    rows = -(-len(panels) // columns) or 1
    paths = [folder / f"{chart.name}.{ending}" for ending in ("svg", "png")]
    with pyplot.rc_context(SVG_STYLE):
        width = max(5.0, 3.9 * columns if len(panels) > 1 else 7.0)
        figure, grid = pyplot.subplots(
            rows, columns, figsize=(width, 3.3 * rows + 0.5), squeeze=False, layout="constrained"
        )
        known: dict[str, Any] = {}
        for axes, panel in zip(grid.flat, panels, strict=False):
            for label, handle in _draw_panel(axes, panel).items():
                known.setdefault(label, handle)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        if not panels:
            grid[0, 0].set_title("no results yet", fontsize=9, fontweight="bold", loc="left")
        if known:
            ncols = 5 if len(known) <= 5 else 4
            figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=ncols, frameon=False)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for both files
        save_figure(figure, paths)
    return paths


def save_figure(figure: Any, paths: Iterable[Path]) -> None:
    """Write a figure of pyplot to files, without the date, and close it."""
    for path in paths:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    require_matplotlib().close(figure)


def plot_training(histories: Mapping[str, History], path: Path, *, title: str = "") -> None:
    """Draw the loss of every epoch and the validation AUC of each method. path: .png, .svg or .pdf."""
    figure, (left, right) = require_matplotlib().subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, history in histories.items():
        (line,) = left.plot(range(1, history.num_epochs + 1), history.losses, label=name, linewidth=1.3)
        if history.validations:
            epochs, scores = zip(*history.validations, strict=True)
            right.plot(epochs, [100 * score for score in scores], color=line.get_color(), marker=".", linewidth=1.3)
    left.set(xlabel="epoch", ylabel="training loss", title="Loss")
    right.set(xlabel="epoch", ylabel="validation AUC in %", title="Validation")
    left.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(title)
    save_figure(figure, [path])


def _with_points(panels: list[Panel]) -> list[Panel]:
    filled = [replace(panel, series=[series for series in panel.series if series.x]) for panel in panels]
    return [panel for panel in filled if panel.series]


def _draw_panel(axes: Any, panel: Panel) -> dict[str, Any]:
    """Draw the series. Returns the handle of each for the legend."""
    handles = {series.label: _draw_series(axes, series) for series in panel.series}
    axes.set_xscale(panel.xscale)
    axes.set_yscale(panel.yscale)
    for axis, scale in ((axes.xaxis, panel.xscale), (axes.yaxis, panel.yscale)):
        if scale == "log":
            ticks = log_ticks(*axis.get_view_interval())
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.set_ticks([], minor=True)
    if panel.counts:
        places = sorted({x for series in panel.series for x in series.x})
        axes.set_xticks(places, count_labels(places))
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=30, ha="right")
        axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.set_title(panel.title, fontsize=9, fontweight="bold", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return handles


def _draw_series(axes: Any, series: Series) -> Any:
    style = {
        "color": f"C{series.colour}",
        "marker": MARKERS[series.colour % len(MARKERS)],
        "markersize": 5,
        "linestyle": "-" if series.joined else "none",
        "linewidth": 1.3,
        "markerfacecolor": "none" if series.hollow else f"C{series.colour}",
    }
    if series.bounds is not None and not series.joined:
        reach = [(y - low, high - y) for y, (low, high) in zip(series.y, series.bounds, strict=True)]
        return axes.errorbar(series.x, series.y, yerr=list(zip(*reach, strict=True)), elinewidth=1, **style)
    (line,) = axes.plot(series.x, series.y, **style)
    if series.bounds is not None:
        low, high = zip(*series.bounds, strict=True)
        axes.fill_between(series.x, low, high, color=f"C{series.colour}", alpha=0.15, linewidth=0)
    return line


def log_ticks(low: float, high: float) -> list[float]:
    """Four or more round numbers from low to high for a logarithmic axis, evenly spaced where possible.

    Example:
        >>> log_ticks(0.3, 2000), log_ticks(0.9, 6)
        ([1.0, 10.0, 100.0, 1000.0], [1.0, 1.5, 2.0, 3.0, 4.0, 5.0])
    """
    for steps in _STEPS:
        ticks = [float(f"{step}e{power}") for power in range(-30, 30) for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= 4:
            return ticks
    return nice_ticks(low, high)


def count_labels(counts: list[float]) -> list[str]:
    """Labels of counts, in thousands where all of them allow it.

    Example:
        >>> count_labels([500, 1000]), count_labels([8000, 16000])
        (['500', '1,000'], ['8 k', '16 k'])
    """
    if max(counts) >= 10_000 and all(count % 1000 == 0 for count in counts):
        return [f"{count / 1000:,.0f} k" for count in counts]
    return [f"{count:,.0f}" for count in counts]


@dataclass(frozen=True)
class DotRow:
    """One change. values: (mean, standard deviation) of the difference by graph."""

    label: str
    values: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class DotGroup:
    """Changes to the same base."""

    title: str
    rows: list[DotRow]


def plot_differences(groups: list[DotGroup], paths: list[Path], *, xlabel: str, title: str = "") -> None:
    """Draw the groups below each other on one axis, linear within ±1 and logarithmic beyond. paths: .svg, .png."""
    pyplot = require_matplotlib()
    names = list(dict.fromkeys(name for group in groups for row in group.rows for name in row.values))
    heights = [len(group.rows) + 1.3 for group in groups]
    with pyplot.rc_context(SVG_STYLE):
        figure, all_axes = pyplot.subplots(
            len(groups),
            1,
            figsize=(8.5, 0.24 * sum(heights) + 1.2),
            height_ratios=heights,
            sharex=True,
            squeeze=False,
            layout="constrained",
        )
        for axes, group in zip(all_axes[:, 0], groups, strict=True):
            _draw_group(axes, group, names)
        all_axes[-1, 0].set_xlabel(xlabel)
        handles, labels = all_axes[0, 0].get_legend_handles_labels()
        figure.suptitle(title)
        figure.legend(handles, labels, loc="outside lower center", ncols=max(1, len(names)), frameon=False)
        save_figure(figure, paths)


def _draw_group(axes: Any, group: DotGroup, names: list[str]) -> None:
    for number, name in enumerate(names):
        shift = 0.18 * (number - (len(names) - 1) / 2)
        places = [place + shift for place, row in enumerate(group.rows) if name in row.values]
        found = [row.values[name] for row in group.rows if name in row.values]
        axes.errorbar(
            [mean for mean, _ in found],
            places,
            xerr=[deviation for _, deviation in found],
            fmt=MARKERS[number % len(MARKERS)],
            color=f"C{number}",
            markersize=4.5,
            elinewidth=1,
            label=name,
        )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.8)
    ticks = [-30, -10, -3, -1, -0.5, 0, 0.5, 1, 3, 10]
    axes.set_xticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(group.rows)), [row.label for row in group.rows])
    axes.set_ylim(len(group.rows) - 0.5, -0.5)
    axes.set_title(group.title, loc="left", fontsize=9, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
