"""Cells: one graph, one set of settings, one seed; what was measured, in a file that several processes append to."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from l2g2g.config import Config, make_config
from l2g2g.errors import InputError, L2G2GError, NumericalError, ResourceError, find_interruption
from l2g2g.graphs.archives import reading
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import Protocol
from l2g2g.graphs.write import make_folder, writing
from l2g2g.reproduce.lines import line_trouble
from l2g2g.run_directory import open_run
from l2g2g.runs.evaluate import evaluate_graph

# Where and how fast, but not what: two runs that differ in these only are the same cell.
_PLACES = ("device", "threads")
# Seconds between two checkpoints of a cell; a shorter cell has none.
KEPT_EVERY = 20.0


@dataclass(frozen=True)
class Cell:
    """One run of `evaluate`: a graph, settings that differ from the preset, a seed."""

    dataset: str
    method: str = "l2g2g"
    preset: str = "default"
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    protocol: Protocol = "heldout"

    @property
    def key(self) -> str:
        """The same for the same cell, in every process and after a restart."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def config(self) -> Config:
        """All settings of the run."""
        return make_config(self.method, self.preset, seed=self.seed, **self.options)

    @property
    def num_epochs(self) -> int | None:
        """Epochs, where the settings say how many."""
        return self.config.epochs

    def run(
        self, load: Callable[[str], Graph], threads: int | None = None, folder: Path | None = None
    ) -> dict[str, Any]:
        """Train and score. Returns the line of `evaluate` with the settings.

        folder: where a long training is kept, and gone on with where it was killed. What was kept by another version
        or of another graph is dropped.
        """
        options = self.options if threads is None else {**self.options, "threads": threads}
        config = make_config(self.method, self.preset, seed=self.seed, **options)
        graph = load(self.dataset)
        if folder is None or not any(folder.glob("checkpoints/*/epoch-*")):
            return self._train(graph, config, folder, resume=False)
        try:
            return self._train(graph, config, folder, resume=True)
        except InputError:
            shutil.rmtree(folder, ignore_errors=True)
            return self._train(graph, config, folder, resume=False)

    def _train(self, graph: Graph, config: Config, folder: Path | None, resume: bool) -> dict[str, Any]:
        interval = None if folder is None else KEPT_EVERY
        with open_run(folder, resume=resume, interval=interval, patient=True) as directory:
            row, run = evaluate_graph(graph, config, protocol=self.protocol, directory=directory)
        # A time is that of the whole training, also of the part that an earlier process did.
        earlier = sum(run.trained.history.epoch_seconds[: row["resumed_from_epoch"]])
        for stage in ("train", "total"):
            row["seconds"][stage] += earlier
        return {"settings": config.to_dict(), **row}

    def is_answered_by(self, row: dict[str, Any]) -> bool:
        """Whether a stored line is this cell, run with the settings the preset has now."""
        now = json.loads(json.dumps(self.config.to_dict()))
        then = row.get("settings", {})
        return row.get("key") == self.key and all(
            now[name] == value for name, value in then.items() if name in now and name not in _PLACES
        )


@dataclass(frozen=True)
class GraphCell:
    """A graph that is read or drawn and counted, without any training."""

    dataset: str
    num_epochs: ClassVar[int] = 0

    @property
    def key(self) -> str:
        """The same for the same graph, and never that of a run."""
        return hashlib.sha256(f"graph {self.dataset}".encode()).hexdigest()[:16]

    @property
    def config(self) -> None:
        """Nothing is set."""

    def run(
        self, load: Callable[[str], Graph], threads: int | None = None, folder: Path | None = None
    ) -> dict[str, Any]:
        """Count."""
        graph = load(self.dataset)
        return {
            "dataset": graph.name,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "num_features": graph.num_features,
            "largest_degree": int(graph.degrees.max()),
            "num_isolated": graph.cleaning.num_isolated,
        }

    def is_answered_by(self, row: dict[str, Any]) -> bool:
        """Whether a stored line is about this graph."""
        return row.get("key") == self.key


AnyCell: TypeAlias = Cell | GraphCell


def is_current(row: dict[str, Any]) -> bool:
    """Whether the cell of a stored line would be run with the same settings today."""
    if "method" not in row["cell"]:
        return True
    try:
        return Cell(**row["cell"]).is_answered_by(row)
    except (TypeError, InputError):  # a cell of another version
        return False


