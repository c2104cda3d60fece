"""Cells: single runs of a method on a graph with a seed, and the lines that record their results."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from l2g2g.config import Config, make_config, suggest
from l2g2g.errors import InputError, L2G2GError, NumericalError, ResourceError, find_interruption
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import Protocol
from l2g2g.runs.environment import package_versions
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.runs.run_directory import open_run

# Settings that do not change the result.
_NOT_COMPARED = ("device", "threads")
# Minimum seconds between checkpoints of a cell; shorter cells write none.
CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True)
class Cell:
    """One run of `evaluate`. options: settings that differ from the preset."""

    dataset: str
    method: str = "l2g2g"
    preset: str = "default"
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    protocol: Protocol = "heldout"

    @property
    def key(self) -> str:
        """A hash of the cell, the same in every process."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def config(self) -> Config:
        """All settings of the run."""
        return make_config(self.method, self.preset, seed=self.seed, **self.options)

    @property
    def num_epochs(self) -> int | None:
        """Number of epochs; None if the preset chooses it by the size of the graph."""
        return self.config.epochs

    def run(
        self, load: Callable[[str], Graph], threads: int | None = None, folder: Path | None = None
    ) -> dict[str, Any]:
        """Train and score. Return the line of `evaluate` with the settings.

        An interrupted training resumes from the last checkpoint in `folder`. Checkpoints of another version or graph
        are removed.
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
        interval = None if folder is None else CHECKPOINT_SECONDS
        with open_run(folder, resume=resume, interval=interval, patient=True) as directory:
            row, run = evaluate_graph(graph, config, protocol=self.protocol, directory=directory)
        # Count the epochs of earlier processes too.
        earlier = sum(run.trained.history.epoch_seconds[: row["resumed_from_epoch"]])
        for stage in ("train", "total"):
            row["seconds"][stage] += earlier
        return {"settings": config.to_dict(), **row}

    def is_answered_by(self, row: dict[str, Any]) -> bool:
        """Return True if a stored line is a result of this cell with the current settings of its preset."""
        current = json.loads(json.dumps(self.config.to_dict()))  # tuples become lists, as in the stored line
        compared = {name: value for name, value in row.get("settings", {}).items() if name not in _NOT_COMPARED}
        return row.get("key") == self.key and all(
            current[name] == value for name, value in compared.items() if name in current
        )


@dataclass(frozen=True)
class GraphCell:
    """A graph whose nodes, edges and features are counted."""

    dataset: str
    num_epochs: ClassVar[int] = 0

    @property
    def key(self) -> str:
        """A hash of the name, different from the key of any run."""
        return hashlib.sha256(f"graph {self.dataset}".encode()).hexdigest()[:16]

    @property
    def config(self) -> None:
        """None, because counting has no settings."""

    def run(
        self, load: Callable[[str], Graph], threads: int | None = None, folder: Path | None = None
    ) -> dict[str, Any]:
        """Count nodes, edges and features."""
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
        """Return True if a stored line is a count of this graph."""
        return row.get("key") == self.key


AnyCell: TypeAlias = Cell | GraphCell


def is_current(row: dict[str, Any]) -> bool:
    """Return True if a stored line was made with the current settings of its preset."""
    if "method" not in row["cell"]:
        return True
    try:
        return Cell(**row["cell"]).is_answered_by(row)
    except (TypeError, InputError):  # a cell of another version
        return False


def run_cell(
    cell: AnyCell, load: Callable[[str], Graph], threads: int | None = None, folder: Path | None = None
) -> dict[str, Any]:
    """Run a cell and return its line; after an exception the line has `error` instead of scores."""
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
    """Raise the error of the first cell if all failed."""
    if not rows or not all("error" in row for row in rows):
        return
    first = str(rows[0]["error"])
    kinds = {"MemoryError": ResourceError, "ResourceError": ResourceError, "NumericalError": NumericalError}
    kind: type[L2G2GError] = kinds.get(first.split(":")[0], InputError)
    raise kind(f"all {len(rows):,} cells failed, the first with {first}")


@cache
def environment() -> dict[str, Any]:
    """Return versions, processor and number of cores."""
    return {
        **package_versions(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
    }


def _processor() -> str:
    """Return the model name of the processor, or its architecture if the name is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@dataclass(frozen=True)
class Contender:
    """A method with a preset, compared in every study.

    Attributes:
        label: What figures and tables call it.
        colour: Number in the cycle of colours, the same in all figures.
        short: Shorter label for tables.
    """

    label: str
    method: str
    preset: str
    colour: int
    uses_patches: bool = True
    short: str | None = None

    @property
    def heading(self) -> str:
        """The label in tables."""
        return self.short or self.label

    @property
    def shift(self) -> float:
        """Offset of its points on an axis of graphs, so that methods do not overlap."""
        return 0.09 * (self.colour - 2)

    def cell(self, dataset: str, options: dict[str, Any], seed: int = 0, protocol: Protocol = "heldout") -> Cell:
        """Create a run of this method. options: settings that differ from the preset."""
        return Cell(dataset, self.method, self.preset, options, seed, protocol)


CONTENDERS = {
    "gae": Contender("GAE", "gae", "paper", 0, uses_patches=False),
    "fastgae": Contender("FastGAE", "fastgae", "paper", 1, uses_patches=False),
    "gae+l2g": Contender("GAE+L2G", "gae+l2g", "paper", 2),
    "l2g2g": Contender("L2G2G", "l2g2g", "paper", 3),
    "default": Contender("L2G2G, this project's default", "l2g2g", "default", 4, short="default"),
}
PATCHED = [name for name, contender in CONTENDERS.items() if contender.uses_patches]
DEFAULT_MEANS = "The method “default” is L2G2G with this project's default preset."


def choose_contenders(names: Iterable[str] | None) -> list[str]:
    """Check names of methods and remove repetitions; None means all."""
    chosen = list(CONTENDERS) if names is None else list(dict.fromkeys(names))
    for name in chosen:
        if name not in CONTENDERS:
            raise InputError(f"--methods: unknown method '{name}'; {suggest(name, list(CONTENDERS))}")
    return chosen


def contender_of(row: dict[str, Any]) -> str | None:
    """Return the contender of a stored line; None for another method or preset."""
    cell = row.get("cell", {})
    for name, contender in CONTENDERS.items():
        if (cell.get("method"), cell.get("preset")) == (contender.method, contender.preset):
            return name
    return None
