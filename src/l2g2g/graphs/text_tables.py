"""Tables in text files of any common dialect, read in blocks: delimiter, comments, and the line number of every row."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from l2g2g.errors import InputError
from l2g2g.graphs.archives import open_bytes, parts_of, reading, text_parts
from l2g2g.graphs.arrow_tables import Columns, Stream, kept

TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
# Arrow also reads 007, -0 and 0x1F as integers; where a block holds such text, its ids are read as text first.
_PERHAPS_NOT_CANONICAL = re.compile(rb"0(?<![0-9.]0)(?:[0-9xX]|(?<=-0))")
_NUM_SAMPLE_LINES = 50
_MAX_COLUMNS = 30_000  # each takes several kilobytes while it is parsed
_BLOCK_BYTES = 1 << 24  # about so much of a file is one block
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_text_file(path: Path) -> bool:
    """Return True if the file name ends like a text table, compressed or not."""
    if path.is_dir():
        return False
    endings = [suffix.lower() for suffix in path.suffixes]
    if endings and endings[-1] == ".gz":
        endings.pop()
    return bool(endings) and endings[-1] in TEXT_ENDINGS


def is_text_table(path: Path) -> bool:
    """Return True for a text table, by its ending, or a folder of such parts."""
    return bool(text_parts(path)) if path.is_dir() else is_text_file(path)


class _Lines(NamedTuple):
    """Whole lines with data of one file. begins: True if they include its first line."""

    part: Path
    begins: bool
    content: bytes


@dataclass(frozen=True, eq=False)
class TextTable:
    """A text file, or the parts of a folder, as a stream of blocks.

    Attributes:
        delimiter: One character; a blank stands for any run of blanks and tabs.
        sample: Cells of the first lines of the first part that is not empty.
        contents: Blocks of lines; each pass may read the files again.
        places: Numbers of the columns to read, in this order.
    """

    path: Path
    parts: list[Path]
    delimiter: str
    sample: list[list[str]]
    contents: Stream[_Lines]
    places: tuple[int, ...]

    @property
    def titles(self) -> list[str]:
        """All cells of the first line."""
        return self.sample[0]

    @property
    def first_row(self) -> list[str]:
        """Cells of the first line in the columns to read."""
        return [self.titles[place] for place in self.places]

    @property
    def num_columns(self) -> int:
        """Number of columns to read."""
        return len(self.places)

    def of_columns(self, places: tuple[int, ...]) -> TextTable:
        """Return the same file with other columns to read."""
        return replace(self, places=places)

    @cached_property
    def quoted(self) -> bool:
        """True if the file has quotes: then blanks around text count."""
        return any(b'"' in lines.content for lines in self.contents())

    @cached_property
    def first_rows(self) -> dict[Path, list[str]]:
        """Cells of the first line of every part that is not empty."""
        found = ((part, next(filter(_holds_data, _lines(part)), None)) for part in self.parts)
        return {part: _cells(line, part, self.delimiter) for part, line in found if line is not None}

    def name_row(self, row: int, *, skip_first: bool) -> str:
        """Name a row in errors by its line, found by reading the file again. skip_first: parts begin with a header."""
        for part in self.parts:
            lines = (number for number, line in enumerate(_lines(part), start=1) if _holds_data(line))
            for number in islice(lines, int(skip_first), None):
                if row == 0:
                    return f"line {number}" if part == self.path else f"{part.name}, line {number}"
                row -= 1
        raise AssertionError("the row was read from these files")  # pragma: no cover

    def blocks(self) -> Iterator[TextBlock]:
        """Yield the blocks in order."""
        for part, begins, content in self.contents():
            if self.delimiter == " ":
                content = _single_blanks(content)
            yield TextBlock(part, begins, content, self.delimiter, len(self.titles), self.places)

    def texts(self, *, skip_first: bool, trim: bool = False) -> Iterator[Columns]:
        """Yield the columns as text, block by block. skip_first: parts begin with a header.

        trim: remove blanks around cells; in a file with quotes only around numbers.
        """
        for block in self.blocks():
            columns = block.texts(skip_first=skip_first)
            trimmer = trimmed_unless_quoted if trim and self.quoted else trimmed
            yield [trimmer(column) for column in columns] if trim else columns

    def edge_columns(self, *, skip_first: bool) -> Iterator[Columns]:
        """Yield two columns of integers and perhaps one of weights, block by block; see `TextBlock`."""
        for block in self.blocks():
            yield block.edge_columns(skip_first=skip_first)


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Some lines of a text table, not yet parsed.

    Attributes:
        begins: True if they include the first line of the file.
        content: The lines in UTF-8, each ended by a newline.
        width: Cells per line.
    """

    path: Path
    begins: bool
    content: bytes
    delimiter: str
    width: int
    places: tuple[int, ...]

    def columns(self, types: list[pa.DataType], *, skip_first: bool) -> list[pa.ChunkedArray]:
        """Parse the columns to read as the given types. skip_first: the first line of the file is a header.

        Raises:
            pyarrow.ArrowInvalid: A cell is not of its type.
            InputError: A line has another number of cells than the first.
        """
        longest = len(self.content.split(b"\n", 1)[0])  # Arrow parses blocks in parallel; a row must fit into one
        names = [str(index) for index in range(self.width)]
        chosen = [str(place) for place in self.places]
        try:
            table = pcsv.read_csv(
                pa.BufferReader(self.content),
                read_options=pcsv.ReadOptions(
                    column_names=names, skip_rows=int(skip_first and self.begins), block_size=max(1 << 22, 16 * longest)
                ),
                parse_options=pcsv.ParseOptions(
                    delimiter=self.delimiter, quote_char=False if self.delimiter == " " else '"'
                ),
                convert_options=pcsv.ConvertOptions(
                    column_types=dict(zip(chosen, types, strict=True)),
                    include_columns=chosen,
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return [pa.chunked_array([], type=column_type) for column_type in types]
            if "conversion error" not in str(error) or "UTF8" in str(error):
                self._name_odd_line(error)
            raise
        return table.columns

    def edge_columns(self, *, skip_first: bool) -> list[pa.ChunkedArray]:
        """Parse two columns of canonical integers and perhaps one of weights.

        Raises:
            pyarrow.ArrowInvalid: A cell is, or may be, something else; `texts` reads any cell.
            InputError: As `columns`.
        """
        if _PERHAPS_NOT_CANONICAL.search(self.content):
            raise pa.ArrowInvalid("perhaps there are leading zeros")
        return self.columns([pa.int64(), pa.int64(), pa.float64()][: len(self.places)], skip_first=skip_first)

    def texts(self, *, skip_first: bool) -> list[pa.ChunkedArray]:
        """Parse all columns as text, with the blanks around it."""
        with reading(self.path):
            return self.columns([pa.string()] * len(self.places), skip_first=skip_first)

    def _name_odd_line(self, error: Exception) -> None:
        for number, line in enumerate(_lines(self.path), start=1):
            if _holds_data(line) and (count := len(_cells(line, self.path, self.delimiter, number))) != self.width:
                raise InputError(
                    f"{self.path}: line {number} has {count} columns but the first has {self.width}; "
                    f"every line needs the same columns"
                ) from error


def open_text_table(path: Path, *, keep: bool, delimiter: str | None = None) -> TextTable:
    """Open a text file, or a folder of parts, with all its columns.

    keep: blocks stay in memory for further passes. delimiter: None finds it by the first lines.
    """
    parts = parts_of(path)
    contents: Stream[_Lines] = partial(_contents, parts)
    contents = kept(contents) if keep else contents
    part, lines = _sample_lines(contents(), path)
    if not lines:
        raise InputError(f"{path}: the {'parts are' if path.is_dir() else 'file is'} empty; it needs at least one row")
    delimiter = _find_delimiter(lines, part) if delimiter is None else delimiter
    sample = [_split(line, delimiter) for line in lines]
    if len(sample[0]) > _MAX_COLUMNS:
        raise InputError(f"{path}: {len(sample[0]):,} columns; use .npz or .npy for more than {_MAX_COLUMNS:,}")
    return TextTable(path, parts, delimiter, sample, contents, tuple(range(len(sample[0]))))


def trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Remove blanks around text."""
    return pc.utf8_trim_whitespace(column)


def trimmed_unless_quoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Remove blanks around numbers; leave other text as it is."""
    without_blanks = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.match_substring_regex(without_blanks, NUMBER), without_blanks, column)


def is_number(text: str) -> bool:
    """Return True if a cell reads as a number; NaN and Inf do not."""
    return re.match(NUMBER, text.strip()) is not None


def _contents(parts: list[Path]) -> Iterator[_Lines]:
    for part in parts:
        for number, content in enumerate(_blocks_of(part)):
            yield _Lines(part, number == 0, content)


def _blocks_of(path: Path) -> Iterator[bytes]:
    """Yield the lines that hold data, about _BLOCK_BYTES of the file at a time."""
    with open_bytes(path) as stream:
        head = stream.read(4096)
        if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head:
            raise InputError(f"{path}: not UTF-8 text; save the file as UTF-8")
        stream.seek(len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0)
        rest = b""
        while len(block := stream.read(_BLOCK_BYTES)) == _BLOCK_BYTES:
            block = rest + block
            # A line may end with \r alone; a \r at the end may be half of \r\n.
            end = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, len(block) - 1) + 1
            content, rest = _without_comments(block[:end]), block[end:]
            if content:
                yield content
    content = _without_comments(rest + block)
    if content:
        yield content


