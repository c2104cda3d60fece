"""Dot plot of differences: one row per change, one dot per graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2g2g.reports.charts import MARKERS, SVG_STYLE, require_matplotlib, save_figure


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
