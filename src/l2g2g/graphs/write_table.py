"""Result tables: named columns as CSV, Parquet or JSON lines, in a file or on a stream."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from l2g2g.graphs.write import check_place, write_whole

TABLE_ENDINGS = (".csv", ".parquet", ".jsonl")
Columns = dict[str, np.ndarray]


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
    writer.writerows(zip(*_plain(columns), strict=True))


def print_lines(stream: TextIO, columns: Columns, more: dict[str, Any] | None = None) -> None:
    """One JSON object a row. more: what every one of them says besides."""
    for row in zip(*_plain(columns), strict=True):
        stream.write(json.dumps({**dict(zip(columns, row, strict=True)), **(more or {})}) + "\n")


def _plain(columns: Columns) -> list[list[Any]]:
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), file)