def _without_comments(content: bytes) -> bytes:
    """Return the lines that hold data, each ended by a newline."""
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    starts = _first_bytes_of_lines(content)
    if starts & {b" ", b"\t", b"\n"}:
        content = re.sub(rb"(?m)^[ \t]*\n|^ +|^[ \t]+(?=[#%])|^[ \t]+\Z", b"", content)
        starts = _first_bytes_of_lines(content)
    if starts & {b"#", b"%"}:
        content = re.sub(rb"(?m)^[#%][^\n]*(\n|\Z)", b"", content)
    return content.removesuffix(b"\n") + b"\n" if content.strip() else b""


def _first_bytes_of_lines(content: bytes) -> set[bytes]:
    """Return the first byte of every line; much faster than searching for lines to drop."""
    found = {content[:1]}
    block_size = 1 << 24
    for start in range(0, len(content), block_size):
        block = np.frombuffer(content, np.uint8, min(block_size + 1, len(content) - start), start)
        found.update(bytes([byte]) for byte in np.unique(block[1:][block[:-1] == ord("\n")]))
    return found


def _single_blanks(content: bytes) -> bytes:
    """Replace any run of blanks and tabs by one blank, and remove those at the ends of lines."""
    if b"\t" in content:
        content = content.replace(b"\t", b" ")
    while b"  " in content:
        content = content.replace(b"  ", b" ")
    return content.replace(b" \n", b"\n").replace(b"\n ", b"\n").lstrip(b" ")


