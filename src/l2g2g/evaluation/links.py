"""Links: an embedding and held-out pairs become LinkScores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from l2g2g.errors import NumericalError
from l2g2g.graphs.splits import Pairs

PairScorer = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LinkScores:
    """How well pairs are told apart, as fractions."""

    auc: float
    average_precision: float


def score_inner_products(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(num_pairs,) float64 z_u · z_v of each pair. embedding: (num_nodes, dim)."""
    arrays = (np.ascontiguousarray(array) for array in (embedding, sources, targets))
    return _inner_products(*arrays)


def link_scores(is_edge: np.ndarray, scores: np.ndarray) -> LinkScores:
    """AUC and average precision of scores, higher meaning an edge.

    Edges and non-edges are sorted apart (values only, which is several times faster than sorting their places) and
    merged in one pass.

    Example:
        >>> link_scores(np.array([True, True, False, False]), np.array([3.0, 1.0, 2.0, 0.0])).auc
        0.75
    """
    if not np.isfinite(scores).all():
        raise NumericalError("some scores are not finite numbers; lower the learning rate (--lr)")
    is_edge = is_edge.astype(bool, copy=False)
    edges, others = np.sort(scores[is_edge]), np.sort(scores[~is_edge])
    if len(edges) == 0 or len(others) == 0:
        raise NumericalError("there must be edges and non-edges to tell apart")
    area, precision = _merge(edges, others)
    return LinkScores(float(area), float(precision))


def evaluate_links(embedding: np.ndarray, pairs: Pairs, scorer: PairScorer | None = None) -> LinkScores:
    """Score pairs by the inner product of their vectors, or by a scorer of its own."""
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, (scorer or score_inner_products)(embedding, sources, targets))


@njit(cache=True, parallel=True)
def _inner_products(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Each score is summed by one thread in one order, so it does not depend on their number."""
    scores = np.empty(len(sources), np.float64)
    for pair in prange(len(sources)):
        first, second = embedding[sources[pair]], embedding[targets[pair]]
        total = 0.0
        for column in range(embedding.shape[1]):
            total += np.float64(first[column]) * np.float64(second[column])
        scores[pair] = total
    return scores


@njit(cache=True)
def _merge(edges: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """(AUC, average precision) of two ascending lists of scores, read from above. Equal scores pass together."""
    place, other = len(edges) - 1, len(others) - 1
    twice_won = 0  # twice the pairs (edge, non-edge) in the right order, ties counting half: a whole number
    precision = 0.0
    while place >= 0:
        threshold = edges[place]
        before = place
        while place >= 0 and edges[place] == threshold:
            place -= 1
        while other >= 0 and others[other] > threshold:
            other -= 1
        below = other
        while below >= 0 and others[below] == threshold:
            below -= 1
        passed = before - place
        twice_won += passed * (2 * (below + 1) + other - below)
        other = below
        found, mistaken = len(edges) - 1 - place, len(others) - 1 - below
        precision += passed * (found / (found + mistaken))
    return twice_won / (2 * len(edges) * len(others)), precision / len(edges)
