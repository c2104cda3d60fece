"""Heterogeneous block models: SBM-Small with unequal, nested or overlapping blocks, hubs, or bad features.

All have the 10,000 nodes and about the edges of SBM-Small, so that only the named property differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Features, Graph
from l2g2g.graphs.poisson_blocks import PoissonBlockModel
from l2g2g.graphs.stand_ins import draw_weights, noisy_centres

NUM_NODES, NUM_EDGES, NUM_BLOCKS = 10_000, 14_850, 100
_OVERDRAW = 1.2
_INSIDE, _OUTSIDE = 0.02, 1e-4  # rates of SBM-Small; only their ratio matters here
_STREAM = 0x4E7E0  # keeps these draws apart from those of other generators with the same seed
Drawn = tuple[sp.csr_array, np.ndarray, Features]  # (num_nodes, num_blocks) memberships, rates of blocks, features


@dataclass(frozen=True)
class Variant:
    """A block model in words, and how it is drawn from a seed."""

    description: str
    draw: Callable[[np.random.Generator], Drawn]

    def sample(self, seed: int, name: str) -> Graph:
        """Draw the graph; its label is the block that a node belongs to most."""
        generator = np.random.default_rng([seed, _STREAM])
        memberships, rates, features = self.draw(generator)
        model = PoissonBlockModel(memberships, rates).scaled_to(_OVERDRAW * NUM_EDGES)
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
    """Blocks as features tell them: for some nodes another one, at random."""
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
