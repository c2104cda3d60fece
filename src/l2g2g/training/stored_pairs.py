"""Stored pairs: the edges and non-edges of an epoch among all nodes of a graph on disk, drawn while it is read."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.models.masking import deal_groups
from l2g2g.models.pair_patterns import PairPattern, weigh_pairs
from l2g2g.models.randomness import Purpose, stream_key
from l2g2g.models.row_draws import draw_row_edges, draw_row_negatives
from l2g2g.models.sampling import second_keys, share_out, shifts
from l2g2g.training.stored_rows import StoredRows


class StoredPairs:
    """Draws what a `PairSource` of the whole graph draws, in one pass over the rows of the graph.

    Memory: the pairs of an epoch, a few numbers for each node, and one block of rows.

    Args:
        rows: The training edges.
        held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives; none of them is a training edge.
        negatives_per_edge: Non-edges drawn for every edge.
        weighted: Whether an edge counts by its weight.
        device: Where the patterns are wanted.
    """

    def __init__(
        self,
        rows: StoredRows,
        held_out: sp.csr_array,
        *,
        negatives_per_edge: float = 1.0,
        weighted: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.held_out, self.negatives_per_edge = rows, held_out, negatives_per_edge
        self.weighted, self.device = weighted, torch.device(device)
        self._fixed: dict[int, PairPattern] = {}

    def draw(
        self, fraction: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0
    ) -> tuple[PairPattern, PairPattern]:
        """As in `PairSource`: the edges that are hidden in this epoch and its non-edges."""
        if not fresh and seed in self._fixed:
            return self._pass(fraction, seed, epoch, num_groups, None)[0], self._fixed[seed]
        edges, negatives = self._pass(fraction, seed, epoch, num_groups, epoch if fresh else 0)
        assert negatives is not None
        if not fresh:
            self._fixed[seed] = negatives
        return edges, negatives

    @cached_property
    def _shares(self) -> tuple[np.ndarray, int]:
        """(num_nodes,) the negatives that all nodes up to this one deserve together, and how many there are."""
        num_nodes, degrees = self.rows.num_nodes, self.rows.degrees
        allowed = num_nodes - 1 - degrees - np.diff(self.held_out.indptr)
        wanted = np.ceil(self.negatives_per_edge * (degrees.sum() // 2)).astype(np.int64)
        shares, pair_offsets = share_out(allowed, np.array([0, num_nodes]), np.array([wanted]))
        return shares, int(pair_offsets[-1])

    def _pass(
        self, fraction: float, seed: int, epoch: int, num_groups: int, negatives_of: int | None
    ) -> tuple[PairPattern, PairPattern | None]:
        """Read the graph once. negatives_of: the epoch whose negatives are drawn; None for none."""
        num_nodes = self.rows.num_nodes
        mask_key = stream_key(seed, Purpose.MASK, epoch)
        groups = None
        if num_groups:
            groups = deal_groups(torch.arange(num_nodes), num_groups, seed=seed, epoch=epoch).numpy()
        key = np.array([stream_key(seed, Purpose.NEGATIVES, negatives_of or 0)], np.uint64)
        keys, shift = (int(key[0]), int(second_keys(key)[0])), shifts(key)[0]
        held = self.held_out.indptr, self.held_out.indices
        edges, values, negatives, start = [], [], [], 0
        for block in self.rows.blocks():
            rows, columns, entries = draw_row_edges(block.indptr, block.indices, block.low, mask_key, fraction, groups)
            edges.append((rows, columns))
            if self.weighted and block.weights is not None:
                values.append(block.weights[entries])
            if negatives_of is not None:
                shares, count = self._shares
                ends = np.minimum(np.floor(shares[block.low : block.high] + shift).astype(np.int64), count)
                starts = np.concatenate([[start], ends])
                start = int(ends[-1]) if len(ends) else start
                drawn = draw_row_negatives(block.indptr, block.indices, block.low, held, starts, num_nodes, keys)
                negatives.append(drawn)
        weights = torch.tensor(1.0 / max(1, sum(len(rows) for rows, _ in edges)), dtype=torch.float32)
        if values:
            found = torch.from_numpy(np.concatenate(values))
            weights = weigh_pairs(found, np.array([0, len(found)]), np.ones(1))
        pattern = self._pattern(edges, weights)
        if negatives_of is None:
            return pattern, None
        return pattern, self._pattern(negatives, torch.tensor(1.0 / max(1, self._shares[1]), dtype=torch.float32))

    def _pattern(self, parts: list[tuple[np.ndarray, np.ndarray]], weights: Tensor) -> PairPattern:
        rows, columns = (torch.from_numpy(np.concatenate(side)) for side in zip(*parts, strict=True))
        indptr = torch.zeros(self.rows.num_nodes + 1, dtype=torch.int32)
        torch.cumsum(torch.bincount(rows, minlength=self.rows.num_nodes), 0, out=indptr[1:])
        indptr, rows, columns, weights = (part.to(self.device) for part in (indptr, rows, columns, weights))
        return PairPattern(indptr, columns, weights, rows=rows)
