"""Held back: edges kept from training by chance, decided for each edge alone, so that no list of edges is needed.

Whether an edge is held back depends on the seed and its two nodes: every reader of a row, a patch or a block of a graph
on disk leaves out the same edges, in both directions, and never has to look them up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from l2g2g.models.masking import edge_threshold
from l2g2g.models.randomness import Purpose, random_word, stream_key


@dataclass(frozen=True)
class HeldBack:
    """Which edges are held back.

    Attributes:
        seed: Of the choice.
        validation: Chance of an edge to be held back for validation.
        test: Chance of an edge to be held back for the test.
    """

    seed: int
    validation: float
    test: float = 0.0

    @property
    def _choice(self) -> tuple[np.uint64, np.uint64, np.uint64]:
        key = np.uint64(stream_key(self.seed, Purpose.HELD_BACK))
        both = edge_threshold(self.validation + self.test)
        return key, np.uint64(edge_threshold(self.validation)), np.uint64(both)

    def drop(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None,
        nodes: np.ndarray,
        far_nodes: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """CSR without the edges that are held back; arguments as in `find`."""
        return drop_entries(indptr, indices, weights, self.find(indptr, indices, nodes, far_nodes))

    def find(
        self, indptr: np.ndarray, indices: np.ndarray, nodes: np.ndarray, far_nodes: np.ndarray | None = None
    ) -> np.ndarray:
        """(num_held,) places of the entries of a CSR that are held back, in order.

        nodes: (num_rows,) the nodes of its rows; far_nodes: of its columns, None where a column is a node.
        """
        key, _, threshold = self._choice
        far = np.empty(0, np.int64) if far_nodes is None else far_nodes
        goes = np.empty(len(indices), np.bool_)
        _flag_held(indptr, indices, nodes, far, key, threshold, goes)
        return np.flatnonzero(goes)

    def pick(self, indptr: np.ndarray, indices: np.ndarray, low: int) -> tuple[np.ndarray, np.ndarray]:
        """(validation, test) pairs u < v that are held back, each (num_pairs, 2), of the rows low, low + 1, …"""
        key, first, threshold = self._choice
        pairs, is_test = _pick_held(indptr, indices, low, key, first, threshold)
        return pairs[~is_test], pairs[is_test]


def drop_entries(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray | None, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """CSR without the entries at some places, given in order."""
    kept = None if weights is None else _without(weights, places)
    return _shorten(indptr, places), _without(indices, places), kept


@njit(cache=True)
def _without(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The values but for those at some places."""
    stays = np.ones(len(values), np.uint8)
    for number in range(len(places)):
        stays[places[number]] = 0
    rest, place, entry = np.empty(len(values) - len(places), values.dtype), 0, 0
    while place < len(rest):  # each is written, and the place moves on if it stays: no branch that chance decides
        rest[place] = values[entry]
        place += stays[entry]
        entry += 1
    return rest


@njit(cache=True)
def _shorten(indptr: np.ndarray, places: np.ndarray) -> np.ndarray:
    """indptr less the number of places before each of its entries."""
    fewer, number = np.empty_like(indptr), 0
    for row in range(len(indptr)):
        while number < len(places) and places[number] < indptr[row]:
            number += 1
        fewer[row] = indptr[row] - number
    return fewer


@njit(cache=True, inline="always")
def _is_below(one: np.uint64, other: np.uint64, key: np.uint64, threshold: np.uint64) -> bool:
    low, high = min(one, other), max(one, other)
    return bool((random_word(key, (low << np.uint64(32)) + high) >> np.uint64(32)) < threshold)


@njit(cache=True, inline="always")
def _far(far: np.ndarray, column: int) -> np.uint64:
    return np.uint64(column) if len(far) == 0 else np.uint64(far[column])


@njit(cache=True, parallel=True)
def _flag_held(
    indptr: np.ndarray,
    indices: np.ndarray,
    nodes: np.ndarray,
    far: np.ndarray,
    key: np.uint64,
    threshold: np.uint64,
    goes: np.ndarray,
) -> None:
    for row in prange(len(indptr) - 1):
        node = np.uint64(nodes[row])
        for entry in range(indptr[row], indptr[row + 1]):
            goes[entry] = _is_below(node, _far(far, indices[entry]), key, threshold)


@njit(cache=True)
def _pick_held(
    indptr: np.ndarray, indices: np.ndarray, low: int, key: np.uint64, first: np.uint64, threshold: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    count = 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            column = indices[entry]
            count += column > low + row and _is_below(np.uint64(low + row), np.uint64(column), key, threshold)
    pairs, is_test, place = np.empty((count, 2), np.int64), np.empty(count, np.bool_), 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            column = indices[entry]
            if column > low + row and _is_below(np.uint64(low + row), np.uint64(column), key, threshold):
                pairs[place, 0], pairs[place, 1] = low + row, column
                is_test[place] = not _is_below(np.uint64(low + row), np.uint64(column), key, first)
                place += 1
    return pairs, is_test
