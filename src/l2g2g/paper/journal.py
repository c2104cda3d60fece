"""Journal: a JSON-lines file of finished cells, shared by processes; every line is checked when read."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from l2g2g.errors import InputError
from l2g2g.graphs.archives import reading
from l2g2g.graphs.write import make_folder, writing
from l2g2g.paper.cells import AnyCell

_COUNTS = ("num_nodes", "num_edges", "num_features")
_RUN_COUNTS = (*_COUNTS, "epochs", "largest_patch_nodes", "peak_memory_bytes")
_SCORES = ("auc", "ap", "best_auc", "mrr", "hits@1", "hits@10", "hits@50", "probe_accuracy", "probe_macro_f1")
_SHARES = (*_SCORES, "kept_edge_fraction")
_SECONDS = ("epoch_median", "synchronise", "partition", "total")
_WORDS = ("dataset", "method", "preset", "protocol")
_LARGEST = 2**53


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return (byte offset, line) of every complete line; skip a line that a killed process left incomplete.

    Raises:
        InputError: A complete line is not the line of a finished cell: another program changed the file.
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
                raise InputError(f"{path}: line {number} is no finished cell ({trouble}); remove the line")
            found.append((place, row))
        place += len(text) + 1
    return found


class Journal:
    """A JSON-lines file of finished cells, shared by processes.

    A lock on one byte of `FILE.lock` per cell lets one process at a time run a cell. The system releases the locks
    of a process that ends, so that a killed process leaves nothing to clean up.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        make_folder(path.parent)
        with writing(path):
            self.start = path.stat().st_size if path.exists() else 0
            self._locks = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o644)

    def close(self) -> None:
        """Release all locks."""
        os.close(self._locks)

    def rows(self) -> list[tuple[int, dict[str, Any]]]:
        """Return (byte offset, line) of every complete line."""
        return read_lines(self.path)

    def answers(self, cells: Iterable[AnyCell]) -> dict[str, dict[str, Any]]:
        """Return the latest successful line of every cell, by key."""
        return self._select(cells, failures_from=None)

    def settled(self, cells: Iterable[AnyCell], since: int) -> dict[str, dict[str, Any]]:
        """Return successful lines, and failures after the byte offset `since`: only the next start retries these."""
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
        """Append one line and flush it to disk."""
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
        """Return the folder for checkpoints of a cell that is not finished."""
        return self.path.parent / "cells" / cell.key

    def forget(self, cell: AnyCell) -> None:
        """Remove the checkpoints of a finished cell."""
        shutil.rmtree(self.folder(cell), ignore_errors=True)
        with suppress(OSError):  # not empty: other cells have checkpoints
            self.folder(cell).parent.rmdir()

    @contextmanager
    def claim(self, cell: AnyCell) -> Iterator[bool]:
        """Lock a cell for this process; yield False at once if another process has locked it."""
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


# --- checks of a line --------------------------------------------------------------------------------------


def line_trouble(row: dict[str, Any]) -> str | None:
    """Describe the first error of a line; None for a valid line.

    Example:
        >>> line_trouble({"key": "1", "cell": {"dataset": "cora"}, "error": "it broke", "cell_seconds": 1.0})
        >>> line_trouble({"key": "1", "cell": {}})
        'cell has no dataset'
    """
    cell = row.get("cell")
    if not isinstance(row.get("key"), str) or not isinstance(cell, dict):
        return "it needs key and cell"
    if "dataset" not in cell:
        return "cell has no dataset"
    if not all(isinstance(cell.get(name, ""), str) for name in _WORDS) or not isinstance(cell.get("options", {}), dict):
        return "cell has a field of the wrong type"
    for name in ("settings", "environment"):
        if not isinstance(row.get(name, {}), dict):
            return f"{name} is not an object"
    if not _is_number(row.get("cell_seconds")):
        return "cell_seconds is not a number of seconds"
    if "error" in row:
        return None if isinstance(row["error"], str) else "error is not text"
    return _result_trouble(row, is_run="method" in cell)


def _result_trouble(row: dict[str, Any], is_run: bool) -> str | None:
    for name in _RUN_COUNTS if is_run else (*_COUNTS, "largest_degree", "num_isolated"):
        if not _is_number(row.get(name)) or not isinstance(row[name], int):
            return f"{name} is not a count"
    if not is_run:
        return None
    for name in _SHARES:
        score = row.get(name, None if name not in ("auc", "ap") else "missing")
        if score is not None and not (_is_number(score) and score <= 1):
            return f"{name} is not a score"
    if row["auc"] is None or row["ap"] is None:
        return "auc and ap are missing"
    seconds = row.get("seconds")
    if not isinstance(seconds, dict) or not all(_is_number(seconds.get(name)) for name in _SECONDS):
        return "seconds lacks a stage of a run"
    if not isinstance(row.get("seed"), int) or not _is_number(row.get("node_duplication")):
        return "seed or node_duplication is missing"
    return None if _is_number(row.get("settings", {}).get("threads")) else "settings have no threads"


def _is_number(value: Any) -> bool:
    """Return True for a number from 0 to 2^53, the largest count that a float represents exactly."""
    return isinstance(value, (int, float)) and math.isfinite(value) and 0 <= value <= _LARGEST
