"""Documents of text, tables and figures, and their HTML page: one file without network access."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from l2g2g.reports.charts import Chart

EMPTY = "–"  # an empty entry of a table
_NAME, _PROSE = 24, 60  # characters of the longest entry: up to the first a name, beyond the second sentences


@dataclass(frozen=True)
class Entry:
    """A highlighted table entry: best of its row, or better than the reference method."""

    text: str
    best: bool = False
    better: bool = False


@dataclass(frozen=True)
class DataTable:
    """A table with a caption. The first `num_labels` columns and the last `num_notes` are text, the others numbers."""

    caption: str
    columns: list[str]
    rows: list[list[str | Entry]]
    num_labels: int = 1
    num_notes: int = 0

    def is_words(self, column: int) -> bool:
        """Whether a column is text."""
        return column < self.num_labels or column >= len(self.columns) - self.num_notes

    def trimmed(self) -> DataTable:
        """The table without columns of numbers whose entries are all empty."""
        kept = [
            column
            for column in range(len(self.columns))
            if self.is_words(column) or not self.rows or any(_text(row[column]) != EMPTY for row in self.rows)
        ]
        rows = [[row[column] for column in kept] for row in self.rows]
        return replace(self, columns=[self.columns[column] for column in kept], rows=rows)


@dataclass(frozen=True)
class Code:
    """Commands, or other preformatted text."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A figure that is already drawn, as NAME.svg in the folder of figures."""

    name: str
    caption: str


Block: TypeAlias = str | DataTable | Chart | Picture | Code


@dataclass(frozen=True)
class Section:
    """A heading and its blocks. name: the anchor."""

    name: str
    title: str
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """A title and sections."""

    title: str
    sections: list[Section]

    def charts(self) -> list[Chart]:
        """The figures that are yet to be drawn, in order."""
        return [figure for figure in self.figures() if isinstance(figure, Chart)]

    def figures(self) -> list[Chart | Picture]:
        """All figures, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, (Chart, Picture))]


def _text(entry: str | Entry) -> str:
    return entry if isinstance(entry, str) else entry.text


def render_page(document: Document, figures: Path) -> str:
    """The whole page. figures: the folder that holds the SVG of every chart."""
    links = "".join(f'<li><a href="#{escape(s.name)}">{escape(s.title)}</a></li>' for s in document.sections)
    body = "".join(_section(section, figures) for section in document.sections)
    content = f"<h1>{escape(document.title)}</h1><nav><ul>{links}</ul></nav>{body}"
    return render_html(document.title, content, read_asset("page.css"), read_asset("page.js"))


def render_html(title: str, body: str, style: str, script: str, connects: bool = False) -> str:
    """A page whose content policy allows its own script, styles and embedded images, and nothing else.

    body: HTML in which everything from data is escaped; connects: whether the script may ask the server of the page.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    server = " connect-src 'self';" if connects else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:;{server} script-src 'sha256-{digest}'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}"
        f"<script>{script}</script></body></html>\n"
    )


def read_asset(name: str) -> str:
    """The text of a style sheet or script of this package."""
    return (files(__package__) / name).read_text("utf-8")


def _section(section: Section, figures: Path) -> str:
    blocks = "".join(_block(block, figures) for block in section.blocks)
    return f'<section id="{escape(section.name)}"><h2>{escape(section.title)}</h2>{blocks}</section>'


def _block(block: Block, figures: Path) -> str:
    if isinstance(block, DataTable):
        return render_table(block)
    if isinstance(block, (Chart, Picture)):
        return _figure(block, figures)
    if isinstance(block, Code):
        return f"<pre>{escape(block.text)}</pre>"
    return f"<p>{escape(block)}</p>"


def render_table(table: DataTable) -> str:
    """An HTML table that is sorted by clicks on its headings (page.js).

    On a narrow screen the first column stays in view while the others scroll. Where all columns are text and some are
    long, rows become cards instead, and every entry names its column.
    """
    kinds = [_kind(table, column) for column in range(len(table.columns))]
    stacked = all(map(table.is_words, range(len(table.columns)))) and "label prose" in kinds
    classes = [f' class="{kind}"' if kind else "" for kind in kinds]
    head = "".join(
        f'<th{kind} scope="col"><button type="button">{escape(name)}</button></th>'
        for kind, name in zip(classes, table.columns, strict=True)
    )
    labels = [f' data-label="{escape(name)}"' if stacked else "" for name in table.columns]
    opened = [f"<td{kind}{label}>" for kind, label in zip(classes, labels, strict=True)]
    lines = "".join(
        "<tr>" + "".join(f"{cell}{_entry(e)}</td>" for cell, e in zip(opened, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    return (
        f'<p class="caption">{escape(table.caption)}</p>'
        f'<div class="wide{" stacked" if stacked else ""}" tabindex="0"><table aria-label="{escape(table.caption)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _kind(table: DataTable, column: int) -> str:
    """CSS classes of a column, by the length of its longest entry."""
    if not table.is_words(column):
        return ""
    longest = max((len(e if isinstance(e, str) else e.text) for e in (row[column] for row in table.rows)), default=0)
    if longest > _PROSE:
        return "label prose"
    if longest > _NAME:
        return "label phrase"
    return "label name stays" if column == 0 else "label name"


def _entry(entry: str | Entry) -> str:
    if isinstance(entry, str):
        return escape(entry)
    text = f"<b>{escape(entry.text)}</b>" if entry.best else escape(entry.text)
    return f'<span class="better">{text}</span>' if entry.better else text


def _figure(chart: Chart | Picture, figures: Path) -> str:
    data = base64.b64encode((figures / f"{chart.name}.svg").read_bytes()).decode()
    caption = escape(chart.caption)
    image = f'<img id="figure-{escape(chart.name)}" alt="{caption}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
