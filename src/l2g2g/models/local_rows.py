"""Local rows: the rows of a graph that one rank owns, a range of nodes, read block by block.

A rank multiplies its rows with tables of which it has its own rows and those of ghost nodes, the neighbours that
others own. One process owns all nodes and has no ghost nodes; a graph in memory is one block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from l2g2g.core import native
from l2g2g.graphs.graph import RowBlock
from l2g2g.models.sparse import SparseMatrix
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.parallel.node_index import NodeIndex, distinct_nodes
from l2g2g.parallel.node_table import NodeTable, RangeOwners

_ARCS_PER_ROW = 4  # what a row costs in arcs: its features times weights, and the products of its pairs


class Rows(Protocol):
    """Consecutive rows of an adjacency matrix."""

    @property
    def indptr(self) -> np.ndarray:
        """(num_rows + 1,) int64."""

    @property
    def indices(self) -> np.ndarray:
        """(num_entries,) int32 nodes, in order in each row."""

    @property
    def weights(self) -> np.ndarray | None:
        """(num_entries,) float32; None where all are 1."""


class OwnedRows(Protocol):
    """The rows of a range of nodes, in memory or on disk."""

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph: the columns."""

    def blocks(self) -> Iterator[Rows]:
        """All of these rows in order."""


def balance_rows(row_start: Callable[[int], int], num_nodes: int, num_ranks: int) -> np.ndarray:
    """(num_ranks + 1,) bounds of ranges of nodes, of about as much work each. row_start: entries before a row."""

    def work_before(row: int) -> int:
        return row_start(row) + _ARCS_PER_ROW * row

    total, rows = work_before(num_nodes), range(num_nodes + 1)
    inner = [bisect_left(rows, total * rank / num_ranks, key=work_before) for rank in range(1, num_ranks)]
    return np.array([0, *inner, num_nodes])


class LocalRows:
    """The rows of the nodes of this rank, whose columns are places in a table of owned and ghost nodes.

    Args:
        rows: Those of the nodes of this rank.
        communicator: Of the ranks that share the graph.
        bounds: (num_ranks + 1,) the ranges of nodes that ranks own; None for one process.
        keep_bytes: Blocks with places as columns are kept in memory until they have this size together. One process
            has nothing to renumber; what is read again or not is then up to `rows`.

    Attributes:
        low, high: The owned nodes.
        owners: The rank of every node.
        nodes: (num_local,) int32 ascending, owned and ghost nodes.
        first: Place of the first owned node among them.
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
        """Rows of this rank."""
        return self.high - self.low

    @property
    def num_nodes(self) -> int:
        """Nodes of all ranks."""
        return self.rows.num_nodes

    def blocks(self) -> Iterator[RowBlock]:
        """The rows of this rank in order, counted from its first one, with places as columns."""
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
                # What came first stays: blocks are read round and round, and the one used last is needed last.
                if self._index is not None and local.num_bytes <= self._bytes_left:
                    self._kept[low] = local
                    self._bytes_left -= local.num_bytes
            low = local.high
            yield local

    def shares(self, _patches: np.ndarray | None = None) -> np.ndarray:
        """(num_owned,) how much a row counts in the vector of its node: as the only one."""
        return np.ones(self.num_owned, np.float32)

    def forget(self) -> None:
        """Give back the blocks that are kept, and keep none from now on."""
        self._kept, self._bytes_left = {}, 0

    def with_ghosts(self, table: Tensor) -> Tensor:
        """(num_local, width) the rows of owned and ghost nodes. table: (num_owned, width), those that are owned."""
        if self._table is None:
            return table
        ghosts = self._table.fetch_ghosts("layer rows", table)  # ranges of nodes: those of lower ranks come first
        return torch.cat([ghosts[: self.first], table, ghosts[self.first :]])


def block_matrix(block: RowBlock, num_columns: int, device: torch.device | str = "cpu") -> SparseMatrix:
    """The pattern of a block with its weights."""
    indices = np.ascontiguousarray(block.indices, dtype=np.int32)
    matrix = SparseMatrix(
        block.indptr[:-1], block.indptr[1:], indices, block.weights, num_columns, device=torch.device(device)
    )
    if native() is not None:  # the columns were checked when the block was read
        vars(matrix)["csr"] = native().Csr(matrix.starts, matrix.ends, indices, block.weights, num_columns, True)
    return matrix
