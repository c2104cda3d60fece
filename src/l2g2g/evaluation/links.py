"""Links: an embedding and held-out pairs become LinkScores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from l2g2g.core import kernels
from l2g2g.core.pair_scores import score_inner_products
from l2g2g.errors import NumericalError
from l2g2g.graphs.graph import EdgeModel
from l2g2g.graphs.splits import Pairs

PairScorer = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class LinkScores:
    """How well edges are separated from non-edges, as fractions."""

    auc: float
    average_precision: float


def score_cosines(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(num_pairs,) float64 cosine of each pair, 0 where a vector is zero. embedding: (num_nodes, dim)."""
    lengths = np.linalg.norm(embedding, axis=1, keepdims=True)
    return score_inner_products(embedding / np.maximum(lengths, 1e-12), sources, targets)


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
    edges, others = (np.sort(part).astype(np.float64, copy=False) for part in (scores[is_edge], scores[~is_edge]))
    if len(edges) == 0 or len(others) == 0:
        raise NumericalError("there must be edges and non-edges to tell apart")
    return LinkScores(*kernels().areas_under_curves(edges, others))


def evaluate_links(embedding: np.ndarray, pairs: Pairs, scorer: PairScorer | None = None) -> LinkScores:
    """Score pairs by the inner product of their vectors, or by a scorer of its own."""
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, (scorer or score_inner_products)(embedding, sources, targets))


def best_link_scores(block_model: EdgeModel, pairs: Pairs) -> LinkScores:
    """The scores of the true edge probabilities on these very pairs: no embedding does better on average."""
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, block_model.edge_probability(sources, targets))
