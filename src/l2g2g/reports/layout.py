"""Layout: the places of nodes on the map by each projection, kept in the run directory once they are computed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.archives import load_arrays
from l2g2g.graphs.write import write_whole
from l2g2g.reports.projection import project
from l2g2g.runs.record import RunRecord

_FOLDER = "maps"
_VERSION = b"1"  # another one makes kept places out of date


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
