"""Patch writer: the patches of a stored graph are written in one walk through its rows, in the memory of a few of them.

Nodes ascend inside a patch, so the rows of a patch that lie in one block of the graph are consecutive rows of the
patch too: each block adds one piece to every patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit

from l2g2g.graphs.array_writer import FolderWriter
from l2g2g.graphs.read_ahead import read_ahead
from l2g2g.graphs.store import StoredGraph
from l2g2g.patches.overlap import PatchSet

_ENTRIES_AT_ONCE = 1 << 23
_FEATURE_BYTES_AT_ONCE = 1 << 26


def write_subgraphs(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> int:
    """Write the induced subgraphs of all patches; returns how many edges lie inside at least one patch."""
    members = _Members.of(patch_set)
    lengths = np.zeros(patch_set.num_rows, np.int32)
    num_covered = 0
    for block in read_ahead(graph.row_blocks(_ENTRIES_AT_ONCE)):
        num_covered += _count_inside(block.indptr, block.indices, block.low, *members.arrays, lengths)
    ends = np.cumsum(lengths, dtype=np.int64)
    entry_offsets = np.concatenate([[0], ends])[patch_set.offsets]
    writer.save("indptr", ends)
    writer.save("entry_offsets", entry_offsets)
    indices = writer.array("indices", np.int32, num_rows=int(entry_offsets[-1]))
    weights = writer.array("weights", np.float32, num_rows=int(entry_offsets[-1])) if graph.weighted else None
    rows = patch_set.offsets[:-1].copy()
    for block in read_ahead(graph.row_blocks(_ENTRIES_AT_ONCE)):
        next_rows = _rows_before(patch_set, rows, block.high)
        firsts, lasts = _entries_before(ends, rows), _entries_before(ends, next_rows)
        places = np.concatenate([[0], np.cumsum(lasts - firsts)])
        columns = np.empty(places[-1], np.int32)
        values = np.empty(places[-1] if weights is not None else 0, np.float32)
        given = np.empty(0, np.float32)
        if graph.weights is not None:
            given = graph.weights.read(block.first_entry, block.first_entry + len(block.indices))
        _fill_inside(
            block.indptr,
            block.indices,
            given,
            block.low,
            *members.arrays,
            patch_set.offsets,
            places[:-1].copy(),
            columns,
            values,
        )
        for patch in np.flatnonzero(lasts > firsts).tolist():
            indices.place(int(firsts[patch]), columns[places[patch] : places[patch + 1]])
            if weights is not None:
                weights.place(int(firsts[patch]), values[places[patch] : places[patch + 1]])
        rows = next_rows
    return num_covered


def write_feature_rows(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
    """Write the feature rows of all patches."""
    if graph.has_sparse_features:
        _write_sparse_rows(graph, patch_set, writer)
        return
    dtype = graph.feature_dtype
    assert dtype is not None
    features = writer.array("features", dtype, (graph.num_features,), num_rows=patch_set.num_rows)
    num_rows = max(1, _FEATURE_BYTES_AT_ONCE // (dtype.itemsize * graph.num_features))
    for low, high, pieces in _walk(patch_set, num_rows):
        block = graph.read_features(slice(low, high))
        for first, last in pieces:
            features.place(first, block[patch_set.global_nodes[first:last] - low])


def _write_sparse_rows(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
    lengths = np.diff(graph.arrays["features_indptr"].read()).astype(np.int32)
    ends = np.cumsum(lengths[patch_set.global_nodes], dtype=np.int64)
    num_entries = int(ends[-1])
    writer.save("features_indptr", ends)
    indices = writer.array("features_indices", np.int32, num_rows=num_entries)
    data = writer.array("features_data", graph.arrays["features_data"].dtype, num_rows=num_entries)
    mean = max(1, int(lengths.mean()))
    for low, high, pieces in _walk(patch_set, max(1, _FEATURE_BYTES_AT_ONCE // (8 * mean))):
        block = graph.read_features(slice(low, high))
        for first, last in pieces:
            rows = sp.csr_array(block[patch_set.global_nodes[first:last] - low])
            place = int(ends[first - 1]) if first else 0
            indices.place(place, rows.indices)
            data.place(place, rows.data)


def _walk(patch_set: PatchSet, num_rows: int) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Nodes low:high, so many at a time, and the stacked rows first:last that hold them, patch by patch."""
    rows = patch_set.offsets[:-1].copy()
    for low in range(0, patch_set.num_nodes, num_rows):
        high = min(low + num_rows, patch_set.num_nodes)
        next_rows = _rows_before(patch_set, rows, high)
        yield low, high, [(int(rows[p]), int(next_rows[p])) for p in np.flatnonzero(next_rows > rows).tolist()]
        rows = next_rows


def _rows_before(patch_set: PatchSet, rows: np.ndarray, high: int) -> np.ndarray:
    """(num_patches,) the first stacked row of each patch, not before rows, whose node is high or beyond."""
    found = rows.copy()
    for patch in range(patch_set.num_patches):
        rest = patch_set.global_nodes[rows[patch] : patch_set.offsets[patch + 1]]
        found[patch] += np.searchsorted(rest, high)
    return found


