"""Node pairs: the edges and non-edges among all nodes that an epoch scores, drawn by the rows that a process has.

One sampler for every storage: rows in memory are one block and are drawn from by the native kernels, others are gone
through block by block, and a rank has, reads and draws only the rows that it owns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core import hash_nodes, kernels, native
from l2g2g.core.randomness import Purpose, random_words, scale_words, share_threshold, stream_key, stream_keys
from l2g2g.core.reference import draw_units
from l2g2g.graphs.adjacency import BACK, FORTH
from l2g2g.models.losses import NonEdges, ScoredEdges
from l2g2g.models.masking import EdgeMask, EpochDraws, hidden_pairs
from l2g2g.models.pairs import Arcs, PairList, row_entries
from l2g2g.models.sampling import (
    TARGET_WEIGHTS,
    DrawPlan,
    NegativeDraws,
    NegativePlan,
    TargetUnits,
    likely_by_units,
    likely_uniform,
)
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.parallel.node_directory import NodeDirectory
from l2g2g.parallel.node_index import NodeIndex, distinct_nodes
from l2g2g.parallel.node_table import WantedNodes
from l2g2g.patches.overlap import whole_graph
from l2g2g.training.pair_source import PairOptions, PairSource, PatchEdges, make_pairs
from l2g2g.training.rows import NodeRows, TrainingRows
from l2g2g.training.shared_units import SharedUnits

_Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
_DRAWS_PER_NODE = 4  # of a rank that scores non-edges while it draws them


@dataclass(frozen=True, eq=False)
class OwnedPairs:
    """The pairs of an epoch that one process scores.

    Attributes:
        edges: Edges, each with its weight in the graph, or 1: see `weighed`. As arcs those of the rows here.
        non_edges: Non-edges, with their weights in the loss.
        wanted: The nodes whose vectors are scored: rows and columns are places among them. None where rows and columns
            are nodes, and the vectors of all nodes are needed.
    """

    edges: ScoredEdges
    non_edges: NonEdges
    wanted: WantedNodes | None = None

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
        return replace(self, edges=edges)


class NodePairs:
    """Draws pairs among all nodes whose row is here.

    Memory: the pairs of an epoch, a few numbers for each node, and one block of rows.

    Args:
        rows: The training edges of the nodes that this process owns.
        held_out: (num_rows, num_nodes) pairs of these nodes that are never drawn as negatives; no training edges.
        negatives_per_edge: Non-edges drawn for every edge.
        options: How pairs are drawn and counted.
        device: Where the tensors live.
        communicator: Of the ranks that share the rows.
        patch: The pairs of the whole graph as one patch, where that is what batches encode: masks are then shared.
        directory: Owners of all nodes, of several ranks.
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
        directory: NodeDirectory | None = None,
    ) -> None:
        self.directory = directory
        self.rows, self.held_out, self.negatives_per_edge = rows, held_out, negatives_per_edge
        self.options = options or PairOptions()
        self.device, self.communicator, self.patch = torch.device(device), communicator, patch
        self._fixed: dict[int, _Negatives] = {}

    def draw(self, draws: EpochDraws) -> tuple[ScoredEdges, NonEdges]:
        """As `PairSource.draw`, where the rows of all nodes are here."""
        if self.source is not None:
            return self.source.draw(draws)
        owned = self.draw_owned(draws)
        owned = owned.weighed(owned.total)
        return owned.edges, owned.non_edges

    def draw_owned(self, draws: EpochDraws) -> OwnedPairs:
        """The pairs of an epoch whose row is here."""
        if self._streams:
            negatives_here = NegativeDraws(self._plan, draws.seed, draws.negatives_epoch)
            return OwnedPairs(self._draw_arcs(draws), negatives_here)
        known = self._known
        fixed = None if draws.fresh else self._fixed.get(draws.seed)
        drawn = self._draw_negatives(draws.seed, draws.negatives_epoch) if fixed is None else None
        key, bound = stream_key(draws.seed, Purpose.MASK, draws.epoch), share_threshold(draws.scored)
        groups = draws.groups_of(known.nodes)
        mask = _Mask(hash_nodes(known.nodes, key), groups, key, bound)

        def choose(rows: np.ndarray, columns: np.ndarray, entries: np.ndarray) -> _Entries:
            if draws.scores_all:
                return rows, columns, entries
            seed, epoch = draws.seed, draws.epoch
            chosen = hidden_pairs(rows, columns, known.nodes, draws.scored, seed=seed, epoch=epoch, groups=groups)
            return rows[chosen], columns[chosen], entries[chosen]

        edges, values, allowed = [_NO_PAIRS], [np.empty(0, np.float32)], [_NO_PAIRS]
        reversed_arcs, first_row = [_NO_PAIRS], 0
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
                allowed.append(self._allowed(block, first_row, drawn))
            first_row += len(block.nodes)
        rows, columns = (np.concatenate(side) for side in zip(*edges, strict=True))
        pairs = PairList(rows, columns, np.ones(1, np.float32))
        if self._counts_weights:
            pairs = PairList(rows, columns, np.concatenate(values), "pair")
        if drawn is not None:
            fixed = _Negatives(drawn.far, *(np.concatenate(side) for side in zip(*allowed, strict=True)))
            if not draws.fresh:
                self._fixed[draws.seed] = fixed
        assert fixed is not None
        back = None
        if self.options.reversed_share:
            rows, columns = (np.concatenate(side) for side in zip(*reversed_arcs, strict=True))
            share = self.options.reversed_share / max(1, self._add_up(len(rows)))
            back = PairList(rows, columns, np.full(1, share, np.float32))
        return self._to_places(pairs, fixed, back)

    def _to_places(self, edges: PairList, negatives: _Negatives, back: PairList | None) -> OwnedPairs:
        """The pairs of an epoch, on ranks with places among the nodes whose vectors they need instead of nodes.

        back: reversed arcs that are negatives too.
        """
        far, known, weights = negatives.far, self._known, self._draws.weights
        non_edges = PairList(negatives.rows, negatives.columns, weights)
        if far is None:
            return OwnedPairs(edges, non_edges if back is None else non_edges.join(back))
        is_needed, is_far = np.zeros(len(known.nodes), bool), np.zeros(len(far.nodes), bool)
        for pairs in (edges, *([] if back is None else [back])):
            is_needed[pairs.rows] = is_needed[pairs.columns] = True
        is_needed[negatives.rows] = is_far[negatives.columns] = True
        is_needed[far.places[is_far & (far.places >= 0)]] = True
        near, beyond = np.flatnonzero(is_needed), np.flatnonzero(is_far & (far.places < 0))
        ranks = np.concatenate([known.ranks[near], far.ranks[beyond]])
        order = np.argsort(ranks, kind="stable")
        new_places = np.empty(len(order), np.int32)
        new_places[order] = np.arange(len(order), dtype=np.int32)
        of_known, of_far = np.full(len(known.nodes) + 1, -1, np.int32), np.full(len(far.nodes), -1, np.int32)
        of_known[near] = new_places[: len(near)]
        of_far[:] = of_known[far.places]  # the last place of `of_known` is for those that are not among them
        of_far[beyond] = new_places[len(near) :]
        non_edges = replace(non_edges, rows=of_known[negatives.rows], columns=of_far[negatives.columns])
        if back is not None:
            non_edges = non_edges.join(replace(back, rows=of_known[back.rows], columns=of_known[back.columns]))
        nodes = np.concatenate([known.nodes[near], far.nodes[beyond]])[order]
        wanted = WantedNodes(nodes, np.bincount(ranks, minlength=self.communicator.size).tolist())
        return OwnedPairs(replace(edges, rows=of_known[edges.rows], columns=of_known[edges.columns]), non_edges, wanted)

    def _draw_negatives(self, seed: int, epoch: int) -> _Drawn:
        """All negatives that the rows here draw, excluded ones among them, in the order of their rows."""
        if self.directory is None:
            pairs = self._plan.list_pairs(seed=seed, epoch=epoch)
            return _Drawn(None, *kernels().sort_pairs(pairs.rows, pairs.columns, self.rows.num_nodes))
        rows, nodes, ranks, columns = self._draw_far(seed, epoch)
        far = _FarNodes(nodes, ranks, self._known.places(nodes))
        return _Drawn(far, *kernels().sort_pairs(rows.astype(np.int32), columns, len(self._own_nodes)))

    def _draw_far(self, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(rows, nodes, their owners, columns): of every draw the number of its row here, and of its far node."""
        assert self.directory is not None
        draws = self._draws
        if self._shared_units is None:
            rows, drawn = draws.draw_places(self._own_order, seed=seed, epoch=epoch)
            places = distinct_nodes([drawn])
            return rows, *self.directory.at(places), NodeIndex(places).places(drawn)
        size, keys = self.rows.num_nodes, stream_keys(seed, Purpose.NEGATIVES, epoch, draws.patches)
        hashes = hash_nodes(self._own_nodes.astype(np.int32), stream_key(seed, Purpose.NEGATIVES, epoch))
        shift, key = int(scale_words(random_words(keys, 0), np.array([size]))[0]), int(random_words(keys, 1)[0])
        how = size, int(draws.num_draws[0]), shift, key, self._shared_units.total
        rows, units = draw_units(self._own_order, hashes, *how)
        found = self._shared_units.find(units)
        nodes = distinct_nodes([found])
        return rows, nodes, self.directory.of(nodes), NodeIndex(nodes).places(found)

    @cached_property
    def _known(self) -> _KnownNodes:
        """The nodes that rows here name; from now on these rows have their places among them."""
        if self.directory is None:
            return _KnownNodes(np.arange(self.rows.num_nodes, dtype=np.int32), np.empty(0, np.uint8))
        named = (block.indices for block in self.rows.blocks())
        nodes = distinct_nodes(chain([self._own_nodes, self.held_out.indices], named))
        known = _KnownNodes(nodes, self.directory.of(nodes))
        self.rows.renumber(known)
        return known

    @property
    def _own_nodes(self) -> np.ndarray:
        """(num_rows,) the nodes whose rows are here."""
        return np.arange(self.rows.num_nodes) if self.rows.nodes is None else self.rows.nodes

    @cached_property
    def _own_order(self) -> np.ndarray:
        """(num_rows,) int64 the places of these nodes in the order in which negatives are drawn."""
        assert self.directory is not None
        return self.directory.places_of(self._own_nodes)

    @cached_property
    def _held_here(self) -> tuple[np.ndarray, np.ndarray]:
        """CSR of the held-out pairs of the rows here, by places among the nodes that they name."""
        columns = self.held_out.indices.astype(np.int32, copy=False)
        columns = columns if self.directory is None else self._known.places(columns)
        return self.held_out.indptr.astype(np.int64), columns

    @cached_property
    def _shared_units(self) -> SharedUnits | None:
        """How likely far ends are, where ranks share that."""
        if self.directory is None or TARGET_WEIGHTS[self.options.negative_sampling] is None:
            return None
        named = self.communicator, self.rows.num_nodes, self._own_nodes
        return SharedUnits(*named, self._scored_degrees, self.options.negative_sampling)

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

    def _draw_arcs(self, draws: EpochDraws) -> Arcs:
        """The edges that an epoch scores as arcs of the rows that are here: these get their whole gradient."""
        if draws.scores_all:
            return self._every_arc
        arcs = draws.split(self._edge_mask)[1]
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
    def _draws(self) -> DrawPlan:
        """How many negatives each node draws; the order of the nodes is in it where it is needed for all of them."""
        num_nodes, sampling = self.rows.num_nodes, self.options.negative_sampling
        offsets, first = np.array([0, num_nodes]), np.array([0])
        counts = np.array([np.ceil(self.negatives_per_edge * self.num_scored)]).astype(np.int64)
        shares = np.ones(1)
        if self.options.reversed_share:
            num_reversed = self._add_up(sum(len(self._reversed(block)[0]) for block in self.rows.blocks()))
            shares = shares - (self.options.reversed_share if num_reversed else 0.0)
        if TARGET_WEIGHTS[sampling] is None:
            # No held-out pair is a training edge.
            num_excluded = 2 * self.rows.num_edges + self._add_up(self.held_out.nnz)
            likely = likely_uniform(np.array([num_nodes]), np.array([num_excluded]))
        elif self._shared_units is not None:
            each = self._shared_units.of(self._known.nodes)
            taken = self._add_up(sum(int(each[columns].sum()) for columns in self._excluded_columns()))
            likely = likely_by_units(np.array([self._shared_units.total]), np.array([num_nodes]), np.array([taken]))
        else:
            assert self._units is not None
            each = self._units.each
            taken = sum(int(each[columns].sum()) for columns in self._excluded_columns())
            likely = self._units.likely(offsets, np.array([taken]))
        nodes = None if self.directory is not None and not self._streams else np.arange(num_nodes)
        return DrawPlan.make(nodes, offsets, first, counts, likely, shares)

    def _excluded_columns(self) -> Iterator[np.ndarray]:
        yield from (block.indices for block in self.rows.blocks())
        yield self._held_here[1]

    @cached_property
    def _units(self) -> TargetUnits | None:
        """How likely far ends are in one process; None for all alike."""
        sampling, offsets = self.options.negative_sampling, np.array([0, self.rows.num_nodes])
        return None if TARGET_WEIGHTS[sampling] is None else TargetUnits.make(sampling, self._scored_degrees, offsets)

    @cached_property
    def _plan(self) -> NegativePlan:
        """The negatives where the order of all nodes is here; excluded pairs are left out block by block, or packed."""
        nothing = np.zeros(self.rows.num_nodes + 1, np.int64), np.empty(0, np.int32)
        packed = self._pack(self._draws) if self._streams else nothing
        return NegativePlan(self._draws, packed, self._units, self._is_owned)

    def _pack(self, draws: DrawPlan) -> tuple[np.ndarray, np.ndarray]:
        """The pairs that rows here never draw, in packed order."""
        held_out = self.held_out
        if self.rows.nodes is not None:
            counts = np.zeros(self.rows.num_nodes, np.int64)
            counts[self.rows.nodes] = np.diff(held_out.indptr)
            parts = held_out.data, held_out.indices, np.concatenate([[0], np.cumsum(counts)])
            held_out = sp.csr_array(parts, shape=(self.rows.num_nodes,) * 2)
        patterns = [
            part
            for matrix in (self._arcs_here, held_out)
            for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False))
        ]
        packed: tuple[np.ndarray, np.ndarray] = kernels().pack_pattern(*patterns, draws.order, draws.places)
        return packed

    @property
    def _scored_degrees(self) -> np.ndarray:
        """(num_rows,) edges of every node here that are to be predicted, whatever their direction."""
        return np.concatenate([np.empty(0, np.int64), *(np.diff(block.indptr) for block in self.rows.blocks())])

    def _add_up(self, count: int) -> int:
        """The sum of a count over all ranks."""
        total = torch.tensor([count], device=self.communicator.device)
        self.communicator.all_reduce("counts", total)
        return int(total)

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
        mask = mask or _Mask(np.zeros(len(self._known.nodes), np.uint32), None, 0, share_threshold(1.0))
        indices = np.ascontiguousarray(block.indices, dtype=np.int32)
        parts = block.indptr, indices, block.nodes.astype(np.int32)
        return kernels().hidden_edges(*parts, mask.hashes, mask.groups, mask.key, mask.bound)

    def _allowed(self, block: NodeRows, first_row: int, drawn: _Drawn) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of the drawn pairs whose row is in a block and that are no excluded ones.

        Rows are nodes that rows here name, columns as they were drawn. first_row: number of the first row of the block.
        """
        here = slice(*drawn.starts[[first_row, first_row + len(block.nodes)]])
        rows, columns = drawn.rows[here].astype(np.int64), drawn.columns[here]
        named = (columns if drawn.far is None else drawn.far.places[columns]).astype(np.int64)
        indices = np.ascontiguousarray(block.indices, dtype=np.int32)
        is_edge = kernels().find_entries(block.indptr, indices, rows - first_row, named) >= 0
        is_held = kernels().find_entries(*self._held_here, rows, named) >= 0
        own = block.nodes[rows - first_row]
        allowed = np.flatnonzero(~(is_edge | is_held | (own == named)))
        return own[allowed].astype(np.int32), columns[allowed]


class _KnownNodes(NodeIndex):
    """The nodes that the rows of a process name. ranks: (num_nodes,) their owners, on several ranks."""

    def __init__(self, nodes: np.ndarray, ranks: np.ndarray) -> None:
        super().__init__(nodes)
        self.ranks = ranks


@dataclass(frozen=True, eq=False)
class _FarNodes:
    """The far ends of the negatives of an epoch.

    Attributes:
        nodes, ranks: (num_far,) each once, and their owners.
        places: (num_far,) int32 places among the nodes that rows here name; -1 for the others.
    """

    nodes: np.ndarray
    ranks: np.ndarray
    places: np.ndarray


@dataclass(frozen=True, eq=False)
class _Negatives:
    """Negatives that count. rows: of the nodes that rows here name. columns: of far; of nodes where that is None."""

    far: _FarNodes | None
    rows: np.ndarray
    columns: np.ndarray


@dataclass(frozen=True, eq=False)
class _Mask:
    """Which edges an epoch scores; see `kernels().hidden_edges`."""

    hashes: np.ndarray
    groups: np.ndarray | None
    key: int
    bound: int


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Pairs in the order of their rows. starts: (num_rows + 1,) where each row begins. far: as in `_Negatives`."""

    far: _FarNodes | None
    rows: np.ndarray
    columns: np.ndarray
    starts: np.ndarray


_NO_PAIRS: tuple[np.ndarray, np.ndarray] = np.empty(0, np.int32), np.empty(0, np.int32)
