"""Batches: patches made ready for training, together in one block or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.encoder_input import EncoderInput, prepare_input
from l2g2g.models.features import FeatureTable
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.pair_source import PairOptions, PairSource, prepare_pairs


class Batch(Protocol):
    """Rows that are encoded together."""

    @property
    def patches(self) -> np.ndarray:
        """(num_patches,) the numbers of the patches that the rows are of."""

    @property
    def offsets(self) -> Tensor:
        """(num_patches + 1,) the rows of each."""

    @property
    def nodes(self) -> np.ndarray:
        """(num_rows,) int64 node numbers of the rows."""

    @property
    def patch_sizes(self) -> list[int]:
        """(num_patches,) nodes of the patches; some of them may be on other ranks."""

    @property
    def row_share(self) -> float:
        """One over the rows of all batches."""

    @property
    def inputs(self) -> EncoderInput:
        """What the encoder sees when nothing is hidden."""

    def training_inputs(
        self, *, mask: float, scored: float, feature_dropout: float, seed: int, epoch: int, num_groups: int = 0
    ) -> EncoderInput:
        """What the encoder sees in an epoch."""


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
    def nodes(self) -> np.ndarray:
        """(num_rows,) int64 node numbers of the rows; none stands twice in a patch."""
        return self.pairs.nodes

    @property
    def patch_sizes(self) -> list[int]:
        """(num_patches,) nodes of the patches."""
        sizes: list[int] = self.offsets.diff().tolist()
        return sizes

    @property
    def row_share(self) -> float:
        """One over the rows of all batches."""
        return self.share / self.num_rows

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


class PatchBatches(Protocol):
    """Patches as batches, gone through in order, once or twice an epoch."""

    @property
    def is_block(self) -> bool:
        """Whether all patches are one batch that stays in memory."""

    def holds(self, batch: Batch) -> bool:
        """Whether a batch stays in memory, and what the encoder leaves for its gradient with it."""

    def __len__(self) -> int:
        """Number of batches."""

    def __getitem__(self, place: int, /) -> Batch:
        """The batch at a place."""

    def __iter__(self) -> Iterator[Batch]:
        """All batches in order."""


class ResidentBatches(list[PatchBatch]):
    """Batches that stay in memory."""

    @property
    def is_block(self) -> bool:
        """Whether all patches are one batch."""
        return len(self) == 1

    def holds(self, batch: Batch) -> bool:
        """Always."""
        return True


def prepare_batches(
    patch_set: PatchSet,
    adjacency: sp.csr_array,
    features: Features,
    held_out: sp.csr_array,
    *,
    negatives_per_edge: float = 1.0,
    together: bool = True,
    propagate_once: bool = True,
    units: np.ndarray | None = None,
    options: PairOptions | None = None,
    storage: str = "float32",
    device: torch.device | str = "cpu",
    patches: np.ndarray | None = None,
) -> ResidentBatches:
    """Cut a training graph into its patches: one batch with all of them, or one batch each.

    adjacency: (num_nodes, num_nodes) training edges. features: (num_nodes, num_features).
    held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives.
    propagate_once: compute Â X once where that is cheaper; not for encoders that need X itself.
    units: (num_nodes,) what masks assign to groups; None for single nodes. storage: in what dense features are held.
    patches: the numbers of the patches to cut; None for all.
    """
    wanted = np.arange(patch_set.num_patches) if patches is None else patches
    groups = [wanted] if together else [np.array([patch]) for patch in wanted]
    batches = ResidentBatches()
    options, device = options or PairOptions(), torch.device(device)
    for group in groups:
        part = patch_set.select(group)
        pairs = prepare_pairs(
            part, adjacency, held_out, patch_set.num_rows, group, negatives_per_edge, device, units, options
        )
        rows = features if patch_set.num_patches == 1 else features[part.global_nodes]
        batches.append(make_batch(pairs, rows, propagate_once=propagate_once, storage=storage))
    return batches


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
