"""Links: an embedding and held-out pairs become LinkScores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

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
    return LinkScores(float(roc_auc_score(is_edge, scores)), float(average_precision_score(is_edge, scores)))


def evaluate_links(embedding: np.ndarray, pairs: Pairs, scorer: PairScorer | None = None) -> LinkScores:
    """Score pairs by the inner product of their vectors, or by a scorer of its own."""
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, (scorer or score_inner_products)(embedding, sources, targets))
