"""Groups: vectors cut into halves again and again, so that whole groups can be ruled out by a bound on their scores."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from l2g2g.core import kernels

_MARGIN = 1e-5  # of the largest product of lengths: what rounding of single scores may add


@dataclass(frozen=True, eq=False)
class Groups:
    """Vectors in groups of nearly equal size that lie close together.

    Attributes:
        order: (num_nodes,) nodes, those of a group beside each other.
        starts: (num_groups + 1,) where each group begins in the order.
        low, high: (num_groups, width) the box around a group, in coordinates along the directions of the cuts.
        longest: (num_groups,) the length of its longest vector.
    """

    order: np.ndarray
    starts: np.ndarray
    low: np.ndarray
    high: np.ndarray
    longest: np.ndarray

    @property
    def num_groups(self) -> int:
        """Groups."""
        return len(self.starts) - 1


def principal_axes(*tables: np.ndarray) -> np.ndarray:
    """(width, width) orthonormal columns: the directions in which the vectors of all tables reach farthest."""
    total = sum(table.T.astype(np.float64) @ table for table in tables)
    return np.linalg.eigh(total)[1][:, ::-1]


def make_groups(table: np.ndarray, axes: np.ndarray, num_cuts: int) -> Groups:
    """2^num_cuts groups of the rows of a table: each cut halves a group across the direction of its largest spread.

    table: (num_nodes, width); axes: orthonormal, which scores do not notice and boxes fit better.
    """
    turned = np.ascontiguousarray(table @ axes.astype(np.float32))
    order = np.arange(len(table))
    starts = np.array([0, len(table)])
    for _ in range(num_cuts):
        for low, high in pairwise(starts):
            part = turned[order[low:high]]
            along = part @ _direction(part)
            order[low:high] = order[low:high][np.argpartition(along, len(along) // 2)] if high > low + 1 else order[low]
        middles = (starts[:-1] + starts[1:]) // 2
        starts = np.sort(np.concatenate([starts, middles]))
    low, high = (
        np.array([reach(turned[order[a:b]], axis=0) for a, b in pairwise(starts)]) for reach in (np.min, np.max)
    )
    lengths = np.linalg.norm(table, axis=1)[order]
    return Groups(order, starts, low, high, np.maximum.reduceat(lengths, starts[:-1]))


def _direction(part: np.ndarray) -> np.ndarray:
    """(width,) the direction in which the rows differ most."""
    spread = part - part.mean(axis=0)
    return np.linalg.eigh(spread.T @ spread)[1][:, -1]


def bound_scores(left: Groups, right: Groups) -> np.ndarray:
    """(num_left, num_right) float32: no inner product of a vector of one group with one of the other is larger."""
    margin = _MARGIN * float(left.longest.max()) * float(right.longest.max())
    parts = left.low, left.high, right.low, right.high, left.longest, right.longest
    bounds = kernels().bound_boxes(*(np.ascontiguousarray(part, np.float64) for part in parts))
    return np.nextafter((bounds + margin).astype(np.float32), np.float32(np.inf))
