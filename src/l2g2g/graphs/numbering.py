"""Numbering: ids that arrive piece by piece get numbers in the order of first appearance, as by `node_ids.encode`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 1 << 18  # ids between two checks of the memory that is left
# Larger ids than this are looked up in sorted arrays; smaller ones find their number in a table over all values.
_LARGEST_TABLE = 1 << 27
_BYTES_PER_TEXT = 33 + 32  # of an id and its number as Python objects, without the text


class IntegerNumbers:
    """Numbers of integer ids from 0.

    Example:
        >>> numbers = IntegerNumbers()
        >>> numbers.number(np.array([7, 7, 3])).tolist(), numbers.number(np.array([3, 10**12])).tolist()
        ([0, 0, 1], [1, 2])
        >>> numbers.ids.tolist()
        [7, 3, 1000000000000]
    """

    def __init__(self) -> None:
        self.num_ids = 0
        self._ids = np.empty(_AT_ONCE, np.int64)
        self._table: np.ndarray = np.full(_AT_ONCE, -1, np.int32)
        self._runs: _SortedRuns | None = None  # instead of the table, once an id is too large for it

    @classmethod
    def up_to(cls, num_ids: int) -> IntegerNumbers:
        """The numbers from 0, each its own id."""
        numbers = cls()
        for low in range(0, num_ids, _AT_ONCE):
            numbers.number(np.arange(low, min(low + _AT_ONCE, num_ids)))
        return numbers

    @property
    def num_bytes(self) -> int:
        """Memory that all this takes."""
        return self._ids.nbytes + (self._table.nbytes if self._runs is None else self._runs.num_bytes)

    @property
    def ids(self) -> np.ndarray:
        """(num_ids,) int64 ids in the order of their numbers."""
        return self._ids[: self.num_ids]

    def number(self, ids: np.ndarray) -> np.ndarray:
        """(num_ids,) int32 number of each id; new ids take the next numbers."""
        ids = np.ascontiguousarray(ids, np.int64)
        numbers = np.empty(len(ids), np.int32)
        for low in range(0, len(ids), _AT_ONCE):
            part = ids[low : low + _AT_ONCE]
            largest = int(part.max())
            if self._runs is None and largest >= _LARGEST_TABLE:
                self._runs = _SortedRuns()
                self._runs.add(self.ids, np.arange(self.num_ids, dtype=np.int32))
                self._table = self._table[:0].copy()
            find = self._by_table if self._runs is None else self._by_runs
            numbers[low : low + _AT_ONCE] = find(part, largest)
        return numbers

    def _by_table(self, wanted: np.ndarray, largest: int) -> np.ndarray:
        if largest >= len(self._table):
            more = np.full(max(largest + 1, 2 * len(self._table)) - len(self._table), -1, np.int32)
            self._table = np.concatenate([self._table, more])
        new = wanted[self._table[wanted] < 0]
        if len(new):
            places = np.arange(len(new), dtype=np.int32)
            self._table[new[::-1]] = places[::-1]  # of equal ids the last one that is written, the first, stays
            fresh = new[self._table[new] == places]
            self._table[fresh] = self._append(fresh)
        return self._table[wanted]

    def _by_runs(self, wanted: np.ndarray, largest: int) -> np.ndarray:
        import pyarrow as pa

        assert self._runs is not None
        encoded = pa.array(wanted).dictionary_encode()  # in the order of first appearance
        distinct = encoded.dictionary.to_numpy()
        numbers = self._runs.find(distinct)
        is_new = numbers < 0
        if is_new.any():
            numbers[is_new] = self._append(distinct[is_new])
            self._runs.add(distinct[is_new], numbers[is_new])
        return numbers[encoded.indices.to_numpy()]

    def _append(self, fresh: np.ndarray) -> np.ndarray:
        """Keep new ids; returns their numbers."""
        first, self.num_ids = self.num_ids, self.num_ids + len(fresh)
        if self.num_ids > len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty(max(len(fresh), len(self._ids) // 2), np.int64)])
        self._ids[first : self.num_ids] = fresh
        return np.arange(first, self.num_ids, dtype=np.int32)


class _SortedRuns:
    """Numbers of ids in sorted arrays, each less than half as long as the one before: few to search, rarely merged."""

    def __init__(self) -> None:
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def num_bytes(self) -> int:
        return sum(ids.nbytes + numbers.nbytes for ids, numbers in self._runs)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """(num_wanted,) int32 numbers, -1 for ids that are not there."""
        order = np.argsort(wanted)  # sorted, so that each search begins where the last one ended
        in_order, found = wanted[order], np.full(len(wanted), -1, np.int32)
        for ids, numbers in self._runs:
            places = np.minimum(np.searchsorted(ids, in_order), len(ids) - 1)
            here = ids[places] == in_order
            found[order[here]] = numbers[places[here]]
        return found

    def add(self, ids: np.ndarray, numbers: np.ndarray) -> None:
        """Take ids that are not there yet."""
        if len(ids) == 0:
            return
        while self._runs and len(self._runs[-1][0]) < 2 * len(ids):
            more_ids, more_numbers = self._runs.pop()
            ids, numbers = np.concatenate([more_ids, ids]), np.concatenate([more_numbers, numbers])
        order = np.argsort(ids, kind="stable")
        self._runs.append((ids[order], numbers[order]))


class TextNumbers:
    """Numbers of ids that are text.

    Example:
        >>> numbers = TextNumbers()
        >>> numbers.number(["b", "a"], ["a", "c"])[0].tolist()
        [0, 1]
        >>> numbers.ids.tolist()
        ['b', 'a', 'c']
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}  # UTF-8, in the order of the numbers
        self._content_bytes = 0

    @property
    def num_ids(self) -> int:
        """Ids so far."""
        return len(self._numbers)

    @property
    def num_bytes(self) -> int:
        """Memory that all this takes, about."""
        return sys.getsizeof(self._numbers) + _BYTES_PER_TEXT * self.num_ids + self._content_bytes

    @property
    def content(self) -> np.ndarray:
        """Bytes of all ids one after the other, in UTF-8."""
        return np.frombuffer(b"".join(self._numbers), np.uint8)

    @property
    def offsets(self) -> np.ndarray:
        """(num_ids + 1,) where each id begins in `content`."""
        lengths = np.fromiter(map(len, self._numbers), np.int64, self.num_ids)
        return np.concatenate([[0], np.cumsum(lengths)])

    @property
    def ids(self) -> np.ndarray:
        """(num_ids,) ids as strings, in the order of their numbers."""
        array = np.empty(self.num_ids, dtype=object)
        array[:] = [text.decode() for text in self._numbers]
        return array

    def number(self, *columns: Any) -> list[np.ndarray]:
        """(num_rows,) int32 numbers of each column of text; row by row, the first column before the second."""
        import pyarrow as pa

        num_rows, found = len(columns[0]), [np.empty(len(column), np.int32) for column in columns]
        for low in range(0, num_rows, _AT_ONCE):
            parts = [_as_binary(column[low : low + _AT_ONCE]) for column in columns]
            by_row = np.arange(len(parts) * len(parts[0])).reshape(len(parts), -1).T.ravel()
            encoded = pa.concat_arrays(parts).take(pa.array(by_row)).dictionary_encode()
            numbers = self._number_distinct(encoded.dictionary)[encoded.indices.to_numpy()]
            for place, column in enumerate(found):
                column[low : low + _AT_ONCE] = numbers[place :: len(parts)]
        return found

    def _number_distinct(self, texts: pa.LargeBinaryArray) -> np.ndarray:
        """(num_texts,) numbers of texts that are all different."""
        numbers, first_new = self._numbers, len(self._numbers)
        found = np.array([numbers.setdefault(text, len(numbers)) for text in texts.to_pylist()], np.int32)
        lengths = np.diff(np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1])
        self._content_bytes += int(lengths[found >= first_new].sum())
        return found


def _as_binary(column: pa.ChunkedArray | list[str]) -> pa.LargeBinaryArray:
    """A column of text as UTF-8 bytes."""
    import pyarrow as pa

    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else pa.array(column, pa.string())
    return array.cast(pa.large_string()).cast(pa.large_binary())
