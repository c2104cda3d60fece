"""Vectors made elsewhere: scored on held-out pairs by inner product or cosine, whichever validation pairs prefer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from l2g2g.core.pair_scores import score_inner_products
from l2g2g.evaluation.links import LinkScores, PairScorer, evaluate_links, score_cosines
from l2g2g.graphs.splits import Pairs

SCORERS: dict[str, PairScorer] = {"inner": score_inner_products, "cosine": score_cosines}


@dataclass(frozen=True)
class VectorScores:
    """Scores of one set of vectors.

    Attributes:
        scorer: inner or cosine, by the AUC of the validation pairs; inner without them.
        validation: Scores of the validation pairs by scorer; None without them.
        test: Scores of the test pairs by scorer.
    """

    scorer: str
    validation: dict[str, LinkScores] | None
    test: dict[str, LinkScores]


def score_vectors(vectors: np.ndarray, validation: Pairs | None, test: Pairs) -> VectorScores:
    """Score pairs of rows in both ways. vectors: (num_nodes, dim)."""
    tested = {name: evaluate_links(vectors, test, scorer) for name, scorer in SCORERS.items()}
    if validation is None:
        return VectorScores("inner", None, tested)
    validated = {name: evaluate_links(vectors, validation, scorer) for name, scorer in SCORERS.items()}
    return VectorScores(max(SCORERS, key=lambda name: validated[name].auc), validated, tested)
