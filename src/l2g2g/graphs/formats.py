"""Formats of graph files by their endings. Lists them without importing a reader.

A format that holds a whole graph is one module with a function, called as reader(path, directed=..., tables=...,
memory_limit=...), that returns a `Graph`; and one line of `WHOLE_GRAPHS`. Edge lists are streams, which may be larger
than memory: see `read_edges` and `npy_edges`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

EDGE_LISTS = (".csv", ".tsv", ".txt", ".parquet", ".npy")
WHOLE_GRAPHS = {  # "module.function" of the reader
    ".npz": "read_npz.read_npz_file",
    ".mtx": "matrix_market.read_matrix_graph",
    ".graphml": "networkx_graphs.read_graphml",
}
ENDINGS = (*EDGE_LISTS, ".gz", *WHOLE_GRAPHS)


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
