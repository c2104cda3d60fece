"""Masking: edges hidden from the encoder for an epoch, which it learns to predict.

Edges between groups of nodes are hidden, each with the same probability. To hide random edges every node is a group of
its own; to redraw patches, nodes or whole clusters are assigned to a few groups and all edges between these are hidden.
The mask of an edge depends only on (seed, epoch) and its two nodes: all patches, batches and ranks hide it alike, in
both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core import hash_nodes, hash_pairs, native
from l2g2g.core.randomness import Purpose, share_threshold, stream_key
from l2g2g.models.pairs import Arcs, row_entries
from l2g2g.models.sparse import SparseMatrix


def draw_groups(nodes: np.ndarray, num_groups: int, *, seed: int, epoch: int) -> np.ndarray:
    """Draw the (num_rows,) int32 group of every node for an epoch; all rows of a node get the same group."""
    words = hash_nodes(nodes.astype(np.int32), stream_key(seed, Purpose.MASK_GROUPS, epoch))
    return ((words.astype(np.uint64) * np.uint64(num_groups)) >> np.uint64(32)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class MaskDraw:
    """The mask of one epoch.

    Attributes:
        key: Key of the stream of random numbers.
        hidden, scored: An edge is hidden, or scored, if its hash is below this number; scored ≤ hidden.
        nodes: (num_columns,) int32 node numbers of the columns.
        groups: (num_columns,) int32, only edges between groups are hidden; None for one group per node.
    """

    key: int
    hidden: int
    scored: int
    nodes: np.ndarray
    groups: np.ndarray | None = None

    @classmethod
    def of_epoch(
        cls, hidden: float, scored: float, nodes: np.ndarray, groups: np.ndarray | None, *, seed: int, epoch: int
    ) -> MaskDraw:
        """Make the mask of an epoch. hidden, scored: Fractions of the edges between groups."""
        key = stream_key(seed, Purpose.MASK, epoch)
        return cls(key, share_threshold(hidden), share_threshold(scored), nodes, groups)

    @cached_property
    def hashes(self) -> np.ndarray:
        """(num_columns,) uint32 hashes of the nodes."""
        return hash_nodes(self.nodes, self.key)


@dataclass(frozen=True)
class EpochDraws:
    """What an epoch draws at random: the same in every patch, in memory, on disk and on every rank.

    Attributes:
        seed, epoch: Key of all draws.
        hidden: Fraction of the edges between groups that is hidden from the encoder; 0: none.
        scored: Fraction of these edges that is scored; all of them are hidden, unless nothing is.
        num_groups: Number of groups that nodes are dealt to; 0: every node is a group of its own.
        fresh: Draw new non-edges every epoch, or keep those of the seed.
        feature_dropout: Fraction of the feature entries that is dropped.
    """

    seed: int
    epoch: int
    hidden: float = 0.0
    scored: float = 1.0
    num_groups: int = 0
    fresh: bool = True
    feature_dropout: float = 0.0

    @property
    def scores_all(self) -> bool:
        """Whether every edge is scored."""
        return self.scored == 1.0 and not self.num_groups

    @property
    def negatives_epoch(self) -> int:
        """The epoch whose non-edges are scored."""
        return self.epoch if self.fresh else 0

    def groups_of(self, nodes: np.ndarray) -> np.ndarray | None:
        """Return the (num_rows,) int32 group of each node; None if every node is a group of its own."""
        return draw_groups(nodes, self.num_groups, seed=self.seed, epoch=self.epoch) if self.num_groups else None

    def split(self, mask: EdgeMask) -> tuple[SparseMatrix, Arcs]:
        """Return Â of the visible edges, and the scored edges; see `EdgeMask.split`."""
        groups = self.groups_of(mask.nodes)
        return mask.split(self.hidden or self.scored, self.scored, seed=self.seed, epoch=self.epoch, groups=groups)


SplitMemory = tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray, np.ndarray]


def split_entries(
    adjacency: SparseMatrix, indptr: np.ndarray, draw: MaskDraw, memory: SplitMemory, first_row: int = 0
) -> SplitMemory:
    """Sort the entries of every row: visible ones first, scored ones last.

    adjacency: (num_rows, num_columns) all edges of some rows. indptr: (num_rows + 1,) its rows, without gaps.
    memory: Arrays for the result of the native kernel. first_row: Column of the node of the first row.

    Returns:
        Columns, values or None, ends of the visible and starts of the scored entries of every row, and
        (num_rows,) 1 / sqrt(1 + weight of the visible entries).
    """
    if native() is not None:
        bounds = draw.key, draw.hidden, draw.scored
        native().split_masked(adjacency.csr, indptr, draw.hashes, draw.groups, *bounds, *memory, first_row)
        return memory
    starts, ends = indptr[:-1], indptr[1:]
    rows, _ = row_entries(starts, ends)
    own = rows + first_row
    words = hash_pairs(draw.nodes[own], draw.nodes[adjacency.indices], draw.key)
    between = np.ones(len(rows), bool)
    if draw.groups is not None:
        between = draw.groups[own] != draw.groups[adjacency.indices]
    # 0 visible, 1 hidden, 2 hidden and scored.
    place = np.where(between & (words < draw.scored), 2, np.where(between & (words < draw.hidden), 1, 0))
    order = np.lexsort((place, rows))
    visible = np.bincount(rows[place == 0], minlength=len(starts))
    weights = np.ones(len(rows), np.float32) if adjacency.values is None else adjacency.values
    degrees = np.bincount(rows, weights=weights * (place == 0), minlength=len(starts))
    return (
        adjacency.indices[order],
        None if adjacency.values is None else adjacency.values[order],
        starts + visible,
        ends - np.bincount(rows[place == 2], minlength=len(starts)),
        (1.0 / np.sqrt(1.0 + degrees)).astype(np.float32),
    )


def split_memory(adjacency: SparseMatrix) -> SplitMemory:
    """Allocate memory for `split_entries`."""
    num_rows = len(adjacency.starts)
    return (
        np.zeros_like(adjacency.indices),
        None if adjacency.values is None else np.zeros_like(adjacency.values),
        np.empty(num_rows, np.int64),
        np.empty(num_rows, np.int64),
        np.empty(num_rows, np.float32),
    )


def split_rows(adjacency: SparseMatrix, indptr: np.ndarray, draw: MaskDraw, first_row: int) -> SparseMatrix:
    """Return the visible entries of some rows; arguments as in `split_entries`."""
    indices, values, visible_ends, _, _ = split_entries(adjacency, indptr, draw, split_memory(adjacency), first_row)
    return replace(adjacency, ends=visible_ends, indices=indices, values=values, is_checked=True)


class EdgeMask:
    """Hides edges of some stacked patches. Each epoch reuses the memory of the last one.

    Args:
        adjacency: (num_rows, num_rows) block-diagonal, symmetric, without diagonal.
        nodes: (num_rows,) node numbers of the rows.
        weighted: Use the values of the adjacency; otherwise all are 1.
        device: Where products are computed.
    """

    def __init__(
        self, adjacency: sp.csr_array, nodes: np.ndarray, *, weighted: bool, device: torch.device | str = "cpu"
    ) -> None:
        self.indptr = adjacency.indptr.astype(np.int64)
        self.indices = np.ascontiguousarray(adjacency.indices, dtype=np.int32)
        self.values = np.ascontiguousarray(adjacency.data, dtype=np.float32) if weighted else None
        self.nodes, self.device = nodes.astype(np.int32), torch.device(device)
        self._adjacency = SparseMatrix(self.indptr[:-1], self.indptr[1:], self.indices, self.values, len(self.nodes))
        self._last: tuple[tuple[Any, ...], tuple[SparseMatrix, Arcs]] | None = None

    def split(
        self,
        hidden: float,
        scored: float,
        *,
        seed: int,
        epoch: int,
        groups: np.ndarray | None = None,
    ) -> tuple[SparseMatrix, Arcs]:
        """Return Â of the visible edges of an epoch, and its scored edges with their weights.

        hidden: Fraction of the edges between groups to hide. scored: Fraction to score; these are hidden too.
        groups: (num_rows,) int32; None for one group per node.
        """
        draw = MaskDraw.of_epoch(hidden, scored, self.nodes, groups, seed=seed, epoch=epoch)
        asked = (draw.key, draw.hidden, draw.scored, None if groups is None else groups.tobytes())
        if self._last is not None and self._last[0] == asked:  # the encoder and the loss use the same
            return self._last[1]
        indices, values, visible_ends, scored_starts, scale = split_entries(
            self._adjacency, self.indptr, draw, self._memory
        )
        starts, ends = self.indptr[:-1], self.indptr[1:]
        visible = SparseMatrix(
            starts,
            visible_ends,
            indices,
            values,
            len(starts),
            scale,
            scale,
            loops=True,
            symmetric_pattern=True,
            device=self.device,
            is_checked=True,
        )
        weights, kind = (np.ones(1, np.float32), "all") if values is None else (values, "pair")
        arcs = Arcs(scored_starts, ends, indices, weights, kind, is_checked=True)  # type: ignore[arg-type]
        self._last = asked, (visible, arcs)
        return visible, arcs

    @cached_property
    def _memory(self) -> SplitMemory:
        return split_memory(self._adjacency)


def hidden_pairs(
    rows: np.ndarray,
    columns: np.ndarray,
    nodes: np.ndarray,
    fraction: float,
    *,
    seed: int,
    epoch: int,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Return (num_pairs,) True for hidden pairs of a list. A smaller fraction hides a subset.

    rows, columns: (num_pairs,). nodes: (num_rows,) int32. groups: As in `EdgeMask.split`.
    """
    words = hash_pairs(nodes[rows], nodes[columns], stream_key(seed, Purpose.MASK, epoch))
    chosen = words < share_threshold(fraction)
    return chosen if groups is None else chosen & (groups[rows] != groups[columns])
