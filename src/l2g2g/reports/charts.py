"""Charts: lines with bands and dots over categories, as SVG and PNG."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from l2g2g.errors import InputError

Scale = Literal["linear", "log"]
_MARKERS = ["o", "s", "D", "^", "v", "P", "X"]


@dataclass(frozen=True)
class Series:
    """Points of one kind. spread: deviation of each y, drawn as a band or as bars; hollow: markers without a fill."""

    label: str
    x: list[float]
    y: list[float]
    spread: list[float] | None = None
    joined: bool = True
    hollow: bool = False
    colour: int = 0


@dataclass(frozen=True)
class Panel:
    """One pair of axes. ticks: words below x = 0, 1, 2, ..."""

    title: str
    series: list[Series]
    xlabel: str
    ylabel: str
    xscale: Scale = "linear"
    yscale: Scale = "linear"
    ticks: list[str] | None = None


@dataclass(frozen=True)
class Chart:
    """A figure: panels side by side under one legend. name: of its files; caption: also for those who cannot see it."""

    name: str
    caption: str
    panels: list[Panel]


def require_matplotlib() -> Any:
    """pyplot, drawing to files; asked for before a long run, so that it does not fail at its end."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError("figures need matplotlib; install it with: pip install 'l2g2g[report]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw_chart(chart: Chart, folder: Path) -> list[Path]:
    """Write NAME.svg and NAME.png. The same chart gives the same SVG."""
    pyplot = require_matplotlib()
    panels = chart.panels or [Panel("nothing finished yet", [], "", "")]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "l2g2g", "font.size": 9}
    paths = [folder / f"{chart.name}.{ending}" for ending in ("svg", "png")]
    with pyplot.rc_context(settings):
        width = max(5.0, 3.9 * columns if len(panels) > 1 else 7.0)
        figure, grid = pyplot.subplots(
            rows, columns, figsize=(width, 3.3 * rows + 0.5), squeeze=False, layout="constrained"
        )
        known: dict[str, Any] = {}
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw_panel(axes, panel)
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                known.setdefault(label, handle)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        if known:
            figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=4, frameon=False)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for both files
        for path in paths:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
    return paths


def _draw_panel(axes: Any, panel: Panel) -> None:
    for series in panel.series:
        style = {
            "color": f"C{series.colour}",
            "marker": _MARKERS[series.colour % len(_MARKERS)],
            "markersize": 5,
            "linestyle": "-" if series.joined else "none",
            "linewidth": 1.3,
            "markerfacecolor": "none" if series.hollow else f"C{series.colour}",
        }
        if series.spread is None:
            axes.plot(series.x, series.y, label=series.label, **style)
        elif series.joined:
            axes.plot(series.x, series.y, label=series.label, **style)
            low, high = ([y + sign * s for y, s in zip(series.y, series.spread, strict=True)] for sign in (-1, 1))
            axes.fill_between(series.x, low, high, color=f"C{series.colour}", alpha=0.15, linewidth=0)
        else:
            axes.errorbar(series.x, series.y, yerr=series.spread, label=series.label, elinewidth=1, **style)
    axes.set_xscale(panel.xscale)
    axes.set_yscale(panel.yscale)
    for axis, scale in ((axes.xaxis, panel.xscale), (axes.yaxis, panel.yscale)):
        if scale == "log":
            _plain_numbers(axis)
    places = sorted({x for series in panel.series for x in series.x})
    if panel.xscale == "log" and 0 < len(places) < 8:
        axes.set_xticks(places, [f"{x:,g}" if x < 1e5 else f"{x / 1000:,g} k" for x in places], minor=False)
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=30, ha="right")
        axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.set_title(panel.title, fontsize=9, fontweight="bold", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _plain_numbers(axis: Any) -> None:
    """1, 2, 5, 10 … as people write them, instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
