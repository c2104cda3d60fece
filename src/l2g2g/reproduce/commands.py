"""Command line of the reproduction: `l2g2g reproduce ...`. Results on stdout, plan and progress on stderr."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from l2g2g.errors import InputError

if TYPE_CHECKING:
    from l2g2g.reproduce.cells import AnyCell
    from l2g2g.reproduce.runner import Progress
    from l2g2g.reproduce.study import Choice

DatasetsOption = Annotated[str | None, typer.Option(help="Names of graphs, with commas between them.")]
MethodsOption = Annotated[
    str | None, typer.Option(help="gae, fastgae, gae+l2g, l2g2g (as the authors ran it), default (this project's).")
]
SeedsOption = Annotated[int | None, typer.Option(help="Seeds 0 … N-1 of every graph.")]
DataDirOption = Annotated[Path | None, typer.Option(help="Where named data sets lie, as cora-ml.npz or cora_ml.npz.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="A small graph, one seed, few epochs: to see that it works.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the finished cells, report and figures. [default: runs/reproduce, or -quick]"),
]
JobsOption = Annotated[int, typer.Option("--workers", "--jobs", help="Processes that share the work, one thread each.")]
ThreadsOption = Annotated[int | None, typer.Option(help="CPU threads of a cell (with one worker).")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Silence all but errors.")]

reproduce = typer.Typer(
    help="The paper's tables, figures and claims, and more: many runs, resumable, one report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
screen = Console(stderr=True)


@reproduce.callback()
def common() -> None:
    """The paper's tables, figures and claims, and more: many runs, resumable, one report.

    A finished cell is in OUT/NAME.jsonl at once, a long one that was killed goes on from its last checkpoint in
    OUT/cells. Start the same command again to go on, or on a second terminal to
    share the work; failed cells are tried again by the next start. Every command writes OUT/report.html and
    OUT/report.md about all that is in the folder, and the figures as SVG and PNG.
    """


@reproduce.command()
def datasets(
    datasets: DatasetsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    quiet: QuietOption = False,
) -> None:
    """The paper's table of nodes, edges and features beside what is drawn or read here."""
    _run(["datasets"], _choice(datasets, None, None, quick), data_dir, out, jobs, None, quiet)


