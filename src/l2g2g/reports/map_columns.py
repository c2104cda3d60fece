"""Columns of the map: what nodes can be coloured by and what is told about them, as codes or numbers for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from l2g2g.graphs.node_ids import encode
from l2g2g.runs.record import RunRecord

UNKNOWN = "not known"
_MOST_CLASSES_OF_NUMBERS = 12  # whole numbers of so few values are classes
_MOST_DISTINCT = 0.5  # of the nodes: a column in which more values differ is told, but gives no colours
_WIDE_RANGE = 100  # numbers that reach this many times as far as their median are coloured by their logarithm


@dataclass(frozen=True, eq=False)
class MapColumn:
    """One column of the map.

    Attributes:
        name: Of its block in the page.
        title: For readers.
        values: (num_nodes,) int32 codes of classes, or numbers, NaN where one is missing.
        classes: Names of the classes; None for numbers.
        logarithmic: Whether colours go by the logarithm.
        colours: Whether it is offered for colours.
    """

    name: str
    title: str
    values: np.ndarray
    classes: list[str] | None = None
    logarithmic: bool = False
    colours: bool = True

    def facts(self) -> dict[str, Any]:
        """What the page needs besides the values."""
        found: dict[str, Any] = {"name": self.name, "title": self.title, "colours": self.colours}
        return found | ({"logarithmic": self.logarithmic} if self.classes is None else {"classes": self.classes})


def make_columns(
    record: RunRecord, clusters: np.ndarray | None = None, cluster_names: list[str] | None = None
) -> list[MapColumn]:
    """Labels, the columns of a table, clusters, patches, degrees and residuals, as far as the record has them.

    clusters: (num_nodes,) numbers from 0 on, -1 for none; cluster_names: (num_clusters,).
    """
    found = []
    labels = record.label_texts()
    if labels is not None:
        found.append(_of_text("label", "Label", labels))
    for place, (title, values) in enumerate(record.columns.items()):
        make = _of_text if values.dtype.kind == "O" else _of_numbers
        found.append(make(f"column-{place}", title, values))
    if clusters is not None:
        names = list(cluster_names or [])
        if (clusters < 0).any():
            names.append("in no cluster")
        found.append(MapColumn("cluster", "Cluster", np.where(clusters < 0, len(names) - 1, clusters), names))
    if record.home is not None and record.has_patches:
        classes = [f"patch {number}" for number in range(len(record.patches.sizes))]
        found.append(MapColumn("patch", "Patch", record.home, classes))
    if record.degrees is not None:
        found.append(MapColumn("degree", "Degree", record.degrees, logarithmic=True))
    if record.residuals is not None and record.is_aligned:
        found.append(MapColumn("residual", "Residual", record.residuals))
    return found


def _of_text(name: str, title: str, values: np.ndarray) -> MapColumn:
    """Classes in the order of their names, numbers by their size; what is missing comes last."""
    codes, distinct = encode(values)  # text at its own length: NumPy would give all the width of the longest
    names = distinct.tolist()
    order = sorted(range(len(names)), key=lambda place: (names[place] == "", _sort_key(names[place])))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    shown = [names[place] or UNKNOWN for place in order]
    return MapColumn(name, title, rank[codes], shown, colours=len(names) <= max(50, _MOST_DISTINCT * len(values)))


def _sort_key(name: str) -> tuple[int, float, str]:
    return (0, float(name), name) if name.isdecimal() and name.isascii() else (1, 0.0, name)


def _of_numbers(name: str, title: str, values: np.ndarray) -> MapColumn:
    known = values[np.isfinite(values)]
    distinct = np.unique(known)
    if len(distinct) <= _MOST_CLASSES_OF_NUMBERS and (known == np.floor(known)).all():
        text = np.array(["" if np.isnan(value) else f"{value:.15g}" for value in values], dtype=object)
        return _of_text(name, title, text)
    exact = values.astype(np.float32)
    middle = float(np.median(known))
    logarithmic = bool(known.min() >= 0 and known.max() > _WIDE_RANGE * max(middle, 1e-12))
    return MapColumn(name, title, exact if np.array_equal(exact, values, equal_nan=True) else values, None, logarithmic)
