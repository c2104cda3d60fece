"""Patch store: the patches of a stored graph on disk, each read in one piece when it is its turn.

STORE/patches is an array folder. Patches lie one after the other in each array, so that a patch is a range of it:
nodes and offsets (which patch owns which rows), indptr, indices (local column numbers) and perhaps weights of the
induced subgraphs, feature rows, and the overlap index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core import kernels
from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import (
    ArrayFolder,
    SlicedArray,
    check_array,
    check_numbers,
    check_offsets,
    is_folder_of,
    open_folder,
    reading_manifest,
)
from l2g2g.graphs.array_writer import FolderWriter, locked_for_writing, write_folder
from l2g2g.graphs.graph import Features
from l2g2g.graphs.graph_store import GraphStore, read_ahead
from l2g2g.graphs.store import PATCH_FOLDER, StoredGraph
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.overlap_index import OverlapIndex

KIND = "patches"
_NODES_AT_ONCE = 1 << 20
_ENTRIES_AT_ONCE = 1 << 22
_FEATURE_BYTES_AT_ONCE = 1 << 26


class PatchStore:
    """The patches of a graph on disk; `open_patches` opens it.

    Attributes:
        directory: The store.
        num_patches: Number of patches.
        num_nodes, num_edges: Of the graph that was cut.
        num_features: Number of feature columns, 0 without features.
        weighted: Whether edges have weights.
        settings: How the patches were cut, as `write_patches` was told.
    """

    def __init__(self, directory: Path, folder: ArrayFolder) -> None:
        self.directory, self.folder, self.arrays = directory, folder, folder.arrays
        values = folder.values
        with reading_manifest(folder.folder):
            self.num_nodes, self.num_edges = int(values["num_nodes"]), int(values["num_edges"])
            self.num_features = int(values["num_features"])
            self._num_joined, self._num_widened = int(values["num_joined"]), int(values["num_widened"])
            self._inside_share = float(values["inside_share"])
            self.settings: dict[str, object] = dict(values["settings"])
            self.graph_sha256 = str(values["graph_sha256"])
        self.weighted = "weights" in self.arrays
        self._checked: set[int] = set()  # patches that were read before: their numbers are not looked at again
        _check_arrays(folder, self.num_features)

    @property
    def num_patches(self) -> int:
        """Number of patches."""
        return len(self.arrays["offsets"]) - 1

    @property
    def num_widened(self) -> int:
        """Nodes that patches took in, see `PatchSet`."""
        return self._num_widened

    @property
    def num_bytes(self) -> int:
        """Bytes on disk."""
        return self.folder.num_bytes

    @property
    def has_sparse_features(self) -> bool:
        """Whether features are CSR."""
        return "features_indptr" in self.arrays

    @cached_property
    def patch_set(self) -> PatchSet:
        """Node lists and overlaps, in memory: 8 bytes for every row."""
        found = self.listed
        degrees = None if found.row_degrees is None else np.asarray(found.row_degrees)
        return replace(found, global_nodes=np.asarray(found.global_nodes), row_degrees=degrees)

    @cached_property
    def listed(self) -> PatchSet:
        """The same, whose node lists stay on disk and are read in slices."""
        arrays = self.arrays
        nodes = arrays["nodes"]
        for block in nodes.blocks(_NODES_AT_ONCE):
            check_numbers(block, self.num_nodes, nodes.path)
        edges, pointers, *rows = (arrays[f"overlap_{part}"].read() for part in _OVERLAP_PARTS)
        check_numbers(edges.ravel(), self.num_patches, arrays["overlap_edges"].path)
        check_offsets(pointers, len(rows[0]), arrays["overlap_pointers"].path)
        for part, numbers in zip(_OVERLAP_PARTS[2:], rows, strict=True):
            check_numbers(numbers, len(nodes), arrays[f"overlap_{part}"].path)
        index = [torch.from_numpy(array) for array in (edges, pointers, *rows)]
        degrees = arrays.get("row_degrees")
        return PatchSet(
            self.num_nodes,
            cast(np.ndarray, SlicedArray(nodes)),
            self.offsets,
            OverlapIndex(self.num_patches, *index),
            self._num_joined,
            self._num_widened,
            self._inside_share,
            None if degrees is None else cast(np.ndarray, SlicedArray(degrees)),
        )

    @cached_property
    def offsets(self) -> np.ndarray:
        """(num_patches + 1,) patch j owns the rows offsets[j]:offsets[j + 1]."""
        return self._read_offsets("offsets", len(self.arrays["nodes"]))

    @cached_property
    def entry_offsets(self) -> np.ndarray:
        """(num_patches + 1,) patch j owns the entries entry_offsets[j]:entry_offsets[j + 1] of its subgraph."""
        return self._read_offsets("entry_offsets", len(self.arrays["indices"]))

    def load_adjacency(self, patch: int) -> sp.csr_array:
        """(num_local, num_local) induced subgraph of one patch, columns ascending, float32 weights."""
        low, high = self.offsets[patch : patch + 2]
        first, last = self.entry_offsets[patch : patch + 2]
        indptr = np.concatenate([[0], self.arrays["indptr"].read(low, high) - first])
        check_offsets(indptr, last - first, self.arrays["indptr"].path)
        indptr = indptr.astype(np.int32 if last - first < 2**31 else np.int64)
        indices = self.arrays["indices"].read(first, last)
        if patch not in self._checked:
            check_numbers(indices, high - low, self.arrays["indices"].path)
            self._checked.add(patch)
        weights = self.arrays["weights"].read(first, last) if self.weighted else unit_weights(last - first)
        return sp.csr_array((weights, indices, indptr), shape=(high - low, high - low))

    def load_directions(self, patch: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Directions and weights of the arcs of the entries of one patch, as in `RowBlock`; None where undirected."""
        bounds = self.entry_offsets[patch : patch + 2]
        stored = (self.arrays.get(name) for name in ("directions", "arc_weights"))
        directions, weights = (None if array is None else array.read(*bounds) for array in stored)
        return directions, weights

    def load_features(self, patch: int) -> Features | None:
        """(num_local, num_features) feature rows of one patch, as they lie on disk; None without features."""
        low, high = self.offsets[patch : patch + 2]
        if not self.num_features:
            return None
        if not self.has_sparse_features:
            return self.arrays["features"].read(low, high)
        first = int(self.arrays["features_indptr"].read(low - 1, low)[0]) if low else 0
        ends = np.concatenate([[first], self.arrays["features_indptr"].read(low, high)])
        check_offsets(ends, len(self.arrays["features_indices"]), self.arrays["features_indptr"].path)
        last = int(ends[-1])
        indptr = (ends - first).astype(np.int32)
        columns, data = (
            self.arrays["features_indices"].read(first, last),
            self.arrays["features_data"].read(first, last),
        )
        check_numbers(columns, self.num_features, self.arrays["features_indices"].path)
        return sp.csr_array((data, columns, indptr), shape=(high - low, self.num_features))

    def load_patch(self, patch: int) -> tuple[sp.csr_array, Features | None]:
        """The induced subgraph and the feature rows of one patch."""
        return self.load_adjacency(patch), self.load_features(patch)

    def _read_offsets(self, name: str, most: int) -> np.ndarray:
        offsets = self.arrays[name].read()
        check_offsets(offsets, most, self.arrays[name].path)
        return offsets


