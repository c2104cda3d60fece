"""Stored pairs: the edges and non-edges of an epoch among all nodes of a graph on disk, drawn while it is read."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core import kernels
from l2g2g.models.masking import draw_groups, hidden_pairs
from l2g2g.models.pairs import PairList
from l2g2g.models.sampling import DrawPlan, NegativePlan, TargetUnits
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.pair_source import OwnedPairs, weigh_pairs
from l2g2g.training.stored_rows import RowBlock, StoredRows


class StoredPairs:
    """Draws what a `PairSource` of the whole graph draws, in one pass over the rows of the graph.

    Memory: the pairs of an epoch, a few numbers for each node, and one block of rows.

    Args:
        rows: The training edges.
        held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives; none of them is a training edge.
        negatives_per_edge: Non-edges drawn for every edge.
        weighted: Whether an edge counts by its weight.
        by_degree: Whether the far end of a non-edge is drawn by degree^0.75 instead of uniformly.
        units: (num_nodes,) what masks assign to groups; None for single nodes.
        patch_set: Patches, where only edges that lie in none of them are predicted; None for all edges.
        device: Where the patterns are wanted.
        is_owned: As in `PairSource`.
    """

    def __init__(
        self,
        rows: StoredRows,
        held_out: sp.csr_array,
        *,
        negatives_per_edge: float = 1.0,
        weighted: bool = False,
        by_degree: bool = False,
        units: np.ndarray | None = None,
        patch_set: PatchSet | None = None,
        device: torch.device | str = "cpu",
        is_owned: np.ndarray | None = None,
    ) -> None:
        self.by_degree, self.units, self.patch_set = by_degree, units, patch_set
        self.is_owned = is_owned
        self.rows, self.held_out, self.negatives_per_edge = rows, held_out, negatives_per_edge
        self.weighted, self.device = weighted, torch.device(device)
        self._fixed: dict[int, PairList] = {}

    def draw(
        self, hidden: float, scored: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0
    ) -> tuple[PairList, PairList]:
        """As in `PairSource`: the edges that are scored in this epoch and its non-edges."""
        del hidden  # what is scored is a part of it
        if not fresh and seed in self._fixed:
            return self._pass(scored, seed, epoch, num_groups, None)[0], self._fixed[seed]
        edges, negatives = self._pass(scored, seed, epoch, num_groups, epoch if fresh else 0)
        assert negatives is not None
        if not fresh:
            self._fixed[seed] = negatives
        return edges, negatives

    def draw_owned(
        self, hidden: float, scored: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0
    ) -> OwnedPairs:
        """As in `PairSource`."""
        assert self.is_owned is not None
        drawn = self.draw(hidden, scored, fresh=fresh, seed=seed, epoch=epoch, num_groups=num_groups)
        edges, non_edges = (pairs.select(self.is_owned[pairs.rows]) for pairs in drawn)
        return OwnedPairs(edges, non_edges)

    @cached_property
    def _negatives(self) -> NegativePlan:
        """How many negatives each node draws, and of which nodes; excluded pairs are left out block by block."""
        num_nodes, degrees = self.rows.num_nodes, self._scored_degrees
        offsets, first = np.array([0, num_nodes]), np.array([0])
        counts = np.array([np.ceil(self.negatives_per_edge * (int(degrees.sum()) // 2))]).astype(np.int64)
        make = partial(DrawPlan.make, np.arange(num_nodes), offsets, first, counts, shares=np.ones(1))
        nothing = np.zeros(num_nodes + 1, np.int64), np.empty(0, np.int32)
        if not self.by_degree:
            num_excluded = int(self.rows.degrees.sum()) + self.held_out.nnz  # no held-out pair is a training edge
            return NegativePlan(make(num_allowed=np.array([num_nodes * (num_nodes - 1) - num_excluded])), nothing)
        units = TargetUnits.by_degree(degrees, offsets)
        taken = int(units.each[self.held_out.indices].sum())
        taken += sum(int(units.each[block.indices].sum()) for block in self.rows.blocks())
        allowed = units.count_allowed(offsets, np.array([taken]), make(num_allowed=np.zeros(1)))
        return NegativePlan(make(num_allowed=allowed), nothing, units)

    @cached_property
    def _scored_degrees(self) -> np.ndarray:
        """(num_nodes,) edges of every node that are to be predicted."""
        if self.patch_set is None:
            return self.rows.degrees
        degrees = np.zeros(self.rows.num_nodes, np.int64)
        for block in self.rows.blocks():
            for ends in self._edges(block)[:2]:
                degrees += np.bincount(ends, minlength=len(degrees))
        return degrees

    @property
    def num_scored(self) -> int:
        """Edges that are to be predicted, over all epochs."""
        return int(self._scored_degrees.sum()) // 2

    def _edges(self, block: RowBlock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows, columns, entries of the block) of the edges u < v of a block that are to be predicted."""
        rows = block.low + np.repeat(np.arange(len(block.indptr) - 1), np.diff(block.indptr))
        upper = np.flatnonzero(block.indices > rows)
        rows, columns = rows[upper].astype(np.int32), block.indices[upper]
        if self.patch_set is not None:
            between = ~self.patch_set.share_patch(rows, columns)
            rows, columns, upper = rows[between], columns[between], upper[between]
        return rows, columns, upper

    def _pass(
        self, scored: float, seed: int, epoch: int, num_groups: int, negatives_of: int | None
    ) -> tuple[PairList, PairList | None]:
        """Read the graph once. negatives_of: the epoch whose negatives are drawn; None for none."""
        nodes = np.arange(self.rows.num_nodes, dtype=np.int32)
        units = nodes if self.units is None else self.units
        groups = draw_groups(units, num_groups, seed=seed, epoch=epoch) if num_groups else None
        edges, values, negatives = [], [], []
        for block in self.rows.blocks():
            rows, columns, entries = self._edges(block)
            chosen = hidden_pairs(rows, columns, nodes, scored, seed=seed, epoch=epoch, groups=groups)
            edges.append((rows[chosen], columns[chosen]))
            if self.weighted and block.weights is not None:
                values.append(block.weights[entries[chosen]])
            if negatives_of is not None:
                negatives.append(self._draw_negatives(block, seed, negatives_of))
        rows, columns = (np.concatenate(side) for side in zip(*edges, strict=True))
        weights = np.concatenate(values) if values else np.ones(len(rows), np.float32)
        pairs = PairList(rows, columns, weigh_pairs(weights, np.zeros(len(rows), np.int64), np.ones(1)), "pair")
        if negatives_of is None:
            return pairs, None
        drawn = [np.concatenate(side).astype(np.int32) for side in zip(*negatives, strict=True)]
        return pairs, PairList(drawn[0], drawn[1], self._negatives.draws.weights)

    def _draw_negatives(self, block: RowBlock, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of the negatives of the rows of a block."""
        if self.by_degree:
            wanted = np.zeros(self.rows.num_nodes, bool)
            wanted[block.low : block.high] = True
            listed = self._negatives.list_pairs(seed=seed, epoch=epoch, wanted=wanted)
            rows, columns = listed.rows.astype(np.int64), listed.columns.astype(np.int64)
        else:
            own = np.arange(block.low, block.high)
            rows, columns = self._negatives.draws.draw_rows(own, seed=seed, epoch=epoch)
        indices = np.ascontiguousarray(block.indices, dtype=np.int32)
        is_edge = kernels().find_entries(block.indptr.astype(np.int64), indices, rows - block.low, columns) >= 0
        held = self.held_out.indptr.astype(np.int64), self.held_out.indices.astype(np.int32, copy=False)
        is_held = kernels().find_entries(*held, rows, columns) >= 0
        allowed = ~(is_edge | is_held | (rows == columns))
        return rows[allowed], columns[allowed]
