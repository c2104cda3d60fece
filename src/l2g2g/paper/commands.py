"""Command line of the reproduction: `l2g2g reproduce ...`. Results on stdout, plan and progress on stderr."""

from __future__ import annotations

import inspect
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import DataDirOption, QuietOption
from l2g2g.cli.help import App
from l2g2g.cli.messages import say
from l2g2g.errors import InputError

if TYPE_CHECKING:
    from l2g2g.paper.cells import AnyCell
    from l2g2g.paper.study import Choice

QuickOption = Annotated[bool, typer.Option("--quick", help="A test run: a small graph, one seed, few epochs.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder for finished cells, report and figures; default runs/reproduce, or runs/reproduce-quick."
    ),
]
# Studies by command: the line of help, and the options that the study does not have.
_STUDIES = {
    "datasets": (
        "Nodes, edges and features: the paper's table beside the graphs read or generated here.",
        ("methods", "seeds", "threads"),
    ),
    "performance": (
        "AUC and AP of all methods, ten seeds, with the paper's evaluation and on held-out links.",
        (),
    ),
    "training-time": ("Seconds per epoch and for partitioning, by method and data set.", ()),
    "patches": ("AUC and AP for 2 to 10 patches.", ()),
    "cuts": ("AUC by partition: passes of FENNEL, or METIS.", ()),
    "patch-time": ("Seconds per epoch for 2 to 30 patches.", ()),
    "heterogeneous": (
        "AUC on block models with unequal, nested and overlapping blocks, hubs and bad features, beside the best "
        "possible AUC.",
        (),
    ),
    "complexity": (
        "Growth of the time of an epoch in N, M, F, patches and layers, on generated graphs.",
        ("datasets", "data_dir"),
    ),
    "ablation": (
        "AUC with parts of L2G2G changed one at a time and in combinations: encoders, alignment, pairs, masks, "
        "assembly, negatives and layers.\n\n"
        "Writes ablation.md (the tables), ablation.svg and ablation.png as well.",
        ("methods",),
    ),
    "all": (
        "All studies, one after another, and the report with the verdicts. --datasets does not apply to complexity and "
        "heterogeneous, which generate their graphs.",
        (),
    ),
}
_MAX_SEEDS = 1000

