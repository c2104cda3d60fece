"""Page: a document as one HTML file that needs nothing else: no network, no fonts, figures inside, tables sortable."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files
from pathlib import Path

from l2g2g.reports.charts import Chart
from l2g2g.reports.document import Block, Code, DataTable, Document, Entry, Picture, Section

_NAME, _PROSE = 24, 60  # letters of the longest entry: up to here a name, beyond that whole sentences


def render_page(document: Document, figures: Path) -> str:
    """The whole file. figures: the folder that holds the SVG of every chart.

    Everything from data is escaped, and the page allows itself nothing but its own script, styles and figures.
    """
    style, script = ((files(__package__) / name).read_text("utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    links = "".join(f'<li><a href="#{escape(s.name)}">{escape(s.title)}</a></li>' for s in document.sections)
    body = "".join(_section(section, figures) for section in document.sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(document.title)}</title><style>{style}</style></head><body>"
        f"<h1>{escape(document.title)}</h1><nav><ul>{links}</ul></nav>{body}<script>{script}</script></body></html>\n"
    )


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
    """A table whose columns can be sorted by their headings (page.js).

    On a phone its first column stays while the others are scrolled. Where all columns are words and some are long, the
    rows become cards instead, and every entry says which column it is of.
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
    """The classes of a column: how much room its words need, and that the names of rows stay in view."""
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
