"""Generated graphs: stand-ins with the size of a real graph, and block models with unequal, nested or mixed blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.block_model import PoissonBlockModel
from l2g2g.graphs.graph import Features, Graph

# Repeated edges are merged and the surplus is dropped: draw this many times the wanted edges. Dense graphs with large
# hubs repeat more and need the larger factors.
_OVERDRAW = (1.3, 2.0, 4.0, 16.0)
_SIZED = re.compile(r"sized-(\d+)-(\d+)-(\d+)")
NUM_NODES, NUM_EDGES, NUM_BLOCKS = 10_000, 14_850, 100
_SURPLUS = 1.2
_INSIDE, _OUTSIDE = 0.02, 1e-4  # rates of SBM-Small; only their ratio matters, the number of edges is fixed
_WITHIN = 0.7  # fraction of the edges of a stand-in that join nodes of one community
_TAIL = 2.6  # degrees fall off like degree^-tail; smaller means larger hubs
_SIGNAL = 0.15  # distance between centres of communities in units of the noise of one column
_STREAM = 0x4E7E0  # separates these draws from other generators with the same seed


@dataclass(frozen=True)
class StandIn:
    """A generated graph with exactly these numbers of nodes, edges and features, in communities of unequal size."""

    num_nodes: int
    num_edges: int
    num_features: int
    num_blocks: int
    description: str

    def sample(self, seed: int, name: str) -> Graph:
        """Draw communities, degrees, features and edges, in this order."""
        generator = np.random.default_rng([seed, 0x57A4D])
        shares = generator.dirichlet(np.full(self.num_blocks, 5.0))
        blocks = generator.choice(self.num_blocks, self.num_nodes, p=shares)
        weights = draw_weights(self.num_nodes, _TAIL, generator)
        rows = np.arange(self.num_nodes + 1)
        memberships = sp.csr_array((weights, blocks, rows), shape=(self.num_nodes, self.num_blocks))
        model = PoissonBlockModel(memberships, self._rates(memberships))
        features = noisy_centres(blocks, self.num_blocks, self.num_features, _SIGNAL, generator)
        for factor in _OVERDRAW:
            edges = model.scaled_to(factor * self.num_edges).draw_edges(generator)
            if len(edges[0]) >= self.num_edges:
                break
        return model.scaled_to(factor * self.num_edges).sample(
            generator, edges=edges, num_edges=self.num_edges, features=features, labels=blocks, name=name
        )

    def _rates(self, memberships: sp.csr_array) -> np.ndarray:
        """Return (num_blocks, num_blocks) rates that put the fraction _WITHIN of the edges inside blocks."""
        weights = np.asarray(memberships.sum(axis=0)).ravel()
        own, other = (weights**2).sum(), weights.sum() ** 2 - (weights**2).sum()
        rates = np.full((self.num_blocks, self.num_blocks), (1 - _WITHIN) / max(other, 1e-12))
        np.fill_diagonal(rates, _WITHIN / own)
        return rates


def draw_weights(num_nodes: int, tail: float, generator: np.random.Generator) -> np.ndarray:
    """Draw (num_nodes,) heavy-tailed weights of mean 1, at most √num_nodes before the last scaling."""
    weights = 1 + generator.pareto(tail - 1, num_nodes)
    weights = np.minimum(weights / weights.mean(), num_nodes**0.5)
    return weights / weights.mean()


def noisy_centres(
    blocks: np.ndarray, num_blocks: int, num_features: int, signal: float, generator: np.random.Generator
) -> np.ndarray:
    """Draw (num_nodes, num_features) float32 features: a random centre for each block plus standard normal noise."""
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
    """Return the stand-in of this name; `sized-N-M-F` has N nodes, M edges and F features."""
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
    """A block model of 10,000 nodes that differs from SBM-Small in the properties that are True.

    Attributes:
        unequal: Block sizes fall like 1 / rank: the largest block has about 1,900 nodes, the smallest about 20.
        heavy_tailed: Degrees are heavy-tailed.
        nested: Blocks form groups of ten: dense inside a block, less so inside its group, sparse elsewhere.
        overlap: A third of the nodes belongs to two blocks, half to each; the features show both.
        misplaced: Fraction of the nodes whose features show a random block.
        weak: Features are dense columns, mostly noise.
    """

    description: str
    unequal: bool = False
    heavy_tailed: bool = False
    nested: bool = False
    overlap: bool = False
    misplaced: float = 0.0
    weak: bool = False

    def sample(self, seed: int, name: str) -> Graph:
        """Draw the graph; the label of a node is the block with its largest weight."""
        generator = np.random.default_rng([seed, _STREAM])
        blocks = self._draw_blocks(generator)
        rates = self._rates(blocks)
        if self.overlap:
            second = generator.integers(0, NUM_BLOCKS, NUM_NODES)
            share = np.where(generator.random(NUM_NODES) < 1 / 3, 0.5, 0.0)
            memberships = sp.csr_array(_one_hot(blocks, 1 - share) + _one_hot(second, share))
            memberships.eliminate_zeros()
        else:
            memberships = _one_hot(blocks, draw_weights(NUM_NODES, _TAIL, generator) if self.heavy_tailed else 1.0)
        features = self._draw_features(blocks, memberships, generator)
        model = PoissonBlockModel(memberships, rates).scaled_to(_SURPLUS * NUM_EDGES)
        labels = np.asarray(memberships.argmax(axis=1)).ravel().astype(np.int64)
        return model.sample(generator, num_edges=NUM_EDGES, features=features, labels=labels, name=name)

    def _draw_blocks(self, generator: np.random.Generator) -> np.ndarray:
        if not self.unequal:
            return generator.permutation(np.arange(NUM_NODES) % NUM_BLOCKS)
        shares = 1 / np.arange(1, NUM_BLOCKS + 1)
        return generator.choice(NUM_BLOCKS, NUM_NODES, p=shares / shares.sum())

    def _rates(self, blocks: np.ndarray) -> np.ndarray:
        groups = np.arange(NUM_BLOCKS) // 10
        is_near = groups[:, None] == groups[None, :]
        rates = np.where(is_near, 10 * _OUTSIDE, _OUTSIDE / 10) if self.nested else np.full(is_near.shape, _OUTSIDE)
        inside: np.ndarray | float = _INSIDE
        if self.unequal and not self.nested:
            # Rates fall with size; otherwise a node of a large block would have a hundred times the degree of another.
            sizes = np.bincount(blocks, minlength=NUM_BLOCKS)
            inside = _INSIDE * np.sqrt(NUM_NODES / NUM_BLOCKS / np.maximum(sizes, 1))
        np.fill_diagonal(rates, inside)
        return rates

    def _draw_features(self, blocks: np.ndarray, memberships: sp.csr_array, generator: np.random.Generator) -> Features:
        if self.weak:
            return noisy_centres(blocks, NUM_BLOCKS, NUM_BLOCKS, 0.3, generator)
        if self.overlap:
            features = memberships.copy()
            features.data = np.ones_like(features.data)
            return features
        if self.misplaced:
            is_wrong = generator.random(len(blocks)) < self.misplaced
            blocks = np.where(is_wrong, generator.integers(0, NUM_BLOCKS, len(blocks)), blocks)
        return _one_hot(blocks)


def _one_hot(blocks: np.ndarray, weights: np.ndarray | float = 1.0) -> sp.csr_array:
    values = np.broadcast_to(np.asarray(weights, np.float32), blocks.shape).copy()
    rows = np.arange(len(blocks) + 1, dtype=np.int32)
    return sp.csr_array((values, blocks.astype(np.int32), rows), shape=(len(blocks), NUM_BLOCKS))


VARIANTS = {
    "hetero-none": Variant("equal blocks, as SBM-Small"),
    "hetero-sizes": Variant("unequal blocks: sizes fall like 1 / rank", unequal=True),
    "hetero-degrees": Variant("degree correction: heavy-tailed degrees", heavy_tailed=True),
    "hetero-noisy": Variant("noisy features: 40 % of the nodes show a random block", misplaced=0.4),
    "hetero-weak": Variant("weak features: dense columns, mostly noise", weak=True),
    "hetero-nested": Variant("hierarchical blocks: ten groups of ten", nested=True),
    "hetero-overlap": Variant("overlapping blocks: a third of the nodes is in two", overlap=True),
    "hetero-all": Variant(
        "unequal and hierarchical blocks, heavy-tailed degrees, 20 % wrong features",
        unequal=True,
        heavy_tailed=True,
        nested=True,
        misplaced=0.2,
    ),
}
