"""Stored pairs: the edges and non-edges of an epoch among all nodes of a graph on disk, drawn while it is read."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core import kernels
from l2g2g.models.masking import draw_groups, hidden_pairs
from l2g2g.models.pairs import PairList
from l2g2g.models.sampling import DrawPlan
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
        device: torch.device | str = "cpu",
        is_owned: np.ndarray | None = None,
    ) -> None:
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
    def _plan(self) -> DrawPlan:
        """How many negatives each node draws."""
        num_nodes, degrees = self.rows.num_nodes, self.rows.degrees
        num_excluded = int(degrees.sum()) + self.held_out.nnz  # no held-out pair is a training edge
        wanted = np.ceil(self.negatives_per_edge * (degrees.sum() // 2)).astype(np.int64)
        return DrawPlan.make(
            np.arange(num_nodes),
            np.array([0, num_nodes]),
            np.array([0]),
            np.array([wanted]),
            np.array([num_nodes * (num_nodes - 1) - num_excluded]),
            np.ones(1),
        )

    def _pass(
        self, scored: float, seed: int, epoch: int, num_groups: int, negatives_of: int | None
    ) -> tuple[PairList, PairList | None]:
        """Read the graph once. negatives_of: the epoch whose negatives are drawn; None for none."""
        nodes = np.arange(self.rows.num_nodes, dtype=np.int32)
        groups = draw_groups(nodes, num_groups, seed=seed, epoch=epoch) if num_groups else None
        edges, values, negatives = [], [], []
        for block in self.rows.blocks():
            rows = block.low + np.repeat(np.arange(len(block.indptr) - 1), np.diff(block.indptr))
            upper = np.flatnonzero(block.indices > rows)
            rows, columns = rows[upper].astype(np.int32), block.indices[upper]
            chosen = hidden_pairs(rows, columns, nodes, scored, seed=seed, epoch=epoch, groups=groups)
            edges.append((rows[chosen], columns[chosen]))
            if self.weighted and block.weights is not None:
                values.append(block.weights[upper[chosen]])
            if negatives_of is not None:
                negatives.append(self._draw_negatives(block, seed, negatives_of))
        rows, columns = (np.concatenate(side) for side in zip(*edges, strict=True))
        weights = np.concatenate(values) if values else np.ones(len(rows), np.float32)
        pairs = PairList(rows, columns, weigh_pairs(weights, np.zeros(len(rows), np.int64), np.ones(1)), "pair")
        if negatives_of is None:
            return pairs, None
        drawn = [np.concatenate(side).astype(np.int32) for side in zip(*negatives, strict=True)]
        return pairs, PairList(drawn[0], drawn[1], self._plan.weights)

    def _draw_negatives(self, block: RowBlock, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of the negatives of the rows of a block."""
        rows, columns = self._plan.draw_rows(np.arange(block.low, block.high), seed=seed, epoch=epoch)
        indices = np.ascontiguousarray(block.indices, dtype=np.int32)
        is_edge = kernels().find_entries(block.indptr.astype(np.int64), indices, rows - block.low, columns) >= 0
        held = self.held_out.indptr.astype(np.int64), self.held_out.indices.astype(np.int32, copy=False)
        is_held = kernels().find_entries(*held, rows, columns) >= 0
        allowed = ~(is_edge | is_held | (rows == columns))
        return rows[allowed], columns[allowed]
