"""Document: the content of a report, rendered as an HTML page and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from l2g2g.reports.charts import Chart

EMPTY = "–"  # an empty entry of a table


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
