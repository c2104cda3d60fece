"""Batches: groups of patches made ready for training, resident in memory or made when their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import overload

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.encoder_input import EncoderInput, prepare_input
from l2g2g.models.features import FeatureTable
from l2g2g.training.pair_source import PairOptions, PairSource, make_pairs
from l2g2g.training.patch_source import LoadedPatches, PatchSource


@dataclass(frozen=True, eq=False)
class PatchBatch:
    """Some patches of a PatchSet as tensors; with the sum over batches the loss is that of all patches.

    Attributes:
        patches: (num_patches,) their numbers.
        offsets: (num_patches + 1,) their rows inside the batch.
        make_inputs: Makes `inputs`.
        features: The feature rows, for dropout.
        pairs: What is scored inside the patches.
        share: Rows of this batch as a fraction of all rows.
    """

    patches: np.ndarray
    offsets: Tensor
    make_inputs: Callable[[], EncoderInput]
    features: FeatureTable
    pairs: PairSource
    share: float

    @cached_property
    def inputs(self) -> EncoderInput:
        """What the encoder sees when nothing is hidden."""
        return self.make_inputs()

    @property
    def nodes(self) -> Tensor:
        """(num_rows,) int64 node numbers of the rows; none stands twice in a patch."""
        return torch.from_numpy(self.pairs.nodes).to(self.device)

    @property
    def adjacency(self) -> sp.csr_array:
        """Block-diagonal scipy CSR of the patches."""
        return self.pairs.adjacency

    @property
    def num_rows(self) -> int:
        """Rows of the batch."""
        return self.adjacency.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.pairs.device

    def training_inputs(
        self, *, mask: float, scored: float, feature_dropout: float, seed: int, epoch: int, num_groups: int = 0
    ) -> EncoderInput:
        """What the encoder sees in this epoch: some edges hidden, some feature entries dropped.

        scored: share of the edges that the epoch scores; they are found in the same pass.
        """
        if mask == 0 and feature_dropout == 0:
            return self.inputs
        propagation = self.inputs.propagation if mask == 0 else None
        if propagation is None:
            groups = self.pairs.draw_groups(num_groups, seed=seed, epoch=epoch)
            propagation = self.pairs.mask.split(mask, scored, seed=seed, epoch=epoch, groups=groups)[0]
        features = self.features.dropped(feature_dropout, seed=seed, epoch=epoch)
        return EncoderInput(propagation, features, propagated=False)


@dataclass(frozen=True)
class BatchOptions:
    """How batches are made.

    Attributes:
        negatives_per_edge: Non-edges drawn inside patches for every edge.
        draws_pairs: Whether pairs inside patches are drawn; otherwise nobody asks which are held out.
        propagate_once: Compute Â X once where that is cheaper; not for encoders that need X itself.
        pairs: How pairs are drawn and counted.
        storage: In what dense features are held.
        device: Where the tensors live.
    """

    negatives_per_edge: float = 1.0
    draws_pairs: bool = True
    propagate_once: bool = True
    pairs: PairOptions = field(default_factory=PairOptions)
    storage: str = "float32"
    device: torch.device | str = "cpu"


class PatchBatches(Sequence[PatchBatch]):
    """Groups of patches as batches, gone through in order, once or twice an epoch.

    A batch is resident while the batches before it and itself fit a budget: those that came first, because they are
    gone through round and round, and what was used last is needed last. The budget counts what the encoder leaves for
    its gradient, so that resident batches need not be encoded twice. The others are made when their turn comes and
    forgotten after it; while one of them is worked on, a thread reads the next.

    Args:
        source: The patches.
        groups: Numbers of the patches of each batch.
        held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives.
        options: How batches are made.
        units: (num_nodes,) what masks assign to groups of nodes; None for single nodes.
        keep_bytes: What resident batches may take; None for all of them.
        kept_bytes: What one of them takes for every arc and every row, its features aside.
    """

    def __init__(
        self,
        source: PatchSource,
        groups: Sequence[np.ndarray],
        held_out: sp.csr_array,
        options: BatchOptions | None = None,
        *,
        units: np.ndarray | None = None,
        keep_bytes: int | None = None,
        kept_bytes: tuple[int, int] = (40, 32),
    ) -> None:
        self.source, self.groups, self.held_out = source, groups, held_out
        self.options, self.units = options or BatchOptions(), units
        self._kept: dict[int, PatchBatch] = {}
        self._room, self._kept_bytes = keep_bytes, kept_bytes
        if keep_bytes is None:  # before the first epoch, which is timed like the others
            for _ in self:
                pass

    def __len__(self) -> int:
        """Number of batches."""
        return len(self.groups)

    @overload
    def __getitem__(self, place: int) -> PatchBatch: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[PatchBatch]: ...

    def __getitem__(self, place: int | slice) -> PatchBatch | Sequence[PatchBatch]:
        """The batch at a place, made anew unless it is resident."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        return self._kept[place] if place in self._kept else self._make(place, self.source.load(self.groups[place]))

    def __iter__(self) -> Iterator[PatchBatch]:
        """All batches in order."""
        with ExitStack() as stack:
            reader: ThreadPoolExecutor | None = None
            ahead: Future[LoadedPatches] | None = None
            for place, group in enumerate(self.groups):
                if place in self._kept:
                    yield self._kept[place]
                    continue
                loaded = self.source.load(group) if ahead is None else ahead.result()
                ahead, coming = None, place + 1
                if self._room is not None and coming < len(self) and coming not in self._kept:
                    reader = reader or stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="patches"))
                    ahead = reader.submit(self.source.load, self.groups[coming])
                batch = self._make(place, loaded)
                del loaded
                self._keep(place, batch)
                yield batch
                del batch  # before the next one is made

    @property
    def is_block(self) -> bool:
        """Whether all patches are one batch that stays in memory."""
        return len(self) == 1 and 0 in self._kept

    def holds(self, batch: PatchBatch) -> bool:
        """Whether a batch stays in memory, with room for what the encoder leaves for its gradient."""
        return any(batch is kept for kept in self._kept.values())

    def size_of(self, batch: PatchBatch) -> int:
        """Bytes that a batch has when all its parts are made."""
        matrix, (per_arc, per_row) = batch.features.matrix, self._kept_bytes
        features = matrix.nbytes if isinstance(matrix, torch.Tensor) else 16 * matrix.num_entries
        # Features twice: an epoch drops some of their entries.
        return per_arc * batch.adjacency.nnz + per_row * batch.num_rows + 2 * features

    def _keep(self, place: int, batch: PatchBatch) -> None:
        size = 0 if self._room is None else self.size_of(batch)
        if self._room is None or size <= self._room:
            self._kept[place] = batch
            self._room = None if self._room is None else self._room - size

    def _make(self, place: int, loaded: LoadedPatches) -> PatchBatch:
        edges, rows = loaded
        patch_set, group, options = self.source.patch_set, self.groups[place], self.options
        part = patch_set.select(group)
        num_nodes = patch_set.num_nodes
        held_out = self.held_out if options.draws_pairs else sp.csr_array((num_nodes, num_nodes), dtype=np.float32)
        pairs = make_pairs(
            part,
            edges,
            held_out,
            patch_set.num_rows,
            group,
            options.negatives_per_edge,
            options.device,
            self.units,
            options.pairs,
            self.source.weighted,
        )
        return make_batch(pairs, rows, propagate_once=options.propagate_once, storage=options.storage)


def group_patches(patches: np.ndarray, *, together: bool) -> list[np.ndarray]:
    """The patches of each batch: all in one block, or one each. patches: their numbers."""
    return [patches] if together else [np.array([patch]) for patch in patches]


def make_batch(pairs: PairSource, rows: Features, *, propagate_once: bool, storage: str = "float32") -> PatchBatch:
    """A batch of the patches of some pairs. rows: (num_rows, num_features) their features."""
    device, adjacency = pairs.device, pairs.adjacency
    table = FeatureTable.build(rows, pairs.nodes, device, storage)

    def make_inputs(features: Features | None, once: bool) -> EncoderInput:
        return prepare_input(
            adjacency,
            features,
            device=device,
            propagate_once=once,
            held=table.matrix,
            storage=storage,
            weighted=not pairs.all_alike,
        )

    later: Callable[[], EncoderInput] = partial(make_inputs, None, False)
    if propagate_once:  # at once, because it needs the rows as they are, which are not kept
        inputs = make_inputs(rows, True)
        later = lambda: inputs  # noqa: E731
    offsets = torch.from_numpy(pairs.offsets).to(device)
    return PatchBatch(pairs.patches, offsets, later, table, pairs, float(pairs.shares.sum()))
