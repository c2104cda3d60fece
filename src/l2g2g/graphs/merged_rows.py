"""Merged rows: sorted arcs that arrive piece by piece become the rows of an adjacency matrix on disk."""

from __future__ import annotations

import numpy as np

from l2g2g.graphs.adjacency import BACK, FORTH, Cleaning
from l2g2g.graphs.array_writer import FolderWriter


class MergedRows:
    """Writes indptr, indices and perhaps weights and directions, each entry once, and counts what is merged.

    Both directions of every arc come as keys in ascending order: row << 32 | column << 1 | whether the direction is
    not the one that was given. Weights of equal keys come in the order of the input and are added up one by one.
    """

    def __init__(self, writer: FolderWriter, num_nodes: int, *, weighted: bool, directed: bool) -> None:
        self.num_entries = self.num_distinct = self.num_self_loops = 0
        self._degrees: np.ndarray = np.zeros(num_nodes, np.int64)
        self._indptr, self._indices = writer.array("indptr", np.int64), writer.array("indices", np.int32)
        self._weights = writer.array("weights", np.float32) if weighted else None
        self._directions = writer.array("directions", np.uint8) if directed else None
        self._arc_weights = writer.array("arc_weights", np.float32) if directed and weighted else None
        self._keys, self._values = np.empty(0, np.int64), np.empty(0, np.float32)

    def add(self, keys: np.ndarray, values: np.ndarray | None) -> None:
        """Take (num_keys,) keys that follow those before, with their weights."""
        keys = np.concatenate([self._keys, keys])
        values = self._values if values is None else np.concatenate([self._values, values])
        # The last entry may go on in the next piece.
        end = int(np.searchsorted(keys, keys[-1] >> 1 << 1))
        self._write(keys[:end], values[:end])
        self._keys, self._values = keys[end:], values[end:]

    def finish(self) -> None:
        """Write the last entry and where rows begin."""
        self._write(self._keys, self._values)
        self._indptr.append(np.concatenate([np.zeros(1, np.int64), np.cumsum(self._degrees)]))

    def cleaning(self, num_rows: int, *, directed: bool) -> Cleaning:
        """What was changed on the way; directions that are kept are not counted as joined."""
        num_edges = self.num_entries // 2
        return Cleaning(
            num_arcs_read=num_rows,
            num_self_loops=self.num_self_loops,
            num_duplicates=num_rows - self.num_self_loops - self.num_distinct,
            num_reversed=0 if directed else self.num_distinct - num_edges,
            num_isolated=int((self._degrees == 0).sum()),
        )

    def _write(self, keys: np.ndarray, values: np.ndarray) -> None:
        if len(keys) == 0:
            return
        is_first = np.ones(len(keys), bool)
        np.not_equal(keys[1:] >> 1, keys[:-1] >> 1, out=is_first[1:])
        firsts = keys[is_first]
        rows = firsts >> 32
        self._degrees[rows[0] : rows[-1] + 1] += np.bincount(rows - rows[0])
        self._indices.append((firsts >> 1 & 0x7FFFFFFF).astype(np.int32))
        self.num_entries += len(firsts)
        self.num_distinct += len(firsts) - int(np.count_nonzero(firsts & 1))  # the given direction comes first
        if self._directions is not None:
            given = np.where(keys & 1, BACK, FORTH).astype(np.uint8)
            self._directions.append(np.bitwise_or.reduceat(given, np.flatnonzero(is_first)))
        if self._weights is not None:
            sums = np.zeros((len(firsts), 2), np.float32)  # of the given direction and of the other
            np.add.at(sums.reshape(-1), 2 * (np.cumsum(is_first) - 1) + (keys & 1), values)
            self._weights.append(sums.max(axis=1))
            if self._arc_weights is not None:
                self._arc_weights.append(np.ascontiguousarray(sums[:, 0]))
