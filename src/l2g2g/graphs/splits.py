"""Splits: a Graph becomes a LinkSplit, a training graph and pairs that training never sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph

Protocol = Literal["heldout", "paper"]


@dataclass(frozen=True)
class Pairs:
    """Node pairs to be told apart: positive (num_positive, 2) edges, negative (num_negative, 2) non-edges.

    Of a directed graph a pair (u, v) is the arc u → v, and the last num_reversed negatives are the reverses of
    one-way arcs; the others are not joined at all.
    """

    positive: np.ndarray
    negative: np.ndarray
    num_reversed: int = 0

    def without_reversed(self) -> Pairs:
        """The arcs against nodes that are not joined: is there an edge?"""
        return Pairs(self.positive, self.negative[: len(self.negative) - self.num_reversed])

    def only_reversed(self) -> Pairs:
        """One-way arcs against themselves reversed: which way does it point? Half is chance."""
        wrong = self.negative[len(self.negative) - self.num_reversed :]
        return Pairs(wrong[:, ::-1], wrong)

    def endpoints(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(sources, targets, is_edge) of positives and negatives together."""
        both = np.concatenate([self.positive, self.negative])
        is_edge = np.concatenate([np.ones(len(self.positive), bool), np.zeros(len(self.negative), bool)])
        return both[:, 0], both[:, 1], is_edge


@dataclass(frozen=True)
class LinkSplit:
    """A training graph, validation and test pairs.

    Attributes:
        train: The graph that training may see.
        validation: Held-out edges and as many non-edges, for early stopping; None without validation.
        test: Held-out pairs for the final scores; None where nothing is tested.
        held_out: Symmetric CSR pattern of every pair of both sets: training never draws one as a negative.
        protocol: Which evaluation the test pairs belong to.
    """

    train: Graph
    validation: Pairs | None
    test: Pairs | None
    held_out: sp.csr_array
    protocol: Protocol = "heldout"


def split_links(
    graph: Graph,
    *,
    protocol: Protocol = "heldout",
    validation_fraction: float = 0.05,
    test_fraction: float = 0.10,
    seed: int = 0,
) -> LinkSplit:
    """Hold back edges and draw as many non-edges of the whole graph.

    `heldout`: the test pairs are held-out edges against non-edges. `paper`: the authors' evaluation
    (kept for comparison only): the *validation* edges in both directions plus a self-loop for every
    node, against as many non-edges.

    A directed graph loses a pair of nodes with all its arcs, so that none tells of its reverse. Positives are the
    held-out arcs. Of as many negatives half are reverses of held-out one-way arcs (fewer where there are not enough),
    the rest pairs that no arc joins, in a random direction.

    Example:
        >>> graph = Graph.from_arcs(range(40), [(i + 1) % 40 for i in range(40)])
        >>> split = split_links(graph, seed=1)
        >>> split.train.num_edges, len(split.validation.positive), len(split.test.positive)
        (34, 2, 4)
    """
    if protocol not in ("heldout", "paper"):
        raise InputError(f"unknown protocol '{protocol}'; choose heldout or paper")
    generator = np.random.default_rng([seed, 0x5B117])
    sources, targets = graph.edges()
    num_edges = len(sources)
    num_validation = _count_held(validation_fraction, num_edges)
    num_test = _count_held(test_fraction, num_edges)
    if num_edges - num_validation - num_test < 1:
        raise InputError(
            f"{graph.name}: {num_edges} edges leave none to train on after holding back "
            f"{num_validation} for validation and {num_test} for test; use a larger graph"
        )
    order = generator.permutation(num_edges)
    chosen = {
        "validation": order[:num_validation],
        "test": order[num_validation : num_validation + num_test],
    }
    kept = np.sort(order[num_validation + num_test :])
    positive = {
        part: np.stack([sources[rows], targets[rows]], axis=1).astype(np.int64) for part, rows in chosen.items()
    }
    negatives = sample_non_edges(graph, num_validation + num_test, generator)
    validation = Pairs(positive["validation"], negatives[:num_validation]) if num_validation else None
    test = Pairs(positive["test"], negatives[num_validation:]) if num_test else None
    more_negatives = []
    if graph.arcs is not None:
        if protocol == "paper":
            raise InputError("the paper's evaluation knows no directions; use --protocol heldout with --directed")
        both = (positive["validation"], positive["test"])
        validation, test = (_direct(graph.arcs, pairs, graph, generator) if len(pairs) else None for pairs in both)
        more_negatives = [pairs.negative for pairs in (validation, test) if pairs is not None]
    if protocol == "paper":
        test = _paper_pairs(graph, positive["validation"], generator)
        more_negatives = [test.negative]
    weights = graph.edge_weights()[kept] if graph.weighted else None
    return LinkSplit(
        train=graph.with_edges(sources[kept], targets[kept], weights),
        validation=validation,
        test=test,
        held_out=pair_pattern([*positive.values(), negatives, *more_negatives], graph.num_nodes),
        protocol=protocol,
    )


