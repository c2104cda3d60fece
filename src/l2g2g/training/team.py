"""Team: what the loop asks of those it works with: of nobody where it is alone, or of the other ranks of a job."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.packed_pairs import pack_pairs, unpack_pairs
from l2g2g.alignment.pairs import PairMoments, measure_pairs
from l2g2g.alignment.synchronise import Frame, apply_frame
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.distributed import MessageCount, Ranks
from l2g2g.training.node_exchange import Holders, PairExchange, add_up_nodes
from l2g2g.training.overlap_exchange import OverlapExchange


class Alone:
    """One process that has all patches.

    Attributes:
        is_first: Whether vectors of all nodes end here.
        has_all: Whether all patches are here.
        patches: The numbers of the patches here, ascending.
        exchange: Brings vectors of pairs from other ranks; None where there are none.
    """

    is_first = True
    has_all = True
    exchange: PairExchange | None = None

    def __init__(self, patch_set: PatchSet, patches: np.ndarray | None = None) -> None:
        self.patch_set = patch_set
        self.patches = np.arange(patch_set.num_patches) if patches is None else patches

    def measure_pairs(self, stacked: Tensor, *, rotate: bool, translate: bool, scale: bool) -> PairMoments:
        """What the shared nodes of all pairs say, in the precision in which ranks tell each other."""
        parts = {"rotate": rotate, "translate": translate, "scale": scale}
        overlaps = self.patch_set.overlaps.to(stacked.device)
        packed = pack_pairs(measure_pairs(stacked, overlaps), overlaps.sizes, **parts)
        return unpack_pairs(packed, stacked.shape[1], **parts)

    def add_gradients(self, model: Autoencoder, loss: float) -> float:
        """Add up gradients and losses over all ranks. Returns the loss of all."""
        return loss

    def assemble(self, stacked: Tensor, frame: Frame) -> Tensor:
        """(num_nodes, dim) vectors of all nodes, where they are used, from the rows of the patches here."""
        return self._add_up(stacked, frame)

    def _add_up(self, stacked: Tensor, frame: Frame) -> Tensor:
        """(num_nodes, dim) what the patches here add to the mean of every node. stacked: (num_rows, dim) their rows."""
        part, device = self.patch_set.select(self.patches), stacked.device
        aligned = apply_frame(stacked, torch.from_numpy(part.offsets).to(device), frame.part(self.patches))
        shares = torch.from_numpy(self._node_shares[part.global_nodes][:, None]).to(device, stacked.dtype)
        total = stacked.new_zeros(part.num_nodes, stacked.shape[1])
        return total.index_add_(0, torch.from_numpy(part.global_nodes).to(device), aligned.mul_(shares))

    @cached_property
    def _node_shares(self) -> np.ndarray:
        """(num_nodes,) one over the number of patches that hold a node."""
        counts = np.bincount(self.patch_set.global_nodes, minlength=self.patch_set.num_nodes)
        return (1.0 / counts).astype(np.float32)

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

    has_all = False

    def __init__(self, ranks: Ranks, patch_set: PatchSet, owners: np.ndarray, *, apart: bool = False) -> None:
        super().__init__(patch_set, np.flatnonzero(owners == ranks.rank))
        self.ask: Callable[[], list[float]] = list
        self.answers: list[float] = []
        ranks.sent = MessageCount()  # those of this training
        self.ranks, self.owners, self.apart = ranks, owners, apart
        self.overlaps = OverlapExchange(ranks, patch_set, owners)
        self.holders = Holders.find(patch_set, owners, ranks.size)
        self.exchange = PairExchange(ranks, self.holders)
        self.is_first = ranks.is_first

    def measure_pairs(self, stacked: Tensor, *, rotate: bool, translate: bool, scale: bool) -> PairMoments:
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
        return add_up_nodes(self.ranks, self.holders, self._add_up(stacked, frame))

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
