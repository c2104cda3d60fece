"""Node tables: rows of all nodes, added up over patches and ranks, each complete at the rank that owns the node.

A rank holds the rows of the nodes of its own patches: owned ones, and ghost nodes, which another rank owns. Rows of
further nodes, the far ends of sampled pairs, are requested and not kept. One process owns all nodes and sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from l2g2g.core import blank_table, native
from l2g2g.parallel.communicator import Communicator
from l2g2g.parallel.node_index import NodeIndex
from l2g2g.parallel.questions import ask

_MOST_PARTS, _LEAST_PART = 8, 1 << 18  # in which rows of many nodes are sent, and nodes of such a part


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the rows of some patches stand in a table, and how much each counts.

    Attributes:
        index: (num_rows,) int32 places in the table.
        shares: (num_rows,) float32 factor of each row.
        num_places: Rows of the table.
    """

    index: np.ndarray
    shares: np.ndarray
    num_places: int

    def add(self, table: Tensor | None, rows: Tensor) -> Tensor:
        """The table with each row times its share added at its place. table: None for zeros; it may be written over."""
        if table is None and self._is_identity:
            return rows
        if self._covers_all and self._runs_native(rows):
            out = blank_table(self.num_places, rows.shape[1])
            before = None if table is None else table.numpy()
            native().multiply(self._transpose, rows.contiguous().numpy(), out, added=before)
            return torch.from_numpy(out)
        table = rows.new_zeros(self.num_places, rows.shape[1]) if table is None else table
        if self._runs_native(rows):
            native().add_rows(rows.contiguous().numpy(), self.index, self.shares, table.numpy())
            return table
        return table.index_add_(0, self._on(rows.device), rows * torch.from_numpy(self.shares[:, None]).to(rows))

    def take(self, table: Tensor) -> Tensor:
        """(num_rows, width) the row of the table at each place, times its share: the gradient of `add`."""
        if self._is_identity:
            return table
        if self._runs_native(table):
            out = blank_table(len(self.index), table.shape[1])
            native().move_rows(table.contiguous().numpy(), out, self.index, self.shares)
            return torch.from_numpy(out)
        rows = table.index_select(0, self._on(table.device))
        return rows.mul_(torch.from_numpy(self.shares[:, None]).to(rows))

    @cached_property
    def _is_identity(self) -> bool:
        size = len(self.index)
        return (
            size == self.num_places and bool((self.index == np.arange(size)).all()) and bool((self.shares == 1).all())
        )

    @property
    def _covers_all(self) -> bool:
        """Whether a pass over the table costs no more than one over the rows."""
        return len(self.index) >= self.num_places

    @cached_property
    def _transpose(self) -> Any:
        """(num_places, num_rows) which rows are added up at each place."""
        order = np.argsort(self.index, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(self.index, minlength=self.num_places))
        return native().Csr(np.concatenate([[0], ends[:-1]]), ends, order, self.shares[order], len(order))

    def _on(self, device: torch.device) -> Tensor:
        return torch.from_numpy(self.index).to(device)

    @staticmethod
    def _runs_native(rows: Tensor) -> bool:
        fits = rows.device.type == "cpu" and rows.dtype == torch.float32 and rows.shape[1] <= 512
        return fits and native() is not None