def keep_all(graph: Graph) -> LinkSplit:
    """A split that holds nothing back: everything is training data."""
    return LinkSplit(graph, None, None, pair_pattern([], graph.num_nodes))


def sample_non_edges(graph: Graph, count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw `count` distinct pairs u < v, uniformly among those that are not edges. Returns (count, 2)."""
    num_nodes = graph.num_nodes
    num_pairs = num_nodes * (num_nodes - 1) // 2
    if count > num_pairs - graph.num_edges:
        raise InputError(
            f"{graph.name}: {count} non-edges are needed but the graph has only {num_pairs - graph.num_edges}; "
            f"it is too dense to be evaluated on held-out links"
        )
    sources, targets = graph.edges()
    edge_keys = sources.astype(np.int64) * num_nodes + targets  # sorted, because CSR is
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        size = int(1.2 * (count - len(drawn))) + 16
        ends = np.sort(generator.integers(0, num_nodes, (size, 2)), axis=1)
        keys = ends[ends[:, 0] != ends[:, 1]] @ np.array([num_nodes, 1])
        place = np.minimum(np.searchsorted(edge_keys, keys), len(edge_keys) - 1)
        keys = np.concatenate([drawn, keys[edge_keys[place] != keys]])
        _, first = np.unique(keys, return_index=True)
        drawn = keys[np.sort(first)]  # first come, first kept: sorting by key would bias the cut below
    drawn = drawn[:count]
    return np.stack([drawn // num_nodes, drawn % num_nodes], axis=1)


def _direct(arcs: sp.csr_array, held: np.ndarray, graph: Graph, generator: np.random.Generator) -> Pairs:
    """The arcs of some pairs of nodes, against half of the one-way ones reversed and against nodes not joined."""
    backwards = held[:, ::-1]
    forth, back = (np.asarray(arcs[pairs[:, 0], pairs[:, 1]]).ravel() > 0 for pairs in (held, backwards))
    positive = np.concatenate([held[forth], backwards[back]])
    one_way = np.concatenate([held[forth & ~back], backwards[back & ~forth]])
    num_reversed = min(len(one_way), len(positive) // 2)
    wrong = generator.permutation(one_way)[:num_reversed, ::-1]
    apart = sample_non_edges(graph, len(positive) - num_reversed, generator)
    flipped = generator.random(len(apart)) < 0.5
    apart[flipped] = apart[flipped, ::-1]
    return Pairs(positive, np.concatenate([apart, wrong]), num_reversed)


def _count_held(fraction: float, num_edges: int) -> int:
    if not 0 <= fraction < 1:
        raise InputError(f"a held-out fraction must be at least 0 and below 1, not {fraction}")
    return max(1, int(fraction * num_edges)) if fraction > 0 else 0


def _paper_pairs(graph: Graph, validation: np.ndarray, generator: np.random.Generator) -> Pairs:
    nodes = np.arange(graph.num_nodes)
    positive = np.concatenate([validation, validation[:, ::-1], np.stack([nodes, nodes], axis=1)])
    return Pairs(positive, sample_non_edges(graph, len(positive), generator))


def pair_pattern(pair_sets: list[np.ndarray], num_nodes: int) -> sp.csr_array:
    """(num_nodes, num_nodes) symmetric CSR pattern of some pairs. pair_sets: each (num_pairs, 2)."""
    pairs = np.concatenate([np.empty((0, 2), np.int64), *pair_sets])
    rows, columns = np.concatenate([pairs, pairs[:, ::-1]]).T
    pattern = sp.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(num_nodes, num_nodes)).tocsr()
    pattern.sort_indices()
    return pattern
