"""Cells: one graph, one set of settings, one seed; what was measured, in a file that several processes append to."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from l2g2g.config import Config, make_config
from l2g2g.experiment import evaluate_graph
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import Protocol

# Where and how fast, but not what: two runs that differ in these only are the same cell.
_PLACES = ("device", "threads")


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

    def is_answered_by(self, row: dict[str, Any]) -> bool:
        """Whether a stored line is this cell, run with the settings the preset has now."""
        now = json.loads(json.dumps(self.config.to_dict()))
        then = row.get("settings", {})
        return row.get("key") == self.key and all(
            now[name] == value for name, value in then.items() if name in now and name not in _PLACES
        )


def run_cell(cell: Cell, load: Callable[[str], Graph], threads: int | None = None) -> dict[str, Any]:
    """Run a cell. Returns its line; a failure, of whatever kind, becomes a line with `error` instead of scores."""
    line: dict[str, Any] = {"key": cell.key, "cell": asdict(cell)}
    started = time.perf_counter()
    try:
        options = cell.options if threads is None else {**cell.options, "threads": threads}
        config = make_config(cell.method, cell.preset, seed=cell.seed, **options)
        row, _ = evaluate_graph(load(cell.dataset), config, protocol=cell.protocol)
        line |= {"settings": config.to_dict(), **row}
    except Exception as error:
        line["error"] = f"{type(error).__name__}: {error}"
    line["cell_seconds"] = time.perf_counter() - started
    return line


class Journal:
    """A JSON-lines file of finished cells: appended whole and at once, read by all, owned by none.

    Processes agree by locks on `FILE.lock`, one byte for each cell, which vanish with the process that holds them:
    a cell is run by one process at a time, and a killed process leaves nothing to clean up.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.start = path.stat().st_size if path.exists() else 0
        self._locks = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o644)

    def close(self) -> None:
        """Give up all claims."""
        os.close(self._locks)

    def rows(self) -> list[tuple[int, dict[str, Any]]]:
        """(place in the file, line) of every complete line; what a kill left half written is passed over."""
        if not self.path.exists():
            return []
        found, place = [], 0
        for text in self.path.read_bytes().split(b"\n"):
            try:
                row = json.loads(text)
            except ValueError:
                row = None
            if isinstance(row, dict):
                found.append((place, row))
            place += len(text) + 1
        return found

    def answers(self, cells: Iterable[Cell]) -> dict[str, dict[str, Any]]:
        """The latest line of every cell that has one with scores."""
        return self._select(cells, failures_from=None)

    def settled(self, cells: Iterable[Cell], since: int) -> dict[str, dict[str, Any]]:
        """The same, and failures recorded after the place `since`: those are not tried again before the next start."""
        return self._select(cells, failures_from=since)

    def _select(self, cells: Iterable[Cell], failures_from: int | None) -> dict[str, dict[str, Any]]:
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
        with self.path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = file.seek(0, os.SEEK_END)
            broken = b""
            if end:
                file.seek(end - 1)
                broken = b"" if file.read(1) == b"\n" else b"\n"
            file.write(broken + json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
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
