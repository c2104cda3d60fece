"""Markdown text of a document."""

from __future__ import annotations

from l2g2g.reports.charts import Chart
from l2g2g.reports.document import Block, Code, DataTable, Document, Entry, Picture, Section

# Characters with a meaning in Markdown: links, tags, emphasis, columns.
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|"})


def render_markdown(document: Document, figures: str) -> str:
    """The whole text. figures: the folder of the charts as links need it."""
    parts = [f"# {_text(document.title)}"]
    parts += [render_section(section, figures) for section in document.sections]
    return "\n\n".join(parts) + "\n"


def render_section(section: Section, figures: str) -> str:
    """A heading and its blocks."""
    return "\n\n".join([f"## {_text(section.title)}", *(_block(block, figures) for block in section.blocks)])


def _block(block: Block, figures: str) -> str:
    if isinstance(block, DataTable):
        return _table(block)
    if isinstance(block, (Chart, Picture)):
        return f"![{_text(block.caption)}]({figures}/{block.name}.svg)"
    if isinstance(block, Code):
        return f"<!-- not run: what was run for this report -->\n```bash\n{block.text}\n```"
    return _text(block)


def _table(table: DataTable) -> str:
    rule = ["---" if table.is_words(column) else "--:" for column in range(len(table.columns))]
    lines = [[_text(name) for name in table.columns], rule, *([_entry(entry) for entry in row] for row in table.rows)]
    return "\n".join([f"{_text(table.caption)}", "", *(f"| {' | '.join(line)} |" for line in lines)])


def _entry(entry: str | Entry) -> str:
    if isinstance(entry, str):
        return _text(entry)
    text = f"**{_text(entry.text)}**" if entry.best else _text(entry.text)
    return f"<u>{text}</u>" if entry.better else text


def _text(text: str) -> str:
    return " ".join(text.translate(_SPECIAL).split())
