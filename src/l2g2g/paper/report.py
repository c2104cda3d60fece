"""Report of all finished cells of a folder: one HTML page, Markdown and figures."""

from __future__ import annotations

import json
from pathlib import Path

from l2g2g.errors import InputError
from l2g2g.graphs.archives import reading
from l2g2g.graphs.write import make_folder, write_text, writing
from l2g2g.paper import (
    ablation,
    claims,
    complexity,
    cuts,
    datasets_table,
    heterogeneous,
    patch_time,
    patches,
    performance,
    training_time,
)
from l2g2g.paper.cells import is_current
from l2g2g.paper.journal import read_lines
from l2g2g.paper.results import Row, latest
from l2g2g.paper.study import Study
from l2g2g.paper.verdicts import Evidence
from l2g2g.reports.charts import draw_chart
from l2g2g.reports.page import Block, Code, DataTable, Document, Entry, Section, render_page
from l2g2g.reports.tables import render_markdown

STUDIES: dict[str, Study] = {
    "datasets": datasets_table,
    "performance": performance,
    "training-time": training_time,
    "patches": patches,
    "cuts": cuts,
    "patch-time": patch_time,
    "complexity": complexity,
    "heterogeneous": heterogeneous,
    "ablation": ablation,
}
COMMANDS = "commands.txt"
BEGIN, END = "<!-- report:begin -->", "<!-- report:end -->"


def read_evidence(folder: Path, quick: bool) -> Evidence:
    """Read the finished cells of all studies."""
    rows = {name: latest(row for _, row in read_lines(folder / f"{name}.jsonl")) for name in STUDIES}
    return Evidence({name: found for name, found in rows.items() if found}, quick)


def build_document(evidence: Evidence, commands: list[str]) -> Document:
    """Build the sections: the claims, each study, the environment."""
    if not evidence.rows:
        raise InputError("there are no finished cells in this folder; run l2g2g reproduce all first")
    title = "L2G2G: the paper, reproduced"
    sections = [Section("claims", claims.TITLE, claims.present(evidence))]
    if evidence.quick:
        warning = (
            "A quick run: few epochs and small graphs, to test that everything works. Its figures have no meaning."
        )
        sections[0].blocks.insert(0, warning)
        title += " (quick run)"
    for name, rows in evidence.rows.items():
        blocks = STUDIES[name].present(rows, evidence.quick)
        sections.append(Section(name, STUDIES[name].TITLE, blocks + _old_settings(rows) + _failures(rows)))
    sections.append(Section("environment", "Environment and commands", _environment(evidence, commands)))
    return Document(title, sections)


def write_report(folder: Path, quick: bool) -> Document:
    """Draw all figures into FOLDER/figures and write FOLDER/report.html and report.md."""
    evidence = read_evidence(folder, quick)
    document = build_document(evidence, read_commands(folder))
    figures = make_folder(folder / "figures")
    with writing(figures):
        for chart in document.charts():
            draw_chart(chart, figures)
        if "ablation" in evidence.rows:
            ablation.draw_differences(evidence.of("ablation"), quick, figures)
    write_text(folder / "report.html", render_page(document, figures))
    write_text(folder / "report.md", render_markdown(document, "figures"))
    return document


def insert_report(document: Document, target: Path, figures: str) -> None:
    """Write the report as Markdown between the two marks of a file. figures: folder relative to the file."""
    with reading(target):
        text = target.read_text("utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise InputError(f"{target}: needs the marks {BEGIN} and {END}, once each and in this order")
    head, rest = text.split(BEGIN)
    body = render_markdown(document, figures).split("\n", 1)[1].strip()
    write_text(target, f"{head}{BEGIN}\n\n{body}\n\n{END}{rest.split(END)[1]}")


def note_command(folder: Path, command: str) -> None:
    """Add a command to the folder's list unless it is there."""
    known = read_commands(folder)
    if command not in known:
        write_text(folder / COMMANDS, "\n".join([*known, command]) + "\n")


def read_commands(folder: Path) -> list[str]:
    """Read the commands that were run on a folder."""
    path = folder / COMMANDS
    if not path.exists():
        return []
    with reading(path):
        return path.read_text("utf-8").splitlines()


def _old_settings(rows: list[Row]) -> list[Block]:
    """Count the runs whose preset has changed since."""
    good = [row for row in rows if "error" not in row]
    num_old = sum(not is_current(row) for row in good)
    if not num_old:
        return []
    return [f"{num_old:,} of the {len(good):,} runs were made with settings that their presets no longer have."]


def _failures(rows: list[Row]) -> list[Block]:
    """List the cells that failed, with their errors."""
    failed = [row for row in rows if "error" in row]
    if not failed:
        return []
    entries: list[list[str | Entry]] = [[json.dumps(row["cell"], ensure_ascii=False), row["error"]] for row in failed]
    return [DataTable("Cells that failed.", ["cell", "error"], entries, num_labels=2)]


def _environment(evidence: Evidence, commands: list[str]) -> list[Block]:
    counts: dict[str, int] = {}
    hours = 0.0
    for rows in evidence.rows.values():
        for row in rows:
            found = row.get("environment")
            words = "not recorded" if found is None else ", ".join(f"{name} {value}" for name, value in found.items())
            counts[words] = counts.get(words, 0) + 1
            hours += row.get("cell_seconds", 0.0) / 3600
    entries: list[list[str | Entry]] = [[words, f"{count:,}"] for words, count in counts.items()]
    blocks: list[Block] = [
        f"{sum(counts.values()):,} cells, {hours:.2f} hours of computing. Every line is in the .jsonl file of its "
        "study, and this report is made from those lines alone: l2g2g reproduce report --out DIR.",
        DataTable("Where the cells were run.", ["environment", "cells"], entries),
    ]
    if commands:
        blocks += ["Commands, with DIR for the folders:", Code("\n".join(commands))]
    return blocks
