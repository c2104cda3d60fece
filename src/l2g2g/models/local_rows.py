"""Local rows: the adjacency rows that one rank owns, read block by block, and products with Â made of them.

A rank owns a range of nodes. It multiplies their rows with tables that hold the rows of owned nodes and of ghost nodes,
the neighbours that other ranks own. One process owns all nodes and has no ghost nodes; a graph in memory is one block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.core import blank_table
from l2g2g.graphs.graph import RowBlock
from l2g2g.models.masking import MaskDraw, split_rows
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.sparse import SparseMatrix, invert_degrees, multiply_table, runs_native, scale_rows, sum_weights
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.parallel.node_index import NodeIndex, distinct_nodes
from l2g2g.parallel.node_table import NodeTable, RangeOwners

_ARCS_PER_ROW = 4  # work of a row in arcs: its features times weights, and the products of its pairs
_MOST_COPIED = 1 << 29  # bytes of a table that are copied at a time; every part reads all edges once more
_LEAST_COLUMNS = 16  # a cache line


class Rows(Protocol):
    """Consecutive rows of an adjacency matrix."""

    @property
    def indptr(self) -> np.ndarray:
        """(num_rows + 1,) int64."""

    @property
    def indices(self) -> np.ndarray:
        """(num_entries,) int32 nodes, ascending in each row."""

    @property
    def weights(self) -> np.ndarray | None:
        """(num_entries,) float32; None where all are 1."""


class OwnedRows(Protocol):
    """The rows of a range of nodes, in memory or on disk."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph, which are the columns."""

    def blocks(self) -> Iterator[Rows]:
        """Yield all rows in order."""


def balance_rows(row_start: Callable[[int], int], num_nodes: int, num_ranks: int) -> np.ndarray:
    """Cut the nodes into ranges of equal work: (num_ranks + 1,) bounds. row_start: returns the entries before a row."""

    def work_before(row: int) -> int:
        return row_start(row) + _ARCS_PER_ROW * row

    total, rows = work_before(num_nodes), range(num_nodes + 1)
    inner = [bisect_left(rows, total * rank / num_ranks, key=work_before) for rank in range(1, num_ranks)]
    return np.array([0, *inner, num_nodes])


class LocalRows:
    """The rows of the nodes of this rank. Columns are places in a table of owned and ghost nodes.

    Args:
        rows: Rows of the nodes of this rank, with node numbers as columns.
        communicator: Connects the ranks that share the graph.
        bounds: (num_ranks + 1,) ranges of nodes that ranks own; None for one process.
        keep_bytes: Memory for renumbered blocks. One process renumbers nothing, so that `rows` decides what to keep.

    Attributes:
        low, high: Range of the owned nodes.
        owners: Rank of every node.
        nodes: (num_local,) int32 ascending, owned and ghost nodes.
        first: Place of the first owned node in `nodes`.
    """

    def __init__(
        self,
        rows: OwnedRows,
        communicator: Communicator = LOCAL,
        bounds: np.ndarray | None = None,
        *,
        keep_bytes: int = 0,
    ) -> None:
        self.rows, self.communicator = rows, communicator
        num_nodes = rows.num_nodes
        bounds = np.array([0, num_nodes]) if bounds is None else bounds
        self.low, self.high = (int(bound) for bound in bounds[communicator.rank : communicator.rank + 2])
        self.owners = RangeOwners(bounds)
        self._bytes_left, self._kept = keep_bytes, dict[int, RowBlock]()
        self._index: NodeIndex | None = None
        self._table: NodeTable | None = None
        if communicator.size == 1:
            self.nodes, self.first = np.arange(num_nodes, dtype=np.int32), 0
            return
        own = np.arange(self.low, self.high, dtype=np.int32)
        self.nodes = distinct_nodes(chain([own], (block.indices for block in rows.blocks())))
        self.first = int(np.searchsorted(self.nodes, self.low))
        self._index = NodeIndex(self.nodes)
        self._table = NodeTable(communicator, self.owners, self.nodes.astype(np.int64))

    @property
    def num_owned(self) -> int:
        """Number of rows of this rank."""
        return self.high - self.low

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all ranks."""
        return self.rows.num_nodes

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the rows of this rank in order, numbered from its first one, with places as columns."""
        if sum(block.high - block.low for block in self._kept.values()) == self.num_owned:
            yield from self._kept.values()
            return
        low = 0
        for block in self.rows.blocks():
            local = self._kept.get(low)
            if local is None:
                columns = block.indices if self._index is None else self._index.places(block.indices)
                indptr = block.indptr.astype(np.int64, copy=False)
                local = RowBlock(low, low + len(indptr) - 1, indptr, columns, 0, block.weights)
                # Blocks are read in a cycle, so the first ones are kept: the last used one is needed last.
                if self._index is not None and local.num_bytes <= self._bytes_left:
                    self._kept[low] = local
                    self._bytes_left -= local.num_bytes
            low = local.high
            yield local

    def shares(self, _patches: np.ndarray | None = None) -> np.ndarray:
        """Return (num_owned,) ones: every row is the only one of its node."""
        return np.ones(self.num_owned, np.float32)

    def forget(self) -> None:
        """Release the kept blocks and keep none from now on."""
        self._kept, self._bytes_left = {}, 0

    def with_ghosts(self, table: Tensor) -> Tensor:
        """Return (num_local, width) rows of owned and ghost nodes. table: (num_owned, width) rows of the owned ones."""
        if self._table is None:
            return table
        ghosts = self._table.fetch_ghosts("layer rows", table)  # in the order of nodes, as ranks own ranges
        return torch.cat([ghosts[: self.first], table, ghosts[self.first :]])


