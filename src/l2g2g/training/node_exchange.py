"""Node exchange: vectors of nodes between ranks: those of sampled pairs in every epoch, and those of all at the end.

A node may lie in patches of several ranks, and its vector is the mean over all of them. Each rank has its part of the
mean: the sum over its own patches, divided by the number of all patches that hold the node. The parts add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numba import njit
from torch import Tensor

from l2g2g.models.pair_patterns import PairPattern
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

    def bring(self, parts: Tensor, drawn: Drawn) -> tuple[Tensor, PairPattern, PairPattern]:
        """(vectors, edges, non-edges) of the pairs that this rank scores, which count the rows of the vectors.

        parts: (num_nodes, dim) this rank's part of every mean, zero where it has none. Differentiable.
        """
        needed = np.zeros(len(parts), np.bool_)
        for pattern in (drawn.edges, drawn.non_edges):
            _mark(needed, *(part.cpu().numpy() for part in pattern.listed[:2]))
        outgoing, num_edges = self._ask(needed, drawn.num_edges or 0)
        drawn = drawn.weighed(num_edges)
        numbers = np.cumsum(needed, dtype=np.int32) - np.int32(1)
        incoming = [numbers[nodes[needed[nodes]]] for nodes in self.held]
        num_needed = int(needed.sum())
        vectors = _Bring.apply(parts, _Plan(self.ranks, outgoing, incoming, num_needed))
        edges, non_edges = (
            _renumber(pattern, needed, numbers, num_needed) for pattern in (drawn.edges, drawn.non_edges)
        )
        return vectors, edges, non_edges

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
    """Nodes that go to each rank, rows of the table to which those from each rank are added, and its length."""

    ranks: Ranks
    outgoing: list[np.ndarray]
    incoming: list[np.ndarray]
    num_rows: int

    def send(self, kind: str, table: Tensor, there: list[np.ndarray], back: list[np.ndarray], num_rows: int) -> Tensor:
        """(num_rows, dim) the rows `there` of every rank's table, added up where `back` says."""
        device = table.device
        rows = table.index_select(0, torch.from_numpy(np.concatenate(there)).to(device))
        received = self.ranks.swap(kind, rows, [len(part) for part in there], [len(part) for part in back])
        total = table.new_zeros(num_rows, table.shape[1])
        places = np.concatenate(back)
        if device.type == "cpu":
            _add_rows(total.numpy(), places, received.numpy())
            return total
        return total.index_add_(0, torch.from_numpy(places).to(device), received)


class _Bring(torch.autograd.Function):
    """Vectors one way, their gradients the other."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, parts: Tensor, plan: _Plan) -> Tensor:
        ctx.plan, ctx.num_nodes = plan, len(parts)  # type: ignore[attr-defined]
        return plan.send("pair rows", parts, plan.outgoing, plan.incoming, plan.num_rows)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        plan: _Plan = ctx.plan  # type: ignore[attr-defined]
        num_nodes: int = ctx.num_nodes  # type: ignore[attr-defined]
        return plan.send("pair gradients", gradient, plan.incoming, plan.outgoing, num_nodes), None


@njit(cache=True)
def _mark(needed: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """Note which nodes some pairs have."""
    for pair in range(len(rows)):
        needed[rows[pair]] = True
        needed[columns[pair]] = True


@njit(cache=True)
def _add_rows(total: np.ndarray, places: np.ndarray, rows: np.ndarray) -> None:
    for row in range(len(places)):
        for column in range(rows.shape[1]):
            total[places[row], column] += rows[row, column]


def _renumber(pattern: PairPattern, needed: np.ndarray, numbers: np.ndarray, num_rows: int) -> PairPattern:
    """The same pairs, their nodes counted by `numbers`, which keeps their order. No row that is left out has a pair."""
    rows, columns, weights = pattern.listed
    device = rows.device
    kept = torch.from_numpy(np.concatenate([[True], needed])).to(device)
    new_rows, new_columns = (torch.from_numpy(numbers[part.cpu().numpy()]).to(device) for part in (rows, columns))
    indptr = pattern.indptr[kept]
    assert len(indptr) == num_rows + 1
    return PairPattern(indptr, new_columns, weights, rows=new_rows)


def add_up_nodes(ranks: Ranks, holders: Holders, parts: Tensor) -> Tensor:
    """(num_nodes, dim) vectors on rank 0, from the parts (num_nodes, dim) of all ranks; no row on the others.

    Every rank adds up the nodes of one range, so that none but the writer ever has to hold all of them.
    """
    bounds = np.linspace(0, len(parts), ranks.size + 1).astype(np.int64)
    low, high = bounds[ranks.rank], bounds[ranks.rank + 1]
    ranges = list(pairwise(bounds.tolist()))
    outgoing = [first + np.flatnonzero(holders.holds[ranks.rank, first:last]) for first, last in ranges]
    incoming = [np.flatnonzero(holders.holds[rank, low:high]) for rank in range(ranks.size)]
    shard = _Plan(ranks, [], [], 0).send("node sums", parts, outgoing, incoming, int(high - low))
    return ranks.gather_at_first("node means", shard, np.diff(bounds).tolist())
