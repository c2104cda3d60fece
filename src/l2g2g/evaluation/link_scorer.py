"""Link scorer: the score of two vectors and what the graph says about the pair, weighted by logistic regression.

The weights are fitted on validation pairs, which neither training nor the features have seen. All features come from
training edges, so a pair that is scored never enters its own features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from l2g2g.core import score_inner_products
from l2g2g.errors import InputError
from l2g2g.evaluation.links import LinkScores, PairScorer, evaluate_links, link_scores, score_cosines
from l2g2g.evaluation.pair_features import EdgeRows, FeatureRows, NeighbourEvidence, feature_cosines
from l2g2g.graphs.splits import Pairs
from l2g2g.models.spectral import spectral_vectors

_NUM_FOLDS = 5
_STREAM = 0x5C03  # keeps these draws apart from others of the same seed
_MOST_STEPS, _SMALL_STEP = 50, 1e-8
# How a column enters the regression: a score as asinh((x − median) / spread), a number that is never negative as
# log(1 + x / median of those above 0), anything else as it is.
_SCORE, _POSITIVE, _PLAIN = "score", "positive", "plain"
FEATURE_COLUMN = "feature_cosine"
COLUMNS: dict[str, str] = {
    "vectors": _SCORE,
    "log_degree_sum": _PLAIN,
    "log_degree_difference": _PLAIN,
    "log_degree_min": _PLAIN,
    "has_no_neighbour": _PLAIN,
    "common_neighbours": _POSITIVE,
    "resource_allocation": _POSITIVE,
    "l3": _POSITIVE,
    "l3_by_degree": _POSITIVE,
    "has_common_neighbour": _PLAIN,
    "has_l3": _PLAIN,
    "spectral_inner": _SCORE,
    "spectral_cosine": _PLAIN,
    "spectral_inner_leading": _SCORE,
    "spectral_cosine_leading": _PLAIN,
    FEATURE_COLUMN: _PLAIN,
}
SPECTRAL_DIM = 64
_LEADING, _TOLERANCE = 16, 1e-2
_LEAST_EDGES = 10  # validation edges below which nothing is fitted
_PAIRS_AT_ONCE = 1 << 19
SCORERS: dict[str, PairScorer] = {"inner": score_inner_products, "cosine": score_cosines}
LOGISTIC = "logistic"
_RIDGE = 10.0  # about as many columns as vectors have numbers, and often few pairs


def fit_logistic(columns: np.ndarray, is_edge: np.ndarray, *, ridge: float = 1.0) -> tuple[np.ndarray, float]:
    """(weights, intercept) that minimise Σ log loss + ridge / 2 · |weights|², by Newton's method.

    columns: (num_pairs, num_columns), standardised. is_edge: (num_pairs,). The intercept has no ridge.

    Example:
        >>> weights, intercept = fit_logistic(np.array([[-1.0], [-1.0], [1.0], [1.0]]), np.array([0, 0, 1, 1]) > 0)
        >>> bool(weights[0] > 0.5), round(abs(intercept), 6)
        (True, 0.0)
    """
    design = np.column_stack([columns, np.ones(len(columns))]).astype(np.float64)
    penalty = np.append(np.full(columns.shape[1], ridge), 1e-9)
    weights, loss = np.zeros(design.shape[1]), np.inf
    step = np.zeros_like(weights)
    for _ in range(_MOST_STEPS):
        found = weights + step
        new_loss = _loss(design, is_edge, found, penalty)
        if new_loss > loss + 1e-12:  # too far: half of the way
            step = step / 2
            if np.abs(step).max() < _SMALL_STEP:
                break
            continue
        weights, loss = found, new_loss
        chances = 0.5 * (1 + np.tanh(0.5 * (design @ weights)))
        gradient = design.T @ (chances - is_edge) + penalty * weights
        curvature = (design * (chances * (1 - chances))[:, None]).T @ design + np.diag(penalty)
        step = -np.linalg.solve(curvature + 1e-9 * np.eye(len(weights)), gradient)
        if np.abs(step).max() < _SMALL_STEP:
            break
    return weights[:-1], float(weights[-1])


def _loss(design: np.ndarray, is_edge: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> float:
    scores = design @ weights
    return float(np.logaddexp(0, np.where(is_edge, -scores, scores)).sum() + (penalty * weights**2).sum() / 2)


def deal_folds(is_edge: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """(num_pairs,) whether each pair is in a fold, fold after fold; edges and non-edges are dealt out apart."""
    generator = np.random.default_rng([seed, _STREAM])
    folds = np.empty(len(is_edge), np.int64)
    for kind in (True, False):
        places = np.flatnonzero(is_edge == kind)
        folds[generator.permutation(places)] = np.arange(len(places)) % _NUM_FOLDS
    yield from (folds == fold for fold in range(_NUM_FOLDS))


class LinkEvidence:
    """The columns of pairs, from training edges, from vectors and, where there are, from features of the nodes."""

    def __init__(
        self,
        train: EdgeRows,
        vectors: np.ndarray,
        scorer: PairScorer,
        features: FeatureRows | None,
        *,
        seed: int = 0,
        spectral_dim: int = SPECTRAL_DIM,
    ) -> None:
        """vectors: (num_nodes, dim), and scorer: how pairs of them are scored.

        seed, spectral_dim: of the spectral vectors.
        """
        self._neighbours = NeighbourEvidence(train)
        self.spectral = spectral_vectors(train, spectral_dim, seed=seed, tolerance=_TOLERANCE)
        self.leading = self.spectral.leading(_LEADING)
        self._vectors, self._scorer = vectors, scorer
        self._features = features if features is not None and features.num_features else None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that there are."""
        return tuple(name for name in COLUMNS if name != FEATURE_COLUMN or self._features is not None)

    def columns(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs, num_columns) float64 values of `names`, before they are scaled."""
        near = self._neighbours
        degrees = np.stack([near.degrees[ends].astype(np.float64) for ends in (sources, targets)])
        logs = np.log1p(degrees)
        l3, common = near.l3(sources, targets), near.common_neighbours(sources, targets)
        found = {
            "vectors": np.asarray(self._scorer(self._vectors, sources, targets), np.float64),
            "log_degree_sum": logs.sum(axis=0),
            "log_degree_difference": np.abs(logs[0] - logs[1]),
            "log_degree_min": logs.min(axis=0),
            "has_no_neighbour": (degrees.min(axis=0) == 0).astype(np.float64),
            "common_neighbours": common,
            "resource_allocation": near.resource_allocation(sources, targets),
            "l3": l3,
            "l3_by_degree": l3 / np.sqrt((degrees + 1).prod(axis=0)),
            "has_common_neighbour": (common > 0).astype(np.float64),
            "has_l3": (l3 > 0).astype(np.float64),
            "spectral_inner": self.spectral.inner(sources, targets),
            "spectral_cosine": self.spectral.cosine(sources, targets),
            "spectral_inner_leading": self.leading.inner(sources, targets),
            "spectral_cosine_leading": self.leading.cosine(sources, targets),
        }
        if self._features is not None:
            found[FEATURE_COLUMN] = feature_cosines(self._features, sources, targets)
        return np.stack([found[name] for name in self.names], axis=1)


@dataclass(frozen=True)
class LinkScorer:
    """Logistic regression over columns of pairs: score = intercept + Σ weight · scaled column.

    Attributes:
        columns: Names in `COLUMNS`, and for each its centre and scale and its weight.
        intercept: The log-odds of a link where all scaled columns are 0, if half of the pairs are links.
    """

    columns: dict[str, tuple[float, float, float]]
    intercept: float

    @classmethod
    def fit(cls, names: tuple[str, ...], values: np.ndarray, is_edge: np.ndarray) -> LinkScorer:
        """Fit to some pairs. values: (num_pairs, num_columns) of `LinkEvidence`, is_edge: (num_pairs,)."""
        scales = [_centre_and_scale(COLUMNS[name], column) for name, column in zip(names, values.T, strict=True)]
        scaled = _scaled(names, values, scales)
        means, spreads = scaled.mean(axis=0), scaled.std(axis=0)
        spreads = np.where(spreads > 1e-9, spreads, 1.0)
        weights, intercept = fit_logistic((scaled - means) / spreads, is_edge)
        weights = weights / spreads
        intercept = float(intercept - weights @ means)
        named = zip(names, scales, weights, strict=True)
        return cls({name: (*place, float(weight)) for name, place, weight in named}, intercept)

    def score(self, values: np.ndarray) -> np.ndarray:
        """(num_pairs,) scores. values: as in `fit`, in the order of `columns`."""
        scales = [(centre, scale) for centre, scale, _ in self.columns.values()]
        weights = np.array([weight for _, _, weight in self.columns.values()])
        return _scaled(tuple(self.columns), values, scales) @ weights + self.intercept

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"intercept": self.intercept, "columns": {name: list(parts) for name, parts in self.columns.items()}}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> LinkScorer:
        """What `to_dict` gave. KeyError, TypeError or ValueError where it is something else."""
        columns = {name: tuple(float(part) for part in parts) for name, parts in found["columns"].items()}
        if not columns or any(name not in COLUMNS or len(parts) != 3 for name, parts in columns.items()):
            raise ValueError("columns of a scorer that this version does not know")
        return cls(columns, float(found["intercept"]))  # type: ignore[arg-type]


def _centre_and_scale(kind: str, column: np.ndarray) -> tuple[float, float]:
    """(centre, scale) of a column, from its median and quartiles, which outliers do not move."""
    if kind == _PLAIN:
        return 0.0, 1.0
    if kind == _POSITIVE:
        above = column[column > 0]
        return 0.0, float(np.median(above)) if len(above) else 1.0
    low, middle, high = np.percentile(column, [25, 50, 75])
    spread = (high - low) / 1.349 or float(column.std())  # of a normal distribution both are the same
    return float(middle), float(spread) if spread > 1e-12 else 1.0


def _scaled(names: tuple[str, ...], values: np.ndarray, scales: list[tuple[float, float]]) -> np.ndarray:
    found = np.empty_like(values)
    for place, (name, (centre, scale)) in enumerate(zip(names, scales, strict=True)):
        column, kind = values[:, place], COLUMNS[name]
        if kind == _SCORE:
            found[:, place] = np.arcsinh((column - centre) / scale)
        else:
            found[:, place] = np.log1p(column / scale) if kind == _POSITIVE else column
    return found


@dataclass(frozen=True, eq=False)
class CombinedScorer:
    """A link scorer with what it needs to score any pairs of a graph; called as every `PairScorer`."""

    scorer: LinkScorer
    evidence: LinkEvidence

    def __call__(self, embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs,) scores. embedding: not read, the evidence has the vectors."""
        wanted = [self.evidence.names.index(name) for name in self.scorer.columns]
        scores = np.empty(len(sources))
        for low in range(0, len(sources), _PAIRS_AT_ONCE):
            part = slice(low, low + _PAIRS_AT_ONCE)
            scores[part] = self.scorer.score(self.evidence.columns(sources[part], targets[part])[:, wanted])
        return scores


