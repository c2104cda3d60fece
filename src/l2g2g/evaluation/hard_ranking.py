"""Hard ranking: each held-out edge against non-edges whose ends share neighbours or features.

The lists are this project's own, in the manner of HeaRT (Li and others 2023), not its files: for a node u, other nodes
are ordered by resource allocation, by personalised PageRank and by the cosine of their features, all on training
edges, and taken from the three orders by turns. A candidate is joined to u by no edge of the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

from l2g2g.core.pair_scores import score_inner_products
from l2g2g.evaluation.feature_rows import FeatureRows, unit_rows
from l2g2g.evaluation.links import PairScorer
from l2g2g.evaluation.pair_features import EdgeRows
from l2g2g.evaluation.ranking import LinkRanks, rank_of_first

_STREAM = 0x4EA7  # keeps these draws apart from others of the same seed
_RESTART, _STEPS = 0.15, 10  # of PageRank
_NUMBERS_AT_ONCE = 1 << 24
_MOST_NUMBERS = 1 << 29  # nodes whose lists are made times nodes of the graph
_ROWS_PER_SLICE = 512
_FEATURE_ROWS = 1 << 14


def rank_hard(
    embedding: np.ndarray,
    edges: np.ndarray,
    known: Callable[[np.ndarray], sp.csr_array],
    train: EdgeRows,
    features: FeatureRows | None,
    scorer: PairScorer | None = None,
    *,
    num_candidates: int = 250,
    max_edges: int = 2000,
    directed: bool = False,
    seed: int = 0,
) -> LinkRanks | None:
    """Rank each held-out edge (u, v) among num_candidates pairs (u, w) and as many pairs (w, v); None without ranks.

    An edge one of whose ends has fewer non-neighbours than num_candidates is left out.

    Args:
        embedding: (num_nodes, dim).
        edges: (num_edges, 2) held-out edges; of more than max_edges (fewer for very large graphs) a uniform sample.
        known: As in `rank_links`: all edges of some nodes.
        train: The edges that the lists are made from.
        features: Of the nodes; None where there are none.
        scorer: As in `evaluate_links`; inner products by default.
        directed: Whether (u, v) is the arc u → v.
        seed: Of the sample, and of the nodes that fill up a list.
    """
    generator = np.random.default_rng([seed, _STREAM])
    max_edges = max(1, min(max_edges, _MOST_NUMBERS // (2 * train.num_nodes)))
    if len(edges) > max_edges:
        edges = edges[np.sort(generator.choice(len(edges), max_edges, replace=False))]
    edges = edges.astype(np.int64)
    nodes = np.unique(edges)
    pattern = known(nodes)
    is_rankable = train.num_nodes - 1 - np.diff(pattern.indptr)[edges] >= num_candidates
    kept = edges[is_rankable.all(axis=1)]
    if len(kept) == 0:
        return None
    nodes = np.unique(kept)
    lists = hard_candidates(nodes, pattern, train, features, num_candidates, generator)
    score, ranks = scorer or score_inner_products, np.empty(len(kept))
    for low in range(0, len(kept), _ROWS_PER_SLICE):
        part = kept[low : low + _ROWS_PER_SLICE]
        sources, targets = part[:, :1], part[:, 1:]
        around_sources, around_targets = (lists[np.searchsorted(nodes, ends[:, 0])] for ends in (sources, targets))
        left = np.column_stack([sources, np.repeat(sources, num_candidates, axis=1), around_targets])
        right = np.column_stack([targets, around_sources, np.repeat(targets, num_candidates, axis=1)])
        if not directed:  # as test pairs are given, the lower number first
            left, right = np.minimum(left, right), np.maximum(left, right)
        scores = score(embedding, left.ravel(), right.ravel()).reshape(left.shape)
        ranks[low : low + len(part)] = rank_of_first(scores)
    return LinkRanks.from_ranks(ranks, len(edges) - len(kept))


def hard_candidates(
    nodes: np.ndarray,
    known: sp.csr_array,
    train: EdgeRows,
    features: FeatureRows | None,
    num_candidates: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """(num_listed, num_candidates) distinct nodes for each of some nodes, neither joined to it nor itself.

    The orders count only nodes that are above 0 in them; where all three end too early, random nodes fill up.
    Each node must have num_candidates nodes that it is not joined to.
    """
    found = np.empty((len(nodes), num_candidates), np.int64)
    filling = generator.permutation(train.num_nodes)
    at_once = max(1, _NUMBERS_AT_ONCE // train.num_nodes)
    for low in range(0, len(nodes), at_once):
        some = nodes[low : low + at_once]
        orders = [_best(measure, some, known, num_candidates) for measure in _closeness(some, train, features)]
        for place, node in enumerate(some):
            taken = _by_turns([order[place] for order in orders], num_candidates)
            if len(taken) < num_candidates:
                excluded = known.indices[known.indptr[node] : known.indptr[node + 1]]
                free = filling[~np.isin(filling, np.concatenate([excluded, [node], taken]))]
                taken = np.concatenate([taken, free[: num_candidates - len(taken)]])
            found[low + place] = taken
    return found


def _closeness(nodes: np.ndarray, train: EdgeRows, features: FeatureRows | None) -> Iterator[np.ndarray]:
    """(num_nodes, num_listed) float32 tables: how close every node is to each of some nodes, by one measure each."""
    degrees = np.concatenate([np.diff(block.indptr) for block in train.row_blocks()])
    shares = (1 / np.maximum(degrees, 1)).astype(np.float32)[:, None]
    start = np.zeros((train.num_nodes, len(nodes)), np.float32)
    start[nodes, np.arange(len(nodes))] = 1
    yield _multiply(train, shares * _multiply(train, start))
    walk, total = start, start.copy()
    for _ in range(_STEPS):  # Σ (1 − restart)^k (A D⁻¹)^k e_u, whose rest is small
        walk = np.float32(1 - _RESTART) * _multiply(train, shares * walk)
        total += walk
    yield total
    if features is not None and features.num_features:
        yield _feature_cosines(nodes, features)


def _multiply(train: EdgeRows, table: np.ndarray) -> np.ndarray:
    """A times a table of (num_nodes, width), by blocks of rows."""
    found = np.empty_like(table)
    for block in train.row_blocks():
        shape = (block.high - block.low, train.num_nodes)
        ones = np.ones(len(block.indices), np.float32)
        found[block.low : block.high] = sp.csr_array((ones, block.indices, block.indptr), shape=shape) @ table
    return found


def _feature_cosines(nodes: np.ndarray, features: FeatureRows) -> np.ndarray:
    """(num_nodes, num_listed) cosines of the features of every node and of some nodes."""
    own = unit_rows(features.read_features(nodes)).T
    found = np.empty((features.num_nodes, len(nodes)), np.float32)
    for low in range(0, features.num_nodes, _FEATURE_ROWS):
        rows = unit_rows(features.read_features(slice(low, low + _FEATURE_ROWS)))
        product = rows @ own
        found[low : low + rows.shape[0]] = product.toarray() if sp.issparse(product) else product
    return found


def _best(measure: np.ndarray, nodes: np.ndarray, known: sp.csr_array, count: int) -> list[np.ndarray]:
    """For each of some nodes the nodes above 0 that may be candidates, at most count, the closest first."""
    found = []
    for place, node in enumerate(nodes):
        column = np.ascontiguousarray(measure[:, place])
        column[node] = 0
        column[known.indices[known.indptr[node] : known.indptr[node + 1]]] = 0
        best = np.flatnonzero(column > 0)
        if len(best) > count:
            threshold = np.partition(column[best], len(best) - count)[len(best) - count]
            best = best[column[best] >= threshold]
        found.append(best[np.argsort(-column[best], kind="stable")][:count])
    return found


def _by_turns(orders: list[np.ndarray], count: int) -> np.ndarray:
    """The first of each order, then the second of each, and so on, each node once; at most count."""
    length = max(len(order) for order in orders)
    table = np.full((length, len(orders)), -1, np.int64)
    for column, order in enumerate(orders):
        table[: len(order), column] = order
    turns = table.ravel()
    turns = turns[turns >= 0]
    _, first = np.unique(turns, return_index=True)
    return turns[np.sort(first)][:count]
