"""Batches: patches made ready for training, together in one block or one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.encoder import EncoderInput, prepare_input
from l2g2g.models.features import FeatureTable
from l2g2g.models.masking import flag_hidden, propagate_unflagged, propagate_visible_torch
from l2g2g.models.randomness import Purpose, stream_key
from l2g2g.models.sparse import SparseMatrix
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.pair_source import PairOptions, PairSource, prepare_pairs


class EpochFlags:
    """Which edges of which patch an epoch hides, a bit for each: for patches that are made twice in it."""

    def __init__(self) -> None:
        self._key = -1
        self._bits: dict[int, np.ndarray] = {}

    def recall(self, patch: int, key: int, count: int, find: Callable[[], np.ndarray]) -> np.ndarray:
        """(count,) uint8, what `find` finds; it is asked once for a key."""
        if key != self._key:
            self._key = key
            self._bits.clear()
        if patch in self._bits:
            return np.unpackbits(self._bits[patch], count=count)
        flags = find()
        self._bits[patch] = np.packbits(flags)
        return flags


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
        flags: Remembers what is hidden, where the batch is made anew in the middle of an epoch; None where it is not.
        sections: (num_sections + 1,) first row of each section, see `SparseMatrix`; None for one.
    """

    patches: np.ndarray
    offsets: Tensor
    make_inputs: Callable[[], EncoderInput]
    features: FeatureTable
    pairs: PairSource
    share: float
    flags: EpochFlags | None = None
    sections: np.ndarray | None = None

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
        self, *, mask: float, feature_dropout: float, seed: int, epoch: int, num_groups: int = 0
    ) -> EncoderInput:
        """What the encoder sees in this epoch: some edges hidden, some feature entries dropped."""
        if mask == 0 and feature_dropout == 0:
            return self.inputs
        propagation = self._visible(mask, seed, epoch, num_groups) if mask else self.inputs.propagation
        features = self.features.dropped(feature_dropout, seed=seed, epoch=epoch)
        return EncoderInput(propagation, features, propagated=False)

    def _visible(self, mask: float, seed: int, epoch: int, num_groups: int) -> SparseMatrix:
        key = stream_key(seed, Purpose.MASK, epoch)
        block, nodes = self.pairs.adjacency, self.pairs.nodes
        groups = self.pairs.draw_groups(num_groups, seed=seed, epoch=epoch)
        if self.device.type == "cpu":
            dealt = None if groups is None else groups.numpy()

            def find() -> np.ndarray:
                return flag_hidden(block.indptr, block.indices, nodes, self.pairs.far_nodes, key, mask, dealt)

            weights = None if self.pairs.all_alike else block.data
            patch, count = int(self.patches[0]), len(block.indices)
            hidden = find() if self.flags is None else self.flags.recall(patch, key, count, find)
            return propagate_unflagged(block.indptr, block.indices, weights, hidden, self.sections)
        weights = torch.from_numpy(block.data).to(self.device)
        return propagate_visible_torch(
            torch.from_numpy(block.indptr).to(self.device),
            torch.from_numpy(block.indices).to(self.device),
            weights,
            torch.from_numpy(nodes).to(self.device),
            key,
            mask,
            groups,
        )


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
    sections: Sequence[np.ndarray] | None = None,
) -> list[PatchBatch]:
    """Cut a training graph into its patches: one batch with all of them, or one batch each.

    adjacency: (num_nodes, num_nodes) training edges. features: (num_nodes, num_features).
    held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives.
    propagate_once: compute Â X once where that is cheaper; not for encoders that need X itself.
    units: (num_nodes,) what masks deal into groups; None for single nodes. storage: in what dense features are held.
    sections: the patches to cut, those of each section; None for all in one. Sums over the rows of a batch are made
    section by section.
    """
    sections = [np.arange(patch_set.num_patches)] if sections is None else sections
    wanted = np.concatenate(sections)
    groups = [wanted] if together else [np.array([patch]) for patch in wanted]
    bounds = None
    if together and len(sections) > 1:
        bounds = np.cumsum([0, *(patch_set.sizes[section].sum() for section in sections)])
    batches = []
    options, device = options or PairOptions(), torch.device(device)
    for group in groups:
        part = patch_set.select(group)
        pairs = prepare_pairs(
            part, adjacency, held_out, patch_set.num_rows, group, negatives_per_edge, device, units, options
        )
        rows = features if patch_set.num_patches == 1 else features[part.global_nodes]
        batches.append(make_batch(pairs, rows, propagate_once=propagate_once, storage=storage, sections=bounds))
    return batches


def make_batch(
    pairs: PairSource,
    rows: Features,
    *,
    propagate_once: bool,
    storage: str = "float32",
    sections: np.ndarray | None = None,
) -> PatchBatch:
    """A batch of the patches of some pairs. rows: (num_rows, num_features) their features. sections: as it has them."""
    device, adjacency = pairs.device, pairs.adjacency
    table = FeatureTable.build(rows, pairs.offsets, pairs.patches, device, storage, sections)
    make_inputs: Callable[[], EncoderInput] = partial(
        prepare_input, adjacency, None, device=device, propagate_once=False, held=table.matrix, sections=sections
    )
    if propagate_once:  # at once, because it needs the rows as they are, which are not kept
        inputs = prepare_input(adjacency, rows, device=device, held=table.matrix, storage=storage, sections=sections)
        make_inputs = lambda: inputs  # noqa: E731
    offsets = torch.from_numpy(pairs.offsets).to(device)
    return PatchBatch(pairs.patches, offsets, make_inputs, table, pairs, float(pairs.shares.sum()), sections=sections)
