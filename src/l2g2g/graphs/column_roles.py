"""Columns of an edge list: which hold source, target and weight, and whether the first row names them or is an edge.

Gephi's `Source,Target,Type,Id,Weight` and the table that pandas writes with its index are known by their titles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2g2g.errors import InputError, one_line
from l2g2g.graphs.formats import TableOptions
from l2g2g.graphs.node_ids import IdKind, find_id_kind
from l2g2g.graphs.text_tables import TextTable, is_number

# Usual titles of the columns of source and target, in lower case; the first pair that is there counts.
ENDS = (
    *(("source", "target"), ("source_id", "target_id"), ("sourceid", "targetid"), ("source_node", "target_node")),
    *(("from", "to"), ("from_id", "to_id"), ("fromnodeid", "tonodeid"), ("from_node", "to_node")),
    *(("src", "dst"), ("src", "dest"), ("source", "destination"), ("u", "v"), ("id1", "id2"), ("id_1", "id_2")),
    *(("node1", "node2"), ("node_1", "node_2"), ("node_a", "node_b")),
)
_WEIGHTS = ("weight", "weights")
INDEX_TITLES = ("", "unnamed: 0", "__index_level_0__")  # what pandas calls the numbers of its rows
_NO_WEIGHTS = (*INDEX_TITLES, "index", "id", "type", "label")
_MOST_TITLES = 12  # in an error
_ID_HEADERS = {name for pair in ENDS for name in pair}
_WEIGHT_HEADERS = {"weight", "weights", "value", "count", "w", "score", "strength"}
_MOST_CELLS = 5  # in an error
PLACEHOLDERS = ("NaN", "nan", "NA", "N/A", "#N/A", "null", "NULL", "None", "<NA>")  # for what is missing
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are an edge list.

    Attributes:
        places: Column numbers of source, target and, where there is one, weight.
        header: Whether the first row is a header; None where the rows below it must decide.
        left_out: Titles of the other columns, or their numbers.
    """

    places: tuple[int, ...]
    header: bool | None
    left_out: tuple[str, ...] = ()


def find_roles(
    titles: Sequence[str],
    options: TableOptions,
    source_name: str,
    *,
    titled: bool | None,
    first_cells: Sequence[str] = (),
) -> Roles:
    """Find the columns of an edge list.

    Args:
        titles: The cells of the first row, which may be an edge and not a header.
        options: What the user says.
        source_name: What errors call the table.
        titled: Whether the first row is known to be a header; None where it may be an edge.
        first_cells: The first cells of the first column below the title: 0, 1, 2, … where it is the index of pandas.

    Example:
        >>> roles = find_roles("Source Target Type Id Weight".split(), TableOptions(), "edges.csv", titled=None)
        >>> roles.places, roles.left_out
        ((0, 1, 4), ('Type', 'Id'))
    """
    finder = _Finder(list(titles), source_name, titled)
    if options.source is not None and options.target is not None:
        places = [finder.place(options.source, "--source"), finder.place(options.target, "--target")]
        if options.weight is not None:
            places.append(finder.place(options.weight, "--weight"))
        return finder.roles(places)
    weight = None if options.weight is None else finder.place(options.weight, "--weight")
    others = [place for place in range(len(titles)) if place != weight]
    if _is_index(titles, first_cells, titled):
        others = [place for place in others if place != 0]
        finder.header = titled is None or titled
    ends = finder.ends(others)
    if ends is not None:
        rest = [place for place in others if place not in ends]
        named = [place for place in rest if titles[place].strip().lower() in _WEIGHTS]
        if weight is None and len(named) == 1:
            weight = named[0]
        elif weight is None and len(others) == 3 and titles[rest[0]].strip().lower() not in _NO_WEIGHTS:
            weight = rest[0]
        return finder.roles([*ends, *([] if weight is None else [weight])])
    if len(others) < 2:
        count = f"only {len(titles)} column" + ("s" if len(titles) > 1 else "")
        raise InputError(f"{source_name}: {count}; it needs source and target, and --delimiter if it has another one")
    if len(others) > (3 if weight is None else 2):
        raise InputError(
            f"{source_name}: {len(titles)} columns ({finder.shown()}) of which none are called source and target; "
            f"name them with --source and --target"
        )
    return finder.roles([*others[:2], *(others[2:] if weight is None else [weight])])


