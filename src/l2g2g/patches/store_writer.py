"""Patch writer: the patches of a stored graph are written in one walk through its rows, in the memory of a few of them.

Nodes ascend inside a patch, so the rows of a patch that lie in one block of the graph are consecutive rows of the
patch too: each block adds one piece to every patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.graphs.array_writer import FolderWriter
from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.read_ahead import read_ahead
from l2g2g.graphs.store import StoredGraph
from l2g2g.patches.overlap import PatchSet, group_by_label

_ENTRIES_AT_ONCE = 1 << 23
_ENTRIES_PER_LOOK = 1 << 19  # of these: looking up one takes a hundred bytes
_FEATURE_BYTES_AT_ONCE = 1 << 26


def write_subgraphs(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
    """Write the induced subgraphs of all patches."""
    members = _Members.of(patch_set)
    lengths = np.zeros(patch_set.num_rows, np.int32)
    for block in read_ahead(graph.row_blocks(_ENTRIES_AT_ONCE)):
        for rows, _, _ in members.inside(block):
            np.add.at(lengths, rows, 1)
    ends = np.cumsum(lengths, dtype=np.int64)
    entry_offsets = np.concatenate([[0], ends])[patch_set.offsets]
    writer.save("indptr", ends)
    writer.save("entry_offsets", entry_offsets)
    indices = writer.array("indices", np.int32, num_rows=int(entry_offsets[-1]))
    # What a patch has of every entry besides its column.
    stored = {"weights": graph.weights, "directions": graph.directions, "arc_weights": graph.arc_weights}
    num_entries = int(entry_offsets[-1])
    extra = [
        (array, writer.array(name, array.dtype, num_rows=num_entries))
        for name, array in stored.items()
        if array is not None
    ]
    first_rows = patch_set.offsets[:-1].copy()
    for block in read_ahead(graph.row_blocks(_ENTRIES_AT_ONCE)):
        next_rows = _rows_before(patch_set, first_rows, block.high)
        firsts, lasts = _entries_before(ends, first_rows), _entries_before(ends, next_rows)
        places = np.concatenate([[0], np.cumsum(lasts - firsts)])
        columns = np.empty(places[-1], np.int32)
        last_entry = block.first_entry + len(block.indices)
        given = [array.read(block.first_entry, last_entry) for array, _ in extra]
        values = [np.empty(places[-1], array.dtype) for array, _ in extra]
        next_places = places[:-1].copy()
        for rows, other_rows, entries in members.inside(block):
            patches = np.searchsorted(patch_set.offsets, rows, side="right") - 1
            order = np.argsort(patches, kind="stable")
            patches = patches[order]
            counts = np.bincount(patches, minlength=patch_set.num_patches)
            here = np.arange(len(order)) + (next_places - np.cumsum(counts) + counts)[patches]
            columns[here] = other_rows[order] - patch_set.offsets[patches]
            for found, part in zip(values, given, strict=True):
                found[here] = part[entries[order]]
            next_places += counts
        for patch in np.flatnonzero(lasts > firsts).tolist():
            indices.place(int(firsts[patch]), columns[places[patch] : places[patch + 1]])
            for (_, placed), found in zip(extra, values, strict=True):
                placed.place(int(firsts[patch]), found[places[patch] : places[patch + 1]])
        first_rows = next_rows


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
        starts: (num_nodes + 1,) int64, node n has the rows rows[starts[n]:starts[n + 1]].
        rows: (num_rows,) int64 stacked rows, node by node, patches ascending.
        patches: (num_rows,) int32 the patch of each of these rows.
    """

    starts: np.ndarray
    rows: np.ndarray
    patches: np.ndarray

    @classmethod
    def of(cls, patch_set: PatchSet) -> _Members:
        rows, starts = group_by_label(patch_set.global_nodes, patch_set.num_nodes)
        patch_of_row = np.repeat(np.arange(patch_set.num_patches, dtype=np.int32), patch_set.sizes)
        return cls(starts, rows, patch_of_row[rows])

    def inside(self, block: RowBlock) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Entries of a block that lie inside a patch, some rows at a time, in the order of the rows.

        For each patch that holds the two nodes of an entry: (stacked row, stacked column, entry of the block).
        """
        cuts = np.searchsorted(block.indptr, np.arange(0, len(block.indices) + _ENTRIES_PER_LOOK, _ENTRIES_PER_LOOK))
        for low, high in pairwise(np.unique(np.minimum(np.append(cuts, 0), block.high - block.low)).tolist()):
            nodes = np.arange(block.low + low, block.low + high)
            counts = self.starts[nodes + 1] - self.starts[nodes]  # patches that hold a node
            degrees = np.diff(block.indptr[low : high + 1])
            # Every entry once for each patch of its row's node: patch by patch of a node, entries in order.
            members = np.repeat(
                np.arange(self.starts[nodes[0]], self.starts[nodes[-1] + 1]), np.repeat(degrees, counts)
            )
            lengths = np.repeat(degrees, counts)
            firsts = np.repeat(block.indptr[low:high], counts)
            entries = np.arange(len(members)) + np.repeat(firsts - (np.cumsum(lengths) - lengths), lengths)
            others = block.indices[entries].astype(np.int64)
            places = kernels().find_entries(self.starts, self.patches, others, self.patches[members].astype(np.int64))
            is_inside = places >= 0
            yield self.rows[members[is_inside]], self.rows[places[is_inside]], entries[is_inside]
