"""Shard: the patches or rows that one rank trains, and what it does together with the other ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.procrustes import PairMoments
from l2g2g.alignment.synchronise import Frame, apply_frame
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.local_rows import LocalRows
from l2g2g.parallel.communicator import Communicator, MessageCount
from l2g2g.parallel.node_directory import NodeDirectory
from l2g2g.parallel.node_table import NodeTable, RangeOwners
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.overlap_exchange import OverlapExchange


class Shard:
    """Some patches of a graph; all of them where there is one process.

    Args:
        patch_set: All patches.
        communicator: Of this rank; None for one process.
        owners: (num_patches,) the rank of every patch; None for one process.
        bounds: (num_ranks + 1,) the ranges of nodes by which vectors are handed out; None for one process.
        apart: Nothing is shared and nothing is read before the end, so nothing is sent in training.

    Attributes:
        patches: The numbers of the patches here, ascending.
        ask, answers: Further numbers that are added up with the gradients, and the sums of the last epoch.
    """

    def __init__(
        self,
        patch_set: PatchSet,
        communicator: Communicator | None = None,
        owners: np.ndarray | None = None,
        bounds: np.ndarray | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self.patch_set, self.apart = patch_set, apart
        self.bounds = np.array([0, patch_set.num_nodes]) if bounds is None else bounds
        self.communicator = communicator or Communicator()
        self.communicator.sent = MessageCount()  # those of this training
        self.owners = np.zeros(patch_set.num_patches, np.int64) if owners is None else owners
        self.patches = np.flatnonzero(self.owners == self.communicator.rank)
        self.ask: Callable[[], list[float]] = list
        self.answers: list[float] = []

    @property
    def has_all(self) -> bool:
        """Whether all patches are here."""
        return self.communicator.size == 1

    @cached_property
    def table(self) -> NodeTable:
        """Rows of all nodes; a node is owned by the rank of its first patch. The first use is collective."""
        owners = RangeOwners(np.array([0, self.patch_set.num_nodes])) if self.has_all else self.directory
        return NodeTable(self.communicator, owners, self.nodes)

    @cached_property
    def directory(self) -> NodeDirectory:
        """The owners of all nodes, of several ranks. The first use is collective."""
        claims = np.empty(len(self.nodes), np.int64)
        for place in range(len(self.patches) - 1, -1, -1):  # from the end, so that the first patch is what stays
            claims[np.searchsorted(self.nodes, self._part.nodes_of(place))] = self.patches[place]
        return NodeDirectory(self.communicator, self.patch_set.num_nodes, self.nodes, claims)

    @cached_property
    def nodes(self) -> np.ndarray:
        """(num_local,) int64 ascending, the nodes of the patches here."""
        return np.unique(self._part.global_nodes).astype(np.int64)

    def shares_of(self, patches: np.ndarray | None = None) -> np.ndarray:
        """(num_rows,) how much every row of some patches here counts; see `PatchSet`. The first use is collective."""
        if self.has_all:
            return self.patch_set.shares_of(patches)
        places = np.searchsorted(self.patches, self.patches if patches is None else patches)
        bounds = self._part.offsets
        return np.concatenate([self._row_shares[bounds[place] : bounds[place + 1]] for place in places])

    @cached_property
    def _row_shares(self) -> np.ndarray:
        """(num_own_rows,) float32: the rows that other ranks have of a node are added up at its owner."""
        part, table = self._part, self.table
        weights, place = part.row_weights, table.place(part.global_nodes, np.ones(part.num_rows, np.float32))
        table.clear()
        table.scatter_add(place, torch.tensor(weights, device=self.communicator.device)[:, None])
        table.complete("shares")
        table.return_ghosts("shares")
        totals = table.take(place)[:, 0].cpu().numpy()
        table.clear()
        return (weights / totals).astype(np.float32)

    @cached_property
    def _part(self) -> PatchSet:
        return self.patch_set if self.has_all else self.patch_set.select(self.patches)

    @cached_property
    def _overlaps(self) -> OverlapExchange:
        return OverlapExchange(self.communicator, self.patch_set, self.owners)

    def measure_pairs(self, stacked: Tensor, *, rotate: bool, translate: bool, scale: bool) -> PairMoments:
        """What the shared nodes of all pairs of patches say; see `OverlapExchange`."""
        return self._overlaps.measure(stacked, rotate=rotate, translate=translate, scale=scale)

    def add_gradients(self, model: Autoencoder, loss: float) -> float:
        """Add up gradients of shared parameters, and the loss, over all ranks. Returns the loss of all."""
        if self.has_all or self.apart:
            return loss
        shared = shared_parameters(model)
        values = [(torch.zeros_like(each) if each.grad is None else each.grad).flatten() for each in shared]
        further = torch.tensor([loss, *self.ask()], device=next(model.parameters()).device)
        buffer = torch.cat([*values, further])
        self.communicator.all_reduce("gradient", buffer)
        *parts, further = buffer.split([each.numel() for each in shared] + [len(further)])
        for each, part in zip(shared, parts, strict=True):
            each.grad = part.view_as(each)
        loss, *self.answers = further.tolist()
        return loss

    def assemble(self, stacked: Tensor, frame: Frame) -> Tensor:
        """(num_nodes, dim) mean vectors; on several ranks those of the range of nodes of this one.

        stacked: (num_rows, dim) rows of the patches here, in their order.
        """
        part, table = self._part, self.table
        offsets = torch.from_numpy(part.offsets).to(stacked.device)
        aligned = apply_frame(stacked, offsets, frame.part(self.patches))
        table.clear()
        shares = self.shares_of(self.patches)
        table.scatter_add(table.place(part.global_nodes, shares), aligned)
        del aligned, shares  # the exchanges need their memory
        table.complete("node sums")
        vectors = table.by_range("node means", self.bounds)
        table.clear()
        return vectors

    def end(self, losses: list[float]) -> list[float]:
        """After the last epoch: the losses of all ranks. Those that trained apart know only their part of each."""
        if self.has_all or not self.apart or not losses:
            return losses
        total = torch.tensor(losses, dtype=torch.float64, device=self.communicator.device)
        self.communicator.all_reduce("losses", total)
        return [float(loss) for loss in total]


class RowShard(Shard):
    """The rows of this rank of a whole graph; the one patch is on every rank.

    Args:
        rows: The training edges of this rank's nodes.
        patch_set: The whole graph as its only patch.
    """

    def __init__(self, rows: LocalRows, patch_set: PatchSet) -> None:
        super().__init__(patch_set, rows.communicator, np.zeros(1, np.int64))
        self.rows, self.patches = rows, np.array([0])
        self.nodes = np.arange(rows.low, rows.high)
        self._table = NodeTable(self.communicator, rows.owners, self.nodes)

    @property
    def table(self) -> NodeTable:
        """Rows of all nodes, of which this rank holds those it owns."""
        return self._table

    @cached_property
    def directory(self) -> NodeDirectory:
        """The same owners as the table has."""
        claims = np.full(len(self.nodes), self.communicator.rank)
        return NodeDirectory(self.communicator, self.patch_set.num_nodes, self.nodes, claims)


def shared_parameters(model: Autoencoder) -> list[torch.nn.Parameter]:
    """The parameters that patches of several ranks train: an encoder of one patch is none of them."""
    return [
        parameter
        for name, parameter in model.named_parameters()
        if model.shares_encoder or not name.startswith("encoders.")
    ]
