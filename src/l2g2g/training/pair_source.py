"""Pair sources: the edges and non-edges inside some patches that an epoch scores, and how each of them counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import restrict
from l2g2g.models.masking import deal_groups, hidden_pairs, hidden_pairs_torch, numbers_at
from l2g2g.models.pair_patterns import PairPattern, join_patterns, rows_of, values_at, weigh_pairs
from l2g2g.models.randomness import Purpose, stream_key
from l2g2g.models.sampling import NegativePlan, draw_negatives, draw_negatives_torch, exclude, plan_negatives
from l2g2g.patches.overlap import PatchSet


@dataclass(frozen=True, eq=False)
class PairOptions:
    """Which pairs are drawn, and how they count.

    Attributes:
        by_degree: Whether the far end of a non-edge is drawn by degree^0.75 instead of uniformly.
        weighted: Whether an edge counts by its weight.
        arcs: (num_nodes, num_nodes) CSR of the arcs of a directed graph; None for an undirected one.
        reversed_share: Share of the negatives' weight that arcs in the wrong direction have, where the graph is
            directed: v → u, where only u → v exists. 0 for a decoder to which both are the same.
    """

    by_degree: bool = False
    weighted: bool = False
    arcs: sp.csr_array | None = None
    reversed_share: float = 0.0


@dataclass(frozen=True, eq=False)
class PairSource:
    """Edges and non-edges of some stacked patches, to be scored: all of them, or this epoch's share.

    What only scoring needs is made when it is first asked for: where pairs of all nodes are scored, or patches come
    and go, it never is.

    Attributes:
        adjacency: Block-diagonal scipy CSR of the edges.
        held_out: The same of the pairs that are never drawn as negatives.
        nodes: (num_rows,) node numbers of the rows.
        offsets: (num_patches + 1,) rows of each patch.
        patches: (num_patches,) the numbers of the patches.
        shares: (num_patches,) N_j / Σ N of all patches.
        units: (num_rows,) what is dealt into the groups of a mask: nodes, or clusters of nodes.
        negatives_per_edge: Non-edges drawn for every edge.
        arcs: Block-diagonal scipy CSR of the arcs of a directed graph; then `edges` holds these.
        options: How pairs are drawn and counted.
        device: Where the tensors live.
    """

    adjacency: sp.csr_array
    held_out: sp.csr_array
    nodes: np.ndarray
    offsets: np.ndarray
    patches: np.ndarray
    shares: np.ndarray
    units: np.ndarray
    negatives_per_edge: float
    arcs: sp.csr_array | None
    options: PairOptions
    device: torch.device
    _fixed: dict[int, PairPattern] = field(default_factory=dict, repr=False)

    @property
    def scored(self) -> sp.csr_array:
        """What is to be predicted: the edges, or the arcs of a directed graph."""
        return self.adjacency if self.arcs is None else self.arcs

    @cached_property
    def edges(self) -> PairPattern:
        """All edges in both directions, weighted N_j / (Σ N · 2 M_j): the mean of every patch."""
        matrix = self.scored
        indptr, indices = (torch.from_numpy(each).to(self.device) for each in (matrix.indptr, matrix.indices))
        weighted = self.options.weighted
        return _weighed(matrix, indptr, indices, self.offsets, self.shares, weighted, twice=self.arcs is None)

    @cached_property
    def negatives(self) -> NegativePlan:
        """How non-edges are drawn."""
        excluded = exclude(self.adjacency, self.held_out)
        num_pairs = np.diff(self.scored.indptr[self.offsets].astype(np.int64)) // (2 if self.arcs is None else 1)
        wanted = np.ceil(self.negatives_per_edge * num_pairs).astype(np.int64)
        degrees = np.diff(self.adjacency.indptr) if self.options.by_degree else None
        return plan_negatives(excluded, self.offsets, wanted, self.patches, degrees)

    @cached_property
    def negative_weights(self) -> Tensor:
        """Weight of a non-edge, N_j / (Σ N · negatives of j): a scalar, or a column by rows."""
        shares = self.shares
        if self.backward is not None:  # a patch in which every arc has its reverse leaves all weight to the others
            has_reverses = np.diff(self.backward.indptr[self.offsets]) > 0
            shares = np.where(has_reverses, 1 - self.options.reversed_share, 1.0) * shares
        drawn = np.diff(self.negatives.pair_offsets)
        return _by_row(shares / np.maximum(drawn, 1), self.offsets).to(self.device)

    @cached_property
    def backward(self) -> sp.csr_array | None:
        """The reverses of the one-way arcs, which are negatives; None where these are not used."""
        return one_way_reversed(self.arcs) if self.arcs is not None and self.options.reversed_share else None

    @cached_property
    def far_nodes(self) -> np.ndarray:
        """(num_entries,) node numbers of the columns of the adjacency."""
        if (self.nodes == np.arange(len(self.nodes))).all():
            return self.adjacency.indices
        return numbers_at(self.nodes.astype(self.adjacency.indices.dtype), self.adjacency.indices)

    @cached_property
    def all_alike(self) -> bool:
        """Whether every edge has the weight 1."""
        return bool((self.adjacency.data == 1).all())

    def draw(
        self, fraction: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0
    ) -> tuple[PairPattern, PairPattern]:
        """(edges, non-edges) that an epoch scores. fraction: of the edges; fresh: new non-edges every epoch."""
        edges = self.edges
        if fraction < 1.0 or num_groups:
            edges = self.draw_edges(fraction, seed=seed, epoch=epoch, num_groups=num_groups)
        negatives = self.fresh_negatives(seed=seed, epoch=epoch) if fresh else self.fixed_negatives(seed=seed)
        return edges, self.add_reversed(negatives, fraction, seed=seed, epoch=epoch, num_groups=num_groups)

    def fixed_negatives(self, *, seed: int) -> PairPattern:
        """One set of non-edges for all epochs, drawn once."""
        if seed not in self._fixed:
            self._fixed[seed] = self.draw_negatives(seed=seed, epoch=0)
        return self._fixed[seed]

    def draw_negatives(self, *, seed: int, epoch: int) -> PairPattern:
        """Non-edges of an epoch."""
        return self._draw(seed, epoch, None)

    def fresh_negatives(self, *, seed: int, epoch: int) -> PairPattern:
        """Non-edges of this epoch, written where those of the last one were."""
        return self._draw(seed, epoch, self._room)

    @cached_property
    def _room(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Held from epoch to epoch where one batch has all patches; several would hold the rooms of all of them."""
        if self.negatives.units is not None or self.shares.sum() < 1 - 1e-9:
            return None
        return np.empty(self.negatives.num_pairs, np.int32), np.empty(self.negatives.num_pairs, np.int32)

    def _draw(self, seed: int, epoch: int, room: tuple[np.ndarray, np.ndarray] | None) -> PairPattern:
        if self.device.type == "cpu":
            return draw_negatives(self.negatives, self.negative_weights, seed=seed, epoch=epoch, room=room)
        return draw_negatives_torch(self.negatives, self.negative_weights, seed=seed, epoch=epoch, device=self.device)

    def draw_groups(self, num_groups: int, *, seed: int, epoch: int) -> Tensor | None:
        """(num_rows,) groups of this epoch's mask, dealt anew; None for 0: every node is a group of its own."""
        if num_groups == 0:
            return None
        return deal_groups(torch.from_numpy(self.units).to(self.device), num_groups, seed=seed, epoch=epoch)

    def draw_edges(self, fraction: float, *, seed: int, epoch: int, num_groups: int = 0) -> PairPattern:
        """The edges that are hidden from the encoder in this epoch, each once, weighted like `edges`."""
        hidden = self.hidden(*self.edges.listed[:2], fraction, seed, epoch, num_groups)
        return _weighed_list(self.scored, *hidden, self.offsets, self.shares, self.options.weighted)

    def add_reversed(
        self, negatives: PairPattern, fraction: float, *, seed: int, epoch: int, num_groups: int = 0
    ) -> PairPattern:
        """The negatives and, of a directed graph, the reverses of the one-way arcs that are hidden in this epoch."""
        if self.backward is None:
            return negatives
        indptr, columns = (
            torch.from_numpy(part).to(self.device) for part in (self.backward.indptr, self.backward.indices)
        )
        hidden = self.hidden(rows_of(indptr), columns, fraction, seed, epoch, num_groups)
        shares = self.options.reversed_share * self.shares
        return join_patterns(negatives, _weighed_list(self.backward, *hidden, self.offsets, shares, False))

    def hidden(
        self, rows: Tensor, columns: Tensor, fraction: float, seed: int, epoch: int, num_groups: int
    ) -> tuple[Tensor, Tensor]:
        """(rows, columns) of the pairs of a list that are hidden in this epoch."""
        key = stream_key(seed, Purpose.MASK, epoch)
        groups = self.draw_groups(num_groups, seed=seed, epoch=epoch)
        if self.device.type == "cpu":
            dealt = None if groups is None else groups.numpy()
            return hidden_pairs(rows.numpy(), columns.numpy(), self.nodes, key, fraction, dealt)
        nodes = torch.from_numpy(self.nodes).to(self.device)
        return hidden_pairs_torch(rows, columns, nodes, key, fraction, groups)


