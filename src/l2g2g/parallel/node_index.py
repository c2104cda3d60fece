"""Node index: some nodes in ascending order, and the place of each among them, in memory for these nodes only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from l2g2g.core import kernels


class NodeIndex:
    """Some nodes of a graph.

    Args:
        nodes: (num_listed,) ascending.

    Attributes:
        nodes: The same as int32.
    """

    def __init__(self, nodes: np.ndarray) -> None:
        self.nodes = nodes.astype(np.int32, copy=False)

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def places(self, nodes: np.ndarray) -> np.ndarray:
        """(num_asked,) int32 the place of each of some nodes in the list, -1 where it is not there."""
        if self._is_range:
            places = nodes.astype(np.int32, copy=False) - self.nodes[0]
            return np.where((places >= 0) & (places < len(self.nodes)), places, np.int32(-1))
        shift, starts = self._starts
        return kernels().find_places(self.nodes, starts, shift, np.ascontiguousarray(nodes, dtype=np.int32))

    @cached_property
    def _is_range(self) -> bool:
        return len(self.nodes) > 0 and int(self.nodes[-1]) - int(self.nodes[0]) + 1 == len(self.nodes)

    @cached_property
    def _starts(self) -> tuple[int, np.ndarray]:
        """(shift, (num_buckets + 1,) int32): where the nodes of each bucket of 2^shift numbers begin.

        There are about as many buckets as nodes.
        """
        end = int(self.nodes[-1]) + 1 if len(self.nodes) else 0
        shift = max(0, (end // max(1, len(self.nodes))).bit_length() - 1)
        counts = np.bincount(self.nodes >> shift, minlength=(end >> shift) + 1)
        return shift, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def distinct_nodes(parts: Iterable[np.ndarray]) -> np.ndarray:
    """(num_distinct,) int32 ascending: the nodes of several lists, which may have some twice.

    Lists are joined two by two, like carries of a binary counter: there are never many of them in memory.
    """
    waiting: list[np.ndarray] = []
    for part in parts:
        waiting.append(_distinct([part.astype(np.int32, copy=False)]))
        while len(waiting) > 1 and len(waiting[-2]) <= 2 * len(waiting[-1]):
            waiting[-2:] = [_distinct(waiting[-2:])]
    return waiting[0] if len(waiting) == 1 else _distinct(waiting)


def _distinct(lists: list[np.ndarray]) -> np.ndarray:
    numbers = np.concatenate([np.empty(0, np.int32), *lists])
    numbers.sort()
    return numbers[np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]]
