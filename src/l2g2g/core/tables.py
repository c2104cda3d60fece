"""Tables: float32 memory for the native kernels, aligned to cache lines."""

from __future__ import annotations

import math

import numpy as np

_LINE = 16  # floats of a cache line


def blank_table(*shape: int) -> np.ndarray:
    """A float32 array with undefined contents that begins with a cache line, so that a row of 16 is one line."""
    count = math.prod(shape)
    memory = np.empty(count + _LINE, np.float32)  # NumPy asks for large pages, torch does not
    first = -memory.__array_interface__["data"][0] // 4 % _LINE
    return memory[first : first + count].reshape(shape)


def zero_table(*shape: int) -> np.ndarray:
    """The same, filled with zeros."""
    table = blank_table(*shape)
    table.fill(0.0)
    return table
