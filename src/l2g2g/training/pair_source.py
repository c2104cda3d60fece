"""Pair sources: the edges and non-edges inside some patches that an epoch scores, and how each of them counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.graphs.adjacency import restrict
from l2g2g.models.losses import NonEdges, ScoredEdges
from l2g2g.models.masking import EdgeMask, EpochDraws, hidden_pairs
from l2g2g.models.pairs import Arcs, PairList, row_entries
from l2g2g.models.sampling import NegativeDraws, NegativePlan, plan_negatives
from l2g2g.parallel.node_index import NodeIndex
from l2g2g.patches.overlap import PatchSet


@dataclass(frozen=True, eq=False)
class PairOptions:
    """Which pairs are drawn, and how they count.

    Attributes:
        negative_sampling: How the far end of a non-edge is drawn: a name in `sampling.TARGET_WEIGHTS`.
        weighted: Whether an edge counts by its weight.
        reversed_share: Share of the negatives' weight that arcs in the wrong direction have, where the graph is
            directed: v → u, where only u → v exists. 0 for a decoder to which both are the same.
    """

    negative_sampling: str = "uniform"
    weighted: bool = False
    reversed_share: float = 0.0


@dataclass(frozen=True, eq=False)
class PairSource:
    """Edges and non-edges of some stacked patches, to be scored: all of them, or this epoch's share.

    What only scoring needs is made on first use: where pairs of all nodes are scored, or patches come
    and go, it never is.

    Attributes:
        adjacency: Block-diagonal scipy CSR of the edges.
        held_out: The same of the pairs that are never drawn as negatives.
        nodes: (num_rows,) node numbers of the rows.
        offsets: (num_patches + 1,) rows of each patch.
        patches: (num_patches,) the numbers of the patches.
        shares: (num_patches,) N_j / Σ N of all patches.
        negatives_per_edge: Non-edges drawn for every edge.
        arcs: Block-diagonal scipy CSR of the arcs of a directed graph; then these are scored.
        options: How pairs are drawn and counted.
        device: Where the tensors live.
        weighted: Whether edges have other weights than 1; None to look.
    """

    adjacency: sp.csr_array
    held_out: sp.csr_array
    nodes: np.ndarray
    offsets: np.ndarray
    patches: np.ndarray
    shares: np.ndarray
    negatives_per_edge: float
    arcs: sp.csr_array | None
    options: PairOptions
    device: torch.device
    weighted: bool | None = None

    @property
    def scored(self) -> sp.csr_array:
        """What is to be predicted: the edges, or the arcs of a directed graph."""
        return self.adjacency if self.arcs is None else self.arcs

    @property
    def num_scored(self) -> int:
        """Edges or arcs that are to be predicted, over all epochs."""
        return self.scored.nnz // (2 if self.arcs is None else 1)

    @cached_property
    def edges(self) -> ScoredEdges:
        """All edges, weighted N_j / (Σ N · 2 M_j) in each direction: the mean of every patch."""
        matrix = self.scored
        indptr = matrix.indptr.astype(np.int64)
        if self.arcs is not None:
            rows, _ = row_entries(indptr[:-1], indptr[1:])
            return self._weigh_list(rows, matrix.indices, matrix.data, self.shares)
        indices = np.ascontiguousarray(matrix.indices, dtype=np.int32)
        return self._weigh(Arcs(indptr[:-1], indptr[1:], indices, matrix.data.astype(np.float32, copy=False), "pair"))

    @cached_property
    def negatives(self) -> NegativePlan:
        """How non-edges are drawn; the weights of those of a patch add up to N_j / Σ N on average."""
        num_pairs = np.diff(self.scored.indptr[self.offsets].astype(np.int64)) // (2 if self.arcs is None else 1)
        shares = self.shares
        if self.backward is not None:  # a patch in which every arc has its reverse leaves all weight to the others
            has_reverses = np.diff(self.backward.indptr[self.offsets]) > 0
            shares = np.where(has_reverses, 1 - self.options.reversed_share, 1.0) * shares
        return plan_negatives(
            self.adjacency,
            self.held_out,
            self.nodes,
            self.offsets,
            np.ceil(self.negatives_per_edge * num_pairs).astype(np.int64),
            patches=self.patches,
            shares=shares,
            sampling=self.options.negative_sampling,
        )

    @cached_property
    def backward(self) -> sp.csr_array | None:
        """The reverses of the one-way arcs, which are negatives; None where these are not used."""
        return one_way_reversed(self.arcs) if self.arcs is not None and self.options.reversed_share else None

    @cached_property
    def all_alike(self) -> bool:
        """Whether every edge has the weight 1."""
        return bool((self.adjacency.data == 1).all()) if self.weighted is None else not self.weighted

    @cached_property
    def mask(self) -> EdgeMask:
        """Hides edges of an epoch."""
        return EdgeMask(self.adjacency, self.nodes, weighted=not self.all_alike, device=self.device)

    def draw(self, draws: EpochDraws) -> tuple[ScoredEdges, NonEdges]:
        """(edges, non-edges) that an epoch scores."""
        edges = self.edges if draws.scores_all else self.draw_edges(draws)
        negatives = NegativeDraws(self.negatives, draws.seed, draws.negatives_epoch)
        if self.backward is None:
            return edges, negatives
        shares = self.options.reversed_share * self.shares
        return edges, negatives.pair_list.join(self._choose_scored(self.backward, draws, shares))

    def draw_edges(self, draws: EpochDraws) -> ScoredEdges:
        """The edges that are scored in this epoch, weighted like `edges`."""
        if self.arcs is None:
            return self._weigh(draws.split(self.mask)[1])
        return self._choose_scored(self.arcs, draws, self.shares)

    def _choose_scored(self, matrix: sp.csr_array, draws: EpochDraws, shares: np.ndarray) -> PairList:
        """The arcs of a matrix that are scored in this epoch. shares: (num_patches,) what those of a patch count."""
        rows, _ = row_entries(matrix.indptr[:-1], matrix.indptr[1:])
        nodes, groups = self.nodes.astype(np.int32), draws.groups_of(self.nodes)
        seed, epoch = draws.seed, draws.epoch
        chosen = hidden_pairs(rows, matrix.indices, nodes, draws.scored, seed=seed, epoch=epoch, groups=groups)
        return self._weigh_list(rows[chosen], matrix.indices[chosen], matrix.data[chosen], shares)

    def _weigh(self, arcs: Arcs) -> Arcs:
        """Arcs whose weights add up to the share of every patch: all alike, or in proportion to those they have."""
        if self.options.weighted and arcs.kind == "pair":
            rows, entries = row_entries(arcs.starts, arcs.ends)
            weights = np.zeros(len(arcs.indices), np.float32)
            weights[entries] = weigh_pairs(arcs.weights[entries], self._patch_of(rows), self.shares)
            return replace(arcs, weights=weights)
        if len(self.shares) == 1:
            total = max(1, int((arcs.ends - arcs.starts).sum()))
            return replace(arcs, weights=(self.shares / total).astype(np.float32), kind="all")
        before = np.concatenate([[0], np.cumsum(arcs.ends - arcs.starts)])[self.offsets]
        per_patch = (self.shares / np.maximum(np.diff(before), 1)).astype(np.float32)
        return replace(arcs, weights=np.repeat(per_patch, np.diff(self.offsets)), kind="row")

    def _weigh_list(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shares: np.ndarray) -> PairList:
        """Pairs of rows and columns, with weights that add up to the share of every patch; see `_weigh`."""
        patch = self._patch_of(rows)
        values = values if self.options.weighted else np.ones(len(rows), np.float32)
        ends = np.ascontiguousarray(rows, dtype=np.int32), np.ascontiguousarray(columns, dtype=np.int32)
        return PairList(*ends, weigh_pairs(values, patch, shares), "pair")

    def _patch_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, rows, side="right") - 1


def weigh_pairs(values: np.ndarray, patch: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(num_pairs,) float32 weights in proportion to the values that add up to the share of every patch.

    values: (num_pairs,) positive. patch: (num_pairs,) patch of each pair. shares: (num_patches,).
    """
    totals = np.bincount(patch, weights=values, minlength=len(shares))
    return (values * (shares / np.maximum(totals, 1e-30))[patch]).astype(np.float32)