reproduce = App(
    help="Repeat the paper's experiments and write a report; an interrupted run can be resumed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@reproduce.callback()
def common() -> None:
    """Repeat the paper's experiments and write a report; an interrupted run can be resumed.

    A finished run, called a cell, is written to OUT/NAME.jsonl at once; a long one that was killed resumes from its
    last checkpoint in OUT/cells. Run the same command again to resume, or in a second terminal to share the work. A
    cell that fails is listed in the report and tried again by the next command; if all cells fail, the command fails
    with the error of the first. Every command writes OUT/report.html and OUT/report.md about all cells of the folder,
    and the figures as SVG and PNG.
    """


@reproduce.command()
def claims(quick: QuickOption = False, out: OutOption = None) -> None:
    """Print each claim of the paper with its evidence and verdict from the finished cells; runs nothing."""
    from l2g2g.paper.report import build_document, read_evidence
    from l2g2g.reports.tables import render_section

    folder = _finished(out, quick)
    document = build_document(read_evidence(folder, quick), [])
    typer.echo(render_section(document.sections[0], "figures"))


@reproduce.command()
def report(
    quick: QuickOption = False,
    out: OutOption = None,
    insert: Annotated[
        Path | None, typer.Option(help="Also write the report between the marks of this Markdown file.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Write report.html, report.md and the figures from the finished cells; runs nothing."""
    from l2g2g.paper.report import insert_report, write_report

    folder = _finished(out, quick)
    document = write_report(folder, quick)
    if insert is not None:
        insert_report(document, insert, os.path.relpath(folder / "figures", insert.parent))
    if not quiet:
        typer.echo(f"{folder / 'report.html'}, report.md, figures/")


def _run(
    name: str,
    *,
    datasets: Annotated[str | None, typer.Option(help="Names of graphs, with commas between them.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="gae, fastgae, gae+l2g, l2g2g (as the authors ran it), default (this project's); not for the ablation."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds 0 … N-1 of every graph.")] = None,
    data_dir: DataDirOption = None,
    quick: QuickOption = False,
    out: OutOption = None,
    jobs: Annotated[
        int, typer.Option("--workers", "--jobs", help="Processes that share the work, one thread each.")
    ] = 1,
    threads: Annotated[int | None, typer.Option(help="CPU threads of a cell (with one worker).")] = None,
    quiet: QuietOption = False,
) -> None:
    """Plan a study or all of them, print the plan, run it, and write and print the report."""
    from l2g2g.graphs.write import make_folder, write_text
    from l2g2g.paper.ablation import draw_differences
    from l2g2g.paper.cells import raise_if_all_failed
    from l2g2g.paper.report import STUDIES, note_command, write_report
    from l2g2g.paper.runner import announce, run_plan
    from l2g2g.reports.charts import require_matplotlib
    from l2g2g.reports.tables import render_section

    choice = _choice(datasets, methods, seeds, quick)
    require_matplotlib()
    _at_least_one("--workers", jobs)
    _at_least_one("--threads", threads)
    folder = make_folder(_folder(out, quick))
    _check_kind(folder, quick)
    names = list(STUDIES) if name == "all" else [name]
    plans = {}
    for study in names:
        generates_graphs = study in ("complexity", "heterogeneous")
        own = replace(choice, datasets=None) if name == "all" and generates_graphs else choice
        plans[study] = _available(STUDIES[study].plan(own), own, data_dir, quiet)
    if not any(plans.values()):
        raise InputError(f"nothing to run: {' and '.join(names)} has no cell with these --methods and --datasets")
    if name == "all" and not quiet:
        say(f"{sum(map(len, plans.values())):,} cells in {len(names)} studies:")
        for study, cells in plans.items():
            announce(cells, folder / f"{study}.jsonl", data_dir, jobs)
    rows: dict[str, list[dict[str, Any]]] = {}
    for study, cells in plans.items():
        rows[study] = list(run_plan(cells, folder / f"{study}.jsonl", data_dir, jobs, threads, quiet).values())
    note_command(folder, _command(name, choice, data_dir, jobs, threads))
    document = write_report(folder, quick)
    wanted = [*names, "claims"] if name == "all" else names
    text = "\n\n".join(render_section(part, "figures") for part in document.sections if part.name in wanted)
    files = f"{folder / 'report.html'}, report.md, figures/"
    if name == "ablation":
        write_text(folder / "ablation.md", text + "\n")
        draw_differences(rows["ablation"], quick, folder)
        files += ", ablation.md, ablation.svg, ablation.png"
    if not quiet:
        typer.echo(f"{text}\n\n{files}")
    raise_if_all_failed([row for own in rows.values() for row in own])


def _add_command(name: str, summary: str, left_out: tuple[str, ...]) -> None:
    """Add a command with the options of `_run`, except `left_out`."""
    signature = inspect.signature(_run, eval_str=True)
    kept = [option for option in signature.parameters.values() if option.name not in ("name", *left_out)]

    def command(**given: Any) -> None:
        _run(name, **given)

    command.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in kept}
    reproduce.command(name, help=summary)(command)


for _name, (_summary, _left_out) in _STUDIES.items():
    _add_command(_name, _summary, _left_out)


def _available(cells: list[AnyCell], choice: Choice, data_dir: Path | None, quiet: bool) -> list[AnyCell]:
    """Drop cells whose graph is not available, unless it was named: then reading it fails."""
    from l2g2g.graphs.datasets import list_datasets

    if choice.datasets is not None:
        return cells
    missing = {info.name for info in list_datasets(data_dir) if not info.available}
    left_out = [name for name in dict.fromkeys(cell.dataset for cell in cells) if name in missing]
    if left_out and not quiet:
        say(f"left out, files missing: {', '.join(left_out)}; use --data-dir")
    return [cell for cell in cells if cell.dataset not in left_out]


def _folder(out: Path | None, quick: bool) -> Path:
    return out or Path("runs/reproduce-quick" if quick else "runs/reproduce")


def _finished(out: Path | None, quick: bool) -> Path:
    """Return the folder of earlier cells, or raise InputError if it does not exist."""
    folder = _folder(out, quick)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}; run l2g2g reproduce all first, or give its --out")
    _check_kind(folder, quick)
    return folder


def _check_kind(folder: Path, quick: bool) -> None:
    """Refuse to mix quick and full runs in one folder."""
    from l2g2g.paper.report import read_commands

    kinds = {"--quick" in command.split() for command in read_commands(folder)}
    if kinds == {not quick}:
        remedy = "leave --quick out" if quick else "add --quick"
        raise InputError(f"{folder}: holds {'no' if quick else 'a'} quick run; {remedy}, or give another --out")


def _choice(datasets: str | None, methods: str | None, seeds: int | None, quick: bool) -> Choice:
    from l2g2g.paper.study import Choice

    if seeds is not None and seeds > _MAX_SEEDS:
        raise InputError(f"--seeds is {seeds}; at most {_MAX_SEEDS:,} are allowed")
    return Choice(_names("--datasets", datasets), _names("--methods", methods), _at_least_one("--seeds", seeds), quick)


def _names(option: str, given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    from l2g2g.graphs.datasets import normalise_name

    names = [normalise_name(name) for name in given.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} is empty; give names with commas between them")
    return tuple(dict.fromkeys(names))


def _command(name: str, choice: Choice, data_dir: Path | None, jobs: int, threads: int | None) -> str:
    """Return the command for the report, with DIR for folders."""
    parts = ["l2g2g", "reproduce", name]
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