class VisibleRows:
    """The edges of this rank's rows that an encoder sees.

    Args:
        rows: All edges.
        mask: Decides which edges are hidden; None for none.
        keep_bytes: Memory for blocks of visible edges.
        device: Where products are computed.
    """

    def __init__(
        self,
        rows: LocalRows,
        mask: MaskDraw | None = None,
        *,
        keep_bytes: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.mask, self.device = rows, mask, torch.device(device)
        self._bytes_left, self._kept = keep_bytes, dict[int, SparseMatrix]()

    def blocks(self) -> Iterator[tuple[int, SparseMatrix]]:
        """Yield (first row, (num_rows, num_local) pattern with weights) of all blocks in order."""
        if self.mask is not None and sum(len(each.starts) for each in self._kept.values()) == self.rows.num_owned:
            yield from self._kept.items()
            return
        for block in self.rows.blocks():
            matrix = self._kept.get(block.low)
            if matrix is None:
                indices = np.ascontiguousarray(block.indices, dtype=np.int32)
                ends = block.indptr[:-1], block.indptr[1:]
                matrix = SparseMatrix(
                    *ends, indices, block.weights, len(self.rows.nodes), device=self.device, is_checked=True
                )
                if self.mask is not None:
                    matrix = split_rows(matrix, block.indptr, self.mask, self.rows.first + block.low)
                    matrix = self._keep(block.low, matrix)
            yield block.low, matrix

    def _keep(self, low: int, matrix: SparseMatrix) -> SparseMatrix:
        if self._bytes_left > 0:
            matrix = matrix.compact()
            if matrix.num_bytes <= self._bytes_left:
                self._kept[low] = matrix
            self._bytes_left = max(0, self._bytes_left - matrix.num_bytes)
        return matrix

    @cached_property
    def degrees(self) -> np.ndarray:
        """(num_owned,) float64 sum of the weights of the visible edges of every node."""
        found = [sum_weights(each.starts, each.ends, each.values) for _, each in self.blocks()]
        return np.concatenate([np.empty(0), *found])


@dataclass(frozen=True, eq=False)
class RowPropagation:
    """row_scale · (A + identity where `loops`) · column_scale of the rows of this rank; see `ConstantMatrix`.

    A is symmetric. Thus the rows of the transpose are those of the matrix with the two scales exchanged, and both
    products are one pass over the rows of this rank.

    Attributes:
        edges: A.
        row_scale, column_scale: (num_owned,) float32; None for 1.
        loops: Add the identity.
    """

    edges: VisibleRows
    row_scale: np.ndarray | None
    column_scale: np.ndarray | None
    loops: bool
    in_one_block: ClassVar[bool] = False

    @classmethod
    def symmetric(cls, edges: VisibleRows) -> RowPropagation:
        """Make Â = D^(-1/2) (A + I) D^(-1/2)."""
        scale = (1.0 / np.sqrt(1.0 + edges.degrees)).astype(np.float32)
        return cls(edges, scale, scale, loops=True)

    @cached_property
    def mean(self) -> RowPropagation:
        """D^(-1) A of the same edges."""
        return RowPropagation(self.edges, invert_degrees(self.edges.degrees), None, loops=False)

    def product(self, dense: Tensor, added: Tensor | None = None) -> Tensor:
        """Multiply with the table whose rows of owned nodes are dense: (num_owned, width) -> (num_owned, width)."""
        result = self._multiply(dense, self.row_scale, self.column_scale)
        return result if added is None else result.add_(added)

    def transposed_product(self, dense: Tensor) -> Tensor:
        """Multiply the transpose: (num_owned, width) -> (num_owned, width)."""
        return self._multiply(dense, self.column_scale, self.row_scale)

    def _multiply(self, dense: Tensor, row_scale: np.ndarray | None, column_scale: np.ndarray | None) -> Tensor:
        dense = dense.detach()
        out = torch.from_numpy(blank_table(*dense.shape)) if runs_native(dense) else torch.empty_like(dense)
        width = columns_at_once(self.edges.rows.num_nodes)  # the same on all ranks, which exchange every part
        for part, written in zip(dense.split(width, dim=1), out.split(width, dim=1), strict=True):
            self._multiply_columns(part, row_scale, column_scale, written)
        return out

    def _multiply_columns(
        self, dense: Tensor, row_scale: np.ndarray | None, column_scale: np.ndarray | None, out: Tensor
    ) -> None:
        """Multiply some columns and write the result to out, a view of the same columns."""
        rows, is_native = self.edges.rows, runs_native(dense)
        if column_scale is None:
            dense = dense.contiguous()
        elif is_native and dense.is_contiguous():
            dense = torch.from_numpy(scale_rows(dense.numpy(), column_scale))
        else:
            dense = (dense * torch.from_numpy(column_scale[:, None]).to(dense)).contiguous()
        table = rows.with_ghosts(dense)
        del dense
        for low, matrix in self.edges.blocks():
            here = slice(low, low + len(matrix.starts))
            own = table[rows.first + here.start : rows.first + here.stop] if self.loops else None
            scale = None if row_scale is None else row_scale[here]
            if is_native:
                loops = None if own is None else own.numpy()
                place = out[here].numpy() if out.is_contiguous() else None
                product = multiply_table(matrix, table.numpy(), loops, row_scale=scale, out=place)
                if place is None:
                    out[here] = torch.from_numpy(product)
                continue
            summed = matrix.product(table, own)
            out[here] = summed if scale is None else summed * torch.from_numpy(scale[:, None]).to(summed)


def columns_at_once(num_nodes: int) -> int:
    """Return how many columns of a table are copied at a time: fewer for a large graph, to bound the copy."""
    return max(_LEAST_COLUMNS, _MOST_COPIED // (4 * num_nodes) // _LEAST_COLUMNS * _LEAST_COLUMNS)


def find_components(rows: LocalRows) -> np.ndarray:
    """Label the connected component of each node of this rank: (num_owned,) int64. A collective call.

    Every rank joins what its own rows connect. Where its label of a ghost node differs from the owner's label, two
    groups of different ranks are one component; only such pairs of labels are sent to all ranks.
    """
    num_local, own = len(rows.nodes), slice(rows.first, rows.first + rows.num_owned)
    groups = np.arange(num_local)
    for block in rows.blocks():
        places = rows.first + np.arange(block.low, block.high)
        ends = np.stack([np.repeat(groups[places], np.diff(block.indptr)), groups[block.indices]])
        groups = _join(ends, num_local)[groups]
    if rows.communicator.size == 1:
        return groups
    labels = _lowest_nodes(groups, rows.nodes)[groups]
    elsewhere = rows.with_ghosts(torch.from_numpy(labels[own])[:, None]).numpy()[:, 0]
    same = np.unique(np.stack([labels, elsewhere], axis=1)[labels != elsewhere], axis=0)
    same = SharedRows(rows.communicator).gather(torch.from_numpy(same)).numpy()
    known, places = np.unique(same, return_inverse=True)
    if len(known) == 0:
        return labels[own]
    groups = _join(places.reshape(-1, 2).T, len(known))
    names = _lowest_nodes(groups, known)
    places = np.minimum(np.searchsorted(known, labels[own]), len(known) - 1)
    return np.where(known[places] == labels[own], names[groups[places]], labels[own])


def _join(ends: np.ndarray, size: int) -> np.ndarray:
    """Return the (size,) component of each element. ends: (2, num_pairs) elements that are connected."""
    joined = sp.coo_array((np.ones(ends.shape[1], np.int8), tuple(ends)), shape=(size, size))
    components: np.ndarray = sp.csgraph.connected_components(sp.csr_array(joined), directed=False)[1]
    return components


def _lowest_nodes(groups: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the (num_groups,) int64 lowest node of each group. groups, nodes: (num_nodes,)."""
    names = np.full(groups.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(names, groups, nodes.astype(np.int64))
    return names
