"""Node ids: integers or strings from outside, matched to the row numbers used inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from l2g2g.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def as_node_ids(values: np.ndarray | list, source: str) -> np.ndarray:
    """(num_nodes,) ids as int64, or as Python strings in an object array; bytes are read as UTF-8.

    An object array holds each name at its own length; NumPy's fixed-width text would give every one of
    a million names the width of the longest.
    """
    array = np.asarray(values) if not isinstance(values, list) else _array_of(values)
    if array.dtype.kind in "iu" and (array.dtype != np.uint64 or array.max(initial=0) < 2**63):
        return array.astype(np.int64)
    if array.dtype.kind == "S":
        try:
            return np.array([name.decode() for name in array.tolist()], dtype=object)
        except UnicodeDecodeError as error:
            raise InputError(f"{source}: names are not UTF-8 text ({error})") from error
    if array.dtype.kind in "UTOu":
        return np.array([str(name) for name in array.tolist()], dtype=object)
    raise InputError(f"{source}: ids are {array.dtype}; use integers or text")


def _array_of(values: list) -> np.ndarray:
    if all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values):
        return np.array([int(value) for value in values])
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def check_unique(node_ids: np.ndarray, source: str) -> None:
    """Refuse an id that stands for two nodes; name both rows."""
    codes, distinct = encode(node_ids)
    if len(distinct) == len(node_ids):
        return
    repeated = int(np.argmax(codes != np.arange(len(codes))))  # codes count up until the first repeat
    first = int(np.argmax(codes == codes[repeated]))
    raise InputError(f"{source}: {node_ids[repeated]!r} is in row {first} and in row {repeated}; keep one of them")


def encode(node_ids: np.ndarray | pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Number ids in the order of first appearance.

    Returns:
        (num_ids,) numbers and (num_distinct,) distinct ids, so that distinct[numbers] gives the ids back.

    Example:
        >>> numbers, distinct = encode(np.array([7, 7, 3]))
        >>> numbers.tolist(), distinct.tolist()
        ([0, 0, 1], [7, 3])
    """
    import pyarrow as pa

    array = pa.array(node_ids) if isinstance(node_ids, np.ndarray) else node_ids
    chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    if pa.types.is_dictionary(chunked.type):
        chunked = chunked.cast(chunked.type.value_type)
    encoded = chunked.dictionary_encode().unify_dictionaries()
    if encoded.num_chunks == 0:
        return np.empty(0, np.int32), np.empty(0, np.int64)
    numbers = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    return numbers, encoded.chunk(0).dictionary.to_numpy(zero_copy_only=False)


def find_rows(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(num_wanted,) row of each wanted id among the distinct known ids, -1 where it is none of them.

    Integers and text are compared as text: a file of numbers alone and a file with one name among its
    numbers must still agree.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if wanted.dtype.kind != known.dtype.kind:
        wanted, known = as_text(wanted), as_text(known)
    rows = pc.index_in(pa.array(wanted), value_set=pa.array(known))
    return rows.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def as_text(node_ids: np.ndarray) -> np.ndarray:
    """The same ids as Python strings in an object array."""
    return as_node_ids(node_ids.astype(object), "ids")
