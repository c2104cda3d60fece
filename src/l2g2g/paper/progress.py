"""Progress of a study on stderr: the estimated time before it runs, and the cells done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from l2g2g.runs.durations import show_seconds

if TYPE_CHECKING:
    from l2g2g.paper.cells import AnyCell
    from l2g2g.paper.runner import Progress

screen = Console(stderr=True)


def run_plan(
    cells: Sequence[AnyCell], path: Path, data_dir: Path | None, jobs: int, threads: int | None, quiet: bool
) -> dict[str, dict[str, Any]]:
    """Print the number of cells and the estimated time, run them, and show progress. Returns lines by key."""
    from l2g2g.paper.runner import run_cells

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
    """Print the number of cells and the estimated time. Returns how many are done."""
    from l2g2g.paper.journal import Journal
    from l2g2g.paper.runner import expect_seconds, measure_sizes

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
    """A progress bar on a terminal, a line per cell elsewhere."""
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
    row = progress.latest or {}
    cell = row.get("cell", {})
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


def say(text: str) -> None:
    """Print a line to stderr."""
    screen.print(text, markup=False, highlight=False, soft_wrap=True)
