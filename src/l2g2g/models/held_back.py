"""Held back: edges kept from training by chance, decided for each edge alone, so that no list of edges is needed.

Whether an edge is held back depends on the seed and its two nodes: every reader of a row, a patch or a block of a graph
on disk leaves out the same edges, in both directions, and never has to look them up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from l2g2g.models.randomness import Purpose, mix_words, share_threshold, stream_key

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


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
        both = share_threshold(self.validation + self.test)
        return key, np.uint64(share_threshold(self.validation)), np.uint64(both)

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
        rows = np.repeat(nodes, np.diff(indptr))
        return np.flatnonzero(_hash(rows, indices if far_nodes is None else far_nodes[indices], key) < threshold)

    def pick(self, indptr: np.ndarray, indices: np.ndarray, low: int) -> tuple[np.ndarray, np.ndarray]:
        """(validation, test) pairs u < v that are held back, each (num_pairs, 2), of the rows low, low + 1, …"""
        key, first, threshold = self._choice
        rows = low + np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        upper = np.flatnonzero(indices > rows)
        words = _hash(rows[upper], indices[upper], key)
        held = words < threshold
        pairs = np.stack([rows[upper][held], indices[upper][held].astype(np.int64)], axis=1)
        is_test = words[held] >= first
        return pairs[~is_test], pairs[is_test]


def drop_entries(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray | None, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """CSR without the entries at some places, given in order."""
    stays = np.ones(len(indices), bool)
    stays[places] = False
    fewer = indptr - np.searchsorted(places, indptr).astype(indptr.dtype)
    return fewer, indices[stays], None if weights is None else weights[stays]


def _hash(one: np.ndarray, other: np.ndarray, key: np.uint64) -> np.ndarray:
    """(num_pairs,) uint64 upper 32 bits of a hash of two nodes, the same in both directions."""
    low, high = np.minimum(one, other).astype(np.uint64), np.maximum(one, other).astype(np.uint64)
    position = (low << np.uint64(32)) + high + np.uint64(1)
    return mix_words(key + position * _GOLDEN) >> np.uint64(32)
