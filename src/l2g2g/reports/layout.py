"""What the map shows: places of the nodes by each projection, which are kept, and columns to colour them by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.archives import load_arrays
from l2g2g.graphs.node_ids import encode
from l2g2g.graphs.write import write_whole
from l2g2g.reports.projection import project
from l2g2g.runs.record import RunRecord

_FOLDER = "maps"
_VERSION = b"1"  # another one makes kept places out of date
MAX_SHOWN = 1_000_000
UNKNOWN = "not known"
_MOST_CLASSES_OF_NUMBERS = 12  # whole numbers of so few values are classes
_MOST_DISTINCT = 0.5  # of the nodes: a column in which more values differ is told, but gives no colours
_WIDE_RANGE = 100  # numbers that reach this many times as far as their median are coloured by their logarithm


@dataclass(frozen=True, eq=False)
class Layout:
    """Places of the nodes of a record. folder: where they are kept, in RUN/maps; None for an embedding file."""

    vectors: np.ndarray
    seed: int
    name: str
    folder: Path | None

    def places(self, projection: str) -> np.ndarray:
        """(num_nodes, 2) float32; PCA is never kept, it takes less time than reading a file."""
        if projection == "pca":
            return project(self.vectors, "pca")
        found = self._kept(projection)
        if found is None:
            found = project(self.vectors, projection, self.seed)
            self._keep(projection, found)
        return found

    def is_cached(self, projection: str) -> bool:
        """Whether the places of a projection are kept."""
        return self._kept(projection) is not None

    def _path(self, projection: str) -> Path | None:
        """The name of the file says what it was computed from."""
        if self.folder is None:
            return None
        vectors = np.ascontiguousarray(self.vectors)
        about = f"{projection} {vectors.shape} {vectors.dtype} {self.seed}".encode()
        digest = hashlib.sha256(_VERSION + about + vectors.data).hexdigest()[:16]
        return self.folder / f"{self.name}-{projection}-{digest}.npy"

    def _kept(self, projection: str) -> np.ndarray | None:
        path = self._path(projection)
        if path is None or not path.is_file():
            return None
        try:
            found = next(iter(load_arrays(path).values()))
        except InputError:  # damaged: it is computed again
            return None
        is_right = found.shape == (len(self.vectors), 2) and found.dtype == np.float32 and np.isfinite(found).all()
        return found if is_right else None

    def _keep(self, projection: str, places: np.ndarray) -> None:
        path = self._path(projection)
        if path is None:
            return
        try:
            path.parent.mkdir(exist_ok=True)
            write_whole(path, lambda file: _save(file, places))
        except (OSError, ResourceError):  # a run that can only be read still has a map
            return
        for old in path.parent.glob(f"{self.name}-{projection}-*.npy"):
            if old != path:
                old.unlink(missing_ok=True)


def open_layout(record: RunRecord, run: Path | None) -> Layout:
    """The layout of a record. run: its run directory, or a folder of model.save; None for an embedding file."""
    folder = None if run is None else run / _FOLDER
    return Layout(record.vectors, int(record.settings.get("seed", 0)), record.name, folder)


def _save(file: Path, places: np.ndarray) -> None:
    with file.open("wb") as stream:
        np.save(stream, places, allow_pickle=False)


def thin(record: RunRecord, most: int = MAX_SHOWN) -> RunRecord:
    """The record with at most `most` nodes, in their order; its facts about the whole graph stay."""
    if record.num_nodes <= most:
        return record
    rows = np.sort(np.random.default_rng(0).choice(record.num_nodes, most, replace=False))
    names = ("vectors", "degrees", "home", "node_ids", "labels", "residuals")
    kept = {name: getattr(record, name)[rows] for name in names if getattr(record, name) is not None}
    if record.node_ids is None:
        kept["node_ids"] = rows  # names of nodes are still their numbers
    kept["columns"] = {title: values[rows] for title, values in record.columns.items()}
    edges = None if record.edges is None else sp.csr_array(record.edges[rows][:, rows])
    return replace(record, **kept, edges=edges)


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
