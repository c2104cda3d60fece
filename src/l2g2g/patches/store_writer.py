"""Patch writer: the patches of a stored graph are written in one walk through its rows, in the memory of a few of them.

Nodes ascend inside a patch, so the rows of a patch that lie in one block of the graph are consecutive rows of the
patch too: each block adds one piece to every patch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.graphs.array_writer import FolderWriter
from l2g2g.graphs.graph_store import read_ahead
from l2g2g.graphs.store import StoredGraph
from l2g2g.patches.overlap import PatchSet

_ENTRIES_AT_ONCE = 1 << 22
_FEATURE_BYTES_AT_ONCE = 1 << 26


def write_subgraphs(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
    """Write the induced subgraphs of all patches."""
    lengths = np.zeros(patch_set.num_rows, np.int64)
    for block in read_ahead(graph.row_blocks(_ENTRIES_AT_ONCE)):
        rows = block.indptr, block.indices, block.low, graph.num_nodes
        lengths += np.diff(kernels().induced_indptr(*rows, *patch_set.stacked))
    ends = np.cumsum(lengths)
    entry_offsets = np.concatenate([[0], ends])[patch_set.offsets]
    writer.save("indptr", ends)
    writer.save("entry_offsets", entry_offsets)
    num_entries = int(entry_offsets[-1])
    indices = writer.array("indices", np.int32, num_rows=num_entries)
    # What a patch has of every entry besides its column.
    stored = {"weights": graph.weights, "directions": graph.directions, "arc_weights": graph.arc_weights}
    extra = [
        (array, writer.array(name, array.dtype, num_rows=num_entries))
        for name, array in stored.items()
        if array is not None
    ]
    next_entries = entry_offsets[:-1].copy()
    for block in read_ahead(graph.row_blocks(_ENTRIES_AT_ONCE)):
        rows = block.indptr, block.indices, block.low, graph.num_nodes
        indptr, columns, entries = kernels().induce(*rows, *patch_set.stacked)
        bounds = indptr[patch_set.offsets]
        last_entry = block.first_entry + len(block.indices)
        given = [(placed, array.read(block.first_entry, last_entry)[entries]) for array, placed in extra]
        for patch in np.flatnonzero(np.diff(bounds)).tolist():
            here, place = slice(bounds[patch], bounds[patch + 1]), int(next_entries[patch])
            indices.place(place, columns[here] - np.int32(patch_set.offsets[patch]))
            for placed, values in given:
                placed.place(place, values[here])
        next_entries += np.diff(bounds)


def write_feature_rows(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
    """Write the feature rows of all patches."""
    if graph.has_sparse_features:
        _write_sparse_rows(graph, patch_set, writer)
        return
    dtype = graph.feature_dtype
    assert dtype is not None
    features = writer.array("features", dtype, (graph.num_features,), num_rows=patch_set.num_rows)
    num_rows = max(1, _FEATURE_BYTES_AT_ONCE // (dtype.itemsize * graph.num_features))
    for low, high, spans in _node_blocks(patch_set, num_rows):
        block = graph.read_features(slice(low, high))
        for first, last in spans:
            features.place(first, block[patch_set.global_nodes[first:last] - low])


def _write_sparse_rows(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
    lengths = np.diff(graph.arrays["features_indptr"].read()).astype(np.int32)
    ends = np.cumsum(lengths[patch_set.global_nodes], dtype=np.int64)
    num_entries = int(ends[-1])
    writer.save("features_indptr", ends)
    indices = writer.array("features_indices", np.int32, num_rows=num_entries)
    data = writer.array("features_data", graph.arrays["features_data"].dtype, num_rows=num_entries)
    mean = max(1, int(lengths.mean()))
    for low, high, spans in _node_blocks(patch_set, max(1, _FEATURE_BYTES_AT_ONCE // (8 * mean))):
        block = graph.read_features(slice(low, high))
        for first, last in spans:
            rows = sp.csr_array(block[patch_set.global_nodes[first:last] - low])
            place = int(ends[first - 1]) if first else 0
            indices.place(place, rows.indices)
            data.place(place, rows.data)


def _node_blocks(patch_set: PatchSet, num_nodes: int) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """(low, high, spans): nodes low:high, num_nodes at a time; spans: (first, last) stacked rows that hold them."""
    rows = patch_set.offsets[:-1].copy()
    for low in range(0, patch_set.num_nodes, num_nodes):
        high = min(low + num_nodes, patch_set.num_nodes)
        next_rows = _rows_before(patch_set, rows, high)
        spans = zip(rows.tolist(), next_rows.tolist(), strict=True)
        yield low, high, [(first, last) for first, last in spans if first < last]
        rows = next_rows


def _rows_before(patch_set: PatchSet, rows: np.ndarray, high: int) -> np.ndarray:
    """(num_patches,) the first stacked row of each patch, not before rows, whose node is high or beyond."""
    found = rows.copy()
    for patch in range(patch_set.num_patches):
        rest = patch_set.global_nodes[rows[patch] : patch_set.offsets[patch + 1]]
        found[patch] += np.searchsorted(rest, high)
    return found
