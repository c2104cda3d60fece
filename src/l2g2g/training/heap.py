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


def return_freed_memory() -> None:
    """Give the system what was freed since, too: a second training in a process needs no more than the first."""
    library = _libc()
    if library is not None:
        library.malloc_trim(0)
