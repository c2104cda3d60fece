"""Numbering: ids that arrive piece by piece get numbers in the order of first appearance, as by `node_ids.encode`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 1 << 16  # ids between two looks at the room that is left
# Larger ids than this go through hashing; smaller ones find their number in a table over all values.
_LARGEST_TABLE = 1 << 27


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
        self._slots: np.ndarray = np.full(4 * _AT_ONCE, -1, np.int32)
        self._hashed = False

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
        return self._ids.nbytes + self._slots.nbytes

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
            self._make_room(int(part.max()))
            kernel = _number_hashed if self._hashed else _number_by_table
            self.num_ids = kernel(part, numbers[low : low + _AT_ONCE], self._slots, self._ids, self.num_ids)
        return numbers

    def _make_room(self, largest: int) -> None:
        self._ids = _with_room(self._ids, self.num_ids, _AT_ONCE)
        if not self._hashed and largest < _LARGEST_TABLE:
            if largest >= len(self._slots):
                more = np.full(max(largest + 1, 2 * len(self._slots)) - len(self._slots), -1, np.int32)
                self._slots = np.concatenate([self._slots, more])
            return
        wanted = _num_slots(self.num_ids + _AT_ONCE)
        if not self._hashed or wanted > len(self._slots):
            self._hashed = True
            self._slots = np.full(max(wanted, 4 * _AT_ONCE), -1, np.int32)
            _fill_hashed(self.ids, self._slots)


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
        self.num_ids = 0
        self._bytes = np.empty(_AT_ONCE, np.uint8)
        self._ends: np.ndarray = np.zeros(_AT_ONCE + 1, np.int64)  # id i ends at ends[i + 1]
        self._slots: np.ndarray = np.full(4 * _AT_ONCE, -1, np.int32)

    @property
    def num_bytes(self) -> int:
        """Memory that all this takes."""
        return self._bytes.nbytes + self._ends.nbytes + self._slots.nbytes

    @property
    def content(self) -> np.ndarray:
        """Bytes of all ids one after the other, in UTF-8."""
        return self._bytes[: self._ends[self.num_ids]]

    @property
    def offsets(self) -> np.ndarray:
        """(num_ids + 1,) where each id begins in `content`."""
        return self._ends[: self.num_ids + 1]

    @property
    def ids(self) -> np.ndarray:
        """(num_ids,) ids as strings, in the order of their numbers."""
        content, ends = self.content.tobytes(), self.offsets.tolist()
        array = np.empty(self.num_ids, dtype=object)
        array[:] = [content[ends[number] : ends[number + 1]].decode() for number in range(self.num_ids)]
        return array

    def number(self, *columns: Any) -> list[np.ndarray]:
        """(num_rows,) int32 numbers of each column of text; row by row, the first column before the second."""
        found = [np.empty(len(column), np.int32) for column in columns]
        for low in range(0, len(columns[0]), _AT_ONCE):
            parts = [_text_buffers(column[low : low + _AT_ONCE]) for column in columns]
            num_bytes = sum(len(content) for content, _ in parts)
            self._bytes = _with_room(self._bytes, int(self._ends[self.num_ids]), num_bytes)
            self._ends = _with_room(self._ends, self.num_ids + 1, _AT_ONCE * len(parts))
            wanted = _num_slots(self.num_ids + _AT_ONCE * len(parts))
            if wanted > len(self._slots):
                self._slots = np.full(wanted, -1, np.int32)
                _fill_text(self._bytes, self._ends, self.num_ids, self._slots)
            second = parts[1] if len(parts) > 1 else (np.empty(0, np.uint8), np.empty(0, np.int64))
            self.num_ids = _number_text(
                parts[0][0],
                parts[0][1],
                second[0],
                second[1],
                found[0][low : low + _AT_ONCE],
                found[-1][low : low + _AT_ONCE],
                self._bytes,
                self._ends,
                self._slots,
                self.num_ids,
            )
        return found


def _text_buffers(column: pa.ChunkedArray | list[str]) -> tuple[np.ndarray, np.ndarray]:
    """UTF-8 bytes and (num_rows + 1,) int64 offsets of a column of text."""
    import pyarrow as pa

    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else pa.array(column, pa.string())
    array = array.cast(pa.large_string())
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return content[offsets[0] : offsets[-1]].copy(), offsets - offsets[0]


def _with_room(array: np.ndarray, used: int, more: int) -> np.ndarray:
    """The same numbers in an array that has room for more."""
    if used + more <= len(array):
        return array
    larger = np.zeros(max(used + more, 3 * len(array) // 2), array.dtype)
    larger[:used] = array[:used]
    return larger


def _num_slots(num_ids: int) -> int:
    """A power of two, at least half as large again: then searches stay short."""
    return 1 << int(3 * num_ids // 2).bit_length()


@njit(cache=True)
def _number_by_table(wanted: np.ndarray, numbers: np.ndarray, table: np.ndarray, ids: np.ndarray, num_ids: int) -> int:
    for place in range(len(wanted)):
        number = table[wanted[place]]
        if number < 0:
            number = num_ids
            table[wanted[place]] = number
            ids[number] = wanted[place]
            num_ids += 1
        numbers[place] = number
    return num_ids


@njit(cache=True)
def _mix(value: int | np.uint64) -> np.uint64:
    mixed = np.uint64(value)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return mixed ^ (mixed >> np.uint64(33))


@njit(cache=True)
def _find_slot(wanted: int, slots: np.ndarray, ids: np.ndarray) -> np.uint64:
    """The slot that holds the number of an id, or the empty one where it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = _mix(wanted) & mask
    while slots[slot] >= 0 and ids[slots[slot]] != wanted:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True)
