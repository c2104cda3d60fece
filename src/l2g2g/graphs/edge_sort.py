"""Edge sort: numbered edges that arrive piece by piece become the sorted rows of an adjacency matrix on disk.

Edges are kept in a file while degrees are counted. Then rows are dealt into buckets that fit into memory, and each
bucket is sorted, merged and written: a bucket sort whose memory does not depend on the number of edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from l2g2g.graphs.adjacency import BACK, FORTH
from l2g2g.graphs.array_writer import ArrayWriter, FolderWriter
from l2g2g.graphs.graph import Cleaning
from l2g2g.graphs.scratch import ScratchFile

_PAIRS_AT_ONCE = 1 << 20
# Bytes of memory for every arc of a bucket while it is sorted and merged.
_BYTES_PER_ARC = 32
_BYTES_PER_WEIGHTED_ARC = 64
_MOST_BUCKETS = 500  # a file is open for each


class EdgeSorter:
    """Collects edges, then writes both directions of each, sorted and merged.

    folder: where it may keep files while it works; they are gone when `write_rows` returns.
    memory_bytes: what sorting may take. directed: also write which of the two directions were given.
    """

    def __init__(self, folder: Path, memory_bytes: int, *, weighted: bool, directed: bool = False) -> None:
        self.num_read = self.num_self_loops = self.num_arcs = self.num_edges = 0
        self.directed = directed
        self.largest_node = -1
        self.weighted = weighted
        self._memory_bytes = memory_bytes
        self._degrees: np.ndarray = np.zeros(1 << 16, np.int32)
        self._folder = folder
        self._pairs = ScratchFile(folder / "pairs")
        self._weights = ScratchFile(folder / "pair_weights") if weighted else None

    def add(self, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
        """Take edges between node numbers below 2^31."""
        self.num_read += len(sources)
        largest = int(max(sources.max(initial=0), targets.max(initial=0)))
        self.largest_node = max(self.largest_node, largest)
        if largest >= len(self._degrees):
            more = np.zeros(max(largest + 1, 3 * len(self._degrees) // 2) - len(self._degrees), np.int32)
            self._degrees = np.concatenate([self._degrees, more])
        is_edge = sources != targets
        pairs = np.stack([sources[is_edge], targets[is_edge]], axis=1).astype(np.int32, copy=False)
        np.add.at(self._degrees, pairs.ravel(), 1)
        self.num_self_loops += len(sources) - len(pairs)
        self._pairs.write(pairs)
        if self._weights is not None:
            assert weights is not None
            self._weights.write(weights[is_edge].astype(np.float32, copy=False))

    def write_rows(self, writer: FolderWriter, num_nodes: int) -> Cleaning:
        """Write indptr, indices and perhaps weights and directions; returns what was changed on the way.

        Directions that are kept are not counted as joined.
        """
        degrees = np.zeros(num_nodes, np.int32)
        shared = min(num_nodes, len(self._degrees))
        degrees[:shared] = self._degrees[:shared]
        indptr, indices = writer.array("indptr", np.int64), writer.array("indices", np.int32)
        weights = writer.array("weights", np.float32) if self.weighted else None
        directions = writer.array("directions", np.uint8) if self.directed else None
        arc_weights = writer.array("arc_weights", np.float32) if self.directed and self.weighted else None
        merged = _Merged(indptr, indices, weights, directions, arc_weights)
        indptr.append(np.zeros(1, np.int64))
        for low, high, keys, values in self._buckets(degrees):
            merged.add(low, high, keys, values)
        self._pairs.remove()
        if self._weights is not None:
            self._weights.remove()
        num_given, self.num_arcs = self.num_read - self.num_self_loops, merged.num_distinct
        self.num_edges = merged.num_entries // 2
        return Cleaning(
            num_arcs_read=self.num_read,
            num_self_loops=self.num_self_loops,
            num_duplicates=num_given - merged.num_distinct,
            num_reversed=0 if self.directed else self.num_arcs - self.num_edges,
            num_isolated=merged.num_isolated,
        )

    def _buckets(self, degrees: np.ndarray) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        """Rows low:high with the keys of their arcs and the weights, in the order of the input."""
        bounds, counts = _cut(degrees, self._largest_bucket(int(degrees.sum(dtype=np.int64))))
        bucket_of = np.repeat(np.arange(len(counts), dtype=np.int16), np.diff(bounds))
        if len(counts) == 1:
            keys, values = np.empty(counts[0], np.int64), np.empty(counts[0] if self.weighted else 0, np.float32)
            place = 0
            for pairs, weights in self._pieces():
                here = slice(place, place + 2 * len(pairs))
                keys[here] = _keys(pairs, bucket_of, bounds)[1]
                if self.weighted:
                    values[here] = np.repeat(weights, 2)
                place += 2 * len(pairs)
            yield 0, len(degrees), keys, values
            return
        files = [ScratchFile(self._folder / f"bucket-{number}") for number in range(len(counts))]
        value_files = [ScratchFile(self._folder / f"bucket-weights-{number}") for number in range(len(counts))]
        for pairs, weights in self._pieces():
            buckets, keys = _keys(pairs, bucket_of, bounds)
            order = np.argsort(buckets, kind="stable")
            starts = np.searchsorted(buckets[order], np.arange(len(counts) + 1))
            keys, values = keys[order], weights[order // 2] if self.weighted else weights
            for number in range(len(counts)):
                files[number].write(keys[starts[number] : starts[number + 1]])
                if self.weighted:
                    value_files[number].write(values[starts[number] : starts[number + 1]])
            del buckets, order, keys, values
        self._pairs.remove()
        for number in range(len(counts)):
            values = value_files[number].take(np.float32)
            yield int(bounds[number]), int(bounds[number + 1]), files[number].take(np.int64), values

    def _largest_bucket(self, num_arcs: int) -> int:
        per_arc = _BYTES_PER_WEIGHTED_ARC if self.weighted else _BYTES_PER_ARC
        return max(self._memory_bytes // per_arc, num_arcs // _MOST_BUCKETS + 1, 1 << 16)

    def _pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for low in range(0, self._pairs.num_bytes // 8, _PAIRS_AT_ONCE):
            count = min(_PAIRS_AT_ONCE, self._pairs.num_bytes // 8 - low)
            pairs = self._pairs.read(np.int32, 2 * low, 2 * count).reshape(-1, 2)
            values = np.empty(0, np.float32) if self._weights is None else self._weights.read(np.float32, low, count)
            yield pairs, values


@dataclass
class _Merged:
    """The rows that are written, and what was counted on the way."""

    indptr: ArrayWriter
    indices: ArrayWriter
    weights: ArrayWriter | None
    directions: ArrayWriter | None = None
    arc_weights: ArrayWriter | None = None
    num_entries: int = 0
    num_distinct: int = 0
    num_isolated: int = 0

    def add(self, low: int, high: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Sort the arcs of the rows low:high, merge what is repeated, and write."""
        if self.weights is None:
            keys.sort()
        else:
            order = np.argsort(keys, kind="stable")  # in the order of the input: both directions sum up alike
            keys, values = keys[order], values[order]
            del order
        is_first = np.ones(len(keys), bool)
        np.not_equal(keys[1:] >> 1, keys[:-1] >> 1, out=is_first[1:])
        if self.directions is not None:
            self.directions.append(_directions(keys, is_first))
        columns, sums, lengths, distinct = _merge(keys, values, is_first, high - low)
        self.indptr.append(self.num_entries + np.cumsum(lengths))
        self.indices.append(columns)
        if self.weights is not None:
            self.weights.append(sums.max(axis=1))
        if self.arc_weights is not None:
            self.arc_weights.append(np.ascontiguousarray(sums[:, 0]))
        self.num_entries += len(columns)
        self.num_distinct += distinct
        self.num_isolated += int((lengths == 0).sum())