def names_ends(titles: Sequence[str]) -> bool:
    """Whether two titles are a usual pair of names for the ends of an edge."""
    names = {str(title).strip().lower() for title in titles}
    return any(names.issuperset(pair) for pair in ENDS)


class _Finder:
    """Looks for columns among titles."""

    def __init__(self, titles: list[str], source_name: str, titled: bool | None) -> None:
        self.titles, self.source_name, self.titled = titles, source_name, titled
        self.header = titled

    def place(self, wanted: str, flag: str) -> int:
        """Column number, from 0, of what the user gave: a title, or a number from 1."""
        if self.titled is not False:
            exact = [place for place, title in enumerate(self.titles) if title == wanted]
            alike = [place for place, title in enumerate(self.titles) if title.strip().lower() == wanted.lower()]
            found = exact or alike
            if len(found) > 1:
                raise InputError(
                    f"{self.source_name}: {len(found)} columns are called {wanted!r}; give {flag} a number"
                )
            if found:
                self.header = True
                return found[0]
        if wanted.isdecimal() and 1 <= int(wanted) <= len(self.titles):
            return int(wanted) - 1
        numbers = f"give a number from 1 to {len(self.titles)}"
        remedy = numbers if self.titled is False else f"the first row is {self.shown()}; or {numbers}"
        raise InputError(f"{self.source_name}: there is no column {wanted!r} for {flag}; {remedy}")

    def ends(self, places: list[int]) -> tuple[int, int] | None:
        """The two columns whose titles are a usual pair of names; None where there are none, or several."""
        if self.titled is False or (self.titled is None and any(is_number(title) for title in self.titles)):
            return None
        names = [self.titles[place].strip().lower() for place in places]
        for first, second in ENDS:
            if names.count(first) == names.count(second) == 1:
                self.header = True
                return places[names.index(first)], places[names.index(second)]
        return None

    def roles(self, places: list[int]) -> Roles:
        """These columns, the others left out."""
        if len(set(places)) < len(places):
            raise InputError(f"{self.source_name}: one column cannot be two of --source, --target and --weight")
        left = [place for place in range(len(self.titles)) if place not in places]
        shown = tuple((self.titles[place] if self.header else "") or f"column {place + 1}" for place in left)
        return Roles(tuple(places), self.header, shown)

    def shown(self) -> str:
        """The titles for an error message; the first twelve where there are more."""
        more = "" if len(self.titles) <= _MOST_TITLES else ", …"
        return ", ".join(title or "''" for title in self.titles[:_MOST_TITLES]) + more


def _is_index(titles: Sequence[str], first_cells: Sequence[str], titled: bool | None) -> bool:
    """Whether the first column holds the row numbers that pandas writes."""
    if titled is False or len(titles) < 3 or titles[0].strip().lower() not in INDEX_TITLES:
        return False
    return titled is True or (
        len(first_cells) > 0 and list(first_cells) == [str(row) for row in range(len(first_cells))]
    )


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
        log_columns(path, first_row, roles, ", header skipped")
    else:
        chosen = "" if not roles.left_out else f"columns {' → '.join(str(place + 1) for place in roles.places[:2])}, "
        _log.info("%s", one_line(f"read {path}: {chosen}no header, first row is an edge"))
    return found


def shared_header(text: TextTable) -> bool | None:
    """True if several parts all begin with the same line, which can be a header; None otherwise: still undecided."""
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


def log_columns(source: object, titles: Sequence[str], roles: Roles, more: str = "") -> None:
    """Log which columns are read. titles: of those that are, in their order."""
    weight = f", weight {titles[2]}" if len(titles) > 2 else ""
    left = f", {', '.join(roles.left_out)} left out" if roles.left_out else ""
    _log.info("%s", one_line(f"read {source}: columns {titles[0]} → {titles[1]}{weight}{more}{left}"))


def log_placeholders(source: object, found: Collection[str]) -> None:
    """Log that ids which usually mark a missing value are read as nodes. found: these ids, of `PLACEHOLDERS`."""
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
    column = pa.array(ids) if isinstance(ids, np.ndarray) else ids
    if pa.types.is_integer(column.type):
        return False
    return bool(pc.any(pc.is_in(column, value_set=pa.array(names, column.type)), min_count=0).as_py())
