"""Result tables: named columns as CSV, Parquet or JSON lines, as text, or as a DataFrame of pandas (extra `tables`)."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from l2g2g.errors import ResourceError
from l2g2g.graphs.write import check_place, write_whole

if TYPE_CHECKING:
    import pandas as pd

TABLE_ENDINGS = (".csv", ".parquet", ".jsonl")
Columns = dict[str, np.ndarray]
_MOST_ROWS = 10


def check_table(path: Path) -> None:
    """Refuse a place where no table could be written, before it is computed."""
    check_place(path, TABLE_ENDINGS)


def write_table(path: Path, columns: Columns) -> None:
    """Write columns of equal length, complete or not at all; the ending chooses the format."""
    check_table(path)
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".jsonl": _write_lines}
    write_whole(path, lambda file: writers[path.suffix.lower()](file, columns))


def print_csv(stream: TextIO, columns: Columns) -> None:
    """Columns with a header; cells are quoted where they must be."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*plain_columns(columns), strict=True))


def print_lines(stream: TextIO, columns: Columns, more: dict[str, Any] | None = None) -> None:
    """One JSON object a row. more: what every one of them says besides."""
    for row in zip(*plain_columns(columns), strict=True):
        stream.write(json.dumps({**dict(zip(columns, row, strict=True)), **(more or {})}) + "\n")


def plain_columns(columns: Columns) -> list[list[Any]]:
    """Python values; float32 with the digits that it has, not those of its neighbour in float64."""
    return [
        [float(str(value)) for value in column] if column.dtype == np.float32 else column.tolist()
        for column in columns.values()
    ]


def _write_csv(file: Path, columns: Columns) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        print_csv(stream, columns)


def _write_lines(file: Path, columns: Columns) -> None:
    with file.open("w", encoding="utf-8") as stream:
        print_lines(stream, columns)


def _write_parquet(file: Path, columns: Columns) -> None:
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), file)


def make_frame(
    columns: Mapping[str, Any], ids: np.ndarray | None = None, index_name: str | None = None
) -> pd.DataFrame:
    """A DataFrame of these columns. ids: its index; None numbers the rows."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ResourceError("DataFrames need pandas: pip install 'l2g2g[tables]'") from error
    index = None if ids is None else pd.Index(ids, name=index_name)
    return pd.DataFrame(dict(columns), index=index)


def show_rows(title: str, columns: Mapping[str, np.ndarray]) -> str:
    """A table as text for a notebook or a terminal, without pandas: of many rows the first.

    Example:
        >>> print(show_rows("2 links", {"source": np.array(["ann", "bob"]), "score": np.array([0.5, 0.25])}))
        2 links
        source   score
        ann     0.5000
        bob     0.2500
    """
    num_rows = len(next(iter(columns.values())))
    lines = []
    for name, values in columns.items():
        is_number = values.dtype.kind == "f"
        cells = [f"{value:.4f}" if is_number else str(value) for value in values[:_MOST_ROWS]]
        width = max(map(len, (name, *cells)))
        lines.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in (name, *cells)])
    more = [f"… {num_rows - _MOST_ROWS:,} more rows; to_pandas() has all"] if num_rows > _MOST_ROWS else []
    return "\n".join([title, *("  ".join(cells).rstrip() for cells in zip(*lines, strict=True)), *more])


def embedding_frame(vectors: np.ndarray, ids: np.ndarray | None, titles: list[str]) -> pd.DataFrame:
    """(num_nodes, dim) vectors with the ids as index and a column for each dimension."""
    index = np.arange(len(vectors)) if ids is None else ids
    return make_frame({title: vectors[:, place] for place, title in enumerate(titles)}, index, "id")
