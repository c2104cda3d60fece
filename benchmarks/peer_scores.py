"""Scores of a peer's vectors: inner product, cosine or a logistic regression, whichever validation pairs prefer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from l2g2g.evaluation.links import LinkScores, PairScorer, evaluate_links, score_cosines, score_inner_products
from l2g2g.graphs.splits import LinkSplit, Pairs, sample_non_edges

MOST_PAIRS = 100_000  # a regression of at most a few hundred weights needs no more


@dataclass(frozen=True)
class PeerScores:
    """Test scores by the way of scoring that was best on validation pairs; test AUC of every way."""

    chosen: str
    validation_auc: float
    test: LinkScores
    test_auc_by_way: dict[str, float]


def score_peer(vectors: np.ndarray, split: LinkSplit, *, seed: int) -> PeerScores:
    """Score validation and test pairs in three ways. vectors: (num_nodes, dim).

    The regression is on elementwise products and learns from training edges and as many pairs that are neither
    edges nor held out: what node2vec's paper does for links.
    """
    assert split.validation is not None
    assert split.test is not None
    scorers: dict[str, PairScorer] = {
        "inner product": score_inner_products,
        "cosine": score_cosines,
        "regression": fit_regression(vectors, split, seed=seed),
    }
    validation = {name: evaluate_links(vectors, split.validation, scorer).auc for name, scorer in scorers.items()}
    test = {name: evaluate_links(vectors, split.test, scorer) for name, scorer in scorers.items()}
    chosen = max(validation, key=lambda name: validation[name])
    return PeerScores(chosen, validation[chosen], test[chosen], {name: scores.auc for name, scores in test.items()})


def draw_training_pairs(split: LinkSplit, generator: np.random.Generator) -> Pairs:
    """Training edges, and as many pairs that are neither training edges nor held out."""
    positive = np.stack(split.train.edges(), axis=1)
    if len(positive) > MOST_PAIRS:
        positive = positive[generator.choice(len(positive), MOST_PAIRS, replace=False)]
    num_free = split.train.num_nodes * (split.train.num_nodes - 1) // 2 - split.train.num_edges
    drawn = sample_non_edges(split.train, min(len(positive) + split.held_out.nnz // 2, num_free), generator)
    held_out = np.asarray(split.held_out[drawn[:, 0], drawn[:, 1]]).ravel() > 0
    return Pairs(positive, drawn[~held_out][: len(positive)])


def fit_regression(vectors: np.ndarray, split: LinkSplit, *, seed: int) -> PairScorer:
    """A logistic regression on elementwise products, fitted to the training graph."""
    sources, targets, is_edge = draw_training_pairs(split, np.random.default_rng([seed, 0x9EE5])).endpoints()
    products = vectors[sources] * vectors[targets]
    spread = np.maximum(products.std(axis=0), 1e-12)
    model = LogisticRegression(max_iter=1000).fit(products / spread, is_edge)

    def score(vectors: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return model.decision_function(vectors[sources] * vectors[targets] / spread)

    return score