def _number_hashed(wanted: np.ndarray, numbers: np.ndarray, slots: np.ndarray, ids: np.ndarray, num_ids: int) -> int:
    for place in range(len(wanted)):
        slot = _find_slot(wanted[place], slots, ids)
        if slots[slot] < 0:
            slots[slot] = num_ids
            ids[num_ids] = wanted[place]
            num_ids += 1
        numbers[place] = slots[slot]
    return num_ids


@njit(cache=True)
def _fill_hashed(ids: np.ndarray, slots: np.ndarray) -> None:
    for number in range(len(ids)):
        slots[_find_slot(ids[number], slots, ids)] = number


@njit(cache=True)
def _find_text_slot(text: np.ndarray, slots: np.ndarray, content: np.ndarray, ends: np.ndarray) -> np.uint64:
    """As `_find_slot`, for text."""
    value = np.uint64(0xCBF29CE484222325)
    for place in range(len(text)):
        value = (value ^ np.uint64(text[place])) * np.uint64(0x100000001B3)
    mask = np.uint64(len(slots) - 1)
    slot = _mix(value) & mask
    while slots[slot] >= 0:
        start, end = ends[slots[slot]], ends[slots[slot] + 1]
        same = end - start == len(text)
        place = 0
        while same and place < len(text):
            same = content[start + place] == text[place]
            place += 1
        if same:
            break
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True)
def _fill_text(content: np.ndarray, ends: np.ndarray, num_ids: int, slots: np.ndarray) -> None:
    for number in range(num_ids):
        slots[_find_text_slot(content[ends[number] : ends[number + 1]], slots, content, ends)] = number


@njit(cache=True)
def _number_text(
    first: np.ndarray,
    first_offsets: np.ndarray,
    second: np.ndarray,
    second_offsets: np.ndarray,
    first_numbers: np.ndarray,
    second_numbers: np.ndarray,
    content: np.ndarray,
    ends: np.ndarray,
    slots: np.ndarray,
    num_ids: int,
) -> int:
    num_columns = 2 if len(second_offsets) else 1
    for row in range(len(first_offsets) - 1):
        for column in range(num_columns):
            if column == 0:
                text = first[first_offsets[row] : first_offsets[row + 1]]
            else:
                text = second[second_offsets[row] : second_offsets[row + 1]]
            slot = _find_text_slot(text, slots, content, ends)
            if slots[slot] < 0:
                slots[slot] = num_ids
                start = ends[num_ids]
                content[start : start + len(text)] = text
                ends[num_ids + 1] = start + len(text)
                num_ids += 1
            if column == 0:
                first_numbers[row] = slots[slot]
            else:
                second_numbers[row] = slots[slot]
    return num_ids
