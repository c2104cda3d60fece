"""Stored batches: the patches of a graph on disk as batches, each made when its turn comes and forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import overload

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.graphs.graph import Features
from l2g2g.graphs.held_out import HeldOutRule, drop_entries
from l2g2g.models.inputs import InputMap
from l2g2g.patches.store import PatchStore, unit_weights
from l2g2g.training.batches import Batch, PatchBatch, make_batch
from l2g2g.training.pair_source import PairOptions, PairSource

Loaded = tuple[sp.csr_array, Features | None]


class StoredBatches(Sequence[PatchBatch]):
    """One batch for each patch, equal to those of `prepare_batches` with together=False.

    Batches are kept in memory until they have `keep_bytes` together: those that came first, because they are gone
    through round and round, and what was used last is needed last. This counts what the encoder leaves for its
    gradient, so that these batches need not be encoded twice. While one of the others is worked on, a thread reads
    the next.

    Args:
        store: The patches.
        inputs: How the encoder reads nodes.
        held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives.
        held: Which edges are held out of training; None for none.
        units: (num_nodes,) what masks assign to groups; None for single nodes.
        draws_pairs: Whether pairs inside patches are drawn; otherwise nobody asks which are held out.
        patches: Numbers of the patches that are wanted; None for all.
        keep_bytes: What the batches that stay in memory may take.
        kept_bytes: What one of them takes for every arc and every row, its features aside.
        negatives_per_edge, propagate_once, options, storage, device: as in `prepare_batches`.
    """

    def __init__(
        self,
        store: PatchStore,
        inputs: InputMap,
        held_out: sp.csr_array,
        *,
        held: HeldOutRule | None = None,
        units: np.ndarray | None = None,
        draws_pairs: bool = True,
        patches: np.ndarray | None = None,
        keep_bytes: int = 0,
        kept_bytes: tuple[int, int] = (40, 32),
        negatives_per_edge: float = 1.0,
        propagate_once: bool = True,
        options: PairOptions | None = None,
        storage: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        self.store, self.inputs, self.held_out, self.held = store, inputs, held_out, held
        self.draws_pairs, self.units = draws_pairs, units
        self.patches = np.arange(store.num_patches) if patches is None else patches
        self.propagate_once, self.storage = propagate_once, storage
        self.negatives_per_edge, self.options = negatives_per_edge, options or PairOptions()
        self.device = torch.device(device)
        self._kept: dict[int, PatchBatch] = {}
        self._held_places: dict[int, np.ndarray] = {}  # found once: every edge of a patch has to be looked at
        self._room, self._kept_bytes = keep_bytes, kept_bytes

    def __len__(self) -> int:
        """Number of batches."""
        return len(self.patches)

    @overload
    def __getitem__(self, place: int) -> PatchBatch: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[PatchBatch]: ...

    def __getitem__(self, place: int | slice) -> PatchBatch | Sequence[PatchBatch]:
        """The batch at a place, made anew unless it is kept."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        patch = int(self.patches[place])
        return self._kept[patch] if patch in self._kept else self._make(patch, self.store.load_patch(patch))

    def __iter__(self) -> Iterator[PatchBatch]:
        """All batches in order."""
        order = [int(patch) for patch in self.patches]
        with ThreadPoolExecutor(1, thread_name_prefix="patches") as reader:
            ahead: Future[Loaded] | None = None
            for place, patch in enumerate(order):
                if patch in self._kept:
                    yield self._kept[patch]
                    continue
                loaded = self.store.load_patch(patch) if ahead is None else ahead.result()
                ahead, coming = None, order[place + 1 : place + 2]
                if coming and coming[0] not in self._kept:
                    ahead = reader.submit(self.store.load_patch, coming[0])
                batch = self._make(patch, loaded)
                del loaded
                self._keep(patch, batch)
                yield batch
                del batch  # before the next one is made

    def _keep(self, patch: int, batch: PatchBatch) -> None:
        size = self.size_of(batch)
        if size <= self._room:
            self._kept[patch] = batch
            self._room -= size

    @property
    def is_block(self) -> bool:
        """Whether all patches are one batch that stays in memory: never."""
        return False

    def holds(self, batch: Batch) -> bool:
        """Whether a batch stays in memory, with room for what the encoder leaves for its gradient."""
        return int(batch.patches[0]) in self._kept

    def size_of(self, batch: PatchBatch) -> int:
        """Bytes that a batch has when all its parts are made."""
        matrix, (per_arc, per_row) = batch.features.matrix, self._kept_bytes
        features = matrix.nbytes if isinstance(matrix, torch.Tensor) else 16 * matrix.num_entries
        # Features twice: an epoch drops some of their entries.
        return per_arc * batch.adjacency.nnz + per_row * batch.num_rows + 2 * features

    def _make(self, patch: int, loaded: Loaded) -> PatchBatch:
        adjacency, rows = loaded
        low, high = self.store.offsets[patch : patch + 2]
        nodes = self.store.patch_set.nodes_of(patch)
        if self.held is not None:
            weights = adjacency.data if self.store.weighted else None
            if patch not in self._held_places:
                places = self.held.find(adjacency.indptr, adjacency.indices, nodes, nodes)
                self._held_places[patch] = places.astype(np.int32)
            parts = adjacency.indptr, adjacency.indices, weights
            indptr, indices, weights = drop_entries(*parts, self._held_places[patch])
            weights = unit_weights(len(indices)) if weights is None else weights
            adjacency = sp.csr_array((weights, indices, indptr), shape=adjacency.shape)
        pairs = PairSource(
            adjacency,
            self._held_out_of(nodes),
            nodes,
            np.array([0, high - low]),
            np.array([patch]),
            np.array([(high - low) / self.store.offsets[-1]]),
            nodes if self.units is None else self.units[nodes],
            self.negatives_per_edge,
            None,
            self.options,
            self.device,
        )
        if not self.store.weighted:
            vars(pairs)["all_alike"] = True  # known, so that nobody looks at every edge
        features = self.inputs.read_nodes(rows, nodes)
        return make_batch(pairs, features, propagate_once=self.propagate_once, storage=self.storage)

    def _held_out_of(self, nodes: np.ndarray) -> sp.csr_array:
        if self.draws_pairs:
            return induce_pairs(self.held_out, nodes)
        return sp.csr_array((len(nodes), len(nodes)), dtype=np.float32)


def induce_pairs(pairs: sp.csr_array, nodes: np.ndarray) -> sp.csr_array:
    """(num_local, num_local) CSR of the pairs between some nodes. nodes: (num_local,) ascending.

    Unlike `PatchSet.induce` it needs no memory for the other nodes.
    """
    rows = pairs[nodes]
    if rows.nnz == 0:
        return sp.csr_array((len(nodes), len(nodes)), dtype=np.float32)
    places = np.minimum(np.searchsorted(nodes, rows.indices), len(nodes) - 1)
    inside = nodes[places] == rows.indices
    ends = np.concatenate([[0], np.cumsum(inside)])[rows.indptr]
    return sp.csr_array(
        (rows.data[inside], places[inside].astype(np.int32), ends.astype(np.int32)), shape=(len(nodes), len(nodes))
    )