def make_pairs(
    part: PatchSet,
    edges: PatchEdges,
    held_out: sp.csr_array | None,
    num_rows_of_all: int,
    patches: np.ndarray,
    negatives_per_edge: float,
    device: torch.device | str,
    options: PairOptions | None = None,
    weighted: bool | None = None,
    held_nodes: np.ndarray | None = None,
) -> PairSource:
    """The pairs inside some patches, whose losses are weighted by their share of the rows of all patches.

    part: these patches alone. edges: inside them. held_out: (num_held, num_nodes), None for nothing.
    held_nodes: (num_held,) ascending, the nodes that have a row in it; None for all nodes.
    """
    if held_out is None:
        inside = sp.csr_array(edges.adjacency.shape, dtype=np.float32)
    else:
        inside = held_out if part.is_whole else _induce_held(part, held_out, held_nodes)
    nodes = part.global_nodes.astype(np.int64)
    return PairSource(
        edges.adjacency,
        inside,
        nodes,
        part.offsets,
        patches,
        np.diff(part.offsets) / num_rows_of_all,
        negatives_per_edge,
        edges.arcs,
        options or PairOptions(),
        torch.device(device),
        weighted,
    )


def _induce_held(part: PatchSet, held_out: sp.csr_array, nodes: np.ndarray | None) -> sp.csr_array:
    """Block-diagonal pattern of held-out pairs. nodes: that have a row in it, those of the patches among them."""
    if nodes is None:
        return part.induce(held_out)
    index = NodeIndex(nodes)
    columns = index.places(held_out.indices)
    inside = columns >= 0
    ends = np.concatenate([[0], np.cumsum(inside)])[held_out.indptr]
    local = sp.csr_array((held_out.data[inside], columns[inside], ends), shape=(len(nodes), len(nodes)))
    places = index.places(part.global_nodes).astype(np.int64)
    return replace(part, num_nodes=len(nodes), global_nodes=places).induce(local)


