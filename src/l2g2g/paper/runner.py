"""Runner: run cells in one or several processes, and report progress."""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2g2g.cli.messages import say, screen
from l2g2g.errors import Interrupted, WorkerError
from l2g2g.graphs.datasets import list_datasets
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.stand_ins import find_stand_in
from l2g2g.paper.cells import AnyCell, run_cell
from l2g2g.paper.journal import Journal
from l2g2g.runs.resources import show_seconds

OnProgress = Callable[["Progress"], None]
# Seconds of one epoch per million arcs or feature entries on one thread, for an estimate before anything was measured.
_SECONDS_PER_MILLION = 0.025
_USUAL_EPOCHS = 150
_PAUSE = 0.5


@dataclass(frozen=True)
class Progress:
    """Numbers of cells, the estimated time left, and the line of the cell that finished last."""

    done: int
    total: int
    failed: int
    seconds_left: float
    latest: dict[str, Any]


def run_cells(
    cells: Sequence[AnyCell],
    path: Path,
    *,
    data_dir: Path | None = None,
    jobs: int = 1,
    threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, dict[str, Any]]:
    """Run the cells that the file lacks, and return the lines of all cells by key, failures included.

    Several processes, started here (jobs) or by other commands on the same file, share the cells.
    """
    unique = list({cell.key: cell for cell in cells}.values())
    journal = Journal(path)
    try:
        if jobs == 1:
            work(unique, path, journal.start, data_dir, threads, on_progress)
        else:
            _work_together(unique, journal, data_dir, jobs, threads or 1, on_progress)
        return journal.settled(unique, journal.start)
    except (Interrupted, KeyboardInterrupt) as stop:
        number = getattr(stop, "number", signal.SIGINT)
        raise Interrupted(number, "interrupted; run the same command again to resume") from stop
    finally:
        journal.close()