def unit_weights(count: int) -> np.ndarray:
    """(count,) float32 ones, which take no memory and cannot be written to."""
    return np.broadcast_to(np.float32(1.0), count)


_OVERLAP_PARTS = ("edges", "pointers", "first_rows", "second_rows")


def _check_arrays(folder: ArrayFolder, num_features: int) -> None:
    """Refuse arrays that do not fit each other."""
    check_array(folder, "nodes", "int64", None)
    num_rows = len(folder.arrays["nodes"])
    check_array(folder, "offsets", "int64", None)
    check_array(folder, "indptr", "int64", num_rows)
    if "row_degrees" in folder.arrays:
        check_array(folder, "row_degrees", "int32", num_rows)
    check_array(folder, "indices", "int32", None)
    check_array(folder, "entry_offsets", "int64", *folder.arrays["offsets"].shape)
    if "weights" in folder.arrays:
        check_array(folder, "weights", "float32", *folder.arrays["indices"].shape)
    for name, dtype in (("directions", "uint8"), ("arc_weights", "float32")):
        if name in folder.arrays:
            check_array(folder, name, dtype, *folder.arrays["indices"].shape)
    if "features_indptr" in folder.arrays:
        check_array(folder, "features_indptr", "int64", num_rows)
        check_array(folder, "features_indices", "int32", None)
        check_array(folder, "features_data", "float32", *folder.arrays["features_indices"].shape)
    elif num_features:
        check_array(folder, "features", "float32 float16", num_rows, num_features)
    check_array(folder, "overlap_edges", "int64", None, 2)
    check_array(folder, "overlap_pointers", "int64", len(folder.arrays["overlap_edges"]) + 1)
    check_array(folder, "overlap_first_rows", "int64", None)
    check_array(folder, "overlap_second_rows", "int64", *folder.arrays["overlap_first_rows"].shape)


def has_patches(directory: str | Path) -> bool:
    """Whether finished patches lie in this store."""
    return is_folder_of(Path(directory) / PATCH_FOLDER, KIND)


def open_patches(directory: str | Path, *, graph: StoredGraph | None = None, verify: bool = False) -> PatchStore:
    """Open the patches of a store. graph: refuse patches that were cut from another one."""
    directory = Path(directory)
    store = PatchStore(directory, open_folder(directory / PATCH_FOLDER, KIND, verify=verify))
    if graph is not None and store.graph_sha256 != graph.sha256:
        raise InputError(f"{directory}: its patches were cut from another graph; cut them again with l2g2g prepare")
    return store


def write_patches(
    graph: GraphStore,
    patch_set: PatchSet,
    directory: str | Path | None = None,
    *,
    settings: dict[str, object] | None = None,
) -> PatchStore:
    """Write the patches of a stored graph, by default into its own store; those that were there are replaced.

    graph: what they were cut from. They are written with all edges of its store, also those that it leaves out.
    """
    stored = graph.stored
    assert stored is not None
    directory = stored.directory if directory is None else Path(directory)
    with locked_for_writing(directory), write_folder(directory / PATCH_FOLDER, KIND) as writer:
        writer.save("nodes", patch_set.global_nodes.astype(np.int64, copy=False))
        writer.save("offsets", patch_set.offsets.astype(np.int64, copy=False))
        for part in _OVERLAP_PARTS:
            writer.save(f"overlap_{part}", getattr(patch_set.overlaps, part).numpy())
        if patch_set.row_degrees is not None:
            writer.save("row_degrees", patch_set.row_degrees)
        _write_subgraphs(stored, patch_set, writer)
        if graph.num_features:
            _write_features(stored, patch_set, writer)
        writer.values = {
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "num_features": graph.num_features,
            "num_joined": patch_set.num_joined,
            "num_widened": patch_set.num_widened,
            "inside_share": patch_set.inside_share,
            "graph_sha256": stored.sha256,
            "settings": settings or {},
        }
    return open_patches(directory, graph=stored)


def _write_subgraphs(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
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


def _write_features(graph: StoredGraph, patch_set: PatchSet, writer: FolderWriter) -> None:
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
