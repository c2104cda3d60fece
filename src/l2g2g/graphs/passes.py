"""Passes over a stream: each reads it anew, or the first one keeps its items in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Stream = Callable[[], Iterator[Item]]


def kept(stream: Stream[Item]) -> Stream[Item]:
    """The same stream, each item read once, when it is first asked for, and in memory from then on.

    Example:
        >>> numbers = kept(lambda: map(int, "123"))
        >>> next(numbers()), list(numbers()), list(numbers())
        (1, [1, 2, 3], [1, 2, 3])
    """
    items: list[Item] = []
    rest: Iterator[Item] | None = None
    source: Stream[Item] | None = stream  # None once everything is kept: what it holds is given back

    def one_pass() -> Iterator[Item]:
        nonlocal rest, source
        place = 0
        while place < len(items) or source is not None:
            if place == len(items):
                assert source is not None
                rest = source() if rest is None else rest
                try:
                    items.append(next(rest))
                except StopIteration:
                    rest = source = None
                    return
                except BaseException:  # a generator that failed would end as if it were complete
                    items.clear()
                    rest = None
                    raise
            yield items[place]
            place += 1

    return one_pass
