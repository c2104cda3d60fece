"""Home draws: the negatives of some rows of a graph only. They are those that a draw for all rows gives these rows."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from l2g2g.models.exclusion import find_suspects
from l2g2g.models.randomness import random_word
from l2g2g.models.sampling import NegativePlan, allow, begin_draw

_ROWS = 64  # rows whose negatives are drawn together


class HomeDraws:
    """Draws the negatives of some rows from the plan of all, which has one patch and no units.

    Args:
        plan: Of the whole graph.
        nodes: (num_own,) the rows that are drawn for, ascending.
    """

    def __init__(self, plan: NegativePlan, nodes: np.ndarray) -> None:
        assert plan.units is None
        assert plan.filters is not None
        self.plan, self.filters, self.nodes = plan, plan.filters, nodes
        self._room = np.empty((2, 0), np.int32)

    def draw(self, *, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(indptr, rows, columns) of the negatives of an epoch, CSR over all rows; the next draw writes over them."""
        indptr, keys, second = begin_draw(self.plan, seed=seed, epoch=epoch)
        starts = indptr[self.nodes]
        ends = np.concatenate([[0], np.cumsum(indptr[self.nodes + 1] - starts)])
        if ends[-1] > self._room.shape[1]:
            self._room = np.empty((2, int(1.1 * ends[-1]) + 16), np.int32)
        rows, columns = self._room[:, : ends[-1]]
        size = len(self.plan.shares)
        _draw(rows, columns, self.nodes, *self.plan.excluded, self.filters, starts, ends, size, keys[0], second[0])
        own_indptr = np.zeros(size + 1, np.int32)
        own_indptr[self.nodes + 1] = np.diff(ends)
        return np.cumsum(own_indptr, dtype=np.int32), rows, columns


@njit(cache=True, parallel=True)
def _draw(
    rows: np.ndarray,
    columns: np.ndarray,
    nodes: np.ndarray,
    excluded_indptr: np.ndarray,
    excluded: np.ndarray,
    filters: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    num_rows: int,
    key: np.uint64,
    second_key: np.uint64,
) -> None:
    bits, size = np.uint64(32), np.uint64(num_rows)
    for block in prange((len(nodes) + _ROWS - 1) // _ROWS):
        low, high = block * _ROWS, min((block + 1) * _ROWS, len(nodes))
        first, last = ends[low], ends[high]
        positions, own = np.empty(last - first, np.uint64), columns[first:last]
        for place in range(low, high):
            rows[ends[place] : ends[place + 1]] = nodes[place]
            begun, begin = np.uint64(starts[place]), ends[place] - first
            for step in range(ends[place + 1] - ends[place]):
                positions[begin + step] = begun + np.uint64(step)
        for place in range(len(own)):  # nothing but arithmetic: vector code
            own[place] = np.int32(((random_word(key, positions[place]) >> bits) * size) >> bits)
        for sixteen in range(first, last, 16):
            suspects, entry = find_suspects(filters, excluded_indptr, rows, columns, sixteen, last), sixteen
            while suspects:
                if suspects & 1:
                    row, position = rows[entry], positions[entry - first]
                    banned = excluded[excluded_indptr[row] : excluded_indptr[row + 1]]
                    columns[entry] = allow(columns[entry], banned, 0, num_rows, position, key, second_key)
                suspects, entry = suspects >> 1, entry + 1