def _sample_lines(contents: Iterator[_Lines], path: Path) -> tuple[Path, list[str]]:
    """Return the first lines, and the file they are from."""
    sample = b""
    for part, begins, content in contents:
        if begins and sample:
            break
        path, end = part, 0
        for _ in range(_NUM_SAMPLE_LINES - sample.count(b"\n")):
            end = content.find(b"\n", end) + 1
            if end == len(content):
                break
        sample += content[:end]
        if sample.count(b"\n") >= _NUM_SAMPLE_LINES:
            break
    return path, _decoded(sample, path).splitlines()


def _decoded(line: bytes, path: Path, number: int | None = None) -> str:
    """Decode one or several lines. number: of the line, for the error."""
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"{path}: " if number is None else f"{path}: line {number} is "
        raise InputError(
            f"{where}not UTF-8 text ({error.reason}: {error.object[error.start :][:1]!r}); save the file as UTF-8, "
            f"for example with iconv -f LATIN1 -t UTF-8"
        ) from error


def _find_delimiter(sample: list[str], path: Path) -> str:
    """Return the delimiter that splits every sampled line into the same number of cells, two or more."""
    comma_first = ".csv" in [suffix.lower() for suffix in path.suffixes]
    candidates = [",", "\t", ";", " "] if comma_first else ["\t", ",", ";", " "]
    for delimiter in candidates:
        widths = {len(_split(line, delimiter)) for line in sample}
        if len(widths) == 1 and widths.pop() > 1:
            return delimiter
    # No delimiter fits every line: take the one of the first line, so that the odd line can be named.
    return next((delimiter for delimiter in candidates if delimiter in sample[0]), ",")


def _cells(line: bytes, path: Path, delimiter: str, number: int | None = None) -> list[str]:
    return _split(_decoded(line, path, number).strip(" "), delimiter)


def _split(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:  # a cell longer than this parser takes
        return [cell.strip() for cell in line.split(delimiter)]


def _lines(path: Path) -> Iterator[bytes]:
    """Yield all lines one by one, because a file may be larger than memory."""
    with open_bytes(path) as stream:
        for line in stream:
            yield from line.removesuffix(b"\n").removesuffix(b"\r").split(b"\r")


def _holds_data(line: bytes) -> bool:
    stripped = line.removeprefix(_BYTE_ORDER_MARK).strip()
    return bool(stripped) and not stripped.startswith((b"#", b"%"))
