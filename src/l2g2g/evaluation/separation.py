"""Separation: histograms of the scores of edges and of non-edges, small enough to be kept with a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from l2g2g.evaluation.intervals import Interval, auc_interval, precision_interval
from l2g2g.evaluation.links import PairScorer, score_pairs
from l2g2g.graphs.splits import Pairs

# What pairs are to the model. test: never seen. paper: of the paper's evaluation. validation: seen by early stopping
# only. training: it has learned from these edges.
PairKind = Literal["test", "paper", "validation", "training"]
PAIR_KINDS: tuple[str, ...] = get_args(PairKind)
_NUM_BINS = 60
_LARGEST_BOUND = 1e30
_TAIL = 0.002  # share of the scores beyond the histogram, counted in its outermost bars


@dataclass(frozen=True)
class Separation:
    """Histograms of the scores of edges and of non-edges over the same bars, with AUC and average precision.

    Attributes:
        kind: What the pairs were to the model.
        bounds: (num_bars + 1,) scores at which bars begin and end.
        edges, others: (num_bars,) pairs in each bar; the outermost bars also count the scores beyond them.
    """

    kind: PairKind
    auc: Interval
    average_precision: Interval
    bounds: list[float]
    edges: list[int]
    others: list[int]

    @property
    def num_pairs(self) -> int:
        """Edges and non-edges together."""
        return sum(self.edges) + sum(self.others)


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs with their scores, and the separation of these scores.

    Attributes:
        ends: (num_pairs, 2) nodes.
        is_edge: (num_pairs,) bool.
        scores: (num_pairs,) float64.
    """

    ends: np.ndarray
    is_edge: np.ndarray
    scores: np.ndarray
    separation: Separation

    @classmethod
    def of(
        cls, kind: PairKind, embedding: np.ndarray, pairs: Pairs, scorer: PairScorer | None = None, seed: int = 0
    ) -> ScoredPairs:
        """Score the pairs. embedding: (num_nodes, dim); scorer: None for inner products."""
        return cls.of_scores(kind, pairs, score_pairs(embedding, pairs, scorer), seed)

    @classmethod
    def of_scores(cls, kind: PairKind, pairs: Pairs, scores: np.ndarray, seed: int = 0) -> ScoredPairs:
        """Keep scores (num_pairs,) that are known already, in the order of `Pairs.endpoints`."""
        sources, targets, is_edge = pairs.endpoints()
        return cls(np.stack([sources, targets], axis=1), is_edge, scores, separate(kind, scores, is_edge, seed))


def separate(kind: PairKind, scores: np.ndarray, is_edge: np.ndarray, seed: int = 0) -> Separation:
    """Compute the separation of scores (num_pairs,). is_edge: (num_pairs,)."""
    edges, others = scores[is_edge], scores[~is_edge]
    low, high = np.quantile(scores, [_TAIL / 2, 1 - _TAIL / 2])
    bounds = np.linspace(low, max(high, low + 1e-6), _NUM_BINS + 1)
    counts = [np.histogram(np.clip(part, bounds[0], bounds[-1]), bounds)[0].tolist() for part in (edges, others)]
    return Separation(
        kind, auc_interval(edges, others), precision_interval(edges, others, seed), bounds.tolist(), *counts
    )


def read_separation(values: dict[str, Any]) -> Separation:
    """Read a separation from its `asdict`. Raises KeyError, TypeError or ValueError for anything else."""
    bounds = [float(value) for value in values["bounds"]]
    edges, others = ([int(count) for count in values[name]] for name in ("edges", "others"))
    auc, precision = (
        Interval(*(float(values[name][part]) for part in ("value", "low", "high")))
        for name in ("auc", "average_precision")
    )
    fits = len(bounds) - 1 == len(edges) == len(others) > 0 and min(*edges, *others) >= 0
    ascends = all(-_LARGEST_BOUND < low < high < _LARGEST_BOUND for low, high in pairwise(bounds))
    if values["kind"] not in PAIR_KINDS or not (fits and ascends):
        raise ValueError("no histograms of scores")
    return Separation(values["kind"], auc, precision, bounds, edges, others)