def prepare_pairs(
    part: PatchSet,
    adjacency: sp.csr_array,
    held_out: sp.csr_array,
    num_rows_of_all: int,
    patches: np.ndarray,
    negatives_per_edge: float,
    device: torch.device | str,
    units: np.ndarray | None = None,
    options: PairOptions | None = None,
) -> PairSource:
    """The pairs inside some patches, whose losses are weighted by their share of the rows of all patches."""
    options = options or PairOptions()
    whole = part.num_patches == 1 and part.num_rows == part.num_nodes
    block = adjacency if whole else part.induce(adjacency)
    arcs = None
    if options.arcs is not None:
        arcs = restrict(options.arcs if whole else part.induce(options.arcs), block)
    nodes = part.global_nodes.astype(np.int64)
    return PairSource(
        block,
        held_out if whole else part.induce(held_out),
        nodes,
        part.offsets,
        patches,
        np.diff(part.offsets) / num_rows_of_all,
        nodes if units is None else units[nodes],
        negatives_per_edge,
        arcs,
        options,
        torch.device(device),
    )


def one_way_reversed(arcs: sp.csr_array) -> sp.csr_array:
    """CSR pattern of the arcs v → u for which only u → v exists."""
    ones = sp.csr_array((np.ones(arcs.nnz, np.float32), arcs.indices, arcs.indptr), shape=arcs.shape)
    flipped = sp.csr_array(ones.T.tocsr())
    wrong = sp.csr_array(flipped - flipped.multiply(ones), dtype=np.float32)
    wrong.eliminate_zeros()
    return restrict(wrong, wrong)  # in order, and with narrow indices


