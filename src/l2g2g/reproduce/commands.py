"""Command line of the reproduction: `l2g2g reproduce ...`. Results on stdout, plan and progress on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from l2g2g.errors import InputError

if TYPE_CHECKING:
    from l2g2g.reproduce.cells import Cell
    from l2g2g.reproduce.runner import Progress

DatasetsOption = Annotated[str | None, typer.Option(help="Names of graphs, with commas between them.")]
SeedsOption = Annotated[int | None, typer.Option(help="Seeds 0 … N-1 of every graph.")]
DataDirOption = Annotated[Path | None, typer.Option(help="Where named data sets lie, as cora-ml.npz or cora_ml.npz.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="A small graph, one seed, few epochs: to see that it works.")
]
OutOption = Annotated[Path, typer.Option(help="Folder of the finished cells, tables and figures.")]
JobsOption = Annotated[int, typer.Option(help="Processes that share the work, one thread each.")]
ThreadsOption = Annotated[int | None, typer.Option(help="CPU threads of a cell (with one job).")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Silence all but errors.")]

reproduce = typer.Typer(
    help="Experiments of many runs: resumable, with tables, figures and conclusions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
screen = Console(stderr=True)


@reproduce.callback()
def common() -> None:
    """Experiments of many runs: resumable, with tables, figures and conclusions.

    A finished cell is in OUT/NAME.jsonl at once. Start the same command again to go on, or on a second terminal to
    share the work; failed cells are tried again by the next start.
    """


@reproduce.command()
def ablation(
    datasets: DatasetsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = Path("runs/reproduce"),
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """What in L2G2G matters: encoders, alignment, pairs, masks, assembly and negatives, changed and crossed.

    Writes ablation.jsonl (every run), ablation.md (tables and conclusion), ablation.svg and ablation.png.
    """
    from l2g2g.graphs.write import write_text
    from l2g2g.reports.dots import plot_differences
    from l2g2g.reproduce import ablation as study

    names = _names(datasets, study.QUICK_DATASETS if quick else study.DATASETS)
    epochs = study.QUICK_EPOCHS if quick else study.EPOCHS
    chosen = study.seeds_of(names, _at_least_one("--seeds", seeds), quick)
    cells = study.plan(chosen, epochs)
    rows = list(run_plan(cells, out / "ablation.jsonl", data_dir, jobs, threads, quiet).values())
    text = study.write_markdown(rows, names, epochs)
    write_text(out / "ablation.md", text)
    plot_differences(
        study.dot_groups(rows, names, epochs),
        [out / "ablation.svg", out / "ablation.png"],
        xlabel="difference in AUC, points (mean and deviation over seeds)",
        title="What matters in L2G2G",
    )
    if not quiet:
        typer.echo(text)
        typer.echo(f"{out / 'ablation.md'}, ablation.svg, ablation.png: {len(rows)} cells")


def run_plan(
    cells: list[Cell], path: Path, data_dir: Path | None, jobs: int, threads: int | None, quiet: bool
) -> dict[str, dict[str, Any]]:
    """Say what will be run and how long it should take, run it, and show how far it is."""
    from l2g2g.reproduce.cells import Journal
    from l2g2g.reproduce.runner import expect_seconds, measure_sizes, run_cells

    _at_least_one("--jobs", jobs)
    for cell in cells:
        _ = cell.config  # refuse settings that cannot work before anything runs
    sizes = measure_sizes(dict.fromkeys(cell.dataset for cell in cells), data_dir)
    journal = Journal(path)
    answered = journal.answers(cells)
    journal.close()
    left = [cell for cell in cells if cell.key not in answered]
    if not quiet:
        seconds = expect_seconds(left, answered.values(), sizes) / jobs
        done = f", {len(answered):,} of them done" if answered else ""
        _say(f"{len(cells):,} cells on {', '.join(sizes)}{done}; about {describe_time(seconds)} to go -> {path}")
    with _bar(len(cells), len(answered), quiet) as on_progress:
        rows = run_cells(cells, path, data_dir=data_dir, jobs=jobs, threads=threads, on_progress=on_progress)
    failed = sum("error" in row for row in rows.values())
    if failed and not quiet:
        _say(f"{failed:,} cells failed; see 'error' in {path}")
    return rows


@contextmanager
def _bar(total: int, done: int, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A bar over all cells on a terminal, a line per cell elsewhere."""
    if quiet:
        yield None
        return
    if not screen.is_terminal:
        yield lambda progress: _say(_describe(progress))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("cells", total=total, completed=done, left="")

        def show(progress: Any) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            bar.update(task, completed=progress.done, left=f"{describe_time(progress.seconds_left)} left{failed}")

        yield show


def _describe(progress: Progress) -> str:
    row = progress.latest or {}
    cell = row.get("cell", {})
    score = row["error"] if "error" in row else f"AUC {100 * row.get('auc', 0.0):.2f}"
    return (
        f"{progress.done}/{progress.total} {cell.get('dataset')} seed {cell.get('seed')}: {score}, "
        f"{row.get('cell_seconds', 0.0):.1f} s; {describe_time(progress.seconds_left)} left"
    )


def describe_time(seconds: float) -> str:
    """Seconds as a person says them.

    Example:
        >>> describe_time(42), describe_time(600), describe_time(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _names(given: str | None, usual: dict[str, int]) -> list[str]:
    names = list(usual) if given is None else [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise InputError("--datasets is empty; give names with commas between them")
    return list(dict.fromkeys(names))


def _at_least_one(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise InputError(f"{option} is {value}; at least 1 is needed")
    return value


def _say(text: str) -> None:
    screen.print(text, markup=False, highlight=False, soft_wrap=True)
