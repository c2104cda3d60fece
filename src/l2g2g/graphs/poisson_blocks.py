"""Block models with mixed membership: unequal, overlapping, nested blocks and hubs, with known edge probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import symmetric_adjacency
from l2g2g.graphs.block_model import sorted_distinct
from l2g2g.graphs.graph import Cleaning, Features, Graph


@dataclass(frozen=True, eq=False)
class PoissonBlockModel:
    """Nodes belong to blocks by weights; edges fall as Poisson events, and repeated ones are merged.

    Nodes u and v are joined with probability 1 − exp(−λ), λ = m_u B m_vᵀ, independently of all other pairs. A node's
    weights say how many edges it draws (degree correction) and where (one block, or several that overlap).

    Attributes:
        memberships: (num_nodes, num_blocks) CSR of weights, at least one positive in every row.
        rates: (num_blocks, num_blocks) symmetric, not negative: B.

    Example:
        >>> model = PoissonBlockModel(sp.csr_array(np.kron(np.eye(2), np.ones((40, 1)))), np.array([[0.2, 0.01]] * 2))
        Traceback (most recent call last):
        ...
        l2g2g.errors.InputError: block rates must be symmetric, because edges have no direction
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
        """Mean number of events: edges before repeated ones and self-loops are gone."""
        weights = np.asarray(self.memberships.sum(axis=0)).ravel()
        return float(weights @ self.rates @ weights / 2)

    def scaled_to(self, num_events: float) -> PoissonBlockModel:
        """The same model with so many events on average."""
        return PoissonBlockModel(self.memberships, self.rates * (num_events / self.num_events))

    def edge_probability(self, sources: ArrayLike, targets: ArrayLike) -> np.ndarray:
        """(num_pairs,) probability of an edge between each source and target; 0 for a node and itself."""
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
        num_edges: int | None = None,
        features: Features | None = None,
        labels: np.ndarray | None = None,
        name: str = "block model",
    ) -> Graph:
        """Draw a graph, in time that grows with its edges and not with its pairs.

        num_edges: keep exactly so many edges, a uniform choice of those drawn. All probabilities then shrink alike,
        so that `edge_probability` still ranks pairs as nothing better can.
        """
        generator = np.random.default_rng(seed)
        edges = self.draw_edges(generator)
        return self.graph_of(edges, generator, num_edges=num_edges, features=features, labels=labels, name=name)

    def graph_of(
        self,
        edges: tuple[np.ndarray, np.ndarray],
        generator: np.random.Generator,
        *,
        num_edges: int | None,
        features: Features | None,
        labels: np.ndarray | None,
        name: str,
    ) -> Graph:
        """The graph of edges that were drawn, or of a uniform choice of them."""
        sources, targets = edges
        if num_edges is not None:
            if len(sources) < num_edges:
                raise InputError(f"{name}: {len(sources):,} edges drawn, {num_edges:,} wanted; raise the rates")
            kept = np.sort(generator.choice(len(sources), num_edges, replace=False))
            sources, targets = sources[kept], targets[kept]
        adjacency = symmetric_adjacency(sources, targets, None, self.num_nodes)
        if adjacency.nnz == 0:
            raise InputError(f"{name}: the block model drew no edge; raise its rates or sizes")
        num_isolated = int((np.diff(adjacency.indptr) == 0).sum())
        return Graph(
            adjacency,
            features=features,
            labels=labels,
            name=name,
            cleaning=Cleaning(num_arcs_read=len(sources), num_isolated=num_isolated),
            block_model=self,
        )

    def draw_edges(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Each edge once, (sources, targets) with source < target, sorted."""
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


def _draw_members(columns: sp.csc_array, blocks: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(num_draws,) one node of each block, by weight. columns: (num_nodes, num_blocks)."""
    passed = np.concatenate([[0.0], np.cumsum(columns.data)])
    starts, ends = passed[columns.indptr[:-1]], passed[columns.indptr[1:]]
    height = starts[blocks] + generator.random(len(blocks)) * (ends - starts)[blocks]
    place = np.searchsorted(passed, height, side="right") - 1
    # Rounding may step over the border of a block by one.
    return columns.indices[np.clip(place, columns.indptr[blocks], columns.indptr[blocks + 1] - 1)]