def _weighed(
    matrix: sp.csr_array,
    indptr: Tensor,
    indices: Tensor,
    offsets: np.ndarray,
    shares: np.ndarray,
    weighted: bool,
    *,
    twice: bool,
    rows: Tensor | None = None,
) -> PairPattern:
    """Some entries of a matrix as pairs whose weights add up to the share of every patch. rows: as in PairPattern."""
    bounds = indptr[torch.from_numpy(offsets).to(indptr.device)].cpu().numpy().astype(np.int64)
    if weighted:
        weights = weigh_pairs(values_at(matrix, indptr, indices), bounds, shares)
    else:
        weights = _by_row(shares / np.maximum(np.diff(bounds), 1), offsets).to(indptr.device)
    return PairPattern(indptr, indices, weights, twice=twice, rows=rows)


def _weighed_list(
    matrix: sp.csr_array, rows: Tensor, columns: Tensor, offsets: np.ndarray, shares: np.ndarray, weighted: bool
) -> PairPattern:
    """The same for entries that are told by their rows and columns, in order."""
    indptr = torch.zeros(matrix.shape[0] + 1, dtype=torch.int32, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=matrix.shape[0]), 0, out=indptr[1:])
    return _weighed(matrix, indptr, columns, offsets, shares, weighted, twice=False, rows=rows)


def _by_row(per_patch: np.ndarray, offsets: np.ndarray) -> Tensor:
    """(num_rows, 1) the number of the patch of every row, or a scalar where there is only one patch."""
    if len(per_patch) == 1:
        return torch.tensor(per_patch[0], dtype=torch.float32)
    return torch.from_numpy(np.repeat(per_patch.astype(np.float32), np.diff(offsets))[:, None])
