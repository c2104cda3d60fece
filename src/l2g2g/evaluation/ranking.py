"""Ranking: each held-out edge against non-edges, of far ends of the same degree or of hard ones that are near."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels, score_inner_products
from l2g2g.errors import NumericalError
from l2g2g.evaluation.links import PairScorer
from l2g2g.evaluation.pair_features import EdgeRows, FeatureRows, unit_rows

_STREAM = 0x2A4B  # keeps these draws apart from those of the splits
_ROWS_PER_SLICE = 2048
_HARD_STREAM = 0x4EA7  # keeps these draws apart from others of the same seed
_RESTART, _STEPS = 0.15, 10  # of PageRank
_NUMBERS_AT_ONCE = 1 << 24
_MOST_NUMBERS = 1 << 29  # nodes whose lists are made times nodes of the graph
_HARD_ROWS = 512
_FEATURE_ROWS = 1 << 14


@dataclass(frozen=True)
class LinkRanks:
    """Where held-out edges stand among their candidates, as fractions.

    An edge has rank 1 + (candidates that score higher) + half of those that score the same. With K candidates a
    score that knows nothing gives hits@k = k / (K + 1) and mrr = (1 + 1/2 + … + 1/(K + 1)) / (K + 1): for K = 100
    that is hits@1 0.010, hits@10 0.099, hits@50 0.495 and mrr 0.051. One that is the same for all pairs gives
    every edge the rank 51.

    Attributes:
        mrr: Mean of 1 / rank.
        hits_at_1, hits_at_10, hits_at_50: Share of the ranks up to 1, 10 and 50.
        num_ranked: Ranks taken: two per edge, one for each end that is held fixed.
        num_left_out: Ranks not taken, because the fixed end has fewer than K non-neighbours.
    """

    mrr: float
    hits_at_1: float
    hits_at_10: float
    hits_at_50: float
    num_ranked: int
    num_left_out: int

    @classmethod
    def from_ranks(cls, ranks: np.ndarray, num_left_out: int = 0) -> LinkRanks:
        """Summarise (num_ranked,) ranks that start at 1.

        Example:
            >>> LinkRanks.from_ranks(np.array([1.0, 2.0, 60.0, 4.0])).hits_at_50
            0.75
        """
        at_1, at_10, at_50 = (float((ranks <= k).mean()) for k in (1, 10, 50))
        return cls(float((1 / ranks).mean()), at_1, at_10, at_50, len(ranks), num_left_out)


def rank_links(
    embedding: np.ndarray,
    edges: np.ndarray,
    known: Callable[[np.ndarray], sp.csr_array],
    train_degrees: np.ndarray,
    scorer: PairScorer | None = None,
    *,
    num_candidates: int = 100,
    max_edges: int = 10_000,
    directed: bool = False,
    seed: int = 0,
) -> LinkRanks | None:
    """Rank each held-out edge (u, v) among pairs (u, w), and among pairs (w, v); None where nothing can be ranked.

    Non-edges drawn uniformly are mostly pairs of poorly connected nodes, so that telling hubs from leaves already
    scores well. Here w has the degree in training of the end that it replaces (see `matched_candidates`).

    Args:
        embedding: (num_nodes, dim).
        edges: (num_edges, 2) held-out edges; of more than max_edges a uniform sample is ranked.
        known: Gives the symmetric CSR pattern, columns sorted, of all edges of some nodes: training, validation and
            test. None of these edges is a candidate.
        train_degrees: (num_nodes,) number of neighbours in training.
        scorer: As in `evaluate_links`; inner products by default.
        num_candidates: K, the candidates of each rank.
        directed: Whether (u, v) is the arc u → v; then w → v is scored where v stays.
        seed: Of the sample of edges and of the candidates.
    """
    generator = np.random.default_rng([seed, _STREAM])
    if len(edges) > max_edges:
        edges = edges[np.sort(generator.choice(len(edges), max_edges, replace=False))]
    fixed = np.concatenate([edges[:, 0], edges[:, 1]]).astype(np.int64)
    replaced = np.concatenate([edges[:, 1], edges[:, 0]]).astype(np.int64)
    pattern = known(np.unique(fixed))
    rankable = len(train_degrees) - 1 - np.diff(pattern.indptr)[fixed] >= num_candidates
    num_left_out = int((~rankable).sum())
    is_reversed = directed & (np.arange(len(fixed)) >= len(edges))[rankable]
    fixed, replaced = fixed[rankable], replaced[rankable]
    if len(fixed) == 0:
        return None
    candidates = matched_candidates(fixed, replaced, pattern, train_degrees, num_candidates, generator)
    ranks = np.empty(len(fixed))
    for low in range(0, len(fixed), _ROWS_PER_SLICE):
        part = slice(low, low + _ROWS_PER_SLICE)
        targets = np.column_stack([replaced[part], candidates[part]])
        sources = np.repeat(fixed[part], targets.shape[1]).reshape(targets.shape)
        ends = (np.where(is_reversed[part, None], *pair) for pair in ((targets, sources), (sources, targets)))
        scores = (scorer or score_inner_products)(embedding, *(end.ravel() for end in ends)).reshape(targets.shape)
        ranks[part] = rank_of_first(scores)
    return LinkRanks.from_ranks(ranks, num_left_out)


def rank_of_first(scores: np.ndarray) -> np.ndarray:
    """(num_rows,) rank of the first score of each row among all of them; equal ones count half.

    Example:
        >>> rank_of_first(np.array([[3.0, 5.0, 3.0, 1.0]])).tolist()
        [2.5]
    """
    if not np.isfinite(scores).all():
        raise NumericalError("some scores are not finite numbers; lower the learning rate (--lr)")
    own, others = scores[:, :1], scores[:, 1:]
    return 1 + (others > own).sum(axis=1) + 0.5 * (others == own).sum(axis=1)


def matched_candidates(
    fixed: np.ndarray,
    replaced: np.ndarray,
    known: sp.csr_array,
    train_degrees: np.ndarray,
    num_candidates: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """(num_pairs, num_candidates) distinct nodes w, none joined to the fixed node or equal to it.

    They have exactly the degree of the replaced node while there are such nodes; after that the next in the order
    of degrees, as many above as below, so that the degree alone still says nothing. Only at the very top of the
    order there is nothing above. Every fixed node must have num_candidates nodes that it is not joined to.
    """
    num_nodes = len(train_degrees)
    shuffled = generator.permutation(num_nodes)
    order = shuffled[np.argsort(train_degrees[shuffled], kind="stable")]  # equal degrees in random order
    in_order = train_degrees[order]
    low = np.searchsorted(in_order, train_degrees[replaced], side="left")
    high = np.searchsorted(in_order, train_degrees[replaced], side="right")
    starts = generator.integers(low, high)
    downwards = generator.integers(0, 2, len(fixed)).astype(np.bool_)
    places = (np.ascontiguousarray(each, np.int64) for each in (fixed, order, low, high, starts))
    pattern = np.ascontiguousarray(known.indptr, np.int64), np.ascontiguousarray(known.indices, np.int32)
    return kernels().draw_candidates(*places, downwards, *pattern, num_candidates)


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
    generator = np.random.default_rng([seed, _HARD_STREAM])
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
    for low in range(0, len(kept), _HARD_ROWS):
        part = kept[low : low + _HARD_ROWS]
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
