"""Node ids: columns of integers or text in files, checked, and matched to the row numbers used inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2g2g.errors import InputError
from l2g2g.graphs.arrow_tables import is_text, unpacked
from l2g2g.graphs.text_tables import NUMBER

RowName = Callable[[int], str]  # what errors call a row of a table, such as "line 3"
_WHOLE_NUMBER = r"^[+-]?[0-9]+$"
_FITS_64_BITS = r"^[+-]?0*[0-9]{1,18}$"  # for certain: some of 19 digits fit too
# An integer as it is written out: no sign but a minus, no leading zeros. Any other text is a name: "001" is not "1".
_CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]*)$"
NEGATIVE = "is negative; ids are integers from 0 or text"


class IdKind(IntEnum):
    """What the ids of a table are, all of them together. Only INTEGERS are read as integers, all others as text."""

    INTEGERS = 0  # canonical integers that fit 64 bits
    LONG_INTEGERS = 1  # canonical integers, some beyond 64 bits
    NUMBERS = 2  # numbers, some not canonical integers: 001, +1, 1.0
    NAMES = 3  # text that is not a number is among them


def find_id_kind(columns: Iterable[pa.ChunkedArray | pa.Array]) -> IdKind:
    """Decide for all id columns of a table at once whether their ids are integers or text.

    columns: int64 or text, whole or piece by piece; the first name ends the search.

    Example:
        >>> import pyarrow as pa
        >>> find_id_kind([pa.array(["1", "-2"]), pa.array([3])]), find_id_kind([pa.array(["001", "2"])])
        (<IdKind.INTEGERS: 0>, <IdKind.NUMBERS: 2>)
    """
    kind = IdKind.INTEGERS
    for column in columns:
        kind = max(kind, _kind_of(column))
        if kind is IdKind.NAMES:
            break
    return kind


def integers_or_text(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column of text as int64 where all its ids are integers, otherwise as it is."""
    return column.cast(pa.int64()) if find_id_kind([column]) is IdKind.INTEGERS else column


def _kind_of(column: pa.ChunkedArray | pa.Array) -> IdKind:
    if pa.types.is_int64(column.type):
        return IdKind.INTEGERS
    if _all_match(column, _CANONICAL_INTEGER):
        try:
            column.cast(pa.int64())
        except pa.ArrowInvalid:
            return IdKind.LONG_INTEGERS
        return IdKind.INTEGERS
    return IdKind.NUMBERS if _all_match(column, NUMBER) else IdKind.NAMES


def _all_match(column: pa.ChunkedArray | pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def as_node_ids(values: np.ndarray | list, source_name: str) -> np.ndarray:
    """(num_nodes,) ids as int64, or as Python strings in an object array; bytes are read as UTF-8.

    An object array holds each name at its own length; NumPy's fixed-width text would give all of a million names the
    width of the longest.
    """
    array = _list_to_array(values) if isinstance(values, list) else np.asarray(values)
    if array.dtype.kind in "iu" and (array.dtype != np.uint64 or array.max(initial=0) < 2**63):
        return array.astype(np.int64)
    if array.dtype.kind == "S":
        try:
            return np.array([name.decode() for name in array.tolist()], dtype=object)
        except UnicodeDecodeError as error:
            raise InputError(f"{source_name}: names are not UTF-8 text ({error})") from error
    if array.dtype.kind in "UTOu":
        return np.array([str(name) for name in array.tolist()], dtype=object)
    raise InputError(f"{source_name}: ids are {array.dtype}; use integers or text")


def _list_to_array(values: list) -> np.ndarray:
    if all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values):
        return np.array([int(value) for value in values])
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def name_row(row: int) -> str:
    """What errors call a row of a table without lines."""
    return f"row {row + 1}"


def name_rows_from(row_name: RowName, first_row: int) -> RowName:
    """Names for the rows of a batch. row_name: of the rows of the table. first_row: number of rows before the batch."""
    return lambda row: row_name(first_row + row)


def check_unique(ids: np.ndarray, source_name: str, row_name: RowName = name_row) -> None:
    """Raise InputError if two rows have the same id."""
    codes, distinct = encode(ids)
    if len(distinct) < len(ids):
        second = int(np.argmax(codes != np.arange(len(codes))))  # codes count up until the first repeat
        first = int(np.argmax(codes == codes[second]))
        raise InputError(
            f"{source_name}: node {quoted(ids[second])} is in {row_name(first)} and again in {row_name(second)}; "
            f"keep one row per node"
        )


def id_column(
    column: pa.ChunkedArray, source_name: str, row_name: RowName = name_row, *, has_integers: bool | None = None
) -> np.ndarray:
    """(num_rows,) ids of a column of a table, as int64 or text, none of them missing.

    has_integers: True to read all ids as integers, False to read them as text; None to decide by this column.
    """
    found = plain_ids(column, source_name, row_name, may_be_empty=True)
    if has_integers is not None:
        found = as_integers(found, source_name, row_name) if has_integers else found.cast(pa.large_string())
    return as_node_ids(found.to_numpy(), source_name)


def plain_ids(
    column: pa.ChunkedArray, source_name: str, row_name: RowName, *, may_be_empty: bool = False
) -> pa.ChunkedArray:
    """Convert an id column to int64 or text; refuse missing ids. may_be_empty: accept an empty text as an id."""
    column = unpacked(column)
    if column.null_count:
        raise InputError(f"{source_name}: {row_name(first_true(pc.is_null(column)))}: an id is missing; fill it in")
    if pa.types.is_uint64(column.type) and pc.max(column).as_py() >= 2**63:
        return column.cast(pa.string())
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if is_text(column.type):
        empty = pc.equal(column, "")
        if pc.any(empty).as_py() and not may_be_empty:
            raise InputError(f"{source_name}: {row_name(first_true(empty))}: an id is empty; fill it in")
        return column
    if pa.types.is_floating(column.type):
        raise InputError(
            f"{source_name}: {row_name(0)}: id {column[0].as_py()} is a decimal number; use integers or text as ids"
        )
    raise InputError(f"{source_name}: ids are {column.type}; use integers or text as ids")