def work(
    cells: Sequence[AnyCell],
    path: Path,
    since: int,
    data_dir: Path | None = None,
    threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> None:
    """Run cells until none is left. Skip cells of other processes, and take over those of processes that died."""
    journal, load = Journal(path), _Loader(data_dir)
    try:
        while open_cells := _open(cells, journal, since):
            worked = False
            for cell in open_cells:
                with journal.claim(cell) as mine:
                    # Another process may have finished the cell after the file was read.
                    if not mine or cell.key in journal.settled([cell], since):
                        continue
                    row = run_cell(cell, load, threads, journal.folder(cell))
                    journal.append(row)
                    journal.forget(cell)
                    worked = True
                if on_progress is not None:
                    on_progress(measure_progress(cells, journal, since, row))
            if not worked:
                time.sleep(_PAUSE)
    finally:
        journal.close()


class _Loader:
    """Reads graphs by name and caches the last one: cells are sorted by graph."""

    def __init__(self, data_dir: Path | None) -> None:
        self.data_dir = data_dir
        self.name = ""
        self.graph: Graph | None = None

    def __call__(self, name: str) -> Graph:
        if self.graph is None or name != self.name:
            self.graph, self.name = None, name
            self.graph = read_graph(name, data_dir=self.data_dir)
        return self.graph


def _open(cells: Sequence[AnyCell], journal: Journal, since: int) -> list[AnyCell]:
    settled = journal.settled(cells, since)
    return [cell for cell in cells if cell.key not in settled]


def _work_together(
    cells: Sequence[AnyCell],
    journal: Journal,
    data_dir: Path | None,
    jobs: int,
    threads: int,
    on_progress: OnProgress | None,
) -> None:
    context = multiprocessing.get_context("spawn")  # torch does not survive a fork
    arguments = (cells, journal.path, journal.start, data_dir, threads)
    workers = [context.Process(target=_work_for_parent, args=arguments, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    seen = 0
    while any(worker.is_alive() for worker in workers):
        rows = journal.rows()
        if on_progress is not None and len(rows) > seen:
            on_progress(measure_progress(cells, journal, journal.start, rows[-1][1]))
        seen = len(rows)
        time.sleep(_PAUSE)
    left = _open(cells, journal, journal.start)
    if left:
        codes = sorted({worker.exitcode or 0 for worker in workers} - {0})
        raise WorkerError(f"{len(left)} cells are not finished, workers ended with {codes}; run the command again")


def _work_for_parent(*arguments: Any) -> None:
    """Call `work` in a child process, which ends with its parent; the parent reports interruptions."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(*arguments)
    except (Interrupted, KeyboardInterrupt) as stop:
        sys.exit(getattr(stop, "exit_code", 130))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def measure_progress(cells: Sequence[AnyCell], journal: Journal, since: int, latest: dict[str, Any]) -> Progress:
    """Compute the progress from the lines of the file."""
    settled = journal.settled(cells, since)
    left = [cell for cell in cells if cell.key not in settled]
    failed = sum("error" in row for row in settled.values())
    return Progress(len(settled), len(cells), failed, expect_seconds(left, settled.values()), latest)


def expect_seconds(
    cells: Iterable[AnyCell], rows: Iterable[dict[str, Any]], sizes: dict[str, int] | None = None
) -> float:
    """Estimate the seconds of cells run one after another.

    Take the mean of finished cells of the same graph, method and preset; else of the same graph; else an estimate from
    the size of the graph; else the mean of all finished cells.
    """
    measured: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if "error" not in row:
            cell = row["cell"]
            for kind in ((), (cell["dataset"],), (cell["dataset"], cell.get("method", ""), cell.get("preset", ""))):
                measured[kind].append(row["cell_seconds"])
    total = 0.0
    for planned in cells:
        kind = (planned.dataset, getattr(planned, "method", ""), getattr(planned, "preset", ""))
        similar = measured.get(kind) or measured.get(kind[:1])
        if not similar and sizes and planned.dataset in sizes:
            num_epochs = _USUAL_EPOCHS if planned.num_epochs is None else planned.num_epochs
            similar = [0.5 + (num_epochs + 1) * (0.005 + _SECONDS_PER_MILLION * sizes[planned.dataset] / 1e6)]
        total += statistics.fmean(similar or measured.get(()) or [0.0])
    return total


def measure_sizes(datasets: Iterable[str], data_dir: Path | None) -> dict[str, int]:
    """Return the number of arcs and feature entries of every graph; raise InputError for an unreadable graph.

    The sizes of generated graphs are known without generating them.
    """
    known = {info.name: info for info in list_datasets(data_dir) if info.kind != "file"}
    sizes = {}
    for name in datasets:
        stand_in = find_stand_in(name)
        if stand_in is not None:
            entries = stand_in.num_nodes * stand_in.num_features
            sizes[name] = 2 * stand_in.num_edges + 32 * stand_in.num_nodes + entries
        elif name in known:
            sizes[name] = 2 * (known[name].num_edges or 0) + 33 * (known[name].num_nodes or 0)
        else:
            graph = read_graph(name, data_dir=data_dir)
            features = 0 if graph.features is None else getattr(graph.features, "nnz", graph.features.size)
            sizes[name] = graph.adjacency.nnz + 32 * graph.num_nodes + int(features)
    return sizes


def run_plan(
    cells: Sequence[AnyCell], path: Path, data_dir: Path | None, jobs: int, threads: int | None, quiet: bool
) -> dict[str, dict[str, Any]]:
    """Announce the cells, run them with progress, and return their lines by key."""
    for cell in cells:
        _ = cell.config  # invalid settings are an error before anything runs
    num_done = announce(cells, path, data_dir, jobs, quiet)
    with _bar(len(cells), num_done, quiet) as on_progress:
        rows = run_cells(cells, path, data_dir=data_dir, jobs=jobs, threads=threads, on_progress=on_progress)
    failed = sum("error" in row for row in rows.values())
    if failed and not quiet:
        say(f"{failed:,} cells failed; see 'error' in {path}")
    return rows


def announce(cells: Sequence[AnyCell], path: Path, data_dir: Path | None, jobs: int, quiet: bool = False) -> int:
    """Print the number of cells and the estimated time, and return the number of finished cells."""
    sizes = measure_sizes(dict.fromkeys(cell.dataset for cell in cells), data_dir)
    journal = Journal(path)
    answered = journal.answers(cells)
    journal.close()
    if not quiet:
        left = [cell for cell in cells if cell.key not in answered]
        seconds = expect_seconds(left, answered.values(), sizes) / jobs
        done = f", {len(answered):,} of them done" if answered else ""
        graphs = ", ".join(sizes) if len(sizes) < 9 else f"{len(sizes)} graphs"
        say(f"{len(cells):,} cells on {graphs}{done}; about {show_seconds(seconds)} to go -> {path}")
    return len(answered)


@contextmanager
def _bar(total: int, done: int, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show progress as a bar on a terminal, otherwise as a line per cell."""
    if quiet:
        yield None
        return
    if not screen.is_terminal:
        yield lambda progress: say(_describe(progress))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("cells", total=total, completed=done, left="")

        def show(progress: Any) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            bar.update(task, completed=progress.done, left=f"{show_seconds(progress.seconds_left)} left{failed}")

        yield show


def _describe(progress: Progress) -> str:
    row, cell = progress.latest, progress.latest["cell"]
    words = [str(cell.get(name)) for name in ("dataset", "method", "preset", "protocol") if name in cell]
    words += [f"seed {cell['seed']}"] if "seed" in cell else []
    if "error" in row:
        score = row["error"]
    elif "auc" in row:
        score = f"AUC {100 * row['auc']:.2f}"
    else:
        score = f"{row.get('num_nodes', 0):,} nodes, {row.get('num_edges', 0):,} edges"
    return (
        f"{progress.done}/{progress.total} {' '.join(words)}: {score}, "
        f"{row.get('cell_seconds', 0.0):.1f} s; {show_seconds(progress.seconds_left)} left"
    )
