"""Patch store: the patches of a stored graph on disk, each read in one piece when it is its turn.

STORE/patches is an array folder. Patches lie one after the other in each array, so that a patch is a range of it:
nodes and offsets (which patch owns which rows), indptr, indices (local column numbers) and perhaps weights of the
induced subgraphs, feature rows, and the overlap index.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import ArrayFolder, is_folder_of, open_folder
from l2g2g.graphs.array_writer import locked, write_folder
from l2g2g.graphs.graph import Features
from l2g2g.graphs.store import PATCH_FOLDER, StoredGraph
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.overlap_index import OverlapIndex
from l2g2g.patches.store_writer import write_feature_rows, write_subgraphs

KIND = "patches"


class PatchStore:
    """The patches of a graph on disk; `open_patches` opens it.

    Attributes:
        directory: The store.
        num_patches: Number of patches.
        num_nodes, num_edges: Of the whole graph.
        num_features: Number of feature columns, 0 without features.
        weighted: Whether edges have weights.
        num_covered_edges: Edges of the graph that lie inside at least one patch.
        settings: How the patches were cut, as `write_patches` was told.
    """

    def __init__(self, directory: Path, folder: ArrayFolder) -> None:
        self.directory, self.folder, self.arrays = directory, folder, folder.arrays
        values = folder.values
        self.num_features: int = values["num_features"]
        self.num_edges: int = values["num_edges"]
        self.num_covered_edges: int = values["num_covered_edges"]
        self.settings: dict[str, object] = values["settings"]
        self.graph_sha256: str = values["graph_sha256"]
        self.num_nodes: int = values["num_nodes"]
        self.weighted = "weights" in self.arrays

    @property
    def num_patches(self) -> int:
        """Number of patches."""
        return len(self.arrays["offsets"]) - 1

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
        arrays = self.arrays
        index = [torch.from_numpy(arrays[f"overlap_{part}"].read()) for part in _OVERLAP_PARTS]
        return PatchSet(
            self.num_nodes,
            arrays["nodes"].read(),
            self.offsets,
            OverlapIndex(self.num_patches, *index),
            int(self.folder.values["num_joined"]),
        )

    @cached_property
    def offsets(self) -> np.ndarray:
        """(num_patches + 1,) patch j owns the rows offsets[j]:offsets[j + 1]."""
        return self.arrays["offsets"].read()

    @cached_property
    def entry_offsets(self) -> np.ndarray:
        """(num_patches + 1,) patch j owns the entries entry_offsets[j]:entry_offsets[j + 1] of its subgraph."""
        return self.arrays["entry_offsets"].read()

    def load_adjacency(self, patch: int) -> sp.csr_array:
        """(num_local, num_local) induced subgraph of one patch, columns ascending, float32 weights."""
        low, high = self.offsets[patch : patch + 2]
        first, last = self.entry_offsets[patch : patch + 2]
        ends = self.arrays["indptr"].read(low, high) - first
        indptr = np.concatenate([[0], ends]).astype(np.int32 if last - first < 2**31 else np.int64)
        weights = self.arrays["weights"].read(first, last) if self.weighted else np.ones(last - first, np.float32)
        return sp.csr_array((weights, self.arrays["indices"].read(first, last), indptr), shape=(high - low, high - low))

    def load_features(self, patch: int) -> Features | None:
        """(num_local, num_features) feature rows of one patch, as they lie on disk; None without features."""
        low, high = self.offsets[patch : patch + 2]
        if not self.num_features:
            return None
        if not self.has_sparse_features:
            return self.arrays["features"].read(low, high)
        first = int(self.arrays["features_indptr"].read(low - 1, low)[0]) if low else 0
        ends = self.arrays["features_indptr"].read(low, high)
        last = int(ends[-1])
        indptr = np.concatenate([[0], ends - first]).astype(np.int32)
        columns, data = (
            self.arrays["features_indices"].read(first, last),
            self.arrays["features_data"].read(first, last),
        )
        return sp.csr_array((data, columns, indptr), shape=(high - low, self.num_features))

    def load_patch(self, patch: int) -> tuple[sp.csr_array, Features | None]:
        """The induced subgraph and the feature rows of one patch."""
        return self.load_adjacency(patch), self.load_features(patch)


_OVERLAP_PARTS = ("edges", "pointers", "first_rows", "second_rows")


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
    graph: StoredGraph,
    patch_set: PatchSet,
    directory: str | Path | None = None,
    *,
    settings: dict[str, object] | None = None,
) -> PatchStore:
    """Write the patches of a stored graph, by default into its own store; those that were there are replaced."""
    directory = graph.directory if directory is None else Path(directory)
    with locked(directory), write_folder(directory / PATCH_FOLDER, KIND) as writer:
        writer.save("nodes", patch_set.global_nodes.astype(np.int64, copy=False))
        writer.save("offsets", patch_set.offsets.astype(np.int64, copy=False))
        for part in _OVERLAP_PARTS:
            writer.save(f"overlap_{part}", getattr(patch_set.overlaps, part).numpy())
        num_covered = write_subgraphs(graph, patch_set, writer)
        if graph.num_features:
            write_feature_rows(graph, patch_set, writer)
        writer.values = {
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "num_features": graph.num_features,
            "num_joined": patch_set.num_joined,
            "num_covered_edges": num_covered,
            "graph_sha256": graph.sha256,
            "settings": settings or {},
        }
    return open_patches(directory, graph=graph)
