"""Stand-ins: generated graphs of a chosen size with communities, hubs and noisy features."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.poisson_blocks import PoissonBlockModel

# Repeated edges are merged and the surplus is dropped: so many times as many are drawn as are wanted. Dense graphs
# with large hubs repeat more, and take the larger factors.
_OVERDRAW = (1.3, 2.0, 4.0, 16.0)
_SIZED = re.compile(r"sized-(\d+)-(\d+)-(\d+)")


@dataclass(frozen=True)
class StandIn:
    """Size and nature of a generated graph.

    Attributes:
        num_nodes, num_edges, num_features: Exactly these.
        num_blocks: Communities of unequal size.
        inside: Fraction of the edges that join nodes of one community.
        tail: Degrees fall off like degree^−tail; smaller means larger hubs.
        signal: Distance between the centres of communities in units of the noise of one column.
    """

    num_nodes: int
    num_edges: int
    num_features: int
    num_blocks: int
    inside: float = 0.7
    tail: float = 2.6
    signal: float = 0.15
    description: str = ""

    def sample(self, seed: int, name: str) -> Graph:
        """Draw the graph: communities, then degrees, edges and features."""
        generator = np.random.default_rng([seed, 0x57A4D])
        shares = generator.dirichlet(np.full(self.num_blocks, 5.0))
        blocks = generator.choice(self.num_blocks, self.num_nodes, p=shares)
        weights = draw_weights(self.num_nodes, self.tail, generator)
        rows = np.arange(self.num_nodes + 1)
        memberships = sp.csr_array((weights, blocks, rows), shape=(self.num_nodes, self.num_blocks))
        model = PoissonBlockModel(memberships, self._rates(memberships))
        features = noisy_centres(blocks, self.num_blocks, self.num_features, self.signal, generator)
        for factor in _OVERDRAW:
            edges = model.scaled_to(factor * self.num_edges).draw_edges(generator)
            if len(edges[0]) >= self.num_edges:
                break
        return model.scaled_to(factor * self.num_edges).graph_of(
            edges, generator, num_edges=self.num_edges, features=features, labels=blocks, name=name
        )

    def _rates(self, memberships: sp.csr_array) -> np.ndarray:
        """The same propensity between any two blocks and a higher one inside, so that `inside` of the edges are."""
        weights = np.asarray(memberships.sum(axis=0)).ravel()
        own, other = (weights**2).sum(), weights.sum() ** 2 - (weights**2).sum()
        rates = np.full((self.num_blocks, self.num_blocks), (1 - self.inside) / max(other, 1e-12))
        np.fill_diagonal(rates, self.inside / own)
        return rates


def draw_weights(num_nodes: int, tail: float, generator: np.random.Generator) -> np.ndarray:
    """(num_nodes,) heavy-tailed weights of mean 1, none above √num_nodes."""
    weights = 1 + generator.pareto(tail - 1, num_nodes)
    weights = np.minimum(weights / weights.mean(), num_nodes**0.5)
    return weights / weights.mean()


def noisy_centres(
    blocks: np.ndarray, num_blocks: int, num_features: int, signal: float, generator: np.random.Generator
) -> np.ndarray:
    """(num_nodes, num_features) float32: a random centre for each block, and noise of deviation 1."""
    centres = signal * generator.standard_normal((num_blocks, num_features), dtype=np.float32)
    features = generator.standard_normal((len(blocks), num_features), dtype=np.float32)
    for low in range(0, len(blocks), 1 << 15):
        features[low : low + (1 << 15)] += centres[blocks[low : low + (1 << 15)]]
    return features


# The paper counts the edges of real graphs in both directions (Table 2: 23,213,838 and 13,954,819).
STAND_INS = {
    "reddit-like": StandIn(232_965, 11_606_919, 602, 50, description="stand-in of the size of Reddit, generated"),
    "yelp-like": StandIn(716_847, 6_977_409, 300, 100, description="stand-in of the size of Yelp, generated"),
}


def find_stand_in(name: str) -> StandIn | None:
    """The stand-in of this name; `sized-N-M-F` has N nodes, M edges and F features."""
    sized = _SIZED.fullmatch(name)
    if sized is None:
        return STAND_INS.get(name)
    num_nodes, num_edges, num_features = map(int, sized.groups())
    if num_nodes < 2 or num_edges < 1 or num_features < 1:
        raise InputError(f"{name}: give 2 nodes, an edge and a feature, or more of them")
    num_blocks = max(1, min(50, num_nodes // 100))
    return StandIn(num_nodes, num_edges, num_features, num_blocks, description="generated in a chosen size")
