"""Node pairs: the edges and non-edges among all nodes that an epoch scores, drawn by the rows that a process has.

One sampler for every storage: rows in memory are one block and are drawn from by the native kernels, others are gone
through block by block, and a rank has, reads and draws only the rows that it owns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core import hash_nodes, kernels, native
from l2g2g.core.randomness import Purpose, share_threshold, stream_key
from l2g2g.graphs.adjacency import BACK, FORTH
from l2g2g.models.masking import EdgeMask, draw_groups, hidden_pairs
from l2g2g.models.pair_loss import NonEdges, ScoredEdges
from l2g2g.models.pairs import Arcs, PairList, row_entries
from l2g2g.models.sampling import TARGET_WEIGHTS, DrawPlan, NegativeDraws, NegativePlan, TargetUnits, likely_uniform
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.patches.overlap import whole_graph
from l2g2g.training.pair_source import PairOptions, PairSource, PatchEdges, make_pairs
from l2g2g.training.rows import NodeRows, TrainingRows

_Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
_DRAWS_PER_NODE = 4  # of a rank that scores non-edges while it draws them


@dataclass(frozen=True, eq=False)
class OwnedPairs:
    """The pairs of an epoch that one process scores; their rows and columns are nodes.

    Attributes:
        edges: Edges, each with its weight in the graph, or 1: see `weighed`. As arcs those of the rows here.
        non_edges: Non-edges, with their weights in the loss.
    """

    edges: ScoredEdges
    non_edges: NonEdges

    @property
    def has_all_nodes(self) -> bool:
        """Whether non-edges are drawn while they are scored, so that the vectors of all nodes are needed."""
        return isinstance(self.non_edges, NegativeDraws)

    @property
    def total(self) -> float:
        """What the weights of the edges here add up to."""
        if self.edges.kind == "all":
            return float(self.edges.weights[0]) * self.edges.num_pairs
        if isinstance(self.edges, Arcs):
            return float(self.edges.weights[row_entries(self.edges.starts, self.edges.ends)[1]].sum(dtype=np.float64))
        return float(self.edges.weights.sum(dtype=np.float64))

    def weighed(self, total: float) -> OwnedPairs:
        """The same with weights of edges that add up to 1. total: of the edges of all processes."""
        edges = replace(self.edges, weights=(self.edges.weights / max(total, 1e-30)).astype(np.float32))
        if isinstance(self.edges, Arcs):  # the same pattern, which need not be checked again
            vars(edges)["csr"] = self.edges.csr
        return OwnedPairs(edges, self.non_edges)

    def find_nodes(self, num_nodes: int) -> np.ndarray | None:
        """(num_nodes,) bool, which nodes the pairs have; None for all."""
        if self.has_all_nodes:
            return None
        found = np.zeros(num_nodes, np.bool_)
        for pairs in (self.edges.listed, self.non_edges.listed):
            found[pairs.rows] = found[pairs.columns] = True
        return found

    def renumbered(self, nodes: np.ndarray, num_nodes: int) -> OwnedPairs:
        """The same with the places of nodes in a list instead of their numbers. nodes: the list."""
        places = np.empty(num_nodes, np.int32)
        places[nodes] = np.arange(len(nodes), dtype=np.int32)
        listed = self.edges.listed, self.non_edges.listed
        assert "row" not in (listed[0].kind, listed[1].kind)
        edges, non_edges = (replace(pairs, rows=places[pairs.rows], columns=places[pairs.columns]) for pairs in listed)
        return OwnedPairs(edges, non_edges)


class NodePairs:
    """Draws pairs among all nodes whose row is here.

    Memory: the pairs of an epoch, a few numbers for each node, and one block of rows.

    Args:
        rows: The training edges of the nodes that this process owns.
        held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives; none of them is a training edge.
            Rows of nodes that have no row here may be missing.
        negatives_per_edge: Non-edges drawn for every edge.
        options: How pairs are drawn and counted.
        device: Where the tensors live.
        communicator: Of the ranks that share the rows.
        patch: The pairs of the whole graph as one patch, where that is what batches encode: masks are then shared.
    """

    def __init__(
        self,
        rows: TrainingRows,
        held_out: sp.csr_array,
        *,
        negatives_per_edge: float = 1.0,
        options: PairOptions | None = None,
        device: torch.device | str = "cpu",
        communicator: Communicator = LOCAL,
        patch: PairSource | None = None,
    ) -> None:
        self.rows, self.held_out, self.negatives_per_edge = rows, held_out, negatives_per_edge
        self.options = options or PairOptions()
        self.device, self.communicator, self.patch = torch.device(device), communicator, patch
        self._fixed: dict[int, PairList] = {}

    def draw(
        self, hidden: float, scored: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0
    ) -> tuple[ScoredEdges, NonEdges]:
        """As `PairSource.draw`, where the rows of all nodes are here."""
        how: dict[str, Any] = {"fresh": fresh, "seed": seed, "epoch": epoch, "num_groups": num_groups}
        if self.source is not None:
            return self.source.draw(hidden, scored, **how)
        owned = self.draw_owned(hidden, scored, **how)
        owned = owned.weighed(owned.total)
        return owned.edges, owned.non_edges

    def draw_owned(
        self, hidden: float, scored: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0
    ) -> OwnedPairs:
        """The pairs of an epoch whose row is here; arguments as in `PairSource.draw`."""
        if self._streams:
            negatives_here = NegativeDraws(self._plan, seed, epoch if fresh else 0)
            return OwnedPairs(self._draw_arcs(hidden, scored, seed, epoch, num_groups), negatives_here)
        negatives = None if fresh else self._fixed.get(seed)
        drawn = None
        if negatives is None:
            pairs = self._plan.list_pairs(seed=seed, epoch=epoch if fresh else 0)
            drawn = _Drawn(*kernels().sort_pairs(pairs.rows, pairs.columns, self.rows.num_nodes))
        nodes = np.arange(self.rows.num_nodes, dtype=np.int32)
        groups = draw_groups(nodes, num_groups, seed=seed, epoch=epoch) if num_groups else None
        key, bound = stream_key(seed, Purpose.MASK, epoch), share_threshold(scored)
        mask = _Mask(hash_nodes(nodes, key), groups, key, bound)

        def choose(rows: np.ndarray, columns: np.ndarray, entries: np.ndarray) -> _Entries:
            if scored == 1.0 and not num_groups:
                return rows, columns, entries
            chosen = hidden_pairs(rows, columns, nodes, scored, seed=seed, epoch=epoch, groups=groups)
            return rows[chosen], columns[chosen], entries[chosen]

        edges, values, allowed = [_NO_PAIRS], [np.empty(0, np.float32)], [_NO_PAIRS]
        reversed_arcs = [_NO_PAIRS]
        for block in self.rows.blocks():
            directed = block.directions is not None
            rows, columns, entries = choose(*self._arcs(block)) if directed else self._edges(block, mask)
            edges.append((rows, columns))
            weights = block.weights if block.directions is None else block.arc_weights
            if self._counts_weights and weights is not None:
                values.append(weights[entries])
            if self.options.reversed_share:
                rows, columns, _ = choose(*self._reversed(block))
                reversed_arcs.append((rows, columns))
            if drawn is not None:
                allowed.append(self._allowed(block, drawn))
        rows, columns = (np.concatenate(side) for side in zip(*edges, strict=True))
        pairs = PairList(rows, columns, np.ones(1, np.float32))
        if self._counts_weights:
            pairs = PairList(rows, columns, np.concatenate(values), "pair")
        if drawn is not None:
            rows, columns = (np.concatenate(side) for side in zip(*allowed, strict=True))
            negatives = PairList(rows, columns, self._plan.draws.weights)
            if not fresh:
                self._fixed[seed] = negatives
        assert negatives is not None
        if self.options.reversed_share:
            rows, columns = (np.concatenate(side) for side in zip(*reversed_arcs, strict=True))
            share = self.options.reversed_share / max(1, self._add_up(len(rows)))
            negatives = negatives.join(PairList(rows, columns, np.full(1, share, np.float32)))
        return OwnedPairs(pairs, negatives)

    @cached_property
    def num_scored(self) -> int:
        """Edges that are to be predicted, over all epochs, of all processes."""
        if self.source is not None:
            return self.source.num_scored
        if not self.rows.graph.directed:
            return self.rows.num_edges
        return self._add_up(sum(len(self._scored(block)[0]) for block in self.rows.blocks()))

    @property
    def _counts_weights(self) -> bool:
        return self.options.weighted and self.rows.graph.weighted

    @cached_property
    def source(self) -> PairSource | None:
        """The pairs of the whole graph as one patch, where its edges are in memory; None otherwise."""
        adjacency = self.rows.whole
        if adjacency is None or self.patch is not None:
            return self.patch
        whole, num_nodes = whole_graph(self.rows.num_nodes), self.rows.num_nodes
        edges = PatchEdges.induced(whole, adjacency, self.rows.graph.to_graph().arcs)
        counts = num_nodes, np.array([0]), self.negatives_per_edge
        return make_pairs(whole, edges, self.held_out, *counts, self.device, self.options)

    @cached_property
    def _is_owned(self) -> np.ndarray | None:
        """(num_nodes,) bool, whose rows are here; None for all."""
        if self.rows.nodes is None:
            return None
        owned = np.zeros(self.rows.num_nodes, bool)
        owned[self.rows.nodes] = True
        return owned

    @cached_property
    def _streams(self) -> bool:
        """Whether non-edges are drawn while they are scored, which takes vectors of all nodes but no list of pairs.

        So where a rank draws a few times as many as there are nodes: a list would name nearly all nodes too, and take
        more memory than their vectors. All ranks agree.
        """
        is_uniform = TARGET_WEIGHTS[self.options.negative_sampling] is None
        if native() is None or self.device.type != "cpu" or not is_uniform:
            return False
        num_nodes, num_draws = self.rows.num_nodes, self.negatives_per_edge * self.num_scored
        if self.rows.graph.directed or num_draws < _DRAWS_PER_NODE * self.communicator.size * num_nodes:
            return False
        return self._add_up(int(self.rows.stays_in_memory)) == self.communicator.size

    @cached_property
    def _arcs_here(self) -> sp.csr_array:
        """(num_nodes, num_nodes) the rows that are here, the others empty."""
        return self.rows.to_adjacency()

    @cached_property
    def _edge_mask(self) -> EdgeMask:
        nodes = np.arange(self.rows.num_nodes)
        return EdgeMask(self._arcs_here, nodes, weighted=self.rows.graph.weighted, device=self.device)

    def _draw_arcs(self, hidden: float, scored: float, seed: int, epoch: int, num_groups: int) -> Arcs:
        """The edges that an epoch scores as arcs of the rows that are here: these get their whole gradient."""
        if scored == 1.0 and not num_groups:
            return self._every_arc
        nodes = np.arange(self.rows.num_nodes)
        groups = draw_groups(nodes, num_groups, seed=seed, epoch=epoch) if num_groups else None
        arcs = self._edge_mask.split(hidden or scored, scored, seed=seed, epoch=epoch, groups=groups)[1]
        return arcs if self._counts_weights else replace(arcs, weights=np.ones(1, np.float32), kind="all")

    @cached_property
    def _every_arc(self) -> Arcs:
        """All arcs of the rows that are here."""
        mask = self._edge_mask
        arcs = Arcs(mask.indptr[:-1], mask.indptr[1:], mask.indices, np.ones(1, np.float32))
        if self._counts_weights:
            assert mask.values is not None
            return replace(arcs, weights=mask.values, kind="pair")
        return arcs

    @cached_property
    def _plan(self) -> NegativePlan:
        """How many negatives each node draws, and of which nodes; excluded pairs are left out block by block."""
        num_nodes = self.rows.num_nodes
        offsets, first = np.array([0, num_nodes]), np.array([0])
        counts = np.array([np.ceil(self.negatives_per_edge * self.num_scored)]).astype(np.int64)
        shares = np.ones(1)
        if self.options.reversed_share:
            num_reversed = self._add_up(sum(len(self._reversed(block)[0]) for block in self.rows.blocks()))
            shares = shares - (self.options.reversed_share if num_reversed else 0.0)
        make = partial(DrawPlan.make, np.arange(num_nodes), offsets, first, counts, shares=shares)
        nothing = np.zeros(num_nodes + 1, np.int64), np.empty(0, np.int32)
        if TARGET_WEIGHTS[self.options.negative_sampling] is None:
            # No held-out pair is a training edge.
            num_excluded = 2 * self.rows.num_edges + self._add_up(self._held_here.nnz)
            draws = make(likely=likely_uniform(np.array([num_nodes]), np.array([num_excluded])))
            return NegativePlan(draws, self._pack(draws) if self._streams else nothing, wanted=self._is_owned)
        units = TargetUnits.make(self.options.negative_sampling, self._scored_degrees, offsets)
        excluded = (part.indices for part in (*self.rows.blocks(), self._held_here))
        taken = self._add_up(sum(int(units.each[indices].sum()) for indices in excluded))
        return NegativePlan(make(likely=units.likely(offsets, np.array([taken]))), nothing, units, self._is_owned)

    def _pack(self, draws: DrawPlan) -> tuple[np.ndarray, np.ndarray]:
        """The pairs that rows here never draw, in packed order."""
        held_out = self.held_out
        if self._is_owned is not None:
            held_out = sp.csr_array(sp.diags_array(self._is_owned.astype(np.float32)) @ held_out)
        patterns = [
            part
            for matrix in (self._arcs_here, held_out)
            for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False))
        ]
        packed: tuple[np.ndarray, np.ndarray] = kernels().pack_pattern(*patterns, draws.order, draws.places)
        return packed

    @property
    def _held_here(self) -> sp.csr_array:
        """(num_rows, num_nodes) the held-out pairs of the rows that are here."""
        return self.held_out if self.rows.nodes is None else self.held_out[self.rows.nodes]

    @property
    def _scored_degrees(self) -> np.ndarray:
        """(num_nodes,) edges of every node that are to be predicted."""
        degrees = np.zeros(self.rows.num_nodes, np.int64)
        for block in self.rows.blocks():
            for ends in self._edges(block)[:2]:
                degrees += np.bincount(ends, minlength=len(degrees))
        return self._sum("degrees", degrees)

    def _add_up(self, count: int) -> int:
        """The sum of a count over all ranks."""
        return int(self._sum("counts", np.array([count]))[0])

    def _sum(self, kind: str, values: np.ndarray) -> np.ndarray:
        total = torch.from_numpy(values).to(self.communicator.device)
        self.communicator.all_reduce(kind, total)
        return total.cpu().numpy()

    def _scored(self, block: NodeRows) -> _Entries:
        """(rows, columns, entries) of a block that are to be predicted: edges u < v, or arcs row → column."""
        return self._edges(block) if block.directions is None else self._arcs(block)

    def _arcs(self, block: NodeRows) -> _Entries:
        """(rows, columns, entries) of the arcs row → column of a directed graph."""
        assert block.directions is not None
        return self._select(block, np.flatnonzero(block.directions & FORTH))

    def _reversed(self, block: NodeRows) -> _Entries:
        """(rows, columns, entries) of the reverses of one-way arcs whose row is in a block."""
        assert block.directions is not None
        return self._select(block, np.flatnonzero(block.directions == BACK))

    def _select(self, block: NodeRows, entries: np.ndarray) -> _Entries:
        """(rows, columns, entries) of some entries of a block, without those that are not predicted."""
        rows = block.nodes.astype(np.int32)[np.searchsorted(block.indptr, entries, side="right") - 1]
        return rows, block.indices[entries], entries

    def _edges(self, block: NodeRows, mask: _Mask | None = None) -> _Entries:
        """(rows, columns, entries) of the edges u < v of a block, whatever their direction, that are to be predicted.

        mask: those of an epoch; None for all.
        """
        mask = mask or _Mask(np.zeros(self.rows.num_nodes, np.uint32), None, 0, share_threshold(1.0))
        indices = np.ascontiguousarray(block.indices, dtype=np.int32)
        parts = block.indptr, indices, block.nodes.astype(np.int32)
        return kernels().hidden_edges(*parts, mask.hashes, mask.groups, mask.key, mask.bound)

    def _allowed(self, block: NodeRows, drawn: _Drawn) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of the drawn pairs whose row is in a block and that are no excluded ones."""
        here = slice(*drawn.starts[[block.low, block.high]])
        rows, columns = drawn.rows[here].astype(np.int64), drawn.columns[here].astype(np.int64)
        indices = np.ascontiguousarray(block.indices, dtype=np.int32)
        is_edge = kernels().find_entries(block.indptr, indices, block.places(rows), columns) >= 0
        held = self.held_out.indptr.astype(np.int64), self.held_out.indices.astype(np.int32, copy=False)
        is_held = kernels().find_entries(*held, rows, columns) >= 0
        allowed = np.flatnonzero(~(is_edge | is_held | (rows == columns)))
        return rows[allowed].astype(np.int32), columns[allowed].astype(np.int32)


@dataclass(frozen=True, eq=False)
class _Mask:
    """Which edges an epoch scores; see `kernels().hidden_edges`."""

    hashes: np.ndarray
    groups: np.ndarray | None
    key: int
    bound: int


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Pairs in the order of their rows; starts: (num_nodes + 1,) where those of each row begin."""

    rows: np.ndarray
    columns: np.ndarray
    starts: np.ndarray


_NO_PAIRS: tuple[np.ndarray, np.ndarray] = np.empty(0, np.int32), np.empty(0, np.int32)
