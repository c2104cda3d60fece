"""Batches: groups of patches made ready for training, resident in memory or made when their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol, cast, overload

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.models.encoding import EncoderInput, prepare_input
from l2g2g.models.features import FeatureTable
from l2g2g.models.masking import EpochDraws
from l2g2g.models.sparse import SparseMatrix
from l2g2g.training.pair_source import PairOptions, PairSource, PatchEdges, make_pairs
from l2g2g.training.patch_cache import PatchCache
from l2g2g.training.patch_source import LoadedPatches, PatchSource


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

    def training_inputs(self, draws: EpochDraws) -> EncoderInput:
        """What the encoder sees in an epoch."""


class Batches(Protocol):
    """Batches in order; an epoch iterates over them once or twice."""

    @property
    def is_block(self) -> bool:
        """Whether all patches are one batch that stays in memory."""

    @property
    def keeps_states(self) -> bool:
        """Whether what the encoder leaves for its gradient stays in memory also of batches that do not."""

    @property
    def device(self) -> torch.device:
        """Where their tensors live."""

    def holds(self, batch: Batch) -> bool:
        """Whether a batch stays in memory, and what the encoder leaves for its gradient with it."""

    def __len__(self) -> int:
        """Number of batches."""

    def __iter__(self) -> Iterator[Batch]:
        """All batches in order."""


@dataclass(frozen=True, eq=False)
class PatchBatch:
    """Some patches of a PatchSet as tensors; with the sum over batches the loss is that of all patches.

    Attributes:
        patches: (num_patches,) their numbers.
        offsets: (num_patches + 1,) their rows inside the batch.
        read_features: Gives the feature rows, from memory or from a file.
        pairs: What is scored inside the patches.
        share: Rows of this batch as a fraction of all rows.
        propagated: Whether the feature rows are those of Â X; nothing can be hidden or dropped then.
    """

    patches: np.ndarray
    offsets: Tensor
    read_features: Callable[[], FeatureTable]
    pairs: PairSource
    share: float
    propagated: bool = False

    @property
    def features(self) -> FeatureTable:
        """The feature rows, X or Â X."""
        return self.read_features()

    @property
    def inputs(self) -> EncoderInput:
        """What the encoder sees when nothing is hidden."""
        return EncoderInput(self._propagation, self.features.matrix, self.propagated)

    @cached_property
    def _propagation(self) -> SparseMatrix:
        return SparseMatrix.propagation(self.adjacency, self.device, weighted=not self.pairs.all_alike)

    @property
    def nodes(self) -> np.ndarray:
        """(num_rows,) int64 node numbers of the rows, distinct within a patch."""
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

    def training_inputs(self, draws: EpochDraws) -> EncoderInput:
        """What the encoder sees in this epoch: some edges hidden, some feature entries dropped."""
        if draws.hidden == 0 and draws.feature_dropout == 0:
            return self.inputs
        assert not self.propagated
        propagation = draws.split(self.pairs.mask)[0] if draws.hidden > 0 else self._propagation
        features = self.features.dropped(draws.feature_dropout, seed=draws.seed, epoch=draws.epoch)
        return EncoderInput(propagation, features, propagated=False)


@dataclass(frozen=True)
class BatchOptions:
    """How batches are made.

    Attributes:
        negatives_per_edge: Non-edges drawn inside patches for every edge.
        draws_pairs: Whether pairs inside patches are drawn; otherwise pairs that are held out are not read.
        propagate_once: Compute Â X once where that is cheaper; not for encoders that need X itself.
        pairs: How pairs are drawn and counted.
        storage: In what dense features are held.
        drops_features: Whether an epoch drops entries of the features.
        device: Where the tensors live.
    """

    negatives_per_edge: float = 1.0
    draws_pairs: bool = True
    propagate_once: bool = True
    pairs: PairOptions = field(default_factory=PairOptions)
    storage: str = "float32"
    drops_features: bool = False
    device: torch.device | str = "cpu"


@dataclass(frozen=True)
class KeptBytes:
    """What stays in memory between the two passes of an epoch, features aside.

    Attributes:
        arc, row: For every arc and row of a batch whose edges stay.
        state: For every row of a batch of which that stays which the encoder leaves for its gradient.
        held: For every row of a batch whose features stay as well, besides.
    """

    arc: int = 40
    row: int = 32
    state: int = 0
    held: int = 0


class PatchBatches(Sequence[PatchBatch]):
    """Groups of patches as batches in order; an epoch iterates over them once or twice.

    The memory budget goes to what saves most time for its size: first the encoder's states of all batches, then the
    edges of batches, then their features. The first batches are kept, because every pass begins with them. The others
    are read from a cache file in each pass; while one batch is computed, the system reads the next.

    Args:
        source: The patches.
        groups: Numbers of the patches of each batch.
        held_out: (num_held, num_nodes) pairs that are never drawn as negatives.
        held_nodes: (num_held,) ascending, the nodes that have a row there; None for all nodes.
        options: How batches are made.
        keep_bytes: What may stay in memory; None for everything.
        kept_bytes: What it takes.
    """

    def __init__(
        self,
        source: PatchSource,
        groups: Sequence[np.ndarray],
        held_out: sp.csr_array,
        options: BatchOptions | None = None,
        *,
        keep_bytes: int | None = None,
        kept_bytes: KeptBytes | None = None,
        held_nodes: np.ndarray | None = None,
    ) -> None:
        self.source, self.groups, self.held_out, self.held_nodes = source, groups, held_out, held_nodes
        self.options = options or BatchOptions()
        self.device = torch.device(self.options.device)
        self._kept: dict[int, PatchBatch] = {}  # their edges are in memory
        self._whole: dict[int, PatchBatch] = {}  # and their features
        self._whole_ids: set[int] = set()
        self._spare_bytes, self._kept_bytes, self.keeps_states = keep_bytes, kept_bytes or KeptBytes(), False
        self._planned: set[int] = set()  # edges that are to stay
        self._read_before: set[int] = set()
        self._propagated: dict[int, bool] = {}
        self._cache = None if source.folder is None or keep_bytes is None else PatchCache(source.folder)
        if keep_bytes is None:  # before the first epoch, which is timed like the others
            for _ in self:
                pass
        else:
            self._plan(keep_bytes)

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
        return self._kept[place] if place in self._kept else self._make(place)

    def __iter__(self) -> Iterator[PatchBatch]:
        """All batches in order."""
        for place in range(len(self)):
            if self._cache is not None and place + 1 < len(self) and place + 1 not in self._whole:
                self._cache.prefetch(place + 1)
            yield self[place]

    @property
    def is_block(self) -> bool:
        """Whether all patches are one batch that stays in memory."""
        return len(self) == 1 and 0 in self._whole

    def holds(self, batch: Batch) -> bool:
        """Whether a batch stays in memory, with space for what the encoder leaves for its gradient."""
        return id(batch) in self._whole_ids

    def _plan(self, spare: int) -> None:
        """Share out the budget as far as sizes are known."""
        kept, arcs = self._kept_bytes, self.source.num_arcs if spare else np.empty(0)
        rows = [int(self.source.patch_set.sizes[group].sum()) for group in self.groups]
        self.keeps_states = 0 < kept.state * sum(rows) <= spare
        spare -= kept.state * sum(rows) if self.keeps_states else 0
        for place, group in enumerate(self.groups if spare else []):
            size = int(kept.arc * arcs[group].sum()) + kept.row * rows[place]
            if self._cache is not None and size <= spare:
                self._planned.add(place)
                spare -= size
        self._spare_bytes = spare

    def _make(self, place: int) -> PatchBatch:
        """Make a batch, and keep of it what is to stay."""
        cache = self._cache
        if cache is not None and cache.has_edges(place):
            return self._assemble(place, cache.read_edges(place), partial(cache.read_features, place))
        loaded = self.source.load(self.groups[place])
        table = self._table(place, loaded)
        if place not in self._planned and cache is not None:
            if place in self._read_before:  # not what is read only once
                cache.write_edges(place, loaded.edges)
                cache.write_features(place, table)
            self._read_before.add(place)
        stays, size = self._spare_bytes is None, self._size_of(place, table, loaded.edges)
        if self._spare_bytes is not None and size <= self._spare_bytes:
            stays, self._spare_bytes = True, self._spare_bytes - size
        read_features = lambda: table  # noqa: E731
        if place in self._planned and not stays:
            assert cache is not None
            cache.write_features(place, table)
            read_features = partial(cache.read_features, place)
        batch = self._assemble(place, loaded.edges, read_features)
        if stays:
            self._whole[place] = batch
            self._whole_ids.add(id(batch))
        if stays or place in self._planned:
            self._kept[place] = batch
        return batch

    def _size_of(self, place: int, table: FeatureTable, edges: PatchEdges) -> int:
        """Bytes that a batch takes to stay as a whole, besides those that are planned for it."""
        kept, num_rows = self._kept_bytes, edges.adjacency.shape[0]
        matrix = table.matrix
        features = matrix.nbytes if isinstance(matrix, torch.Tensor) else 16 * matrix.num_entries
        size = (2 if self.options.drops_features else 1) * features + kept.held * num_rows
        if place not in self._planned:
            size += kept.arc * edges.adjacency.nnz + kept.row * num_rows
        return size if self.keeps_states else size + kept.state * num_rows

    def _table(self, place: int, loaded: LoadedPatches) -> FeatureTable:
        """The rows that the encoder multiplies: X, or Â X where that is enough and cheaper."""
        nodes = self.source.patch_set.select(self.groups[place]).global_nodes
        table = FeatureTable.build(loaded.features, nodes, self.options.device, self.options.storage)
        if not self.options.propagate_once or self.options.drops_features:
            return table
        options = self.options
        inputs = prepare_input(
            loaded.edges.adjacency, loaded.features, device=options.device, storage=options.storage, held=table.matrix
        )
        self._propagated[place] = inputs.propagated
        return replace(table, matrix=cast(Tensor | SparseMatrix, inputs.features))

    def _assemble(self, place: int, edges: PatchEdges, read_features: Callable[[], FeatureTable]) -> PatchBatch:
        """A batch of some edges."""
        patch_set, group, options = self.source.patch_set, self.groups[place], self.options
        pairs = make_pairs(
            patch_set.select(group),
            edges,
            self.held_out if options.draws_pairs else None,
            patch_set.num_rows,
            group,
            options.negatives_per_edge,
            options.device,
            options.pairs,
            self.source.weighted,
            self.held_nodes,
        )
        offsets = torch.from_numpy(pairs.offsets).to(options.device)
        share, propagated = float(pairs.shares.sum()), self._propagated.get(place, False)
        return PatchBatch(group, offsets, read_features, pairs, share, propagated)


def group_patches(patches: np.ndarray, *, together: bool) -> list[np.ndarray]:
    """The patches of each batch: all in one block, or one each. patches: their numbers."""
    return [patches] if together else [np.array([patch]) for patch in patches]