def _cut(degrees: np.ndarray, most_arcs: int) -> tuple[np.ndarray, np.ndarray]:
    """Consecutive rows in buckets of at most most_arcs: (num_buckets + 1,) bounds, (num_buckets,) arcs."""
    ends = np.cumsum(degrees, dtype=np.int64)
    bounds = [0]
    while bounds[-1] < len(degrees):
        passed = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, passed + most_arcs, side="right"))))
    passed_by = np.concatenate([[0], ends])[bounds]
    return np.array(bounds), np.diff(passed_by)


def _keys(pairs: np.ndarray, bucket_of: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both directions of every pair, one behind the other: (2 num_pairs,) buckets and keys.

    A key is (row in the bucket, column, whether the direction is not the one that was given), most important first.
    """
    rows = pairs.ravel()
    buckets = bucket_of[rows]
    keys = rows - bounds[buckets]
    keys <<= 32
    keys |= pairs[:, ::-1].ravel().astype(np.int64) << 1
    keys[1::2] |= 1
    return buckets, keys


def _directions(keys: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """(num_entries,) uint8 which directions of each entry were given, as in `RowBlock`. keys: sorted."""
    given = np.where(keys & 1, BACK, FORTH).astype(np.uint8)
    return np.bitwise_or.reduceat(given, np.flatnonzero(is_first)) if len(keys) else given


def _merge(
    keys: np.ndarray, values: np.ndarray, is_first: np.ndarray, num_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """One entry for each row and column of sorted keys: (columns, weights, lengths of the rows, distinct arcs given).

    is_first: (num_keys,) where an entry begins. Weights of arcs that repeat a direction are summed: (num_entries, 2),
    the given direction and the other; of the two the heavier counts in the adjacency. Without values there are none.
    """
    firsts = keys[is_first]
    columns = (firsts >> 1 & 0x7FFFFFFF).astype(np.int32)
    lengths = np.bincount(firsts >> 32, minlength=num_rows)
    distinct = len(firsts) - int(np.count_nonzero(firsts & 1))  # the given direction comes first
    sums = np.zeros((len(firsts) if len(values) else 0, 2), np.float32)
    if len(values):  # one by one, in the input's order
        np.add.at(sums.reshape(-1), 2 * (np.cumsum(is_first) - 1) + (keys & 1), values)
    return columns, sums, lengths, distinct