@dataclass(frozen=True, eq=False)
class PatchEdges:
    """The edges inside some stacked patches.

    Attributes:
        adjacency: (num_rows, num_rows) block-diagonal CSR.
        arcs: The same of the arcs of a directed graph; None for an undirected one.
    """

    adjacency: sp.csr_array
    arcs: sp.csr_array | None = None

    @classmethod
    def induced(cls, part: PatchSet, adjacency: sp.csr_array, arcs: sp.csr_array | None = None) -> PatchEdges:
        """Those of a graph in memory. adjacency, arcs: (num_nodes, num_nodes)."""
        block = adjacency if part.is_whole else part.induce(adjacency)
        if arcs is None:
            return cls(block)
        return cls(block, restrict(arcs if part.is_whole else part.induce(arcs), block))


def one_way_reversed(arcs: sp.csr_array) -> sp.csr_array:
    """CSR pattern of the arcs v → u for which only u → v exists."""
    ones = sp.csr_array((np.ones(arcs.nnz, np.float32), arcs.indices, arcs.indptr), shape=arcs.shape)
    flipped = sp.csr_array(ones.T.tocsr())
    wrong = sp.csr_array(flipped - flipped.multiply(ones), dtype=np.float32)
    wrong.eliminate_zeros()
    return restrict(wrong, wrong)  # in order, and with int32 indices
