"""Node exchange: vectors of nodes between ranks: those of sampled pairs in every epoch, and those of all at the end.

A node may lie in patches of several ranks, and its vector is the mean over all of them. Each rank has its part of the
mean: the sum over its own patches, divided by the number of all patches that hold the node. The parts add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from l2g2g.patches.overlap import PatchSet
from l2g2g.training.distributed import Ranks
from l2g2g.training.home_pairs import Drawn


@dataclass(frozen=True, eq=False)
class Holders:
    """Which rank holds which nodes.

    Attributes:
        holds: (num_ranks, num_nodes) bool, whether a rank has a patch with the node.
        homes: (num_nodes,) int64, the rank that scores the pairs whose first node this is: that of its first patch.
    """

    holds: np.ndarray
    homes: np.ndarray

    @staticmethod
    def find(patch_set: PatchSet, owners: np.ndarray, num_ranks: int) -> Holders:
        """From the rank of every patch."""
        rank_of_row = np.repeat(owners, patch_set.sizes)
        holds = np.zeros((num_ranks, patch_set.num_nodes), bool)
        holds[rank_of_row, patch_set.global_nodes] = True
        return Holders(holds, find_homes(patch_set, owners))


def find_homes(patch_set: PatchSet, owners: np.ndarray) -> np.ndarray:
    """(num_nodes,) the owner of the first patch of every node. owners: (num_patches,)."""
    homes = np.empty(patch_set.num_nodes, np.int64)
    homes[patch_set.global_nodes[::-1]] = np.repeat(owners, patch_set.sizes)[::-1]
    return homes


class PairExchange:
    """Brings the vectors of an epoch's pairs to the ranks that score them, and the gradients back.

    Every rank draws the pairs of its own nodes and asks the others for the far ends: a bit for each node they hold. The
    first eight bytes say how many edges it has, because the weight of an edge depends on how many all have.
    """

    def __init__(self, ranks: Ranks, holders: Holders) -> None:
        self.ranks, self.holders = ranks, holders
        self.held = [np.flatnonzero(held) for held in holders.holds]

    @property
    def is_home(self) -> np.ndarray:
        """(num_nodes,) bool, whether the pairs that begin with a node are scored here."""
        return self.holders.homes == self.ranks.rank

    def bring(self, parts: Tensor, drawn: Drawn) -> tuple[Tensor, Drawn]:
        """(num_nodes, dim) vectors, complete for the nodes that the pairs have; the pairs, weighed.

        parts: (num_nodes, dim) this rank's part of every mean, zero where it has none. Differentiable.
        """
        needed = np.zeros(len(parts), np.bool_)
        for pairs in (drawn.edges, drawn.non_edges):
            needed[pairs.rows] = needed[pairs.columns] = True
        outgoing, num_edges = self._ask(needed, drawn.num_edges or 0)
        incoming = [nodes[needed[nodes]] for nodes in self.held]
        outgoing[self.ranks.rank] = incoming[self.ranks.rank] = np.empty(0, np.int64)
        return _Bring.apply(parts, _Plan(self.ranks, outgoing, incoming)), drawn.weighed(num_edges)

    def _ask(self, needed: np.ndarray, num_edges: int) -> tuple[list[np.ndarray], int]:
        """The nodes that each rank needs from this one, and the edges of all ranks."""
        ranks = self.ranks
        questions = [
            np.concatenate([np.array([num_edges], np.int64).view(np.uint8), np.packbits(needed[nodes])])
            for nodes in self.held
        ]
        lengths = [len(question) for question in questions]
        own = self.held[ranks.rank]
        sent = torch.from_numpy(np.concatenate(questions)).to(ranks.device)
        heard = ranks.swap("pair requests", sent, lengths, [lengths[ranks.rank]] * ranks.size).cpu().numpy()
        answers = heard.reshape(ranks.size, -1)
        total = int(np.ascontiguousarray(answers[:, :8]).view(np.int64).sum())
        return [own[np.unpackbits(answer[8:], count=len(own)).astype(np.bool_)] for answer in answers], total


@dataclass(frozen=True, eq=False)
class _Plan:
    """Nodes whose rows go to each rank, and those whose rows come from it; none go to the rank itself."""

    ranks: Ranks
    outgoing: list[np.ndarray]
    incoming: list[np.ndarray]


class _Bring(torch.autograd.Function):
    """Vectors one way, their gradients the other: each rank adds what comes to what it has."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, parts: Tensor, plan: _Plan) -> Tensor:
        ctx.plan = plan  # type: ignore[attr-defined]
        return _send(plan.ranks, "pair rows", parts, plan.outgoing, plan.incoming, parts.clone())

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        plan: _Plan = ctx.plan  # type: ignore[attr-defined]
        total = _send(plan.ranks, "pair gradients", gradient, plan.incoming, plan.outgoing, gradient.clone())
        return total, None


def _send(
    ranks: Ranks, kind: str, table: Tensor, there: list[np.ndarray], back: list[np.ndarray], total: Tensor
) -> Tensor:
    """`total`, to which the rows `there` of every rank's table are added where `back` says."""
    device = table.device
    rows = table.index_select(0, torch.from_numpy(np.concatenate(there)).to(device))
    received = ranks.swap(kind, rows, [len(part) for part in there], [len(part) for part in back])
    # Rank by rank, as a rank sends no node twice: each sum has one order.
    for places, part in zip(back, received.split([len(part) for part in back]), strict=True):
        total.index_add_(0, torch.from_numpy(places).to(device), part)
    return total


def add_up_nodes(ranks: Ranks, holders: Holders, parts: Tensor) -> Tensor:
    """(num_nodes, dim) vectors on rank 0, from the parts (num_nodes, dim) of all ranks; no row on the others.

    Every rank adds up the nodes of one range, so that none but the writer ever has to hold all of them.
    """
    bounds = np.linspace(0, len(parts), ranks.size + 1).astype(np.int64)
    low, high = bounds[ranks.rank], bounds[ranks.rank + 1]
    ranges = list(pairwise(bounds.tolist()))
    outgoing = [first + np.flatnonzero(holders.holds[ranks.rank, first:last]) for first, last in ranges]
    incoming = [np.flatnonzero(holders.holds[rank, low:high]) for rank in range(ranks.size)]
    shard = parts.new_zeros(int(high - low), parts.shape[1])
    _send(ranks, "node sums", parts, outgoing, incoming, shard)
    return ranks.gather_at_first("node means", shard, np.diff(bounds).tolist())
