"""Read ahead: the next piece is read by another thread while one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


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
