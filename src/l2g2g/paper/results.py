"""Selecting and summarising stored lines."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, stdev
from typing import Any, Literal

from l2g2g.paper.contenders import contender_of

Row = dict[str, Any]


def latest(rows: Iterable[Row]) -> list[Row]:
    """One line per cell: its last success, or else its last failure. In the order of first appearance."""
    found: dict[str, Row] = {}
    for row in rows:
        key = str(row.get("key"))
        if key not in found or "error" not in row or "error" in found[key]:
            found[key] = row
    return list(found.values())


def pick(
    rows: Iterable[Row],
    *,
    dataset: str | None = None,
    contender: str | None = None,
    protocol: str | None = None,
    options: dict[str, Any] | None = None,
) -> list[Row]:
    """Lines without an error, of one graph, contender, protocol or set of options."""
    return [
        row
        for row in rows
        if "error" not in row
        and dataset in (None, row["cell"]["dataset"])
        and (contender is None or contender_of(row) == contender)
        and protocol in (None, row["cell"].get("protocol"))
        and (options is None or row["cell"].get("options") == options)
    ]


def datasets_in(rows: Iterable[Row]) -> list[str]:
    """Graphs with a result, in the order of their number of edges."""
    sizes = {row["cell"]["dataset"]: row["num_edges"] for row in rows if "error" not in row}
    return sorted(sizes, key=lambda name: (sizes[name], name))


def percents(rows: Iterable[Row], field: str) -> list[float]:
    """A score of every line in percent."""
    return [100 * row[field] for row in rows if row.get(field) is not None]


def limits(rows: Iterable[Row]) -> list[float]:
    """The best possible AUC in percent, one value per split; contenders share the split of a seed."""
    return list({row["seed"]: 100 * row["best_auc"] for row in rows if row.get("best_auc") is not None}.values())


def describe(values: list[float], digits: int = 2, sign: Literal["", "+"] = "") -> str:
    """Mean ± deviation; sign "+" shows the sign of every mean.

    Example:
        >>> describe([90.0, 92.0]), describe([90.0], sign="+"), describe([])
        ('91.00 ± 1.41', '+90.00', '–')
    """
    if not values:
        return "–"
    mean = signed(fmean(values), digits) if sign else f"{fmean(values):z.{digits}f}"
    return mean + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign; a value that rounds to 0 has none.

    Example:
        >>> signed(1.5), signed(-0.25), signed(-0.001)
        ('+1.50', '-0.25', '0.00')
    """
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def span(values: Iterable[int]) -> str:
    """A count, or the lowest and the highest where they differ.

    Example:
        >>> span([1000, 1000]), span([1000, 1200, 900])
        ('1,000', '900 to 1,200')
    """
    found = sorted(values)
    return f"{found[0]:,}" if found[0] == found[-1] else f"{found[0]:,} to {found[-1]:,}"


def deviation(values: list[float]) -> float:
    """Standard deviation over seeds, 0 for a single one."""
    return stdev(values) if len(values) > 1 else 0.0


def epoch_seconds(row: Row) -> float:
    """Seconds of one epoch: the median, plus the time of alignment divided by the number of epochs."""
    return float(row["seconds"]["epoch_median"] + row["seconds"]["synchronise"] / max(1, row["epochs"]))
