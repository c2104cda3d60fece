"""Pair order: pairs of a stretch of a list in the order of their columns, roughly, before they are scored (CPU).

Negatives have their far ends anywhere in a table that no near cache holds. To put some ten thousand of them in order
costs less than what it saves: the processor then finds neighbours of a row that it has just read, and reads ahead.
"""

from __future__ import annotations

import numpy as np
from numba import njit

STRETCH = 1 << 15  # pairs: their list and its copy stay in the second-level cache
_NUM_BINS = 256
_NEAR = 1 << 14  # rows: so many, and their gradients, are in the second-level cache anyway
_FAR = 8 * STRETCH  # rows: among so many a stretch has no neighbours to find


@njit(cache=True, forceinline=True)
def order_by_column(
    new_rows: np.ndarray, new_columns: np.ndarray, rows: np.ndarray, columns: np.ndarray, starts: np.ndarray
) -> bool:
    """Put pairs in the order of a few bins of columns, if that pays; in a bin they keep theirs.

    new_rows, new_columns: as long as rows and columns at least. starts: `blank_starts`, to work with.

    Returns:
        Whether it paid; if not, nothing was written.
    """
    lowest, highest = columns[0], columns[0]
    for column in columns:
        lowest, highest = min(lowest, column), max(highest, column)
    spread = np.uint32(highest - lowest)
    if spread < _NEAR or spread >= _FAR:
        return False
    shift, one = np.uint32(0), np.uint32(1)  # unsigned: no check for places that count from the end
    while spread >> shift >= _NUM_BINS:
        shift += one
    starts[:] = 0
    for column in columns:
        starts[np.uint32(column - lowest) >> shift] += one
    before = np.uint32(0)
    for place in range(_NUM_BINS):
        count = starts[place]
        starts[place] = before
        before += count
    for pair in range(len(columns)):
        number = np.uint32(columns[pair] - lowest) >> shift
        place = starts[number]
        starts[number] = place + one
        new_rows[place], new_columns[place] = rows[pair], columns[pair]
    return True


@njit(cache=True, forceinline=True)
def blank_starts() -> np.ndarray:
    """Room for the starts of the bins."""
    return np.empty(_NUM_BINS, np.uint32)
