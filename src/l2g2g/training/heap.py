"""Heap: keep the memory that an epoch frees for the next one.

Every epoch allocates tables of the same sizes. glibc would return large ones to the system at once, which clears every
page again when it hands it out: up to a third of an epoch. Without glibc these functions do nothing.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's <malloc.h>
_USUAL = 128 * 1024  # default of both
_NEVER = 2**31 - 1
_TABLE = 1 << 20
_LARGE = 16 << 20  # bytes above which tables are returned at once after all, because gaps between them add up


@cache
def _libc() -> Any | None:
    """Return the C library if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library: Any = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory, except very large tables, until the end of the block.

    Afterwards the limits have their defaults, but glibc no longer adapts them to what a process frees.
    """
    library = _libc()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_THRESHOLD, _LARGE)
    library.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, _USUAL)
        library.mallopt(_TRIM_THRESHOLD, _USUAL)
        return_freed_memory()


def return_tables_at_once() -> None:
    """From now on return tables of more than 1 MB to the system when they are freed.

    By default those of up to 32 MB stay in the heap. On ranks, which exchange tables of many sizes, the gaps between
    them added up to a third of the memory.
    """
    library = _libc()
    if library is not None:
        library.mallopt(_MMAP_THRESHOLD, _TABLE)


def return_freed_memory() -> None:
    """Return freed memory to the system, so that a second training in a process needs no more than the first."""
    library = _libc()
    if library is not None:
        library.malloc_trim(0)
