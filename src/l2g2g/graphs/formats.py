"""Formats of graph files by their endings. Lists them without importing a reader.

A format that holds a whole graph is one module with a function, called as reader(path, directed=..., tables=...,
memory_limit=...), that returns a `Graph`; and one line of `WHOLE_GRAPHS`. Edge lists are streams, which may be larger
than memory: see `read_edges` and `npy_edges`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from l2g2g.errors import InputError

EDGE_LISTS = (".csv", ".tsv", ".txt", ".parquet", ".npy")
WHOLE_GRAPHS = {  # "module.function" of the reader
    ".npz": "matrix_files.read_npz_file",
    ".mtx": "matrix_files.read_matrix_graph",
    ".graphml": "other_libraries.read_graphml",
}
ENDINGS = (*EDGE_LISTS, ".gz", *WHOLE_GRAPHS)
IdChoice = Literal["text", "integer"]
Missing = Literal["error", "zero", "mean"]
ID_CHOICES: tuple[str, ...] = get_args(IdChoice)
MISSING_CHOICES: tuple[str, ...] = get_args(Missing)
_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "blank": " ", "space": " "}
_FLAGS = {"header": "--header/--no-header", "label_column": "--label-column"}


def whole_reader(path: Path) -> Callable[..., Any] | None:
    """The function that reads a file of a whole graph, packed by gzip or not; None for any other file.

    Example:
        >>> whole_reader(Path("a.mtx.gz")).__name__, whole_reader(Path("a.csv"))
        ('read_matrix_graph', None)
    """
    endings = [suffix.lower() for suffix in path.suffixes]
    ending = endings[-2] if endings[-1:] == [".gz"] and len(endings) > 1 else "".join(endings[-1:])
    if ending not in WHOLE_GRAPHS:
        return None
    module, _, function = WHOLE_GRAPHS[ending].partition(".")
    reader: Callable[..., Any] = getattr(import_module(f"l2g2g.graphs.{module}"), function)
    return reader


def describe_endings() -> str:
    """All endings for a message."""
    *first, last = WHOLE_GRAPHS
    parts = "a folder of .csv or .parquet parts"
    return f".csv, .tsv, .txt (also .gz), .parquet, {parts}, .npy, {', '.join(first)} or {last}"


@dataclass(frozen=True)
class TableOptions:
    """How tables are read. A column is named by its title, or by its number from 1 on.

    Attributes:
        source, target: Columns of an edge list that hold the two ends of an edge; found by evidence where not given.
        weight: Column of an edge list that holds weights.
        header: Whether the first row names the columns; decided by evidence where it is None.
        delimiter: One character, or comma, semicolon, tab or blank; found by evidence where it is None.
        ids: text or integer; where it is None, integers if every id is written as one, otherwise text.
        label_column: Column of a feature table that holds the class of each node and is no feature.
        missing: What a missing value of a feature becomes: error refuses it, zero is 0, mean is the mean of its column.
            zero and mean are also for nodes without a row.

    Example:
        >>> TableOptions(source="person", target="friend", delimiter="tab").delimiter
        '\\t'
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    ids: IdChoice | None = None
    label_column: str | None = None
    missing: Missing = "error"

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if (self.source is None) != (self.target is None):
            raise InputError("--source and --target name the two columns of an edge; give both or none")
        if self.ids not in (None, *ID_CHOICES):
            raise InputError(f"--ids is {self.ids!r}; choose from {', '.join(ID_CHOICES)}")
        if self.missing not in MISSING_CHOICES:
            raise InputError(f"--missing is {self.missing!r}; choose from {', '.join(MISSING_CHOICES)}")
        if self.delimiter is not None:
            delimiter = _DELIMITERS.get(self.delimiter.lower(), self.delimiter)
            if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\n\r' or delimiter.isalnum():
                remedy = "give one character, or comma, semicolon, tab or blank"
                raise InputError(f"--delimiter is {self.delimiter!r}; {remedy}")
            object.__setattr__(self, "delimiter", delimiter)

    def given(self) -> dict[str, Any]:
        """The options that differ from their default, by name."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, usual) in values.items() if value != usual}

    def refuse_for_edges(self, source_name: str) -> None:
        """Refuse what says how an edge list is read, for a graph that is none."""
        self._refuse(("source", "target", "weight", "header", "delimiter", "ids"), source_name, "is no edge list")

    def refuse_for_features(self, source_name: str) -> None:
        """Refuse what says how a feature table is read, where there is none."""
        self._refuse(("label_column", "missing"), source_name, "comes without a feature table (--features)")

    def _refuse(self, names: tuple[str, ...], source_name: str, why: str) -> None:
        found = next((name for name in names if name in self.given()), None)
        if found is not None:
            flag = _FLAGS.get(found, f"--{found}")
            raise InputError(f"{source_name}: {why}; leave {flag} out")


AS_FOUND = TableOptions()
