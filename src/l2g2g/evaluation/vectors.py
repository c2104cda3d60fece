"""Vectors made elsewhere: scored on held-out pairs in three ways, of which validation pairs prefer one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from l2g2g.core.pair_scores import score_inner_products
from l2g2g.evaluation.link_scorer import deal_folds, fit_logistic
from l2g2g.evaluation.links import LinkScores, PairScorer, evaluate_links, link_scores, score_cosines
from l2g2g.graphs.splits import Pairs

SCORERS: dict[str, PairScorer] = {"inner": score_inner_products, "cosine": score_cosines}
LOGISTIC = "logistic"
_LEAST_EDGES = 10  # validation edges below which no logistic regression is fitted
_RIDGE = 10.0  # about as many columns as vectors have numbers, and often few pairs


@dataclass(frozen=True)
class VectorScores:
    """Scores of one set of vectors.

    Attributes:
        scorer: inner, cosine or logistic, by the AUC of the validation pairs; inner without them.
        validation: Scores of the validation pairs by scorer; None without them. Those of logistic are cross-fitted.
        test: Scores of the test pairs by scorer; logistic only where there are enough validation pairs to fit it.
    """

    scorer: str
    validation: dict[str, LinkScores] | None
    test: dict[str, LinkScores]


def score_vectors(vectors: np.ndarray, validation: Pairs | None, test: Pairs) -> VectorScores:
    """Score pairs of rows by inner product, by cosine and by a logistic regression. vectors: (num_nodes, dim)."""
    tested = {name: evaluate_links(vectors, test, scorer) for name, scorer in SCORERS.items()}
    if validation is None:
        return VectorScores("inner", None, tested)
    validated = {name: evaluate_links(vectors, validation, scorer) for name, scorer in SCORERS.items()}
    if min(len(validation.positive), len(validation.negative)) >= _LEAST_EDGES:
        validated[LOGISTIC], tested[LOGISTIC] = _score_logistic(vectors, validation, test)
    return VectorScores(max(validated, key=lambda name: validated[name].auc), validated, tested)


def _score_logistic(vectors: np.ndarray, validation: Pairs, test: Pairs) -> tuple[LinkScores, LinkScores]:
    """Scores of validation and test pairs by weights of z_s · z_t, number by number, and of both scores.

    The weights are fitted to validation pairs: for the test to all, for validation each fold by those of the others.
    """
    sources, targets, is_edge = validation.endpoints()
    columns = _columns(vectors, sources, targets)
    means, spreads = columns.mean(axis=0), columns.std(axis=0)
    spreads = np.where(spreads > 1e-9, spreads, 1.0)
    scaled, crossed = (columns - means) / spreads, np.empty(len(is_edge))
    for fold in deal_folds(is_edge, 0):
        weights, intercept = fit_logistic(scaled[~fold], is_edge[~fold], ridge=_RIDGE)
        crossed[fold] = scaled[fold] @ weights + intercept
    weights, intercept = fit_logistic(scaled, is_edge, ridge=_RIDGE)
    test_sources, test_targets, is_test_edge = test.endpoints()
    found = (_columns(vectors, test_sources, test_targets) - means) / spreads @ weights + intercept
    return link_scores(is_edge, crossed), link_scores(is_test_edge, found)


def _columns(vectors: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    products = vectors[sources].astype(np.float64) * vectors[targets]
    both = [scorer(vectors, sources, targets) for scorer in SCORERS.values()]
    return np.column_stack([products, *both])
