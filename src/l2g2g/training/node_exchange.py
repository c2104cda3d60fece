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
        homes = np.empty(patch_set.num_nodes, np.int64)
        homes[patch_set.global_nodes[::-1]] = rank_of_row[::-1]
        return Holders(holds, homes)


class PairExchange:
    """Brings the vectors of an epoch's pairs to the ranks that score them, and the gradients back.

    All ranks draw the same pairs and so know, without a word, who needs what: only vectors travel.
    """

    def __init__(self, ranks: Ranks, holders: Holders) -> None:
        self.ranks, self.holders = ranks, holders

    def bring(
        self, parts: Tensor, edges: PairPattern, non_edges: PairPattern
    ) -> tuple[Tensor, PairPattern, PairPattern]:
        """(vectors, edges, non-edges) of the pairs that this rank scores, which count the rows of the vectors.

        parts: (num_nodes, dim) this rank's part of every mean, zero where it has none. Differentiable.
        """
        homes, me = self.holders.homes, self.ranks.rank
        needed = np.zeros_like(self.holders.holds)
        lists = [[part.cpu().numpy() for part in pattern.listed[:2]] for pattern in (edges, non_edges)]
        for rows, columns in lists:
            _mark(needed, rows, columns, homes)
        outgoing = [np.flatnonzero(needed[rank] & self.holders.holds[me]) for rank in range(self.ranks.size)]
        incoming = [np.flatnonzero(needed[me] & self.holders.holds[rank]) for rank in range(self.ranks.size)]
        numbers = np.cumsum(needed[me], dtype=np.int64) - 1
        plan = _Plan(self.ranks, outgoing, [numbers[nodes] for nodes in incoming], int(needed[me].sum()))
        vectors = _Bring.apply(parts, plan)
        own = [
            _own_pairs(pattern, rows, columns, (homes, me, numbers), len(vectors))
            for pattern, (rows, columns) in zip((edges, non_edges), lists, strict=True)
        ]
        return vectors, own[0], own[1]


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
def _mark(needed: np.ndarray, rows: np.ndarray, columns: np.ndarray, homes: np.ndarray) -> None:
    """Note for every rank which nodes its pairs have."""
    for pair in range(len(rows)):
        rank = homes[rows[pair]]
        needed[rank, rows[pair]] = True
        needed[rank, columns[pair]] = True


@njit(cache=True)
def _add_rows(total: np.ndarray, places: np.ndarray, rows: np.ndarray) -> None:
    for row in range(len(places)):
        for column in range(rows.shape[1]):
            total[places[row], column] += rows[row, column]


def _own_pairs(
    pattern: PairPattern,
    rows: np.ndarray,
    columns: np.ndarray,
    scored: tuple[np.ndarray, int, np.ndarray],
    num_rows: int,
) -> PairPattern:
    """The pairs of a pattern that are scored here. rows, columns: its list of all pairs.

    scored: (homes, rank, numbers); nodes are counted by `numbers`, which keeps their order.
    """
    weights, device = pattern.listed[2], pattern.indices.device
    own = _choose(rows, columns, *scored, num_rows)
    indptr, new_rows, new_columns = (torch.from_numpy(part).to(device) for part in own)
    if weights.dim() == 1:
        homes, rank, _ = scored
        weights = weights[torch.from_numpy(homes[rows] == rank).to(device)]
    return PairPattern(indptr, new_columns, weights, rows=new_rows)


@njit(cache=True)
def _choose(
    rows: np.ndarray, columns: np.ndarray, homes: np.ndarray, rank: int, numbers: np.ndarray, num_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, rows, columns) of the pairs whose first node is at home here."""
    count = 0
    for pair in range(len(rows)):
        count += homes[rows[pair]] == rank
    own_rows, own_columns = np.empty(count, np.int32), np.empty(count, np.int32)
    indptr, place = np.zeros(num_rows + 1, np.int32), 0
    for pair in range(len(rows)):
        if homes[rows[pair]] == rank:
            own_rows[place], own_columns[place] = numbers[rows[pair]], numbers[columns[pair]]
            indptr[own_rows[place] + 1] += 1
            place += 1
    return np.cumsum(indptr).astype(np.int32), own_rows, own_columns


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