@reproduce.command()
def performance(
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """The tables of AUC and AP: all methods, ten seeds, the paper's evaluation and an honest one."""
    _run(["performance"], _choice(datasets, methods, seeds, quick), data_dir, out, jobs, threads, quiet)


@reproduce.command("training-time")
def training_time(
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Seconds per epoch of every method over the data sets, partitioning beside it."""
    _run(["training-time"], _choice(datasets, methods, seeds, quick), data_dir, out, jobs, threads, quiet)


@reproduce.command()
def patches(
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """AUC and AP for 2 to 10 patches."""
    _run(["patches"], _choice(datasets, methods, seeds, quick), data_dir, out, jobs, threads, quiet)


@reproduce.command("patch-time")
def patch_time(
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Seconds per epoch for 2 to 30 patches."""
    _run(["patch-time"], _choice(datasets, methods, seeds, quick), data_dir, out, jobs, threads, quiet)


@reproduce.command()
def complexity(
    methods: MethodsOption = None,
    seeds: SeedsOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """How the time of an epoch grows in N, M, F, patches and layers, on generated graphs."""
    _run(["complexity"], _choice(None, methods, seeds, quick), None, out, jobs, threads, quiet)


@reproduce.command()
def heterogeneous(
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Block models with unequal, nested and overlapping blocks, hubs and bad features, and what each allows at best."""
    _run(["heterogeneous"], _choice(datasets, methods, seeds, quick), data_dir, out, jobs, threads, quiet)


@reproduce.command()
def ablation(
    datasets: DatasetsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """What in L2G2G matters: encoders, alignment, pairs, masks, assembly and negatives, changed and crossed.

    Writes ablation.md (tables and conclusion), ablation.svg and ablation.png besides.
    """
    from l2g2g.graphs.write import write_text
    from l2g2g.reproduce import ablation as study
    from l2g2g.reproduce.ablation_section import epochs_of
    from l2g2g.reproduce.report import draw_ablation

    choice, folder = _choice(datasets, None, seeds, quick), _folder(out, quick)
    rows = _run(["ablation"], choice, data_dir, out, jobs, threads, quiet, tell=False)
    names = list(choice.datasets or dict.fromkeys(row["cell"]["dataset"] for row in rows))
    text = study.write_markdown(rows, names, epochs_of(quick))
    write_text(folder / "ablation.md", text)
    draw_ablation(rows, quick, folder)
    if not quiet:
        typer.echo(text)
        typer.echo(f"{folder / 'ablation.md'}, ablation.svg, ablation.png: {len(rows)} cells")


@reproduce.command("all")
def everything(
    datasets: Annotated[
        str | None,
        typer.Option(help="Names of graphs, for all but complexity and heterogeneous, which draw their own."),
    ] = None,
    methods: MethodsOption = None,
    seeds: SeedsOption = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: JobsOption = 1,
    threads: ThreadsOption = None,
    quiet: QuietOption = False,
) -> None:
    """All of it, one after another, and the report with the verdicts."""
    from l2g2g.reproduce.report import STUDIES

    _run(list(STUDIES), _choice(datasets, methods, seeds, quick), data_dir, out, jobs, threads, quiet)


@reproduce.command()
def claims(quick: QuickOption = False, out: OutOption = None) -> None:
    """Each claim of the paper, the evidence of the finished cells, and the verdict; runs nothing."""
    from l2g2g.reports.markdown import render_section
    from l2g2g.reproduce.report import build_document, read_evidence

    document = build_document(read_evidence(_folder(out, quick), quick), [])
    typer.echo(render_section(document.sections[0], "figures"))


@reproduce.command()
def report(
    quick: QuickOption = False,
    out: OutOption = None,
    insert: Annotated[Path | None, typer.Option(help="Also put it between the marks of this Markdown file.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Make report.html, report.md and the figures again from the finished cells; runs nothing."""
    from l2g2g.reproduce.report import insert_report, write_report

    folder = _folder(out, quick)
    document = write_report(folder, quick)
    if insert is not None:
        insert_report(document, insert, os.path.relpath(folder / "figures", insert.parent))
    if not quiet:
        _tell_of_old_settings(folder, quick)
        typer.echo(f"{folder / 'report.html'}, report.md, {len(document.charts())} figures")


def _tell_of_old_settings(folder: Path, quick: bool) -> None:
    """Presets change; lines that were made before say what was true then."""
    from l2g2g.reproduce.cells import Cell
    from l2g2g.reproduce.report import read_evidence

    for name, rows in read_evidence(folder, quick).rows.items():
        runs = [row for row in rows if "error" not in row and "method" in row["cell"]]
        old = sum(not Cell(**row["cell"]).is_answered_by(row) for row in runs)
        if old:
            _say(f"{name}: {old:,} of {len(runs):,} cells were run with settings that their presets no longer have")


def _run(
    names: list[str],
    choice: Choice,
    data_dir: Path | None,
    out: Path | None,
    jobs: int,
    threads: int | None,
    quiet: bool,
    tell: bool = True,
) -> list[dict[str, Any]]:
    """Plan all studies, say what will be run, run it, and write the report. Returns the lines of the last study."""
    from l2g2g.reports.charts import require_matplotlib
    from l2g2g.reports.markdown import render_section
    from l2g2g.reproduce.report import STUDIES, note_command, write_report

    require_matplotlib()
    _at_least_one("--workers", jobs)
    folder = _folder(out, choice.quick)
    plans = {}
    for name in names:
        own = choice if name not in ("complexity", "heterogeneous") or len(names) == 1 else _without_datasets(choice)
        plans[name] = _available(STUDIES[name].plan(own), own, data_dir, quiet)
    if len(names) > 1 and not quiet:
        _say(f"{sum(map(len, plans.values())):,} cells in {len(names)} studies:")
        for name, cells in plans.items():
            _announce(cells, folder / f"{name}.jsonl", data_dir, jobs)
    note_command(folder, _command(names, choice, data_dir))
    rows: list[dict[str, Any]] = []
    for name, cells in plans.items():
        rows = list(run_plan(cells, folder / f"{name}.jsonl", data_dir, jobs, threads, quiet).values())
    document = write_report(folder, choice.quick)
    if tell and not quiet:
        wanted = names if len(names) == 1 else [*names, "claims"]
        shown = [section for section in document.sections if section.name in wanted]
        typer.echo("\n\n".join(render_section(section, "figures") for section in shown))
        typer.echo(f"\n{folder / 'report.html'}, report.md, figures/")
    return rows


def _without_datasets(choice: Choice) -> Choice:
    from dataclasses import replace

    return replace(choice, datasets=None)


def _available(cells: list[AnyCell], choice: Choice, data_dir: Path | None, quiet: bool) -> list[AnyCell]:
    """Cells whose graph is there. One that was asked for by name and is missing is an error of its reading."""
    from l2g2g.graphs.datasets import list_datasets

    if choice.datasets is not None:
        return cells
    missing = {info.name for info in list_datasets(data_dir) if not info.available}
    left_out = [name for name in dict.fromkeys(cell.dataset for cell in cells) if name in missing]
    if left_out and not quiet:
        _say(f"left out, because the file is missing: {', '.join(left_out)}; give --data-dir")
    return [cell for cell in cells if cell.dataset not in left_out]


def run_plan(
    cells: Sequence[AnyCell], path: Path, data_dir: Path | None, jobs: int, threads: int | None, quiet: bool
) -> dict[str, dict[str, Any]]:
    """Say what will be run and how long it should take, run it, and show how far it is."""
    from l2g2g.reproduce.runner import run_cells

    for cell in cells:
        _ = cell.config  # refuse settings that cannot work before anything runs
    num_done = _announce(cells, path, data_dir, jobs, quiet)
    with _bar(len(cells), num_done, quiet) as on_progress:
        rows = run_cells(cells, path, data_dir=data_dir, jobs=jobs, threads=threads, on_progress=on_progress)
    failed = sum("error" in row for row in rows.values())
    if failed and not quiet:
        _say(f"{failed:,} cells failed; see 'error' in {path}")
    return rows


def _announce(cells: Sequence[AnyCell], path: Path, data_dir: Path | None, jobs: int, quiet: bool = False) -> int:
    """Say how many cells there are and how long they should take. Returns how many are done."""
    from l2g2g.reproduce.cells import Journal
    from l2g2g.reproduce.runner import expect_seconds, measure_sizes

    sizes = measure_sizes(dict.fromkeys(cell.dataset for cell in cells), data_dir)
    journal = Journal(path)
    answered = journal.answers(cells)
    journal.close()
    if not quiet:
        left = [cell for cell in cells if cell.key not in answered]
        seconds = expect_seconds(left, answered.values(), sizes) / jobs
        done = f", {len(answered):,} of them done" if answered else ""
        graphs = ", ".join(sizes) if len(sizes) < 9 else f"{len(sizes)} graphs"
        _say(f"{len(cells):,} cells on {graphs}{done}; about {describe_time(seconds)} to go -> {path}")
    return len(answered)


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


def _folder(out: Path | None, quick: bool) -> Path:
    return out or Path("runs/reproduce-quick" if quick else "runs/reproduce")


def _choice(datasets: str | None, methods: str | None, seeds: int | None, quick: bool) -> Choice:
    from l2g2g.reproduce.study import Choice

    return Choice(_names("--datasets", datasets), _names("--methods", methods), _at_least_one("--seeds", seeds), quick)


def _names(option: str, given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} is empty; give names with commas between them")
    return tuple(dict.fromkeys(names))


def _command(names: list[str], choice: Choice, data_dir: Path | None) -> str:
    """The command that anyone can repeat; folders are the reader's own."""
    parts = ["l2g2g", "reproduce", names[0] if len(names) == 1 else "all"]
    parts += ["--datasets", ",".join(choice.datasets)] if choice.datasets else []
    parts += ["--methods", ",".join(choice.methods)] if choice.methods else []
    parts += ["--seeds", str(choice.seeds)] if choice.seeds else []
    parts += ["--data-dir", "DIR"] if data_dir else []
    parts += ["--quick"] if choice.quick else []
    return shlex.join([*parts, "--out", "DIR"])


def _at_least_one(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise InputError(f"{option} is {value}; at least 1 is needed")
    return value


def _say(text: str) -> None:
    screen.print(text, markup=False, highlight=False, soft_wrap=True)
