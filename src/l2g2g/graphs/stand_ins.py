"""Generated graphs: stand-ins of a real graph's size, and block models with unequal, nested or overlapping blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.block_model import PoissonBlockModel
from l2g2g.graphs.graph import Features, Graph

# Repeated edges are merged and the surplus is dropped: so many times as many are drawn as are wanted. Dense graphs
# with large hubs repeat more, and take the larger factors.
_OVERDRAW = (1.3, 2.0, 4.0, 16.0)
_SIZED = re.compile(r"sized-(\d+)-(\d+)-(\d+)")
NUM_NODES, NUM_EDGES, NUM_BLOCKS = 10_000, 14_850, 100
_SURPLUS = 1.2
_INSIDE, _OUTSIDE = 0.02, 1e-4  # rates of SBM-Small; only their ratio matters, the number of edges is fixed
_STREAM = 0x4E7E0  # keeps these draws apart from those of other generators with the same seed
Drawn = tuple[sp.csr_array, np.ndarray, Features]  # (num_nodes, num_blocks) memberships, rates of blocks, features


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


@dataclass(frozen=True)
class Variant:
    """A block model. draw: its memberships, rates and features from a generator."""

    description: str
    draw: Callable[[np.random.Generator], Drawn]

    def sample(self, seed: int, name: str) -> Graph:
        """Draw the graph; its label is the block that a node belongs to most."""
        generator = np.random.default_rng([seed, _STREAM])
        memberships, rates, features = self.draw(generator)
        model = PoissonBlockModel(memberships, rates).scaled_to(_SURPLUS * NUM_EDGES)
        labels = np.asarray(memberships.argmax(axis=1)).ravel().astype(np.int64)
        return model.sample(generator, num_edges=NUM_EDGES, features=features, labels=labels, name=name)


def _planted_rates() -> np.ndarray:
    rates = np.full((NUM_BLOCKS, NUM_BLOCKS), _OUTSIDE)
    np.fill_diagonal(rates, _INSIDE)
    return rates


def _nested_rates() -> np.ndarray:
    """Blocks in groups of ten: dense inside a block, less so inside its group, sparse elsewhere."""
    groups = np.arange(NUM_BLOCKS) // 10
    rates = np.where(groups[:, None] == groups[None, :], 10 * _OUTSIDE, _OUTSIDE / 10)
    np.fill_diagonal(rates, _INSIDE)
    return rates


def _equal_blocks(generator: np.random.Generator) -> np.ndarray:
    return generator.permutation(np.arange(NUM_NODES) % NUM_BLOCKS)


def _unequal_blocks(generator: np.random.Generator) -> np.ndarray:
    """Sizes fall like 1 / rank: the largest block has about 1,900 nodes, the smallest about 20."""
    shares = 1 / np.arange(1, NUM_BLOCKS + 1)
    return generator.choice(NUM_BLOCKS, NUM_NODES, p=shares / shares.sum())


def _one_hot(blocks: np.ndarray, weights: np.ndarray | float = 1.0) -> sp.csr_array:
    values = np.broadcast_to(np.asarray(weights, np.float32), blocks.shape).copy()
    rows = np.arange(len(blocks) + 1, dtype=np.int32)
    return sp.csr_array((values, blocks.astype(np.int32), rows), shape=(len(blocks), NUM_BLOCKS))


def _misplace(blocks: np.ndarray, fraction: float, generator: np.random.Generator) -> np.ndarray:
    """(num_nodes,) the blocks that features show: for a fraction of the nodes a random one."""
    wrong = generator.random(len(blocks)) < fraction
    return np.where(wrong, generator.integers(0, NUM_BLOCKS, len(blocks)), blocks)


def _plain(generator: np.random.Generator) -> Drawn:
    blocks = _equal_blocks(generator)
    return _one_hot(blocks), _planted_rates(), _one_hot(blocks)


def _sizes(generator: np.random.Generator) -> Drawn:
    blocks = _unequal_blocks(generator)
    # Rates fall with size, so that a node of a large block does not have a hundred times the degree of another.
    sizes = np.bincount(blocks, minlength=NUM_BLOCKS)
    rates = _planted_rates()
    np.fill_diagonal(rates, _INSIDE * np.sqrt(NUM_NODES / NUM_BLOCKS / np.maximum(sizes, 1)))
    return _one_hot(blocks), rates, _one_hot(blocks)


def _degrees(generator: np.random.Generator) -> Drawn:
    blocks = _equal_blocks(generator)
    return _one_hot(blocks, draw_weights(NUM_NODES, 2.6, generator)), _planted_rates(), _one_hot(blocks)


def _noisy(generator: np.random.Generator) -> Drawn:
    blocks = _equal_blocks(generator)
    return _one_hot(blocks), _planted_rates(), _one_hot(_misplace(blocks, 0.4, generator))


def _weak(generator: np.random.Generator) -> Drawn:
    blocks = _equal_blocks(generator)
    return _one_hot(blocks), _planted_rates(), noisy_centres(blocks, NUM_BLOCKS, NUM_BLOCKS, 0.3, generator)


def _nested(generator: np.random.Generator) -> Drawn:
    blocks = _equal_blocks(generator)
    return _one_hot(blocks), _nested_rates(), _one_hot(blocks)


def _overlap(generator: np.random.Generator) -> Drawn:
    """A third of the nodes belongs to two blocks, half to each; the features show both."""
    blocks, second = _equal_blocks(generator), generator.integers(0, NUM_BLOCKS, NUM_NODES)
    share = np.where(generator.random(NUM_NODES) < 1 / 3, 0.5, 0.0)
    memberships = sp.csr_array(_one_hot(blocks, 1 - share) + _one_hot(second, share))
    memberships.eliminate_zeros()
    features = memberships.copy()
    features.data = np.ones_like(features.data)
    return memberships, _planted_rates(), features


def _everything(generator: np.random.Generator) -> Drawn:
    blocks = _unequal_blocks(generator)
    memberships = _one_hot(blocks, draw_weights(NUM_NODES, 2.6, generator))
    return memberships, _nested_rates(), _one_hot(_misplace(blocks, 0.2, generator))


VARIANTS = {
    "hetero-none": Variant("equal blocks, as SBM-Small", _plain),
    "hetero-sizes": Variant("unequal blocks: sizes fall like 1 / rank", _sizes),
    "hetero-degrees": Variant("degree correction: heavy-tailed degrees", _degrees),
    "hetero-noisy": Variant("noisy features: 40 % of the nodes show a random block", _noisy),
    "hetero-weak": Variant("weak features: dense columns, mostly noise", _weak),
    "hetero-nested": Variant("hierarchical blocks: ten groups of ten", _nested),
    "hetero-overlap": Variant("overlapping blocks: a third of the nodes is in two", _overlap),
    "hetero-all": Variant("unequal and hierarchical blocks, heavy-tailed degrees, 20 % wrong features", _everything),
}
