"""Edge sort: numbered edges that arrive piece by piece become the sorted rows of an adjacency matrix on disk.

Edges are kept in a file while degrees are counted. Then rows are dealt into buckets that fit into memory, and each
bucket is sorted, merged and written: a bucket sort whose memory does not depend on the number of edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit

from l2g2g.graphs.array_writer import ArrayWriter, FolderWriter
from l2g2g.graphs.graph import Cleaning
from l2g2g.graphs.scratch import ScratchFile

_PAIRS_AT_ONCE = 1 << 20
# Bytes of memory for every arc of a bucket while it is sorted and merged.
_BYTES_PER_ARC = 14
_BYTES_PER_WEIGHTED_ARC = 38
_MOST_BUCKETS = 500  # a file is open for each


class EdgeSorter:
    """Collects edges, then writes both directions of each, sorted and merged.

    folder: where it may keep files while it works; they are gone when `write_rows` returns.
    memory_bytes: what sorting may take.
    """

    def __init__(self, folder: Path, memory_bytes: int, *, weighted: bool) -> None:
        self.num_read = self.num_self_loops = 0
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
        pairs = np.empty((len(sources), 2), np.int32)
        count = _join(sources.astype(np.int32, copy=False), targets.astype(np.int32, copy=False), pairs, self._degrees)
        self.num_self_loops += len(sources) - count
        self._pairs.write(pairs[:count])
        if self._weights is not None:
            assert weights is not None
            kept = weights.astype(np.float32) if count == len(sources) else weights[sources != targets]
            self._weights.write(kept.astype(np.float32, copy=False))

    def write_rows(self, writer: FolderWriter, num_nodes: int) -> Cleaning:
        """Write indptr, indices and perhaps weights; returns what was changed on the way."""
        degrees = np.zeros(num_nodes, np.int32)
        shared = min(num_nodes, len(self._degrees))
        degrees[:shared] = self._degrees[:shared]
        indptr, indices = writer.array("indptr", np.int64), writer.array("indices", np.int32)
        weights = writer.array("weights", np.float32) if self.weighted else None
        merged = _Merged(indptr, indices, weights)
        indptr.append(np.zeros(1, np.int64))
        for low, high, keys, values in self._buckets(degrees):
            merged.add(low, high, keys, values)
        self._pairs.remove()
        if self._weights is not None:
            self._weights.remove()
        num_given = self.num_read - self.num_self_loops
        return Cleaning(
            num_arcs_read=self.num_read,
            num_self_loops=self.num_self_loops,
            num_duplicates=num_given - merged.num_distinct,
            num_reversed=merged.num_distinct - merged.num_entries // 2,
            num_isolated=merged.num_isolated,
        )

    def _buckets(self, degrees: np.ndarray) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
        """Rows low:high with the keys of their arcs and the weights, in the order of the input."""
        bounds, counts = _cut(degrees, self._largest_bucket(int(degrees.sum(dtype=np.int64))))
        bucket_of = np.repeat(np.arange(len(counts), dtype=np.int16), np.diff(bounds))
        if len(counts) == 1:
            keys, values = np.empty(counts[0], np.int64), np.empty(counts[0] if self.weighted else 0, np.float32)
            places = np.zeros(1, np.int64)
            for pairs, weights in self._pieces():
                _deal(pairs, weights, bucket_of, bounds, places, keys, values)
            yield 0, len(degrees), keys, values
            return
        files = [ScratchFile(self._folder / f"bucket-{number}") for number in range(len(counts))]
        value_files = [ScratchFile(self._folder / f"bucket-weights-{number}") for number in range(len(counts))]
        keys = np.empty(2 * _PAIRS_AT_ONCE, np.int64)
        values = np.empty(2 * _PAIRS_AT_ONCE if self.weighted else 0, np.float32)
        for pairs, weights in self._pieces():
            starts = _starts(pairs, bucket_of, len(counts))
            places = starts[:-1].copy()
            _deal(pairs, weights, bucket_of, bounds, places, keys, values)
            for number in range(len(counts)):
                files[number].write(keys[starts[number] : starts[number + 1]])
                if self.weighted:
                    value_files[number].write(values[starts[number] : starts[number + 1]])
        del keys, values
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
        columns, lengths = np.empty(len(keys), np.int32), np.zeros(high - low, np.int64)
        count, distinct = _merge(keys, values, columns, lengths)
        self.indptr.append(self.num_entries + np.cumsum(lengths))
        self.indices.append(columns[:count])
        if self.weights is not None:
            self.weights.append(values[:count])
        self.num_entries += count
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


@njit(cache=True)
def _join(sources: np.ndarray, targets: np.ndarray, pairs: np.ndarray, degrees: np.ndarray) -> int:
    """Edges that are no self-loops as pairs, counted at both ends; returns how many."""
    count = 0
    for row in range(len(sources)):
        source, target = sources[row], targets[row]
        if source != target:
            pairs[count, 0] = source
            pairs[count, 1] = target
            count += 1
            degrees[source] += 1
            degrees[target] += 1
    return count


@njit(cache=True)
def _starts(pairs: np.ndarray, bucket_of: np.ndarray, num_buckets: int) -> np.ndarray:
    """(num_buckets + 1,) where the arcs of each bucket begin, once those of these pairs are dealt."""
    starts = np.zeros(num_buckets + 1, np.int64)
    for row in range(len(pairs)):
        starts[bucket_of[pairs[row, 0]] + 1] += 1
        starts[bucket_of[pairs[row, 1]] + 1] += 1
    return np.cumsum(starts)


@njit(cache=True)
def _deal(
    pairs: np.ndarray,
    weights: np.ndarray,
    bucket_of: np.ndarray,
    bounds: np.ndarray,
    places: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
) -> None:
    """Both directions of every pair to the next place of their bucket.

    A key is (row in the bucket, column, whether the direction is not the one that was given), most important first.
    """
    for pair in range(len(pairs)):
        for side in range(2):
            row, column = pairs[pair, side], pairs[pair, 1 - side]
            bucket = bucket_of[row]
            place = places[bucket]
            places[bucket] = place + 1
            keys[place] = ((np.int64(row) - bounds[bucket]) << 32) | (np.int64(column) << 1) | side
            if len(weights):
                values[place] = weights[pair]


@njit(cache=True)
def _merge(keys: np.ndarray, values: np.ndarray, columns: np.ndarray, lengths: np.ndarray) -> tuple[int, int]:
    """One entry for each row and column of sorted keys; values are merged in place.

    Weights of arcs that repeat a direction are summed; of the two directions the heavier counts.
    Returns how many entries there are, and how many distinct arcs were given.
    """
    count, distinct, place = 0, 0, 0
    while place < len(keys):
        pair = keys[place] >> 1
        given, reverse = np.float32(0), np.float32(0)
        was_given = False
        while place < len(keys) and keys[place] >> 1 == pair:
            if keys[place] & 1 == 0:
                was_given = True
            if len(values):
                if keys[place] & 1 == 0:
                    given += values[place]
                else:
                    reverse += values[place]
            place += 1
        columns[count] = pair & 0x7FFFFFFF
        lengths[pair >> 31] += 1
        if len(values):
            values[count] = max(given, reverse)
        distinct += was_given
        count += 1
    return count, distinct
