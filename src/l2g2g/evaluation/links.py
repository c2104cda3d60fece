"""Links: an embedding, or a baseline, and held-out pairs become LinkScores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch

from l2g2g.core import kernels, score_inner_products
from l2g2g.errors import NumericalError
from l2g2g.evaluation.pair_features import EdgeRows, NeighbourEvidence
from l2g2g.graphs.graph import EdgeModel
from l2g2g.graphs.splits import Pairs
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.spectral import spectral_vectors

PairScorer = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
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
    """Score pairs by the inner product of their vectors, or by a scorer of its own. embedding: as in `score_pairs`."""
    return judge_scores(pairs, score_pairs(embedding, pairs, scorer))


def score_pairs(embedding: np.ndarray, pairs: Pairs, scorer: PairScorer | None = None) -> np.ndarray:
    """(num_pairs,) scores of the pairs of all ranks on the first one, none on the others. A collective call.

    embedding: (num_nodes, dim); on several ranks the rows of the range of nodes of this one. Each scores its own pairs.
    """
    score = scorer or score_inner_products
    if pairs.share is None:
        return score(embedding, *pairs.endpoints()[:2])
    return pairs.gather(score(*fetch_ends(embedding, pairs)))


def fetch_ends(embedding: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of the ends of the pairs of this rank, and the places (num_pairs,) of first and second ends among them.

    embedding: as in `score_pairs`. A collective call.
    """
    sources, targets, _ = pairs.endpoints()
    ends, places = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    shared = SharedRows(pairs.communicator, "pair ends")
    rows = shared.fetch(torch.from_numpy(embedding), ends.astype(np.int64)).numpy()
    return rows, places[: len(sources)], places[len(sources) :]


def judge_scores(pairs: Pairs, scores: np.ndarray) -> LinkScores:
    """What scores amount to, for all ranks, each of which must ask. scores: of the pairs of all, on the first one."""
    is_edge = np.arange(len(scores)) < pairs.num_edges
    return LinkScores(**pairs.communicator.decide(lambda: asdict(link_scores(is_edge, scores))))


def best_link_scores(block_model: EdgeModel, pairs: Pairs) -> LinkScores:
    """The scores of the true edge probabilities on these very pairs: no embedding does better on average."""
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, block_model.edge_probability(sources, targets))


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
