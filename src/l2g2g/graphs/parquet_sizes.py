"""Sizes in memory of a Parquet file's columns, from its footer alone.

The footer (Thrift's compact protocol) says how many values each part of a column holds. PyArrow offers these numbers
too, but its way to them ends the process where a footer is damaged, and hostile ones are what this is for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_MAGIC = b"PAR1"
_DEEPEST = 30
# Places of the fields that matter, in Parquet's Thrift definition.
_ROW_GROUPS, _COLUMNS, _CHUNK, _NUM_VALUES, _NUM_BYTES = 4, 1, 3, 5, 6
_LEAST_WIDTH = 4  # bytes of a value in memory; equal values take next to nothing in the file


def decoded_size(path: Path) -> int:
    """Least number of bytes that the columns take in memory; raises ValueError where the footer makes no sense."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length + 8 > end:
            raise ValueError("no Parquet footer at its end")
        file.seek(end - 8 - length)
        footer = _Reader(file.read(length)).struct()
    total = 0
    for group in _list(footer.get(_ROW_GROUPS)):
        for column in _list(group.get(_COLUMNS) if isinstance(group, dict) else None):
            chunk = column.get(_CHUNK) if isinstance(column, dict) else None
            values, size = (chunk.get(_NUM_VALUES), chunk.get(_NUM_BYTES)) if isinstance(chunk, dict) else (None, None)
            if not isinstance(values, int) or not isinstance(size, int) or min(values, size) < 0:
                raise ValueError("its footer has a column without sizes")
            total += max(_LEAST_WIDTH * values, size)
    return total


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _Reader:
    """Thrift's compact protocol: structs as {field: value}, everything that is no number, list or struct as None."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def byte(self) -> int:
        if self.place >= len(self.data):
            raise ValueError("its footer is cut off")
        self.place += 1
        return self.data[self.place - 1]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("its footer has a number beyond 64 bits")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, count: int) -> None:
        if count > len(self.data) - self.place:
            raise ValueError("its footer is cut off")
        self.place += count

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            found[field] = None if kind in (1, 2) else self.value(kind, depth)  # a boolean is its own kind
        return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self.skip(1)
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 7:
            return self.skip(8)
        if kind == 8:
            return self.skip(self.varint())
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            if count > len(self.data) - self.place:
                raise ValueError("its footer is cut off")
            return [self.value(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("its footer has a value of an unknown kind")
