"""Command line of the reproduction: `l2g2g reproduce ...`. Results on stdout, plan and progress on stderr."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.command_help import App
from l2g2g.command_options import DataDirOption, QuietOption
from l2g2g.errors import InputError
from l2g2g.reproduce.progress import announce, run_plan, say

if TYPE_CHECKING:
    from l2g2g.reproduce.cells import AnyCell
    from l2g2g.reproduce.study import Choice

DatasetsOption = Annotated[str | None, typer.Option(help="Names of graphs, with commas between them.")]
MethodsOption = Annotated[
    str | None,
    typer.Option(
        help="gae, fastgae, gae+l2g, l2g2g (as the authors ran it), default (this project's); not for the ablation."
    ),
]
SeedsOption = Annotated[int | None, typer.Option(help="Seeds 0 … N-1 of every graph.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="A small graph, one seed, few epochs: to see that it works.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the finished cells, report and figures; else runs/reproduce, or -quick."),
]
JobsOption = Annotated[int, typer.Option("--workers", "--jobs", help="Processes that share the work, one thread each.")]
ThreadsOption = Annotated[int | None, typer.Option(help="CPU threads of a cell (with one worker).")]

_MOST_SEEDS = 1000

reproduce = App(
    help="The paper's tables, figures and claims, and more: many runs, resumable, one report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@reproduce.callback()
def common() -> None:
    """The paper's tables, figures and claims, and more: many runs, resumable, one report.

    A finished cell is in OUT/NAME.jsonl at once, a long one that was killed goes on from its last checkpoint in
    OUT/cells. Start the same command again to go on, or on a second terminal to share the work. A cell that fails is
    told in the report and tried again by the next start; where none goes well the command fails as the first of them.
    Every command writes OUT/report.html and OUT/report.md about all that is in the folder, and the figures as SVG and
    PNG.
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


def _add_study(name: str, summary: str) -> None:
    """A command for a study that takes graphs, methods and seeds."""

    def run_study(
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
        _run([name], _choice(datasets, methods, seeds, quick), data_dir, out, jobs, threads, quiet)

    reproduce.command(name, help=summary)(run_study)


_add_study("performance", "The tables of AUC and AP: all methods, ten seeds, the paper's evaluation and an honest one.")
_add_study("training-time", "Seconds per epoch of every method over the data sets, partitioning beside it.")
_add_study("patches", "AUC and AP for 2 to 10 patches.")
_add_study("cuts", "AUC by how the patches are cut: passes of FENNEL, or METIS.")
_add_study("patch-time", "Seconds per epoch for 2 to 30 patches.")
_add_study(
    "heterogeneous",
    "Block models with unequal, nested and overlapping blocks, hubs and bad features, and what each allows at best.",
)


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

    folder = _finished(out, quick)
    document = build_document(read_evidence(folder, quick), [])
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

    folder = _finished(out, quick)
    document = write_report(folder, quick)
    if insert is not None:
        insert_report(document, insert, os.path.relpath(folder / "figures", insert.parent))
    if not quiet:
        typer.echo(f"{folder / 'report.html'}, report.md, figures/")


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
    from l2g2g.graphs.write import make_folder
    from l2g2g.reports.charts import require_matplotlib
    from l2g2g.reports.markdown import render_section
    from l2g2g.reproduce.cells import raise_if_all_failed
    from l2g2g.reproduce.report import STUDIES, note_command, write_report

    require_matplotlib()
    _at_least_one("--workers", jobs)
    _at_least_one("--threads", threads)
    folder = make_folder(_folder(out, choice.quick))
    _check_kind(folder, choice.quick)
    plans = {}
    for name in names:
        own = choice if name not in ("complexity", "heterogeneous") or len(names) == 1 else _without_datasets(choice)
        plans[name] = _available(STUDIES[name].plan(own), own, data_dir, quiet)
    if not any(plans.values()):
        raise InputError(f"nothing to run: {' and '.join(names)} has no cell with these --methods and --datasets")
    if len(names) > 1 and not quiet:
        say(f"{sum(map(len, plans.values())):,} cells in {len(names)} studies:")
        for name, cells in plans.items():
            announce(cells, folder / f"{name}.jsonl", data_dir, jobs)
    rows: list[dict[str, Any]] = []
    everything: list[dict[str, Any]] = []
    for name, cells in plans.items():
        rows = list(run_plan(cells, folder / f"{name}.jsonl", data_dir, jobs, threads, quiet).values())
        everything += rows
    note_command(folder, _command(names, choice, data_dir, jobs, threads))
    document = write_report(folder, choice.quick)
    if tell and not quiet:
        wanted = names if len(names) == 1 else [*names, "claims"]
        shown = [section for section in document.sections if section.name in wanted]
        typer.echo("\n\n".join(render_section(section, "figures") for section in shown))
        typer.echo(f"\n{folder / 'report.html'}, report.md, figures/")
    raise_if_all_failed(everything)
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
        say(f"left out, because the file is missing: {', '.join(left_out)}; give --data-dir")
    return [cell for cell in cells if cell.dataset not in left_out]


def _folder(out: Path | None, quick: bool) -> Path:
    return out or Path("runs/reproduce-quick" if quick else "runs/reproduce")


def _finished(out: Path | None, quick: bool) -> Path:
    """A folder that something was run in."""
    folder = _folder(out, quick)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}; run l2g2g reproduce all first, or give its --out")
    _check_kind(folder, quick)
    return folder


def _check_kind(folder: Path, quick: bool) -> None:
    """Quick cells and others answer different questions: a folder holds one kind."""
    from l2g2g.reproduce.report import read_commands

    kinds = {"--quick" in command.split() for command in read_commands(folder)}
    if kinds == {not quick}:
        remedy = "leave --quick out" if quick else "add --quick"
        raise InputError(f"{folder}: holds {'no' if quick else 'a'} quick run; {remedy}, or give another --out")


def _choice(datasets: str | None, methods: str | None, seeds: int | None, quick: bool) -> Choice:
    from l2g2g.reproduce.study import Choice

    if seeds is not None and seeds > _MOST_SEEDS:
        raise InputError(f"--seeds is {seeds}; at most {_MOST_SEEDS:,} are planned at once")
    return Choice(_names("--datasets", datasets), _names("--methods", methods), _at_least_one("--seeds", seeds), quick)


def _names(option: str, given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    from l2g2g.graphs.datasets import normalise_name

    names = [normalise_name(name) for name in given.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} is empty; give names with commas between them")
    return tuple(dict.fromkeys(names))


def _command(names: list[str], choice: Choice, data_dir: Path | None, jobs: int, threads: int | None) -> str:
    """The command that anyone can repeat; folders are the reader's own."""
    parts = ["l2g2g", "reproduce", names[0] if len(names) == 1 else "all"]
    parts += ["--datasets", ",".join(choice.datasets)] if choice.datasets else []
    parts += ["--methods", ",".join(choice.methods)] if choice.methods else []
    parts += ["--seeds", str(choice.seeds)] if choice.seeds else []
    parts += ["--data-dir", "DIR"] if data_dir else []
    parts += ["--quick"] if choice.quick else []
    parts += ["--workers", str(jobs)] if jobs > 1 else []
    parts += ["--threads", str(threads)] if threads is not None else []
    return shlex.join([*parts, "--out", "DIR"])


def _at_least_one(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise InputError(f"{option} is {value}; at least 1 is needed")
    return value
