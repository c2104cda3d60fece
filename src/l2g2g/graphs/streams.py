"""Streams: several passes over one, read anew or kept in memory, and reading the next item in another thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

Item = TypeVar("Item")
Stream = Callable[[], Iterator[Item]]
Columns = list["pa.ChunkedArray"]


def kept(stream: Stream[Item]) -> Stream[Item]:
    """The same stream, each item read once, on first use, and in memory from then on.

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


def collected(stream: Stream[Columns]) -> Stream[Columns]:
    """A stream of one batch, in memory from its first pass on: the columns of all batches, none of them copied."""
    return kept(partial(_joined, stream))


def _joined(stream: Stream[Columns]) -> Iterator[Columns]:
    import pyarrow as pa

    batches = list(stream())
    if batches:
        yield [
            pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
            for columns in zip(*batches, strict=True)
        ]


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items in the same order, the next one always on its way; memory for two of them.

    Example:
        >>> list(read_ahead(iter("abc")))
        ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield item  # type: ignore[misc]