@dataclass(frozen=True, eq=False)
class ScorerChoice:
    """Which scorer validation pairs prefer.

    Attributes:
        chosen: vectors or combined.
        vectors_auc: AUC of the vectors' own score on the validation pairs, mean over the folds.
        combined_auc: The same of the combined scorer, each fold scored by weights that were fitted to the others.
        combined: The combined scorer, fitted to all validation pairs; None where there are too few to fit it.
    """

    chosen: str
    vectors_auc: float | None = None
    combined_auc: float | None = None
    combined: CombinedScorer | None = None

    def describe(self) -> dict[str, Any]:
        """For the JSON line."""
        return {"scorer": self.chosen, "validation_auc": {"vectors": self.vectors_auc, "combined": self.combined_auc}}


def choose_scorer(
    wanted: str,
    evidence: LinkEvidence,
    validation: Pairs | None,
    *,
    seed: int = 0,
    crossed_auc: float | None = None,
) -> ScorerChoice:
    """Fit the combined scorer to the validation pairs, and compare it with the vectors alone.

    wanted: combined takes it in any case and needs validation pairs; auto where its cross-fitted AUC is higher.
    seed: of the folds. crossed_auc: cross-validated AUC, on the same folds, of vectors with weights that were fitted to
    the validation pairs; None for vectors that have not seen these pairs.
    """
    num_edges = 0 if validation is None else min(len(validation.positive), len(validation.negative))
    if validation is None or num_edges < _LEAST_EDGES:
        if wanted == "combined":
            raise InputError(
                f"--scorer combined is fitted to validation pairs, and there are {num_edges} edges for it; "
                f"at least {_LEAST_EDGES} are needed: use --scorer vectors"
            )
        return ScorerChoice("vectors")
    sources, targets, is_edge = validation.endpoints()
    names, values = evidence.names, evidence.columns(sources, targets)
    own, crossed = [], []
    for fold in deal_folds(is_edge, seed):
        scorer = LinkScorer.fit(names, values[~fold], is_edge[~fold])
        crossed.append(link_scores(is_edge[fold], scorer.score(values[fold])).auc)
        own.append(link_scores(is_edge[fold], values[fold, names.index("vectors")]).auc)
    vectors_auc = float(np.mean(own)) if crossed_auc is None else crossed_auc
    combined_auc = float(np.mean(crossed))
    chosen = "combined" if wanted == "combined" or combined_auc > vectors_auc else "vectors"
    combined = CombinedScorer(LinkScorer.fit(names, values, is_edge), evidence)
    return ScorerChoice(chosen, vectors_auc, combined_auc, combined)


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