def _entries_before(ends: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.where(rows > 0, ends[np.maximum(rows, 1) - 1], 0)


@dataclass(frozen=True, eq=False)
class _Members:
    """Where every node lies in the stacked patches.

    Attributes:
        home: (num_nodes, 2), the first patch that holds a node, ~patch where others hold it too; and its local number
            there. Both lie side by side, because they are looked up in no order.
        starts: (num_nodes + 1,) int32, node n has the rows rows[starts[n]:starts[n + 1]].
        rows: (num_rows,) int32 stacked rows, node by node, patches ascending.
        patch_of_row: (num_rows,) int32.
    """

    home: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    patch_of_row: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.home, self.starts, self.rows, self.patch_of_row

    @classmethod
    def of(cls, patch_set: PatchSet) -> _Members:
        index_type = np.int32 if patch_set.num_rows < 2**31 else np.int64
        patch_of_row = np.repeat(np.arange(patch_set.num_patches, dtype=np.int32), patch_set.sizes)
        starts = np.zeros(patch_set.num_nodes + 1, index_type)
        rows = np.empty(patch_set.num_rows, index_type)
        _sort_rows(patch_set.global_nodes, starts, rows)
        home = np.empty((patch_set.num_nodes, 2), np.int32)
        first_rows = rows[starts[:-1]]
        home[:, 0] = patch_of_row[first_rows]
        home[:, 1] = first_rows - patch_set.offsets[home[:, 0]]
        several = np.diff(starts) > 1
        home[several, 0] = ~home[several, 0]
        return cls(home, starts, rows, patch_of_row)


@njit(cache=True, nogil=True)
def _sort_rows(global_nodes: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> None:
    """Counting sort of the stacked rows by their node."""
    for node in global_nodes:
        starts[node + 1] += 1
    for node in range(len(starts) - 1):
        starts[node + 1] += starts[node]
    for row in range(len(global_nodes) - 1, -1, -1):  # from the end, so that each start ends up where it belongs
        node = global_nodes[row]
        starts[node + 1] -= 1
        rows[starts[node + 1]] = row
    for node in range(len(starts) - 1):
        starts[node] = starts[node + 1]
    starts[-1] = len(rows)


@njit(cache=True, nogil=True)
def _row_in_patch(node: int, patch: int, starts: np.ndarray, rows: np.ndarray, patch_of_row: np.ndarray) -> int:
    """The stacked row of a node in a patch, -1 where the patch does not hold it."""
    for place in range(starts[node], starts[node + 1]):
        if patch_of_row[rows[place]] == patch:
            return rows[place]
    return -1


@njit(cache=True, nogil=True)
def _count_inside(
    indptr: np.ndarray,
    indices: np.ndarray,
    low: int,
    home: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    patch_of_row: np.ndarray,
    lengths: np.ndarray,
) -> int:
    """Count the entries of every stacked row; returns how many edges any patch holds, each counted once."""
    num_covered = 0
    for row in range(len(indptr) - 1):
        node = low + row
        if home[node, 0] >= 0:  # most nodes are in one patch
            patch, inside = home[node, 0], 0
            for entry in range(indptr[row], indptr[row + 1]):
                other = indices[entry]
                held = home[other, 0] == patch
                if home[other, 0] < 0:
                    held = _row_in_patch(other, patch, starts, rows, patch_of_row) >= 0
                inside += held
                num_covered += held and other > node
            lengths[rows[starts[node]]] = inside
            continue
        for entry in range(indptr[row], indptr[row + 1]):
            other = indices[entry]
            covered = False
            for place in range(starts[node], starts[node + 1]):
                stacked = rows[place]
                if _row_in_patch(other, patch_of_row[stacked], starts, rows, patch_of_row) >= 0:
                    lengths[stacked] += 1
                    covered = True
            num_covered += covered and other > node
    return num_covered


@njit(cache=True, nogil=True)
def _fill_inside(
    indptr: np.ndarray,
    indices: np.ndarray,
    given: np.ndarray,
    low: int,
    home: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    patch_of_row: np.ndarray,
    offsets: np.ndarray,
    places: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
) -> None:
    """Local columns of the stacked rows of a block, patch after patch. places: where each patch begins in columns."""
    for row in range(len(indptr) - 1):
        node = low + row
        for member in range(starts[node], starts[node + 1]):
            patch = patch_of_row[rows[member]]
            first, place = offsets[patch], places[patch]
            for entry in range(indptr[row], indptr[row + 1]):
                other = indices[entry]
                local = np.int64(-1)
                if home[other, 0] == patch:
                    local = np.int64(home[other, 1])
                elif home[other, 0] < 0:
                    local = _row_in_patch(other, patch, starts, rows, patch_of_row) - first
                if local >= 0:
                    columns[place] = local
                    if len(values):
                        values[place] = given[entry]
                    place += 1
            places[patch] = place
