"""Heap: memory that an epoch gives back is there for the next one, instead of going to the system and coming back.

Every epoch makes tables of the same sizes. glibc would return the large ones to the system at once, which then clears
every page again when it hands it out: up to a third of an epoch.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's <malloc.h>
_USUAL = 128 * 1024  # what both of them are by default
_NEVER = 2**31 - 1
_TABLE = 1 << 20
_LARGE = 16 << 20  # bytes: tables above it go back at once after all, for what is left between them could add up


@cache
def _libc() -> Any | None:
    """The C library, where it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library: Any = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Hold what is freed, unless it is very large, until the end of the block; nothing without glibc.

    Afterwards the limits are the usual ones, but glibc, once set, no longer adapts them to what a process frees.
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
    """From now on give tables of more than 1 MB back to the system when they are freed; nothing without glibc.

    Otherwise those of up to 32 MB stay in the heap with gaps between them. On ranks, where tables of many different
    sizes come and go as rows are exchanged, the gaps had added up to a third of the memory.
    """
    library = _libc()
    if library is not None:
        library.mallopt(_MMAP_THRESHOLD, _TABLE)


def return_freed_memory() -> None:
    """Give the system what was freed since, too: a second training in a process needs no more than the first."""
    library = _libc()
    if library is not None:
        library.malloc_trim(0)
