"""Node columns: a table about nodes in which columns hold numbers or text, matched to nodes by their ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.archives import check_unpacked_size, open_parquet
from l2g2g.graphs.arrow_files import ARROW_ENDINGS, read_arrow
from l2g2g.graphs.arrow_types import is_text, unpacked
from l2g2g.graphs.column_roles import INDEX_TITLES
from l2g2g.graphs.node_ids import check_unique, find_rows, id_column, integers_or_text, quoted
from l2g2g.graphs.text_tables import NUMBER, is_number, is_text_file, open_text_table, trimmed

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", *ARROW_ENDINGS)
ID_TITLES = ("id", "ids", "node", "nodes", "node_id", "nodeid", "name", "index", *INDEX_TITLES)
_NO_NUMBER = ("", "na", "n/a", "nan", "null", "none")  # among numbers: a value that is missing


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """Columns of a table about nodes.

    Attributes:
        ids: (num_rows,) integers or text, each once.
        columns: (num_rows,) float64, NaN where a number is missing; or text in an object array, empty where missing.
        source_name: What errors call the table.
    """

    ids: np.ndarray
    columns: dict[str, np.ndarray]
    source_name: str

    def by_node(self, node_ids: np.ndarray) -> dict[str, np.ndarray]:
        """(num_nodes,) every column in the order of node_ids, missing where a node has no row.

        Raises:
            InputError: No node has a row.
        """
        rows = find_rows(node_ids, self.ids)
        if (rows < 0).all():
            own, other = (quoted(ids[:1].tolist()[0]) for ids in (self.ids, node_ids))
            raise InputError(
                f"{self.source_name}: none of its ids is a node: it has {own}, and nodes are named like {other}; "
                f"the column called id, or else the first, must hold ids"
            )
        return {title: _rows_of(column, rows) for title, column in self.columns.items()}

    def num_matched(self, node_ids: np.ndarray) -> int:
        """How many of these nodes have a row."""
        return int((find_rows(node_ids, self.ids) >= 0).sum())


def _rows_of(column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    missing = np.nan if column.dtype.kind == "f" else ""
    found = column[np.maximum(rows, 0)]
    found[rows < 0] = missing
    return found


def read_node_columns(path: Path) -> NodeColumns:
    """Read a table with an id column: the one called id (or node, name, …), otherwise the first."""
    if not path.is_file():
        raise InputError(f"{path}: no such table of nodes")
    if path.suffix.lower() not in (".parquet", *ARROW_ENDINGS) and not is_text_file(path):
        raise InputError(f"{path}: unknown ending of a table of nodes; use one of {', '.join(TABLE_ENDINGS)}")
    table = read_table(path)
    place = find_id_column(table.column_names) or 0
    if table.num_columns < 2:
        raise InputError(f"{path}: only {table.num_columns} column; it needs an id column and others beside it")
    if table.num_rows == 0:
        raise InputError(f"{path}: no rows; it needs one row per node")
    ids = read_id_column(table.column(place), path)
    others = [number for number in range(table.num_columns) if number != place]
    columns = {table.column_names[number]: read_values(table.column(number)) for number in others}
    return NodeColumns(ids, {title: values for title, values in columns.items() if values is not None}, str(path))


def read_table(path: Path) -> pa.Table:
    """All columns of a file: text as text, anything else as it is stored; titles are made distinct."""
    import pyarrow as pa

    check_unpacked_size(path)
    if path.is_dir() or path.suffix.lower() == ".parquet":
        table = open_parquet(path).read(None)
    elif path.suffix.lower() in ARROW_ENDINGS:
        table = read_arrow(path)
    else:
        text = open_text_table(path, keep=True)
        has_titles = names_columns(text.first_row)
        titles = [f"column {number}" for number in range(1, text.num_columns + 1)]
        blocks = text.texts(skip_first=has_titles)
        table = pa.concat_tables([pa.Table.from_arrays(columns, names=titles) for columns in blocks])
        if has_titles:
            table = table.rename_columns(list(text.first_row))
    return table.rename_columns(_distinct(table.column_names))


def names_columns(first_row: list[str]) -> bool:
    """Whether the first line of a text table holds titles: no cell is a number, or the first is called like an id."""
    return first_row[0].lower() in ID_TITLES or not any(is_number(cell) for cell in first_row)


def find_id_column(titles: list[str]) -> int | None:
    """The column whose title says that it holds ids, by the most usual title; None where none does."""
    lower = [title.strip().lower() for title in titles]
    return next((lower.index(title) for title in ID_TITLES if title in lower), None)


def read_id_column(column: pa.ChunkedArray, path: Path) -> np.ndarray:
    """(num_rows,) ids as int64 or text, each once; in a text file all are integers or all are text."""
    if is_text_file(path):
        column = integers_or_text(trimmed(column))
    ids = id_column(column, str(path))
    check_unique(ids, str(path))
    return ids


def read_values(column: pa.ChunkedArray) -> np.ndarray | None:
    """(num_rows,) float64 with NaN, or text in an object array; None for what is neither, as lists."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = unpacked(column)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(column)
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    elif pa.types.is_null(kind):
        return np.full(len(column), "", dtype=object)
    elif not is_text(kind):
        return None
    text = trimmed(column.cast(pa.string()).fill_null(""))
    is_number_text = pc.match_substring_regex(text, NUMBER)
    is_missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(_NO_NUMBER))
    if pc.any(is_number_text).as_py() and pc.all(pc.or_(is_number_text, is_missing)).as_py():
        return _numbers(pc.if_else(is_missing, pa.scalar(None, pa.string()), text))
    return np.array(text.to_pylist(), dtype=object)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _distinct(titles: list[str]) -> list[str]:
    """Titles of which no two are equal: later ones get a number."""
    found: list[str] = []
    for place, title in enumerate(titles, 1):
        found.append(title if title not in found else f"{title} (column {place})")
    return found
