"""Feature columns: what each column of a feature table becomes: a number, one column per value, or labels.

A column of text of which no value is a number is a category and becomes one column of 0 and 1 for each of its values
(one-hot). A finished model keeps its columns, so that a later table is read in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2g2g.errors import InputError, one_line
from l2g2g.graphs.arrow_tables import Columns, Stream, is_numeric, is_text, plain_type
from l2g2g.graphs.formats import Missing, TableOptions
from l2g2g.graphs.node_ids import IdKind, RowName, as_node_ids, find_id_kind
from l2g2g.graphs.text_tables import NUMBER

_NO_VALUE = ("", "na", "n/a", "nan", "null", "none", "-")  # among numbers; in a category only an empty text is missing
_MOST_VALUES = 1000
_RATHER_MANY, _MANY = 50, ": remove the column if it is no category"
_FEW_ROWS = 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FeatureColumn:
    """One column of a feature table.

    Attributes:
        title: Its title, or "column 2" in a table without titles.
        values: Of a category, in order; None for numbers.
        fill: (width,) what a missing value becomes.
    """

    title: str
    values: tuple[str, ...] | None
    fill: tuple[float, ...]

    @property
    def width(self) -> int:
        """Features that it becomes."""
        return len(self.fill)


@dataclass(frozen=True)
class FeatureColumns:
    """All columns of a feature table that are features.

    Attributes:
        columns: In their order.
        missing: Whether missing values are refused (error), or filled.
        titled: Whether the titles are from the table.

    Example:
        >>> columns = FeatureColumns((FeatureColumn("age", None, (0.0,)), FeatureColumn("sex", ("f", "m"), (0, 0))))
        >>> columns.num_features, FeatureColumns.from_dict(columns.to_dict()) == columns
        (3, True)
    """

    columns: tuple[FeatureColumn, ...]
    missing: Missing = "error"
    titled: bool = True

    @property
    def num_features(self) -> int:
        """Columns of the feature matrix."""
        return sum(column.width for column in self.columns)

    @property
    def fill(self) -> np.ndarray | None:
        """(num_features,) the row of a node that has none; None where such a node is refused."""
        if self.missing == "error":
            return None
        return np.array([value for column in self.columns for value in column.fill], np.float32)

    def titles(self) -> list[str]:
        """(num_features,) what each feature is called."""
        return [
            column.title if value is None else f"{column.title}={value}"
            for column in self.columns
            for value in (column.values or (None,))
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FeatureColumns:
        """From what `to_dict` gave; anything else raises KeyError, TypeError or ValueError."""
        columns = []
        for each in values["columns"]:
            names = None if each["values"] is None else tuple(str(value) for value in each["values"])
            fill = tuple(float(value) for value in each["fill"])
            if len(fill) != (1 if names is None else len(names)) or not np.isfinite(fill).all():
                raise ValueError("a feature column that does not fit its values")
            columns.append(FeatureColumn(str(each["title"]), names, fill))
        if values["missing"] not in ("error", "zero", "mean") or not columns:
            raise ValueError("no feature columns")
        return cls(tuple(columns), values["missing"], bool(values["titled"]))

    def vectors(self, columns: Sequence[pa.ChunkedArray], source_name: str, row_name: RowName) -> np.ndarray:
        """(num_rows, num_features) float32 of some rows; missing values are filled, or refused."""
        num_rows = len(columns[0])
        found = np.empty((num_rows, self.num_features), np.float32)
        low = 0
        for each, column in zip(self.columns, columns, strict=True):
            part = found[:, low : low + each.width]
            part[:] = _numbers(column)[:, None] if each.values is None else _one_hot(column, each.values)
            missing = np.isnan(part[:, 0])
            if missing.any():
                if self.missing == "error":
                    row = int(np.argmax(missing))
                    raise InputError(
                        f"{source_name}: {row_name(row)}: {each.title} is missing; fill it in, or choose what it "
                        f"becomes: --missing zero or --missing mean"
                    )
                part[missing] = each.fill
            if np.isinf(part).any():
                row = int(np.argmax(np.isinf(part).any(axis=1)))
                raise InputError(f"{source_name}: {row_name(row)}: {each.title} is Inf; replace it by a number")
            low += each.width
        return found

    def matched(self, titles: Sequence[str] | None, num_columns: int, source_name: str) -> list[int]:
        """Places of these columns in another table, by title where both have titles, otherwise by order."""
        if titles is None or not self.titled:
            if num_columns != len(self.columns):
                raise InputError(
                    f"{source_name}: {num_columns} feature columns but the model was trained on {len(self.columns)}; "
                    f"give the same ones"
                )
            return list(range(num_columns))
        missing = [column.title for column in self.columns if column.title not in titles]
        if missing:
            raise InputError(f"{source_name}: no column {missing[0]!r}, which the model was trained on; add it")
        return [list(titles).index(column.title) for column in self.columns]


@dataclass
class _Seen:
    """What a pass over a column has seen so far."""

    title: str
    num_rows: int = 0
    num_numbers: int = 0
    num_words: int = 0
    total: float = 0.0
    other: tuple[int, str] | None = None  # row and value of the first text that is neither number nor missing
    counts: dict[str, int] = field(default_factory=dict)
    is_category: bool = False

    def add(self, column: pa.ChunkedArray, source_name: str) -> None:
        if pa.types.is_dictionary(column.type):  # a category by declaration, of whatever values
            self.is_category = True
        column = _plain(column)
        if not is_text(column.type):
            self._add_numbers(column, source_name)
            return
        cells = pc.utf8_trim_whitespace(column).fill_null("")
        is_number = pc.match_substring_regex(cells, NUMBER)
        is_missing = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(_NO_VALUE))
        numbers = cells.filter(is_number)
        self.num_numbers += len(numbers)
        if len(numbers):
            self.total += float(pc.sum(numbers.cast(pa.float64())).as_py())
        is_other = pc.invert(pc.or_(is_number, is_missing))
        if self.other is None and pc.any(is_other).as_py():
            place = int(np.argmax(is_other.to_numpy()))
            self.other = self.num_rows + place, cells[place].as_py()
        self.num_words += pc.sum(is_other).as_py() or 0
        if len(self.counts) <= _MOST_VALUES:
            for entry in pc.value_counts(cells.combine_chunks()).to_pylist():
                if entry["values"]:
                    self.counts[entry["values"]] = self.counts.get(entry["values"], 0) + entry["counts"]
        self.num_rows += len(cells)

    def _add_numbers(self, column: pa.ChunkedArray, source_name: str) -> None:
        if not is_numeric(column.type):
            raise InputError(f"{source_name}: column {self.title!r} holds {column.type}; use numbers or text")
        values = _numbers(column, pa.float64())
        finite = values[np.isfinite(values)]
        self.num_numbers, self.total = self.num_numbers + len(finite), self.total + float(finite.sum())
        self.num_rows += len(values)

    def column(self, missing: Missing, source_name: str, row_name: RowName) -> FeatureColumn:
        if not self.is_category and (self.num_numbers or not self.num_words):
            if self.other is not None:
                row, value = self.other
                place = f"{source_name}: {row_name(row)}, column {self.title}"
                raise InputError(
                    f"{place}: {value!r} is not a number, as others of this column are; features must be numbers, "
                    f"or text in every row"
                )
            mean = self.total / self.num_numbers if self.num_numbers and missing == "mean" else 0.0
            return FeatureColumn(self.title, None, (mean,))
        values = tuple(sorted(self.counts))
        if len(values) > _MOST_VALUES or (self.num_rows >= _FEW_ROWS and 2 * len(values) > self.num_rows):
            many = f"more than {_MOST_VALUES:,}" if len(values) > _MOST_VALUES else f"{len(values):,}"
            raise InputError(
                f"{source_name}: column {self.title!r} has {many} different texts in {self.num_rows:,} rows, too many "
                f"for a category; drop it, or name it with --label-column"
            )
        known = sum(self.counts.values())
        shares = [self.counts[value] / known if missing == "mean" else 0.0 for value in values]
        return FeatureColumn(self.title, values, tuple(shares))


def find_feature_columns(
    batches: Stream[Columns],
    titles: Sequence[str],
    options: TableOptions,
    source_name: str,
    row_name: RowName,
    *,
    titled: bool,
) -> FeatureColumns:
    """Find out by a pass over a table what its columns become. batches: its feature columns, in the order of titles."""
    seen = [_Seen(title) for title in titles]
    for batch in batches():
        for each, column in zip(seen, batch, strict=True):
            each.add(column, source_name)
    return FeatureColumns(
        tuple(each.column(options.missing, source_name, row_name) for each in seen), options.missing, titled
    )


def tell_features(source_name: str, id_title: str, columns: FeatureColumns | None, label: str | None) -> None:
    """Log how a feature table is read, where anything of it is not a plain number."""
    categories = [] if columns is None else [each for each in columns.columns if each.values is not None]
    parts = [
        f"{each.title} one-hot ({each.width} values{_MANY if each.width > _RATHER_MANY else ''})" for each in categories
    ]
    if columns is not None and len(categories) < len(columns.columns):
        count = len(columns.columns) - len(categories)
        parts.insert(0, f"{count:,} number column" + ("s" if count > 1 else ""))
    parts += [] if label is None else [f"labels {label}"]
    if columns is not None and columns.missing != "error":
        parts.append(f"missing values become {'0' if columns.missing == 'zero' else 'the mean'}")
    _log.info("%s", one_line(f"read {source_name}: {', '.join([f'ids {id_title}', *parts])}"))


def check_label_type(kind: pa.DataType, title: str, source_name: str) -> None:
    """Refuse a column that cannot hold labels."""
    kind = plain_type(kind)
    if not (is_text(kind) or is_numeric(kind)):
        raise InputError(f"{source_name}: column {title!r} holds {kind}; labels are whole numbers or text")


def label_kind(kind: IdKind, column: pa.ChunkedArray) -> IdKind:
    """What labels are, given those before: integers or names. column: some of them."""
    return max(kind, find_id_kind([_label_text(column).filter(_known(column))]))


def read_labels(column: pa.ChunkedArray, kind: IdKind, source_name: str) -> np.ndarray:
    """(num_rows,) labels as int64 (-1 where missing) or as text ("" where missing)."""
    text = _label_text(column)
    if kind is not IdKind.INTEGERS:
        return as_node_ids(text.to_pylist(), f"{source_name}: labels")
    numbers = pc.if_else(_known(column), text, "-1").cast(pa.int64())
    return numbers.to_numpy()


def _label_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Labels as text; whole numbers without a decimal point, as pandas writes integers beside a missing value."""
    column = _plain(column)
    if pa.types.is_floating(column.type):
        whole = column.filter(pc.and_(pc.is_valid(column), pc.is_finite(column)))
        near = pc.and_(pc.equal(pc.floor(whole), whole), pc.less(pc.abs(whole), 2.0**53))
        if pc.all(near, min_count=0).as_py() and len(whole):
            column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type)).cast(pa.int64(), safe=False)
    if not is_text(column.type):
        column = column.cast(pa.string())
    return pc.utf8_trim_whitespace(column.cast(pa.string())).fill_null("")


def _known(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.not_equal(_label_text(column), "")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary as text, anything else as it is."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type).cast(pa.string())
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column


def _numbers(column: pa.ChunkedArray, kind: pa.DataType | None = None) -> np.ndarray:
    """(num_rows,) float32, or of another kind, NaN where a value is missing."""
    if is_text(column.type):
        cells = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.match_substring_regex(cells, NUMBER), cells, pa.scalar(None, cells.type))
    with np.errstate(over="ignore"):
        return np.asarray(pc.cast(column, kind or pa.float32(), safe=False).to_numpy())


def _one_hot(column: pa.ChunkedArray, values: tuple[str, ...]) -> np.ndarray:
    """(num_rows, num_values) float32: 1 at the value of a row, no 1 for another value, NaN for none."""
    column = _plain(column)
    text = column if is_text(column.type) else column.cast(pa.string())
    cells = pc.utf8_trim_whitespace(text).fill_null("")
    places = pc.index_in(cells, value_set=pa.array(values, pa.string())).fill_null(-1).to_numpy()
    found = np.zeros((len(places), len(values)), np.float32)
    rows = np.flatnonzero(places >= 0)
    found[rows, places[rows]] = 1
    found[pc.equal(cells, "").to_numpy()] = np.nan
    return found
