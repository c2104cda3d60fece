"""Headers of edge lists: whether the first row names the columns or is an edge, and the line that tells the user."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l2g2g.errors import InputError, one_line
from l2g2g.graphs.column_roles import ENDS, Roles
from l2g2g.graphs.node_ids import IdKind, find_id_kind
from l2g2g.graphs.text_tables import TextTable, is_number

if TYPE_CHECKING:
    import pyarrow as pa

_ID_HEADERS = {name for pair in ENDS for name in pair}
_WEIGHT_HEADERS = {"weight", "weights", "value", "count", "w", "score", "strength"}
_MOST_CELLS = 5  # in an error
PLACEHOLDERS = ("NaN", "nan", "NA", "N/A", "#N/A", "null", "NULL", "None", "<NA>")  # for what is missing
_log = logging.getLogger(__name__)


def may_be_header(first_row: list[str]) -> bool:
    """Whether the first row can name the columns: its ids are no numbers."""
    return not any(is_number(cell) for cell in first_row[:2])


def find_header(
    path: Path,
    first_row: list[str],
    roles: Roles,
    other_rows: Callable[[], Iterable[list[pa.ChunkedArray]]],
    known_ids: Iterable[np.ndarray] = (),
) -> bool:
    """Decide whether the first row of an edge list is a header, and log the decision.

    It is one if it has the usual names, or two names neither of which occurs again: above integers none does, and above
    names a pair of nodes without any other edge is rarer than a header. A number as its weight speaks for an edge,
    unless all other ids are numbers.

    Args:
        path: The file, for the log.
        first_row: Cells of the first row, two or three.
        roles: Which columns these are, and whether that is decided already.
        other_rows: Columns of all other rows, in one piece or several; read only where they decide.
        known_ids: Ids that are nodes for sure (of a feature table, of a finished model).
    """
    found = roles.header
    if found is None:
        found = may_be_header(first_row) and _names_columns(first_row, other_rows, known_ids)
    if found:
        tell_columns(path, first_row, roles, ", header skipped")
    else:
        chosen = "" if not roles.left_out else f"columns {' → '.join(str(place + 1) for place in roles.places[:2])}, "
        _log.info("%s", one_line(f"read {path}: {chosen}no header, first row is an edge"))
    return found


def shared_header(text: TextTable) -> bool | None:
    """True where all of several parts begin with the same line that can be a header; None where this tells nothing."""
    first_rows = list(text.first_rows.values()) if len(text.parts) > 1 else []
    is_shared = len(first_rows) > 1 and all(row == first_rows[0] for row in first_rows) and may_be_header(first_rows[0])
    return True if is_shared else None


def seems_header(first_row: list[str], edge: list[str]) -> bool:
    """Whether the first row of a part names the columns, by usual names or above numbers. edge: what a row is like."""
    names = {cell.lower() for cell in first_row[:2]}
    return may_be_header(first_row) and (names <= _ID_HEADERS or all(is_number(cell) for cell in edge[:2]))


def check_headers(text: TextTable, is_header: Callable[[list[str]], bool], *, skip_first: bool) -> None:
    """Refuse a part that does not begin with the header of the first one, or that has one where the first has none.

    is_header: told the first row of a part, of the columns that are read.
    """
    if len(text.parts) == 1:
        return
    (first, titles), *others = text.first_rows.items()
    for part, cells in others:
        shown = one_line(", ".join(cells[:_MOST_CELLS]))
        if skip_first and cells != titles:
            raise InputError(
                f"{part}: begins with {shown!r}, but {first.name} with the header "
                f"{one_line(', '.join(titles[:_MOST_CELLS]))!r}; write the same header into every part"
            )
        if not skip_first and len(cells) == len(titles) and is_header([cells[place] for place in text.places]):
            raise InputError(
                f"{part}: begins with {shown!r}, which may be a header, but {first.name} has none; "
                f"write the same header into every part, or say --no-header"
            )


def tell_columns(source: object, titles: Sequence[str], roles: Roles, more: str = "") -> None:
    """Log which columns are read. titles: of those that are, in their order."""
    weight = f", weight {titles[2]}" if len(titles) > 2 else ""
    left = f", {', '.join(roles.left_out)} left out" if roles.left_out else ""
    _log.info("%s", one_line(f"read {source}: columns {titles[0]} → {titles[1]}{weight}{more}{left}"))


def tell_placeholders(source: object, found: Collection[str]) -> None:
    """Log that nodes are called as a missing value usually is. found: their names, of `PLACEHOLDERS`."""
    if found:
        names = " and ".join(repr(name) for name in sorted(found))
        _log.info(
            "%s", one_line(f"read {source}: {names} is read as a node; if it means a missing id, remove those rows")
        )


def _names_columns(
    first_row: list[str],
    other_rows: Callable[[], Iterable[list[pa.ChunkedArray]]],
    known_ids: Iterable[np.ndarray],
) -> bool:
    names = [cell.lower() for cell in first_row]
    has_weight = any(is_number(cell) for cell in first_row[2:])
    if not has_weight and (set(names[:2]) <= _ID_HEADERS or set(names[2:]) & _WEIGHT_HEADERS):
        return True
    if names[0] == names[1]:
        return False
    num_rows = 0
    for columns in other_rows():
        if any(_occurs(first_row[:2], column) for column in columns[:2]):
            return False
        if has_weight and find_id_kind(columns[:2]) is IdKind.NAMES:
            return False
        num_rows += len(columns[0])
    return num_rows > 0 and not any(_occurs(first_row[:2], ids) for ids in known_ids)


def _occurs(names: list[str], ids: pa.ChunkedArray | np.ndarray) -> bool:
    """Whether one of the names is among the ids, which may be integers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pa.array(ids) if isinstance(ids, np.ndarray) else ids
    if pa.types.is_integer(column.type):
        return False
    return bool(pc.any(pc.is_in(column, value_set=pa.array(names, column.type)), min_count=0).as_py())
