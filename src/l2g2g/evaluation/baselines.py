"""Baselines: scores of pairs that need no training, fitted to the same split as trained methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from l2g2g.evaluation.links import link_scores
from l2g2g.evaluation.pair_features import EdgeRows, NeighbourEvidence
from l2g2g.graphs.splits import Pairs
from l2g2g.models.spectral import spectral_vectors

ScorePairs = Callable[[np.ndarray, np.ndarray], np.ndarray]
SPECTRAL = "spectral"
_NEIGHBOUR_SCORES: dict[str, Callable[[NeighbourEvidence], ScorePairs]] = {
    "adamic-adar": lambda evidence: evidence.adamic_adar,
    "common-neighbours": lambda evidence: evidence.common_neighbours,
    "resource-allocation": lambda evidence: evidence.resource_allocation,
    "l3": lambda evidence: evidence.l3,
    "preferential-attachment": lambda evidence: evidence.preferential_attachment,
}
BASELINES = (SPECTRAL, *_NEIGHBOUR_SCORES)


@dataclass(frozen=True, eq=False)
class Baseline:
    """A baseline on the training edges of one split.

    Attributes:
        score: (num_pairs,) scores of pairs (sources, targets), higher for a link.
        vectors: (num_nodes, dim) of `spectral`; None for those that have none.
        chosen: What the validation pairs chose: inner or cosine of `spectral`; None where there was no choice.
    """

    score: ScorePairs
    vectors: np.ndarray | None = None
    chosen: str | None = None


def fit_baseline(name: str, train: EdgeRows, validation: Pairs | None, *, dim: int, seed: int) -> Baseline:
    """Prepare a baseline of `BASELINES`.

    train: the edges it may see. validation: pairs that choose between inner product and cosine; inner without them.
    dim: of the vectors of `spectral`, whose eigenvectors start at the seed.
    """
    if name == SPECTRAL:
        spectral = spectral_vectors(train, dim, seed=seed)
        scores: dict[str, ScorePairs] = {"inner": spectral.inner, "cosine": spectral.cosine}
        chosen = "inner"
        if validation is not None:
            sources, targets, is_edge = validation.endpoints()
            chosen = max(scores, key=lambda each: link_scores(is_edge, scores[each](sources, targets)).auc)
        return Baseline(scores[chosen], spectral.vectors, chosen)
    return Baseline(_NEIGHBOUR_SCORES[name](NeighbourEvidence(train)))
