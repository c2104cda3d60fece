"""Local rows: the adjacency rows that one rank owns, read block by block, and products with Â made of them.

A rank owns a range of nodes. It multiplies their rows with the rows of a table for owned nodes, and then with those for
ghost nodes, the neighbours that other ranks own. Where nodes lie in no order these are nearly all nodes, so that a rank
fetches them in rounds and never has the rows of more than an eighth of the nodes beside its own. One process owns all
nodes and has no ghost nodes; a graph in memory is one block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.core import blank_table
from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.scratch_file import ScratchFile
from l2g2g.models.masking import MaskDraw, split_rows
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.sparse import SparseMatrix, invert_degrees, multiply_table, runs_native, scale_rows, sum_weights
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.parallel.node_index import NodeIndex, distinct_nodes
from l2g2g.parallel.node_table import RangeOwners, num_parts
from l2g2g.parallel.questions import Question, ask

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
    """The rows of the nodes of this rank. Columns are places in the list of owned and ghost nodes.

    A product has rounds for the owned nodes, and on several ranks others for ghost nodes. Entries are sorted by rounds
    when they are first read, and lie in memory or in a file.

    Args:
        rows: Rows of the nodes of this rank, with node numbers as columns.
        communicator: Connects the ranks that share the graph.
        bounds: (num_ranks + 1,) ranges of nodes that ranks own; None for one process.
        keep_bytes: Memory for sorted entries. One process sorts nothing, so that `rows` decides what to keep.
        folder: Where the others are written; None for a temporary folder.

    Attributes:
        low, high: Range of the owned nodes.
        owners: Rank of every node.
        nodes: (num_local,) int32, the owned nodes in order, then the ghost nodes round by round.
        rounds: (num_rounds + 1,) the places in `nodes` with which each round begins.
    """

    def __init__(
        self,
        rows: OwnedRows,
        communicator: Communicator = LOCAL,
        bounds: np.ndarray | None = None,
        *,
        keep_bytes: int = 0,
        folder: Path | None = None,
    ) -> None:
        self.rows, self.communicator, self._keep_bytes, self._folder = rows, communicator, keep_bytes, folder
        num_nodes = rows.num_nodes
        bounds = np.array([0, num_nodes]) if bounds is None else bounds
        self.low, self.high = (int(bound) for bound in bounds[communicator.rank : communicator.rank + 2])
        self.owners = RangeOwners(bounds)
        self.nodes, self.rounds = np.arange(self.low, self.high, dtype=np.int32), np.array([0, self.num_owned])
        self._own_rounds = 1
        if communicator.size > 1:
            self._find_ghosts(bounds)

    def _find_ghosts(self, bounds: np.ndarray) -> None:
        """List the ghost nodes by rounds, and ask their owners for them. A collective call."""
        parts = num_parts(self.num_nodes)
        ghosts = distinct_nodes(self._elsewhere(block.indices) for block in self.rows.blocks())
        # In a round, of every rank the same share of its range, so that all send at once.
        cuts = np.stack([bounds[:-1] + np.diff(bounds) * part // parts for part in range(parts + 1)])
        places = np.searchsorted(ghosts, cuts)  # (num_parts + 1, num_ranks)
        self._expected: list[list[int]] = np.diff(places, axis=0).tolist()
        order = [
            np.arange(*ends, dtype=np.int32) for both in pairwise(places.tolist()) for ends in zip(*both, strict=True)
        ]
        self.nodes = np.concatenate([self.nodes, ghosts[np.concatenate(order)]])
        # As many rows in a round of owned nodes, whose scaled copies would otherwise take as much as their table.
        self._own_rounds = -(-parts // self.communicator.size)
        own = self.num_owned * np.arange(self._own_rounds + 1) // self._own_rounds
        self.rounds = np.concatenate([own, self.num_owned + np.cumsum(np.array(self._expected).sum(1))])
        asked = ask(self.communicator, "ghost nodes", ghosts, np.diff(np.searchsorted(ghosts, bounds)).tolist())
        self._asked = self._share_out(asked, cuts[:, self.communicator.rank])

    def _share_out(self, asked: Question, cuts: np.ndarray) -> list[list[np.ndarray]]:
        """For each round and rank the owned rows that it wants. cuts: (num_parts + 1,) nodes between which they lie."""
        ranks = np.split(asked.received - np.int32(self.low), np.cumsum(asked.expected)[:-1])
        ends = [np.searchsorted(wanted, cuts - self.low) for wanted in ranks]
        return [
            [wanted[end[part] : end[part + 1]] for wanted, end in zip(ranks, ends, strict=True)]
            for part in range(len(cuts) - 1)
        ]

    def _elsewhere(self, nodes: np.ndarray) -> np.ndarray:
        return nodes[(nodes < self.low) | (nodes >= self.high)]

    @property
    def num_owned(self) -> int:
        """Number of rows of this rank."""
        return self.high - self.low

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all ranks."""
        return self.rows.num_nodes

    @property
    def num_rounds(self) -> int:
        """Rounds of a product, the same on all ranks."""
        return len(self.rounds) - 1

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the entries of all rounds, one after the other."""
        for turn in range(self.num_rounds):
            yield from self.round_blocks(turn)

    def round_blocks(self, turn: int) -> Iterator[RowBlock]:
        """Yield the entries of a round in order of rows, numbered from the first one here, with places as columns."""
        if self.communicator.size > 1:
            yield from (piece() for piece in self._pieces[turn])
            return
        low = 0
        for block in self.rows.blocks():
            indptr = block.indptr.astype(np.int64, copy=False)
            yield RowBlock(low, low + len(indptr) - 1, indptr, block.indices, 0, block.weights)
            low += len(indptr) - 1

    @cached_property
    def _pieces(self) -> list[list[Callable[[], RowBlock]]]:
        """For each round what returns the entries of each block of rows, from memory or from the file."""
        left, file = self._keep_bytes, None
        found: list[list[Callable[[], RowBlock]]] = [[] for _ in range(self.num_rounds)]
        ghost_places = self.num_owned + np.argsort(self.nodes[self.num_owned :]).astype(np.int32)
        index = NodeIndex(self.nodes[ghost_places])
        low = 0
        for block in self.rows.blocks():
            places = block.indices - np.int32(self.low)
            beyond = np.flatnonzero((places < 0) | (places >= self.num_owned))
            places[beyond] = ghost_places[index.places(block.indices[beyond])]
            for pieces, part in zip(found, self._divide(low, block, places), strict=True):
                if part.num_bytes <= left:
                    left -= part.num_bytes
                    pieces.append(partial(_same, part))
                else:
                    file = ScratchFile(self._folder) if file is None else file
                    pieces.append(_write_block(file, part))
            low += len(block.indptr) - 1
        return found

    def _divide(self, low: int, block: Rows, places: np.ndarray) -> Iterator[RowBlock]:
        """Yield the entries of a block for each round. places: of its columns."""
        turns = np.searchsorted(self.rounds[1:], places, side="right").astype(np.uint8)
        order, num_rows = np.argsort(turns, kind="stable"), len(block.indptr) - 1
        rows = np.repeat(np.arange(num_rows, dtype=np.int32), np.diff(block.indptr))
        ends = np.cumsum(np.bincount(turns, minlength=self.num_rounds))
        for entries in np.split(order, ends[:-1]):
            indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[entries], minlength=num_rows))])
            weights = None if block.weights is None else block.weights[entries]
            yield RowBlock(low, low + num_rows, indptr, places[entries], 0, weights)

    @cached_property
    def counts(self) -> np.ndarray:
        """(num_owned,) int64 entries of every row."""
        found = np.zeros(self.num_owned, np.int64)
        for block in self.blocks():
            found[block.low : block.high] += np.diff(block.indptr)
        return found

    def shares(self, _patches: np.ndarray | None = None) -> np.ndarray:
        """Return (num_owned,) ones: every row is the only one of its node."""
        return np.ones(self.num_owned, np.float32)

    def forget(self) -> None:
        """Release the entries that are kept, and keep none from now on."""
        vars(self).pop("_pieces", None)
        self._keep_bytes = 0

    def round_table(self, turn: int, table: Tensor, scale: np.ndarray | None = None) -> Tensor:
        """Return the (num_places, width) rows with which a round multiplies. A collective call.

        table: (num_owned, width) rows of the owned nodes. scale: (num_owned,) their factors, which ghost rows have too.
        """
        if turn < self._own_rounds:
            here = slice(*self.rounds[turn : turn + 2])
            return table[here].contiguous() if scale is None else _scaled(table[here], scale[here])
        turn -= self._own_rounds
        asked = self._asked[turn]
        places = np.concatenate(asked)
        rows = table.index_select(0, torch.from_numpy(places).to(table.device))
        if scale is not None:
            rows *= torch.from_numpy(scale[places, None]).to(rows)
        return self.communicator.all_to_all("layer rows", rows, list(map(len, asked)), self._expected[turn])

    def with_ghosts(self, table: Tensor) -> Tensor:
        """Return (num_local, width) rows of owned and ghost nodes. table: (num_owned, width) rows of the owned ones."""
        return torch.cat([self.round_table(turn, table) for turn in range(self.num_rounds)])


def _scaled(table: Tensor, scale: np.ndarray) -> Tensor:
    if runs_native(table) and table.is_contiguous():
        return torch.from_numpy(scale_rows(table.numpy(), scale))
    return (table * torch.from_numpy(scale[:, None]).to(table)).contiguous()


def _same(block: RowBlock) -> RowBlock:
    return block


def _write_block(file: ScratchFile, block: RowBlock) -> Callable[[], RowBlock]:
    """Write the entries of some rows to a file; what is returned reads them."""
    indptr, indices = file.write(block.indptr.astype(np.int32)), file.write(block.indices)
    weights = None if block.weights is None else file.write(block.weights)

    def read() -> RowBlock:
        values = None if weights is None else file.read(weights)
        return RowBlock(block_low, block_high, file.read(indptr).astype(np.int64), file.read(indices), 0, values)

    block_low, block_high = block.low, block.high
    del block  # what reads it must not hold it
    return read


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
        self._bytes_left, self._kept = keep_bytes, dict[tuple[int, int], SparseMatrix]()

    def blocks(self, turn: int) -> Iterator[tuple[int, SparseMatrix]]:
        """Yield (first row, (num_rows, num_places) pattern with weights) of the entries of a round in order of rows.

        Columns are places in the table of the round.
        """
        kept = {low: matrix for (of_turn, low), matrix in self._kept.items() if of_turn == turn}
        if self.mask is not None and sum(len(each.starts) for each in kept.values()) == self.rows.num_owned:
            yield from kept.items()
            return
        first, end = self.rows.rounds[turn : turn + 2].tolist()
        for block in self.rows.round_blocks(turn):
            matrix = kept.get(block.low)
            if matrix is None:
                indices = np.ascontiguousarray(block.indices, dtype=np.int32)
                ends = block.indptr[:-1], block.indptr[1:]
                matrix = SparseMatrix(
                    *ends, indices, block.weights, len(self.rows.nodes), device=self.device, is_checked=True
                )
                if self.mask is not None:
                    matrix = split_rows(matrix, block.indptr, self.mask, block.low)
                if first or end < len(self.rows.nodes):
                    matrix = replace(matrix, indices=matrix.indices - np.int32(first), num_columns=end - first)
                if self.mask is not None:
                    matrix = self._keep(turn, block.low, matrix)
            yield block.low, matrix

    def _keep(self, turn: int, low: int, matrix: SparseMatrix) -> SparseMatrix:
        if self._bytes_left > 0:
            matrix = matrix.compact()
            if matrix.num_bytes <= self._bytes_left:
                self._kept[turn, low] = matrix
            self._bytes_left = max(0, self._bytes_left - matrix.num_bytes)
        return matrix

    @cached_property
    def degrees(self) -> np.ndarray:
        """(num_owned,) float64 sum of the weights of the visible edges of every node."""
        found = np.zeros(self.rows.num_owned)
        for turn in range(self.rows.num_rounds):
            for low, each in self.blocks(turn):
                found[low : low + len(each.starts)] += sum_weights(each.starts, each.ends, each.values)
        return found


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

    @staticmethod
    def _loops(dense: Tensor, scale: np.ndarray | None, here: slice) -> Tensor:
        """What the identity adds to some rows."""
        return dense[here] if scale is None else _scaled(dense[here], scale[here])

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
        rows, last = self.edges.rows, self.edges.rows.num_rounds - 1
        for turn in range(last + 1):
            table = rows.round_table(turn, dense, column_scale)
            for low, matrix in self.edges.blocks(turn):
                here = slice(low, low + len(matrix.starts))
                added = (self._loops(dense, column_scale, here) if self.loops else None) if turn == 0 else out[here]
                scale = None if row_scale is None or turn < last else row_scale[here]
                if runs_native(dense):
                    before = None if added is None else added.contiguous().numpy()
                    # A product of bits writes sums before it reads what is added, which may not be in the same memory.
                    in_place = out.is_contiguous() and (turn == 0 or matrix.bits is None)
                    place = out[here].numpy() if in_place else None
                    product = multiply_table(matrix, table.numpy(), before, row_scale=scale, out=place)
                    if place is None:
                        out[here] = torch.from_numpy(product)
                    continue
                summed = matrix.product(table, added)
                out[here] = summed if scale is None else summed * torch.from_numpy(scale[:, None]).to(summed)
            del table  # the next round needs its memory


def columns_at_once(num_nodes: int) -> int:
    """Return how many columns of a table are copied at a time: fewer for a large graph, to bound the copy."""
    return max(_LEAST_COLUMNS, _MOST_COPIED // (4 * num_nodes) // _LEAST_COLUMNS * _LEAST_COLUMNS)


def find_components(rows: LocalRows) -> np.ndarray:
    """Label the connected component of each node of this rank: (num_owned,) int64. A collective call.

    Every rank joins what its own rows connect. Where its label of a ghost node differs from the owner's label, two
    groups of different ranks are one component; only such pairs of labels are sent to all ranks.
    """
    num_local, own = len(rows.nodes), slice(0, rows.num_owned)
    groups = np.arange(num_local)
    for block in rows.blocks():
        places = np.arange(block.low, block.high)
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
