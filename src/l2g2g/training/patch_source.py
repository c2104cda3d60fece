"""Patch sources: the edges and inputs of some patches, induced from a graph in memory or read from a patch store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.adjacency import select_arcs
from l2g2g.graphs.graph import Features
from l2g2g.graphs.held_out import HeldOutRule, drop_entries
from l2g2g.models.inputs import InputMap
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.store import PatchStore, unit_weights
from l2g2g.training.pair_source import PatchEdges


@dataclass(frozen=True, eq=False)
class LoadedPatches:
    """Some patches, stacked.

    Attributes:
        edges: The edges inside them.
        features: (num_rows, num_columns) what the encoder reads of their nodes, dense or CSR.
    """

    edges: PatchEdges
    features: Features


class PatchSource(Protocol):
    """Where the patches of a training come from."""

    @property
    def patch_set(self) -> PatchSet:
        """All patches."""

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""

    @property
    def num_arcs(self) -> np.ndarray:
        """(num_patches,) arcs inside each patch; those held out may be among them."""

    @property
    def folder(self) -> Path | None:
        """Where they lie on disk; None for memory."""

    def load(self, patches: np.ndarray) -> LoadedPatches:
        """Some patches, stacked in this order."""


@dataclass(frozen=True, eq=False)
class InducedPatches:
    """Patches of a graph in memory.

    Attributes:
        patch_set: All patches.
        adjacency: (num_nodes, num_nodes) the edges that may be seen.
        features: (num_nodes, num_columns) what the encoder reads.
        weighted: Whether edges have weights.
        arcs: (num_nodes, num_nodes) of a directed graph; None for an undirected one.
    """

    patch_set: PatchSet
    adjacency: sp.csr_array
    features: Features
    weighted: bool = True
    arcs: sp.csr_array | None = None
    folder: Path | None = None

    @property
    def num_arcs(self) -> np.ndarray:
        """See `PatchSource`."""
        return self.patch_set.count_arcs(self.adjacency)

    def load(self, patches: np.ndarray) -> LoadedPatches:
        """See `PatchSource`."""
        part = self.patch_set.select(patches)
        rows = self.features if part.is_whole else self.features[part.global_nodes]
        return LoadedPatches(PatchEdges.induced(part, self.adjacency, self.arcs), rows)


class StoredPatches:
    """Patches of a store, read when they are asked for.

    Args:
        store: The patches with all edges.
        patch_set: Their node lists, in memory or on disk.
        inputs: How the encoder reads nodes.
        rule: Which edges are held out of training; None for none.
    """

    def __init__(
        self, store: PatchStore, patch_set: PatchSet, inputs: InputMap, rule: HeldOutRule | None = None
    ) -> None:
        self.store, self.patch_set, self.inputs, self.rule = store, patch_set, inputs, rule

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""
        return self.store.weighted

    @property
    def num_arcs(self) -> np.ndarray:
        """See `PatchSource`."""
        return np.diff(self.store.entry_offsets)

    @property
    def folder(self) -> Path:
        """The store."""
        return self.store.directory

    def load(self, patches: np.ndarray) -> LoadedPatches:
        """See `PatchSource`."""
        blocks, rows = zip(*(self._load(int(patch)) for patch in patches), strict=True)
        if len(patches) == 1:
            return LoadedPatches(blocks[0], rows[0])
        adjacency = _block_diagonal([block.adjacency for block in blocks])
        arcs = [block.arcs for block in blocks if block.arcs is not None]
        return LoadedPatches(PatchEdges(adjacency, _block_diagonal(arcs) if arcs else None), _stack(rows))

    def _load(self, patch: int) -> tuple[PatchEdges, Features]:
        nodes = self.patch_set.nodes_of(patch)
        adjacency, features = self.store.load_patch(patch)
        directions, arc_weights = self.store.load_directions(patch)
        if self.rule is not None:
            held = self.rule.find(adjacency.indptr, adjacency.indices, nodes, nodes)
            parts = adjacency.indptr, adjacency.indices, adjacency.data if self.weighted else None
            indptr, indices, weights = drop_entries(*parts, held)
            weights = unit_weights(len(indices)) if weights is None else weights
            adjacency = sp.csr_array((weights, indices, indptr), shape=adjacency.shape)
            directions, arc_weights = (
                None if part is None else np.delete(part, held) for part in (directions, arc_weights)
            )
        arcs = None
        if directions is not None:
            arcs = select_arcs(adjacency.indptr, adjacency.indices, directions, arc_weights, len(nodes))
        return PatchEdges(adjacency, arcs), self.inputs.read_nodes(features, nodes)


def _block_diagonal(blocks: list[sp.csr_array]) -> sp.csr_array:
    """(num_rows, num_rows) CSR with these blocks, without a copy by way of coordinates."""
    rows = np.cumsum([0, *(block.shape[0] for block in blocks)])
    entries = np.cumsum([0, *(block.nnz for block in blocks)])
    index = np.int32 if entries[-1] < 2**31 else np.int64
    indptr, indices = np.zeros(rows[-1] + 1, index), np.empty(entries[-1], np.int32)
    data = np.empty(entries[-1], np.float32)
    for number, block in enumerate(blocks):
        low, high = rows[number], rows[number + 1]
        first, last = entries[number], entries[number + 1]
        indptr[low + 1 : high + 1] = block.indptr[1:] + first
        np.add(block.indices, low, out=indices[first:last], casting="unsafe")
        data[first:last] = block.data
    return sp.csr_array((data, indices, indptr), shape=(int(rows[-1]), int(rows[-1])))


def _stack(parts: tuple[Features, ...]) -> Features:
    """The rows of several patches, dense or CSR."""
    if not sp.issparse(parts[0]):
        return np.concatenate(parts)
    stacked = sp.csr_array(sp.vstack(parts, format="csr"))
    stacked.indptr, stacked.indices = stacked.indptr.astype(np.int32), stacked.indices.astype(np.int32, copy=False)
    return stacked
