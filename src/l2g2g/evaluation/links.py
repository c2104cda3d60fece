"""Links: an embedding and held-out pairs become LinkScores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from l2g2g.errors import NumericalError
from l2g2g.graphs.splits import Pairs

PairScorer = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LinkScores:
    """How well pairs are told apart, as fractions."""

    auc: float
    average_precision: float


def score_inner_products(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """z_u · z_v of each pair, in slices so that memory stays small. embedding: (num_nodes, dim)."""
    scores = np.empty(len(sources), np.float64)
    for low in range(0, len(sources), 1 << 18):
        part = slice(low, low + (1 << 18))
        scores[part] = np.einsum("ij,ij->i", embedding[sources[part]], embedding[targets[part]])
    return scores


def link_scores(is_edge: np.ndarray, scores: np.ndarray) -> LinkScores:
    """AUC and average precision of scores, higher meaning an edge.

    Example:
        >>> link_scores(np.array([True, True, False, False]), np.array([3.0, 1.0, 2.0, 0.0])).auc
        0.75
    """
    if not np.isfinite(scores).all():
        raise NumericalError("some scores are not finite numbers; lower the learning rate (--lr)")
    order = np.argsort(-scores, kind="stable")
    falling, edges = scores[order], np.cumsum(is_edge[order])
    # Pairs of equal score pass a threshold together.
    last = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(scores) - 1)
    found = np.concatenate([[0], edges[last]]).astype(np.float64)
    mistaken = np.concatenate([[0], last + 1 - edges[last]]).astype(np.float64)
    if found[-1] == 0 or mistaken[-1] == 0:
        raise NumericalError("there must be edges and non-edges to tell apart")
    area = np.sum(np.diff(mistaken) * (found[1:] + found[:-1]) / 2) / (found[-1] * mistaken[-1])
    precision = found[1:] / (found[1:] + mistaken[1:])
    return LinkScores(float(area), float(np.sum(np.diff(found) * precision) / found[-1]))


def evaluate_links(embedding: np.ndarray, pairs: Pairs, scorer: PairScorer | None = None) -> LinkScores:
    """Score pairs by the inner product of their vectors, or by a scorer of its own."""
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, (scorer or score_inner_products)(embedding, sources, targets))
