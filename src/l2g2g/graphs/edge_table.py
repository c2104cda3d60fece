"""Columns of an edge table: two of ids and perhaps one of weights, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.node_ids import NEGATIVE, IdKind, encode
from l2g2g.graphs.text_tables import NUMBER, is_number

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE_NUMBER = r"^[+-]?[0-9]+$"
_SURELY_FITS = r"^[+-]?0*[0-9]{1,18}$"


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Edges as they stand in the table, ids not yet numbered.

    Attributes:
        sources: (num_rows,) ids, int64 or text.
        targets: (num_rows,) ids of the same type.
        weights: (num_rows,) float64, positive and finite; None where there is no third column.
        source_name: What errors call the table: its file, or what kind of object it was.
        row_name: From a row number to what errors call that row ("line 7").
    """

    sources: pa.ChunkedArray
    targets: pa.ChunkedArray
    weights: np.ndarray | None
    source_name: str
    row_name: Callable[[int], str]

    @property
    def has_integer_ids(self) -> bool:
        """Whether ids are integers that fit 64 bits; otherwise they are text."""
        import pyarrow as pa

        return pa.types.is_int64(self.sources.type)

    def numbered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number the nodes in the order of first appearance, row by row, the source before the target.

        Returns:
            (num_rows,) sources, (num_rows,) targets, (num_nodes,) ids.
        """
        import pyarrow as pa

        # Text is numbered column by column first, because interleaving numbers is far cheaper than text.
        codes, ids = encode(pa.chunked_array([*self.sources.chunks, *self.targets.chunks], type=self.sources.type))
        num_rows = len(self.sources)
        interleaved = np.stack([codes[:num_rows], codes[num_rows:]], axis=1).ravel()
        numbers, order = encode(interleaved)
        return numbers[0::2], numbers[1::2], ids[order]

    def as_node_numbers(self, num_nodes: int, features_name: str) -> tuple[np.ndarray, np.ndarray]:
        """Take the ids for node numbers, as features by node number ask for; all must be below num_nodes."""
        if not self.has_integer_ids:
            raise InputError(
                f"{self.source_name}: ids are text but {features_name} has its rows by node number; "
                f"use integer ids, or a feature table (.csv, .parquet) with an id column"
            )
        columns = []
        for column, ids in (("source", self.sources), ("target", self.targets)):
            numbers = ids.to_numpy()
            if numbers.max() >= num_nodes:
                row = int(np.argmax(numbers >= num_nodes))
                raise InputError(
                    f"{self.source_name}: {self.row_name(row)}: {column} {numbers[row]} is beyond the {num_nodes:,} "
                    f"feature rows of {features_name}; add rows or correct the id"
                )
            columns.append(numbers)
        return columns[0], columns[1]


def plain_ids(column: pa.ChunkedArray, source_name: str, row_name: Callable[[int], str]) -> pa.ChunkedArray:
    """One id column as int64 or text, without gaps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise InputError(f"{source_name}: {row_name(_first(pc.is_null(column)))}: an id is missing; fill it in")
    if pa.types.is_uint64(column.type) and pc.max(column).as_py() >= 2**63:
        return column.cast(pa.string())
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        empty = pc.equal(column, "")
        if pc.any(empty).as_py():
            raise InputError(f"{source_name}: {row_name(_first(empty))}: an id is empty; fill it in")
        return column
    if pa.types.is_floating(column.type):
        raise InputError(
            f"{source_name}: {row_name(0)}: id {column[0].as_py()} is a decimal number; use integers or text as ids"
        )
    raise InputError(f"{source_name}: ids are {column.type}; use integers or text as ids")


def typed_ids(
    ids: list[pa.ChunkedArray], kind: IdKind, source_name: str, row_name: Callable[[int], str]
) -> list[pa.ChunkedArray]:
    """Both columns as int64 or both as text, by the kind of all ids of the table; refuse negatives and decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = [column.cast(pa.int64() if kind is IdKind.INTEGERS else pa.string()) for column in ids]
    if kind is IdKind.INTEGERS:
        _refuse(ids, lambda column: pc.less(column, 0), source_name, row_name, NEGATIVE)
    elif kind is IdKind.LONG_INTEGERS:
        _refuse(ids, lambda column: pc.starts_with(column, "-"), source_name, row_name, NEGATIVE)
    elif kind is IdKind.NUMBERS:
        _refuse(
            ids,
            lambda column: pc.invert(pc.match_substring_regex(column, _WHOLE_NUMBER)),
            source_name,
            row_name,
            "is not a whole number; use integers or text as ids",
        )
    return ids


def as_integers(column: pa.ChunkedArray, source_name: str, row_name: Callable[[int], str]) -> pa.ChunkedArray:
    """Ids that must be integers as int64, also 007 and +7; anything else is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_int64(column.type):
        return column
    wrong = pc.invert(pc.match_substring_regex(column, _WHOLE_NUMBER))
    if not pc.any(wrong).as_py():
        try:
            return pc.utf8_ltrim(column, "+").cast(pa.int64())
        except pa.ArrowInvalid:
            wrong = pc.invert(pc.match_substring_regex(column, _SURELY_FITS))
    row = _first(wrong)
    raise InputError(
        f"{source_name}: {row_name(row)}: id {column[row].as_py()!r} is no integer of 64 bits; "
        f"correct it, or leave --ids integer out"
    )


def _refuse(
    ids: list[pa.ChunkedArray],
    is_wrong: Callable[[pa.ChunkedArray], pa.ChunkedArray],
    source_name: str,
    row_name: Callable[[int], str],
    what: str,
) -> None:
    import pyarrow.compute as pc

    for title, column in zip(("source", "target"), ids, strict=True):
        wrong = is_wrong(column)
        if pc.any(wrong).as_py():
            row = _first(wrong)
            raise InputError(f"{source_name}: {row_name(row)}: {title} {column[row].as_py()} {what}")


def check_weight_column(column: pa.ChunkedArray, source_name: str, row_name: Callable[[int], str]) -> np.ndarray:
    """(num_rows,) float64 weights; refuse text, NaN, Inf, zero and negative ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    remedy = "weights must be positive and finite numbers; correct it, or name two columns with --source and --target"
    if column.null_count:
        raise InputError(f"{source_name}: {row_name(_first(pc.is_null(column)))}: the weight is missing; {remedy}")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        wrong_text = pc.invert(pc.match_substring_regex(column, NUMBER))
        if pc.any(wrong_text).as_py():
            row = _first(wrong_text)
            text = column[row].as_py()
            what = f"weight {text!r}" if text.strip() else "the weight is empty"
            if text.count(",") == 1 and is_number(text.replace(",", ".")):
                what, remedy = f"weight {text!r} has a decimal comma", f"write {text.replace(',', '.')}"
            raise InputError(f"{source_name}: {row_name(row)}: {what}; {remedy}")
        column = column.cast(pa.float64())
    elif not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"{source_name}: weights are {column.type}; {remedy}")
    weights = column.to_numpy().astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = weights.astype(np.float32)  # the precision of a graph: 1e300 is infinite in it
    wrong = ~(np.isfinite(narrow) & (narrow > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{source_name}: {row_name(row)}: weight {weights[row]}; {remedy}")
    return weights


def _first(mask: pa.ChunkedArray) -> int:
    return int(np.argmax(mask.to_numpy()))
