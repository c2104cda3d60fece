"""Text tables in pieces: as `text_tables`, for files that are larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from l2g2g.graphs.archives import open_bytes
from l2g2g.graphs.text_tables import TextTable, find_dialect, single_blanks, without_comments


@dataclass(frozen=True, eq=False)
class TextBatches:
    """A text file that is read anew for every pass over it.

    Attributes:
        path, delimiter, first_row: As of a `TextTable`.
        block_bytes: About so much of the file is a piece.
    """

    path: Path
    delimiter: str
    first_row: list[str]
    block_bytes: int

    @property
    def num_columns(self) -> int:
        """Cells per line."""
        return len(self.first_row)

    @cached_property
    def quoted(self) -> bool:
        """Whether any cell of the file is protected by quotes."""
        return any(b'"' in content for content in _contents(self.path, self.block_bytes))

    def tables(self, *, quoted: bool = False) -> Iterator[TextTable]:
        """The pieces, in order, none of them empty. quoted: see `TextTable`; only text needs it."""
        for content in _contents(self.path, self.block_bytes):
            if self.delimiter == " ":
                content = single_blanks(content)
            yield TextTable(self.path, content, self.delimiter, self.first_row, self.num_columns, quoted)


def open_text_batches(path: Path, block_bytes: int) -> TextBatches:
    """Find the delimiter of a file by its beginning."""
    delimiter, first_row = find_dialect(next(_contents(path, block_bytes), b""), path)
    return TextBatches(path, delimiter, first_row, block_bytes)


def _contents(path: Path, block_bytes: int) -> Iterator[bytes]:
    """Whole lines that hold data, about block_bytes of the file at a time."""
    rest = b""
    with open_bytes(path) as stream:
        while block := stream.read(block_bytes):
            block = rest + block
            # Files of very old systems end their lines by \r alone; a \r at the end may be half of \r\n.
            end = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, len(block) - 1) + 1
            content, rest = without_comments(block[:end], path), block[end:]
            if content:
                yield content
    content = without_comments(rest, path)
    if content:
        yield content
