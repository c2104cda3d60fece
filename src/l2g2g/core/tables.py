"""Tables: float32 memory for the native kernels, aligned to cache lines."""

from __future__ import annotations

import numpy as np

from l2g2g.core import native


def blank_table(*shape: int) -> np.ndarray:
    """A float32 array with undefined contents that begins with a cache line, so that a row of 16 is one line."""
    table: np.ndarray = native().blank_table(shape)
    return table


def zero_table(*shape: int) -> np.ndarray:
    """The same, filled with zeros."""
    table = blank_table(*shape)
    table.fill(0.0)
    return table