class Assemble(torch.autograd.Function):
    """`Placement.add` of all rows of one process to an empty table, differentiable."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, placement: Placement) -> Tensor:
        """(num_places, width)."""
        ctx.placement = placement
        table = placement.add(None, rows)
        return table.view_as(table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """(num_rows, width)."""
        return ctx.placement.take(gradient), None


class Owners(Protocol):
    """Which rank owns each node: a `NodeDirectory`, or `RangeOwners`."""

    @property
    def num_nodes(self) -> int:
        """Nodes of all ranks."""

    @property
    def counts(self) -> list[int]:
        """(num_ranks,) nodes that each rank owns."""

    @property
    def are_ranges(self) -> bool:
        """Whether every rank owns a range of nodes, those of lower ranks first."""

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """(num_asked,) the rank that owns each of some nodes. A collective call."""


@dataclass(frozen=True, eq=False)
class RangeOwners:
    """Every rank owns a range of nodes. bounds: (num_ranks + 1,) of these ranges."""

    bounds: np.ndarray
    are_ranges: bool = True

    @property
    def num_nodes(self) -> int:
        """Nodes of all ranks."""
        return int(self.bounds[-1])

    @property
    def counts(self) -> list[int]:
        """(num_ranks,) nodes that each rank owns."""
        counts: list[int] = np.diff(self.bounds).tolist()
        return counts

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """(num_asked,) the rank that owns each of some nodes."""
        return np.searchsorted(self.bounds[1:], nodes, side="right")


@dataclass(frozen=True, eq=False)
class WantedNodes:
    """Nodes whose rows a rank wants, those that rank 0 owns first.

    Attributes:
        nodes: (num_wanted,) int32, each once.
        lengths: (num_ranks,) how many of them each rank owns.
    """

    nodes: np.ndarray
    lengths: list[int]


@dataclass(frozen=True, eq=False)
class Request:
    """Rows that a rank reads once, and rows that the others read of it.

    Attributes:
        nodes: (num_requested,) their nodes, those of rank 0 first; None for all nodes in order.
        outgoing: For each rank the places in this rank's table that it requested.
        lengths: (num_ranks,) rows that come from each rank.
    """

    nodes: np.ndarray | None
    outgoing: list[np.ndarray]
    lengths: list[int]


class NodeTable:
    """Sums of rows for all nodes.

    Args:
        communicator: Of this rank.
        owners: Which rank owns each node.
        nodes: (num_local,) ascending, the nodes whose rows this rank adds: all that it owns are among them.
    """

    def __init__(self, communicator: Communicator, owners: Owners, nodes: np.ndarray) -> None:
        self.communicator, self.nodes, self.num_nodes, self._owners = communicator, nodes, owners.num_nodes, owners
        by_rank = [places.astype(np.int32) for places in group_by_rank(owners.of(nodes), communicator.size)]
        self._own_places = by_rank[communicator.rank]  # all that it owns are here
        self._ghosts = by_rank
        self._ghosts[communicator.rank] = np.empty(0, np.int32)
        self._held_elsewhere = self._tell_owners()
        self._rows: Tensor | None = None

    @property
    def has_all(self) -> bool:
        """Whether this process owns all nodes."""
        return self.communicator.size == 1

    @property
    def owned_nodes(self) -> np.ndarray:
        """(num_owned,) ascending."""
        return self.nodes[self._own_places]

    def place(self, nodes: np.ndarray, shares: np.ndarray) -> Placement:
        """Where rows of some nodes of this rank stand. nodes, shares: (num_rows,) the node of each row, its factor."""
        return Placement(np.searchsorted(self.nodes, nodes).astype(np.int32), shares, len(self.nodes))

    def clear(self) -> None:
        """Start again with zeros."""
        self._rows = None

    def scatter_add(self, placement: Placement, rows: Tensor) -> None:
        """Add rows of this rank's own nodes and ghost nodes. Nothing is sent before `complete`."""
        self._rows = placement.add(self._rows, rows)

    def complete(self, kind: str) -> None:
        """Bring what was added for ghost nodes to their owners, whose rows are then complete."""
        if self.has_all:
            return
        for places, rows in self._send(kind, self._ghosts, self._held_elsewhere):
            self.rows.index_add_(0, places, rows)  # rank by rank: each sum has one order

    def return_ghosts(self, kind: str) -> None:
        """Bring the complete rows of ghost nodes back to this rank."""
        if self.has_all:
            return
        for places, rows in self._send(kind, self._held_elsewhere, self._ghosts):
            self.rows[places] = rows

    def take(self, placement: Placement) -> Tensor:
        """(num_rows, width) the rows of nodes of this rank, times their shares."""
        return placement.take(self.rows)

    def request(self, wanted: WantedNodes | None, count: float) -> tuple[Request, float]:
        """Ask the owners for rows; the sum of a number over all ranks goes with it. wanted: None for all nodes."""
        communicator = self.communicator
        if wanted is None:
            counts = torch.tensor([count], dtype=torch.float64, device=communicator.device)
            communicator.all_reduce("counts", counts)
            return Request(None, [self._own_places] * communicator.size, self._owners.counts), float(counts)
        ones = [1] * communicator.size
        told = torch.tensor([[length, count] for length in wanted.lengths], dtype=torch.float64)
        received = communicator.all_to_all("counts", told.to(communicator.device), ones, ones)
        expected = [int(length) for length in received[:, 0].tolist()]
        sent = torch.from_numpy(wanted.nodes.astype(np.int32, copy=False)).to(communicator.device)
        asked = communicator.all_to_all("pair requests", sent, wanted.lengths, expected).cpu()
        outgoing = [self._own_places[self._own.places(part.numpy())] for part in asked.split(expected)]
        return Request(wanted.nodes, outgoing, wanted.lengths), float(received[:, 1].sum())

    @cached_property
    def _own(self) -> NodeIndex:
        return NodeIndex(self.owned_nodes)

    def gather(self, request: Request) -> Tensor:
        """(num_requested, width) the requested rows."""
        if self.has_all:
            return self.rows
        if request.nodes is None:
            own = self.rows.index_select(0, _tensor(self._own_places, self.rows))
            return self._by_node(self.communicator.all_gather("pair rows", own, self._owners.counts))
        found = self.rows.new_empty(sum(request.lengths), self.rows.shape[1])
        parts = found.split(request.lengths)
        rank = self.communicator.rank
        torch.index_select(self.rows, 0, _tensor(request.outgoing[rank], found), out=parts[rank])
        there = [part[:0] if place == rank else part for place, part in enumerate(request.outgoing)]
        here = [0 if place == rank else length for place, length in enumerate(request.lengths)]
        for low, received in self._exchange("pair rows", self.rows, there, here):
            for part, first, rows in zip(parts, low, received, strict=True):
                part[first : first + len(rows)] = rows
        return found

    def scatter_add_to_owners(self, request: Request, rows: Tensor) -> None:
        """Add rows for the requested nodes. The table must be clear."""
        if self.has_all:
            self._rows = rows
            return
        if request.nodes is None and not self._owners.are_ranges:
            rows = rows.index_select(0, _tensor(self._every_owned, rows))
        rank, parts = self.communicator.rank, rows.split(request.lengths)
        self._rows = rows.new_zeros(len(self.nodes), rows.shape[1])
        self._rows.index_add_(0, _tensor(request.outgoing[rank], rows), parts[rank])
        ends = np.cumsum([0, *request.lengths]).tolist()
        there = [range(*both) if place != rank else range(0) for place, both in enumerate(pairwise(ends))]
        here = [0 if place == rank else len(part) for place, part in enumerate(request.outgoing)]
        for low, received in self._exchange("pair gradients", rows, there, here):
            for places, first, part in zip(request.outgoing, low, received, strict=True):
                self._rows.index_add_(0, _tensor(places[first : first + len(part)], rows), part)

    def by_range(self, kind: str, bounds: np.ndarray) -> Tensor:
        """(num_here, width) the rows of a range of nodes on each rank. bounds: (num_ranks + 1,) of these ranges."""
        if self.has_all:
            return self.rows
        ends = np.searchsorted(self.owned_nodes, bounds)
        coming = ask(self.communicator, "ids", self.owned_nodes.astype(np.int32), np.diff(ends).tolist())
        places = np.split(coming.received - np.int32(bounds[self.communicator.rank]), np.cumsum(coming.expected)[:-1])
        rows = self.rows.new_empty(len(coming.received), self.rows.shape[1])
        there = np.split(self._own_places, ends[1:-1])
        for low, received in self._exchange(kind, self.rows, there, coming.expected):
            for here, first, part in zip(places, low, received, strict=True):
                rows[_tensor(here[first : first + len(part)], rows)] = part
        return rows

    def _by_node(self, gathered: Tensor) -> Tensor:
        """Rows of all nodes in their order. gathered: the same, those that rank 0 owns first."""
        if self._owners.are_ranges:
            return gathered
        rows = torch.empty_like(gathered)
        rows[_tensor(self._every_owned, rows)] = gathered
        return rows

    @cached_property
    def _every_owned(self) -> np.ndarray:
        """(num_nodes,) all nodes, those that rank 0 owns first; only where a rank reads the rows of all of them."""
        own = _tensor(self.owned_nodes.astype(np.int32), self.rows)
        return self.communicator.all_gather("ids", own, self._owners.counts).cpu().numpy().astype(np.int64)

    @property
    def rows(self) -> Tensor:
        """(num_local, width) what stands here; complete for owned nodes after `complete`."""
        assert self._rows is not None, "nothing was added"
        return self._rows

    def _tell_owners(self) -> list[np.ndarray]:
        """For each rank, the places here of the owned nodes that are ghost nodes there."""
        communicator = self.communicator
        counts = torch.tensor([len(part) for part in self._ghosts])
        ones = [1] * communicator.size
        expected = communicator.all_to_all("ghost nodes", counts.to(communicator.device), ones, ones).tolist()
        nodes = torch.from_numpy(self.nodes[np.concatenate(self._ghosts)]).to(communicator.device)
        received = communicator.all_to_all("ghost nodes", nodes, counts.tolist(), expected).cpu()
        return [np.searchsorted(self.nodes, part.numpy()).astype(np.int32) for part in received.split(expected)]

    def _exchange(
        self, kind: str, rows: Tensor, there: Sequence[np.ndarray | range], expected: list[int]
    ) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Send the rows at some places to each rank, a part of them at a time, so that copies stay small.

        Yields, part by part, with which of its rows each rank goes on, and these rows.
        """
        parts = num_parts(self.num_nodes)
        for part in range(parts):
            sent = [places[len(places) * part // parts : len(places) * (part + 1) // parts] for places in there]
            low = [length * part // parts for length in expected]
            lengths = [length * (part + 1) // parts - first for length, first in zip(expected, low, strict=True)]
            copied = rows.index_select(0, _tensor(np.concatenate(sent).astype(np.int32), rows))
            received = self.communicator.all_to_all(kind, copied, list(map(len, sent)), lengths)
            yield low, list(received.split(lengths))

    def _send(self, kind: str, there: list[np.ndarray], here: list[np.ndarray]) -> list[tuple[Tensor, Tensor]]:
        """Send the rows at some places to each rank. Returns what came of each, and where it belongs."""
        rows = self.rows.index_select(0, _tensor(np.concatenate(there), self.rows))
        lengths, expected = [len(part) for part in there], [len(part) for part in here]
        received = self.communicator.all_to_all(kind, rows, lengths, expected).split(expected)
        return [(_tensor(places, self.rows), part) for places, part in zip(here, received, strict=True)]


def num_parts(num_nodes: int) -> int:
    """Return in how many parts, the same on all ranks, rows of nearly all nodes are sent."""
    return max(1, min(_MOST_PARTS, num_nodes // _LEAST_PART))


def group_by_rank(ranks: np.ndarray, num_ranks: int) -> list[np.ndarray]:
    """For each rank the places in a list that name it, ascending, in one pass. ranks: (num_places,)."""
    ends = np.cumsum(np.bincount(ranks, minlength=num_ranks))
    return np.split(np.argsort(ranks, kind="stable"), ends[:-1])


def _tensor(places: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(places).to(like.device)