def run_cell(
    cell: AnyCell, load: Callable[[str], Graph], threads: int | None = None, folder: Path | None = None
) -> dict[str, Any]:
    """Run a cell. Returns its line; a failure, of whatever kind, becomes a line with `error` instead of scores."""
    line: dict[str, Any] = {"key": cell.key, "cell": asdict(cell)}
    started = time.perf_counter()
    try:
        line |= cell.run(load, threads, folder)
    except Exception as error:
        interruption = find_interruption(error)
        if interruption is not None:
            raise interruption from None
        line["error"] = f"{type(error).__name__}: {error}"
    line["cell_seconds"] = time.perf_counter() - started
    line["environment"] = environment()
    return line


def raise_if_all_failed(rows: Sequence[dict[str, Any]]) -> None:
    """Leave as the first failure would, where no cell went well; a part that failed is in the report."""
    if not rows or not all("error" in row for row in rows):
        return
    first = str(rows[0]["error"])
    kinds = {"MemoryError": ResourceError, "ResourceError": ResourceError, "NumericalError": NumericalError}
    kind: type[L2G2GError] = kinds.get(first.split(":")[0], InputError)
    raise kind(f"all {len(rows):,} cells failed, the first with {first}")


@cache
def environment() -> dict[str, Any]:
    """Where a cell was run: what a reader needs to judge its times."""
    packages = {name: metadata.version(name) for name in ("l2g2g", "torch", "numpy", "scipy")}
    return {
        "python": platform.python_version(),
        **packages,
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
    }


def _processor() -> str:
    """The name of the processor where the system tells it, else its family."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """(place in the file, line) of every complete line; what a kill left half written is passed over.

    Raises:
        InputError: A line is complete and yet none of a finished cell: somebody else has changed the file.
    """
    if not path.exists() and not path.is_symlink():
        return []
    found, place = [], 0
    with reading(path):
        content = path.read_bytes()
    for number, text in enumerate(content.split(b"\n"), start=1):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            trouble = line_trouble(row)
            if trouble is not None:
                raise InputError(f"{path}: line {number} is not that of a finished cell ({trouble}); remove the line")
            found.append((place, row))
        place += len(text) + 1
    return found


class Journal:
    """A JSON-lines file of finished cells: appended whole and at once, read by all, owned by none.

    Processes agree by locks on `FILE.lock`, one byte for each cell, which vanish with the process that holds them:
    a cell is run by one process at a time, and a killed process leaves nothing to clean up.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        make_folder(path.parent)
        with writing(path):
            self.start = path.stat().st_size if path.exists() else 0
            self._locks = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o644)

    def close(self) -> None:
        """Give up all claims."""
        os.close(self._locks)

    def rows(self) -> list[tuple[int, dict[str, Any]]]:
        """(place in the file, line) of every complete line."""
        return read_lines(self.path)

    def answers(self, cells: Iterable[AnyCell]) -> dict[str, dict[str, Any]]:
        """The latest line of every cell that has one with scores."""
        return self._select(cells, failures_from=None)

    def settled(self, cells: Iterable[AnyCell], since: int) -> dict[str, dict[str, Any]]:
        """The same, and failures recorded after the place `since`: those are not tried again before the next start."""
        return self._select(cells, failures_from=since)

    def _select(self, cells: Iterable[AnyCell], failures_from: int | None) -> dict[str, dict[str, Any]]:
        by_key = {cell.key: cell for cell in cells}
        found: dict[str, dict[str, Any]] = {}
        for place, row in self.rows():
            key = str(row.get("key"))
            if key not in by_key:
                continue
            if "error" in row:
                if failures_from is not None and place >= failures_from:
                    found.setdefault(key, row)
            elif by_key[key].is_answered_by(row):
                found[key] = row
        return found

    def append(self, row: dict[str, Any]) -> None:
        """Write one line so that it is on disk when this returns."""
        with writing(self.path), self.path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            broken = b""
            if end:
                file.seek(end - 1)
                broken = b"" if file.read(1) == b"\n" else b"\n"
            file.write(broken + json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def folder(self, cell: AnyCell) -> Path:
        """Where a cell that lasts long keeps its state until its line is written."""
        return self.path.parent / "cells" / cell.key

    def forget(self, cell: AnyCell) -> None:
        """Remove what a finished cell kept."""
        shutil.rmtree(self.folder(cell), ignore_errors=True)
        with suppress(OSError):  # others may have theirs there
            self.folder(cell).parent.rmdir()

    @contextmanager
    def claim(self, cell: AnyCell) -> Iterator[bool]:
        """Whether this process has the cell for itself; never waits."""
        place = int(cell.key[:15], 16)
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, place)