def typed_ids(ids: list[pa.ChunkedArray], kind: IdKind, source_name: str, row_name: RowName) -> list[pa.ChunkedArray]:
    """Convert both id columns to int64 or both to text; refuse negatives, decimals. kind: of all ids of the table."""
    ids = [column.cast(pa.int64() if kind is IdKind.INTEGERS else pa.string()) for column in ids]
    for title, column in zip(("source", "target"), ids, strict=True):
        if kind is IdKind.INTEGERS:
            wrong, trouble = pc.less(column, 0), NEGATIVE
        elif kind is IdKind.LONG_INTEGERS:
            wrong, trouble = pc.starts_with(column, "-"), NEGATIVE
        elif kind is IdKind.NUMBERS:
            wrong, trouble = (
                _does_not_match(column, _WHOLE_NUMBER),
                "is not a whole number; use integers or text as ids",
            )
        else:
            break
        if pc.any(wrong).as_py():
            row = first_true(wrong)
            raise InputError(f"{source_name}: {row_name(row)}: {title} {column[row].as_py()} {trouble}")
    return ids


def as_integers(column: pa.ChunkedArray, source_name: str, row_name: RowName) -> pa.ChunkedArray:
    """Convert ids to int64, also 007 and +7; refuse anything else."""
    if pa.types.is_int64(column.type):
        return column
    wrong = _does_not_match(column, _WHOLE_NUMBER)
    if not pc.any(wrong).as_py():
        try:
            return pc.utf8_ltrim(column, "+").cast(pa.int64())
        except pa.ArrowInvalid:
            wrong = _does_not_match(column, _FITS_64_BITS)
    row = first_true(wrong)
    raise InputError(
        f"{source_name}: {row_name(row)}: id {column[row].as_py()!r} is no integer of 64 bits; "
        f"correct it, or leave --ids integer out"
    )


def _does_not_match(column: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.invert(pc.match_substring_regex(column, pattern))


def refuse_negative(node_ids: np.ndarray, source_name: str, row_name: RowName) -> None:
    """Raise InputError for an integer below 0."""
    if node_ids.dtype.kind == "i" and (node_ids < 0).any():
        row = int(np.argmax(node_ids < 0))
        raise InputError(f"{source_name}: {row_name(row)}: node {node_ids[row]} {NEGATIVE}")


def quoted(node_id: object) -> str:
    """An id as errors show it: text in quotes, integers plain."""
    return repr(node_id) if isinstance(node_id, str) else str(node_id)


def encode(node_ids: np.ndarray | pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Number ids in the order of first appearance.

    Returns:
        (num_ids,) numbers and (num_distinct,) distinct ids, so that distinct[numbers] gives the ids back.

    Example:
        >>> numbers, distinct = encode(np.array([7, 7, 3]))
        >>> numbers.tolist(), distinct.tolist()
        ([0, 0, 1], [7, 3])
    """
    if not isinstance(node_ids, np.ndarray) and pa.types.is_integer(node_ids.type):
        node_ids = node_ids.to_numpy(zero_copy_only=False)
    if isinstance(node_ids, np.ndarray) and _is_dense(node_ids):
        return _encode_dense(node_ids)
    array = pa.array(node_ids) if isinstance(node_ids, np.ndarray) else node_ids
    encoded = pc.dictionary_encode(array)
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    # Arrow gives all chunks the dictionary of the whole column.
    numbers = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks])
    return numbers, chunks[0].dictionary.to_numpy(zero_copy_only=False)


def _is_dense(numbers: np.ndarray) -> bool:
    """Whether a table with an entry for each value up to the largest is at most eight times as long as the numbers."""
    return numbers.dtype.kind in "iu" and len(numbers) > 0 and numbers.min() >= 0 and numbers.max() < 8 * len(numbers)


def _encode_dense(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same as `encode` by a table instead of hashing: several times faster for millions of ids."""
    index_type = np.int32 if len(numbers) < 2**31 else np.int64
    table: np.ndarray = np.full(int(numbers.max()) + 1, -1, dtype=index_type)
    # Written from the end, so that the first appearance is written last and stays.
    table[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1, dtype=index_type)
    first_places = np.sort(table[table >= 0])
    distinct = numbers[first_places]
    table[distinct] = np.arange(len(distinct), dtype=index_type)
    return table[numbers], distinct


def find_rows(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(num_wanted,) row of each wanted id among the distinct known ids, -1 for an unknown id.

    If one side is integers and the other text, both are compared as text: one table may hold numbers only, and the
    other one name among its numbers.
    """
    if wanted.dtype.kind != known.dtype.kind:
        wanted, known = as_text(wanted), as_text(known)
    rows = pc.index_in(pa.array(wanted), value_set=pa.array(known))
    return rows.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def as_text(node_ids: np.ndarray) -> np.ndarray:
    """Convert ids to Python strings in an object array."""
    return as_node_ids(node_ids.astype(object), "ids")


def first_true(mask: pa.ChunkedArray) -> int:
    """The first row for which a mask holds."""
    return int(np.argmax(mask.to_numpy()))
