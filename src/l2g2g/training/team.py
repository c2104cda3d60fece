"""Team: what the loop asks of those it works with: of nobody where it is alone, or of the other ranks of a job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.pairs import PairMoments
from l2g2g.alignment.synchronise import Frame, apply_frame, assemble
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.distributed import MessageCount, Ranks
from l2g2g.training.node_exchange import Holders, PairExchange, add_up_nodes
from l2g2g.training.overlap_exchange import OverlapExchange


class Alone:
    """One process that has all patches.

    Attributes:
        is_first: Whether vectors of all nodes end here.
        patches: The patches here, ascending; None for all.
        exchange: Brings vectors of pairs from other ranks; None where there are none.
    """

    is_first = True
    patches: np.ndarray | None = None
    exchange: PairExchange | None = None

    def __init__(self, patch_set: PatchSet) -> None:
        self.patch_set = patch_set

    def measure_pairs(self, stacked: Tensor, *, rotate: bool, translate: bool, scale: bool) -> PairMoments | None:
        """What the shared nodes of all pairs say; None where the stacked rows are all there is to measure."""
        return None

    def add_gradients(self, model: Autoencoder, loss: float) -> float:
        """Add up gradients and losses over all ranks. Returns the loss of all."""
        return loss

    def assemble(self, stacked: Tensor, frame: Frame) -> Tensor:
        """(num_nodes, dim) vectors of all nodes, where they are used, from the rows of the patches here."""
        offsets = torch.from_numpy(self.patch_set.offsets).to(stacked.device)
        global_nodes = torch.from_numpy(self.patch_set.global_nodes).to(stacked.device)
        return assemble(apply_frame(stacked, offsets, frame), global_nodes, self.patch_set.num_nodes)

    def decide(self, judge: Callable[[], Any]) -> Any:
        """What one of us finds, for all. It must fit into JSON."""
        return judge()

    def end(self, losses: list[float]) -> list[float]:
        """After the last epoch: the losses of all, from those that were seen here."""
        return losses


class Share(Alone):
    """One rank and its patches.

    Args:
        owners: (num_patches,) the rank of every patch.
        apart: Nothing is shared and nobody looks before the end, so nothing is sent in training.

    Attributes:
        ask, answers: Further numbers that are added up with the gradients, and the sums of the last epoch.
    """

    patches: np.ndarray

    def __init__(self, ranks: Ranks, patch_set: PatchSet, owners: np.ndarray, *, apart: bool = False) -> None:
        super().__init__(patch_set)
        self.ask: Callable[[], list[float]] = list
        self.answers: list[float] = []
        ranks.sent = MessageCount()  # those of this training
        self.ranks, self.owners, self.apart = ranks, owners, apart
        self.patches = np.flatnonzero(owners == ranks.rank)
        self.overlaps = OverlapExchange(ranks, patch_set, owners)
        self.holders = Holders.find(patch_set, owners, ranks.size)
        self.exchange = PairExchange(ranks, self.holders)
        self.is_first = ranks.is_first
        own = patch_set.select(self.patches)
        counts = np.bincount(patch_set.global_nodes, minlength=patch_set.num_nodes)
        self._offsets, self._nodes = torch.from_numpy(own.offsets), torch.from_numpy(own.global_nodes)
        self._shares = torch.from_numpy((1.0 / counts[own.global_nodes]).astype(np.float32)[:, None])

    def measure_pairs(self, stacked: Tensor, *, rotate: bool, translate: bool, scale: bool) -> PairMoments | None:
        """See `OverlapExchange`."""
        return self.overlaps.measure(stacked, rotate=rotate, translate=translate, scale=scale)

    def add_gradients(self, model: Autoencoder, loss: float) -> float:
        """One sum over all ranks: gradients of what they share, and the loss."""
        if self.apart:
            return loss
        shared = shared_parameters(model)
        values = [(torch.zeros_like(each) if each.grad is None else each.grad).flatten() for each in shared]
        further = torch.tensor([loss, *self.ask()], device=self._device(model))
        buffer = torch.cat([*values, further])
        self.ranks.sum("gradient", buffer)
        *parts, further = buffer.split([each.numel() for each in shared] + [len(further)])
        for each, part in zip(shared, parts, strict=True):
            each.grad = part.view_as(each)
        loss, *self.answers = further.tolist()
        return loss

    def assemble(self, stacked: Tensor, frame: Frame) -> Tensor:
        """All vectors on rank 0, and none on the others."""
        device = stacked.device
        aligned = apply_frame(stacked, self._offsets.to(device), frame.part(self.patches))
        parts = stacked.new_zeros(self.patch_set.num_nodes, stacked.shape[1])
        parts.index_add_(0, self._nodes.to(device), aligned * self._shares.to(device))
        return add_up_nodes(self.ranks, self.holders, parts)

    def decide(self, judge: Callable[[], Any]) -> Any:
        """What rank 0 finds."""
        said = json.dumps(judge()).encode() if self.ranks.is_first else b""
        return json.loads(self.ranks.tell("decisions", said))

    def end(self, losses: list[float]) -> list[float]:
        """Where ranks trained apart, each knows only its part of every loss."""
        if not self.apart or not losses:
            return losses
        total = torch.tensor(losses, dtype=torch.float64, device=self.ranks.device)
        self.ranks.sum("losses", total)
        return [float(loss) for loss in total]

    @staticmethod
    def _device(model: Autoencoder) -> torch.device:
        return next(model.parameters()).device


def shared_parameters(model: Autoencoder) -> list[torch.nn.Parameter]:
    """The parameters that patches of several ranks train: an encoder of one patch is none of them."""
    return [
        parameter
        for name, parameter in model.named_parameters()
        if model.shares_encoder or not name.startswith("encoders.")
    ]
