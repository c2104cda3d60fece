"""Stochastic block models, of single edges or Poisson counts, which know the best possible score of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import symmetric_adjacency
from l2g2g.graphs.graph import Cleaning, Features, Graph


@dataclass(frozen=True, eq=False)
class BlockModel:
    """Joins two nodes independently with the probability that their blocks give.

    Attributes:
        block_sizes: (num_blocks,) number of nodes in each block.
        probabilities: (num_blocks, num_blocks) symmetric edge probabilities.

    Example:
        >>> model = BlockModel.planted(num_blocks=2, block_size=50, inside=0.2, outside=0.01)
        >>> model.num_nodes, model.expected_num_edges
        (100, 515.0)
        >>> graph = model.sample(seed=0)
        >>> graph.num_nodes, graph.features.shape
        (100, (100, 2))
    """

    block_sizes: np.ndarray
    probabilities: np.ndarray

    def __init__(self, block_sizes: ArrayLike, probabilities: ArrayLike) -> None:
        sizes, matrix = np.asarray(block_sizes), np.asarray(probabilities, dtype=np.float64)
        if sizes.ndim != 1 or len(sizes) == 0 or sizes.dtype.kind not in "iu" or sizes.min() < 1:
            raise InputError(f"block sizes {np.array2string(sizes, threshold=8)}; give positive whole numbers")
        if matrix.shape != (len(sizes), len(sizes)):
            raise InputError(f"{len(sizes)} blocks but probabilities of shape {matrix.shape}; give one row per block")
        if not ((matrix >= 0) & (matrix <= 1)).all():
            raise InputError("block probabilities must lie between 0 and 1")
        if not (matrix == matrix.T).all():
            raise InputError("block probabilities must be symmetric, because edges have no direction")
        object.__setattr__(self, "block_sizes", sizes.astype(np.int64))
        object.__setattr__(self, "probabilities", matrix)

    @classmethod
    def planted(cls, num_blocks: int, block_size: int, inside: float, outside: float) -> BlockModel:
        """Create equal blocks with one probability inside every block and one between any two."""
        probabilities = np.full((num_blocks, num_blocks), outside)
        np.fill_diagonal(probabilities, inside)
        return cls(np.full(num_blocks, block_size), probabilities)

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return len(self.block_sizes)

    @property
    def num_nodes(self) -> int:
        """Number of nodes in all blocks."""
        return int(self.block_sizes.sum())

    @cached_property
    def labels(self) -> np.ndarray:
        """(num_nodes,) block of each node; nodes are numbered block by block."""
        return np.repeat(np.arange(self.num_blocks), self.block_sizes)

    @property
    def expected_num_edges(self) -> float:
        """Expected number of undirected edges."""
        first, second, num_pairs = self._block_pairs()
        return float((num_pairs * self.probabilities[first, second]).sum())

    def edge_probability(self, sources: ArrayLike, targets: ArrayLike) -> np.ndarray:
        """Return the (num_pairs,) probability of each edge; 0 for a node and itself."""
        sources, targets = np.asarray(sources), np.asarray(targets)
        probability = self.probabilities[self.labels[sources], self.labels[targets]]
        return np.where(sources == targets, 0.0, probability)

    def sample(self, seed: int | np.random.Generator = 0, name: str = "block model") -> Graph:
        """Draw a graph exactly, in time that grows with its edges and not with its pairs.

        The number of edges of each block pair is binomial; given the number, the edges are a uniform set of distinct
        pairs. This is the same distribution as one coin per pair. The graph has one-hot blocks as CSR features, blocks
        as labels, and this model attached.
        """
        generator = np.random.default_rng(seed)
        first, second, num_pairs = self._block_pairs()
        counts = generator.binomial(num_pairs, self.probabilities[first, second])
        chosen, block_pair = _draw_distinct(num_pairs, counts, generator)
        sources, targets = self._endpoints(chosen, first[block_pair], second[block_pair])
        values, rows = np.ones(self.num_nodes, np.float32), np.arange(self.num_nodes + 1, dtype=np.int32)
        one_hot = sp.csr_array((values, self.labels.astype(np.int32), rows), shape=(self.num_nodes, self.num_blocks))
        return _graph_of(self, sources, targets, one_hot, self.labels, name)

    def _block_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each unordered pair of blocks, and the number of node pairs in it."""
        first, second = np.triu_indices(self.num_blocks)
        sizes = self.block_sizes
        num_pairs = np.where(first == second, sizes[first] * (sizes[first] - 1) // 2, sizes[first] * sizes[second])
        return first, second, num_pairs

    def _endpoints(self, chosen: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes of the pairs with numbers `chosen` inside the block pairs (first, second).

        Between two blocks pair c is (c mod n, c // n). Inside a block of n nodes it is {i, i + 1 + c // n mod n} with
        i = c mod n: every distance round the circle of nodes once, and half a round for the last distance of an even n.
        No square root is needed, so nothing is rounded.
        """
        starts = (np.cumsum(self.block_sizes) - self.block_sizes).astype(np.int32)
        sizes = self.block_sizes[first].astype(np.int32)
        quotient, remainder = np.divmod(chosen, sizes)
        quotient, remainder = quotient.astype(np.int32), remainder.astype(np.int32)
        around = remainder + quotient + 1
        around -= np.where(around >= sizes, sizes, np.int32(0))
        other = np.where(first == second, around, quotient)
        return starts[first] + remainder, starts[second] + other


def _draw_distinct(
    sizes: np.ndarray, counts: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw counts[g] distinct numbers below sizes[g] for each group g, uniformly.

    Repeats are rejected and only the missing numbers are drawn again. Where more than half of a group is wanted, the
    complement is drawn.

    Returns:
        (total,) numbers and (total,) their groups.
    """
    leave_out = counts > sizes // 2
    wanted = np.where(leave_out, sizes - counts, counts)
    starts = np.cumsum(sizes) - sizes
    drawn = np.empty(0, dtype=np.int64)
    missing = wanted
    while missing.any():
        groups = np.repeat(np.arange(len(sizes)), missing)
        fresh = starts[groups] + generator.integers(0, sizes[groups])
        drawn = sorted_distinct(np.concatenate([drawn, fresh]))
        missing = wanted - (np.searchsorted(drawn, starts + sizes) - np.searchsorted(drawn, starts))
    numbers = drawn - np.repeat(starts, wanted)
    if leave_out.any():
        pieces = np.split(numbers, np.cumsum(wanted)[:-1])
        for group in np.flatnonzero(leave_out):
            pieces[group] = np.delete(np.arange(sizes[group]), pieces[group])
        numbers = np.concatenate(pieces)
    return numbers, np.repeat(np.arange(len(sizes)), counts)


def sorted_distinct(numbers: np.ndarray) -> np.ndarray:
    """Return the distinct numbers in order; sorts in place, and is much faster than `np.unique` for millions."""
    numbers.sort()
    return numbers[np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]]


@dataclass(frozen=True, eq=False)
class PoissonBlockModel:
    """Draws edges as Poisson events from weighted memberships in blocks; repeated edges are merged.

    Nodes u and v are joined with probability 1 − exp(−λ), λ = m_u B m_vᵀ, independently of all other pairs. The weights
    of a node say how many edges it draws (degree correction) and in which blocks.

    Attributes:
        memberships: (num_nodes, num_blocks) CSR of weights, at least one positive in every row.
        rates: (num_blocks, num_blocks) symmetric and not negative: B.

    Example:
        >>> model = PoissonBlockModel(sp.csr_array(np.kron(np.eye(2), np.ones((40, 1)))), 0.2 * np.eye(2))
        >>> model.edge_probability([0, 0, 0], [1, 50, 0]).round(4).tolist()
        [0.1813, 0.0, 0.0]
    """

    memberships: sp.csr_array
    rates: np.ndarray

    def __init__(self, memberships: sp.csr_array, rates: ArrayLike) -> None:
        matrix = np.asarray(rates, dtype=np.float64)
        if matrix.shape != (memberships.shape[1], memberships.shape[1]):
            raise InputError(f"{memberships.shape[1]} blocks but rates of shape {matrix.shape}; give one row per block")
        if not (np.isfinite(matrix) & (matrix >= 0)).all():
            raise InputError("block rates must be finite and not negative")
        if not (matrix == matrix.T).all():
            raise InputError("block rates must be symmetric, because edges have no direction")
        object.__setattr__(self, "memberships", sp.csr_array(memberships, dtype=np.float64))
        object.__setattr__(self, "rates", matrix)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.memberships.shape[0]

    @property
    def num_events(self) -> float:
        """Expected number of events: edges before repeated ones and self-loops are removed."""
        weights = np.asarray(self.memberships.sum(axis=0)).ravel()
        return float(weights @ self.rates @ weights / 2)

    def scaled_to(self, num_events: float) -> PoissonBlockModel:
        """Return the model with this expected number of events."""
        return PoissonBlockModel(self.memberships, self.rates * (num_events / self.num_events))

    def edge_probability(self, sources: ArrayLike, targets: ArrayLike) -> np.ndarray:
        """Return the (num_pairs,) probability of each edge; 0 for a node and itself."""
        sources, targets = np.asarray(sources), np.asarray(targets)
        rate = np.empty(len(sources))
        for low in range(0, len(sources), 1 << 16):
            part = slice(low, low + (1 << 16))
            reach = self.memberships[sources[part]] @ self.rates
            rate[part] = np.asarray(self.memberships[targets[part]].multiply(reach).sum(axis=1)).ravel()
        return np.where(sources == targets, 0.0, -np.expm1(-rate))

    def sample(
        self,
        seed: int | np.random.Generator = 0,
        *,
        edges: tuple[np.ndarray, np.ndarray] | None = None,
        num_edges: int | None = None,
        features: Features | None = None,
        labels: np.ndarray | None = None,
        name: str = "block model",
    ) -> Graph:
        """Draw a graph, in time that grows with its edges and not with its pairs.

        edges: from `draw_edges`; drawn here where they are None. num_edges: keep a uniform choice of this size. All
        probabilities then shrink alike, so the ranking by `edge_probability` stays the best possible.
        """
        generator = np.random.default_rng(seed)
        sources, targets = self.draw_edges(generator) if edges is None else edges
        if num_edges is not None:
            if len(sources) < num_edges:
                raise InputError(f"{name}: {len(sources):,} edges drawn, {num_edges:,} wanted; raise the rates")
            kept = np.sort(generator.choice(len(sources), num_edges, replace=False))
            sources, targets = sources[kept], targets[kept]
        return _graph_of(self, sources, targets, features, labels, name)

    def draw_edges(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw each edge once as (sources, targets), source < target, sorted."""
        columns = sp.csc_array(self.memberships)
        weights = np.asarray(self.memberships.sum(axis=0)).ravel()
        first, second = np.triu_indices(len(weights))
        means = weights[first] * weights[second] * self.rates[first, second]
        counts = generator.poisson(np.where(first == second, means / 2, means))
        ends = [_draw_members(columns, np.repeat(side, counts), generator).astype(np.int64) for side in (first, second)]
        low, high = np.minimum(*ends), np.maximum(*ends)
        keys = sorted_distinct((low * self.num_nodes + high)[low != high])
        sources, targets = np.divmod(keys, self.num_nodes)
        return sources.astype(np.int32), targets.astype(np.int32)


def _graph_of(
    model: BlockModel | PoissonBlockModel,
    sources: np.ndarray,
    targets: np.ndarray,
    features: Features | None,
    labels: np.ndarray | None,
    name: str,
) -> Graph:
    adjacency = symmetric_adjacency(sources, targets, None, model.num_nodes)
    if adjacency.nnz == 0:
        raise InputError(f"{name}: the block model drew no edge; raise its probabilities, rates or sizes")
    cleaning = Cleaning(num_arcs_read=len(sources), num_isolated=int((np.diff(adjacency.indptr) == 0).sum()))
    return Graph(adjacency, features, labels=labels, name=name, cleaning=cleaning, block_model=model)


def _draw_members(columns: sp.csc_array, blocks: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Draw one node of each block by weight. columns: (num_nodes, num_blocks)."""
    passed = np.concatenate([[0.0], np.cumsum(columns.data)])
    starts, ends = passed[columns.indptr[:-1]], passed[columns.indptr[1:]]
    height = starts[blocks] + generator.random(len(blocks)) * (ends - starts)[blocks]
    place = np.searchsorted(passed, height, side="right") - 1
    # Rounding may leave the block by one.
    return columns.indices[np.clip(place, columns.indptr[blocks], columns.indptr[blocks + 1] - 1)]
