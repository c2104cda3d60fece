"""Choices: what validation pairs decide in a run: whether structure is blended in, or spectral vectors handed out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.evaluation.link_scorer import fit_logistic
from l2g2g.evaluation.links import judge_scores, link_scores
from l2g2g.graphs.splits import Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders.signed import SignedDecoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import StructureMap, scale_rows
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.fitted import make_autoencoder

# Length of the short trainings that decide whether structure is blended in, and what a candidate must gain in AUC.
TRIAL_EPOCHS = 15
NEGATIVE_EPOCHS = 30  # of either way to draw non-edges: after 15 the better one was often the worse one in the end
_LEAST_GAIN = 0.002
# Of an early lead of blended columns some is lost. After 15 epochs with 16 columns UAI leads by at most 0.5 points,
# Amazon Photo by 0.7 to 1.2, others by more than 2, and only these stay ahead. A learned decoder keeps what it gained.
_LEAST_BLEND_GAIN = 0.006
# Blending is tried where spectral vectors alone come this near to a short training on the features. A learned decoder
# makes use of columns that say less.
_NEAR, _NEAR_LEARNED = 0.01, 0.05
_ROUGHLY_NEAR = 0.05  # the same for approximate ones, found in a few passes over the graph
# Rows are divided by a power of their length (inner product, between both, cosine), columns multiplied with one of
# their eigenvalue (as they are, or noisy columns damped).
_ROW_POWERS = (0.0, 0.5, 1.0)
_EIGENVALUE_POWERS = (0.0, 1.5)
LEAST_WIDTH = 16  # eigenvectors that are tried beside as many as a vector has dimensions: the rest may be noise
_NARROW_WIDTHS = (4, 1)  # tried too, as nearly all may be: one alone scores a pair by the product of its degrees
_LEAST_SPREAD = 0.5  # of the degrees, of their mean: below it what a split leaves out makes much of the difference
_ROW_POWER, _EIGENVALUE_POWER = 0.5, 0.0  # where no validation pairs can decide

_Best = tuple[float, int, bool, float, float]  # AUC, eigenvectors, whether signs count, both powers
# Names of the JSON line in words.
_CHOSEN = {
    "none": "trained vectors",
    "blend": "trained vectors with eigenvectors beside the features",
    "spectral": "eigenvectors of the graph",
}
_CANDIDATES = {
    "none, short": "short training",
    "blend, short": "short training with eigenvectors",
    "spectral, rough": "approximate eigenvectors",
    "spectral": "eigenvectors",
    "uniform, short": "uniform negatives",
    "degree, short": "negatives by degree",
    "assembly whole": "last pass over the whole graph",
    "assembly mean": "mean of the patches",
    "direct": "with direct coordinates",
}


@dataclass(frozen=True, eq=False)
class SpectralVectors:
    """A model whose vectors are the leading eigenvectors: structural columns through its skip connection alone.

    Attributes:
        inputs: Reads the first columns only.
        model: All weights are zero but those of the skip connection.
        auc: Of the validation pairs; None where there are none.
        row_power, eigenvalue_power: How rows and columns are scaled.
        width: Eigenvectors that were asked for; the rest of a vector is zero.
        slope: What makes inner products of vectors with mean square length 1 log-odds.
        num_edges: Validation edges.
        scores: (num_pairs,) of the validation pairs of all ranks, on the first one; None where there are none.
        is_coded: Whether small components have codes instead of zeros, see `StructureMap.coded`.
    """

    inputs: InputMap
    model: Autoencoder
    auc: float | None
    row_power: float
    eigenvalue_power: float
    width: int
    slope: float = 1.0
    num_edges: int = 0
    scores: np.ndarray | None = None
    is_coded: bool = False

    @property
    def is_signed(self) -> bool:
        """Whether the decoder knows signs: eigenvalues were negative; after a refit they need not be."""
        return isinstance(self.model.decoder, SignedDecoder)

    def settings(self, config: Config) -> Config:
        """The settings of a run whose vectors are these: by inner product, whatever decoder was to be trained."""
        return _spectral_settings(config, is_signed=self.is_signed)

    def refitted(self, structure: StructureMap, config: Config, communicator: Communicator = LOCAL) -> SpectralVectors:
        """The same on the columns of a graph with more edges, which may be more or fewer; the bias stays."""
        chosen = structure.leading(self.width, signed=self.is_signed)
        inputs = replace(self.inputs, structure=(chosen.coded() if self.is_coded else None) or chosen)
        model = make_autoencoder(config, inputs.num_columns, 1)
        model.decoder.load_state_dict(self.model.decoder.state_dict())
        weights = inputs, self.eigenvalue_power, self.slope, SharedRows(communicator)
        return replace(self, inputs=inputs, model=_set_weights(model, *weights))


@dataclass(frozen=True)
class Choice:
    """What was chosen, and by which scores.

    Attributes:
        structure: none, blend or spectral.
        scores: Validation AUC of each candidate.
        row_power, eigenvalue_power: Of spectral vectors; None for trained ones.
        assembly: mean or whole, where validation pairs decided it; None otherwise.
        negatives: uniform or degree, the same.
        direct: Whether direct coordinates count, where they were weighed; None otherwise.
    """

    structure: str = "none"
    scores: dict[str, float] = field(default_factory=dict)
    row_power: float | None = None
    eigenvalue_power: float | None = None
    assembly: str | None = None
    negatives: Literal["uniform", "degree"] | None = None
    direct: bool | None = None

    def with_score(self, name: str, score: float | None) -> Choice:
        """The same with the score of one more candidate; None for one that has none."""
        return self if score is None else replace(self, scores={**self.scores, name: score})

    def may_blend(self, config: Config) -> bool:
        """Whether spectral vectors come so near to a short training on the features that blending may help."""
        short, near = self.scores.get("none, short"), _NEAR_LEARNED if config.is_learned else _NEAR
        return short is not None and self.scores.get("spectral", 1.0) >= short - near

    def describe(self) -> dict[str, Any]:
        """What the JSON line says: the same bits in every run of the same seed."""
        vectors = "spectral" if self.structure == "spectral" else "trained"
        powers: dict[str, float | None] = {}
        if self.row_power is not None:
            powers = {"row_power": self.row_power, "eigenvalue_power": self.eigenvalue_power}
        decided = {"assembly": self.assembly, "negative_sampling": self.negatives, "direct": self.direct}
        decided = {name: value for name, value in decided.items() if value is not None}
        return {"vectors": vectors, "structure": self.structure, **powers, **decided, "validation_auc": self.scores}

    def summary(self) -> str:
        """One line for people; empty where there was nothing to choose."""
        if len(self.scores) < 2:
            return ""
        scores = ", ".join(f"{_CANDIDATES.get(name, name)} {100 * score:.1f}" for name, score in self.scores.items())
        chosen = [_CHOSEN[self.structure]]
        chosen += ["mean of the patches"] if self.assembly == "mean" else []
        chosen += ["negatives by degree"] if self.negatives == "degree" else []
        chosen += ["direct coordinates"] if self.direct else []
        return f"best on the validation edges: {', '.join(chosen)} (AUC in %: {scores})"


def find_spectral(
    structure: StructureMap,
    num_features: int,
    validation: Pairs | None,
    config: Config,
    communicator: Communicator = LOCAL,
) -> SpectralVectors:
    """The spectral vectors that separate the validation pairs best. num_features: of the graph; they are not read.

    communicator: of the ranks, for which the first one decides: on another processor sums may be rounded differently.
    """
    most, shared = min(config.dim, config.spectral_width(num_features)), SharedRows(communicator)
    # Without validation pairs: signs where a finished run had chosen them.
    signed = structure.is_signed and config.decoder == "signed"
    auc: float | None = None
    width, row_power, power = most, _ROW_POWER, _EIGENVALUE_POWER
    is_coded = False
    if validation is not None:
        ends = _PairEnds.of(structure, validation, shared)
        found = _find_best(ends, _widths(most, _degrees_differ(structure, shared)), config)
        coded = structure.leading(min(LEAST_WIDTH, most)).coded()
        if coded is not None:
            coded_ends = _PairEnds.of(coded, validation, shared)
            better = _find_best(coded_ends, [min(LEAST_WIDTH, most)], config)
            is_coded = better[0] > found[0] + needed_gain(found[0], validation.num_edges)
            if is_coded:
                structure, ends, found = coded, coded_ends, better
        auc, width, signed, row_power, power = found
    chosen = structure.leading(width, signed=signed)
    inputs = InputMap(num_features, "raw", structure=chosen, structure_only=True, row_power=row_power)
    settings = _spectral_settings(config, is_signed=chosen.is_signed)
    model = _set_weights(make_autoencoder(settings, inputs.num_columns, 1), inputs, power, 1.0, shared)
    if validation is None:
        return SpectralVectors(inputs, model, auc, row_power, power, width)
    ends = replace(ends, structure=ends.structure.leading(width, signed=signed))
    slope, scores = _calibrate(model, ends, row_power)
    return SpectralVectors(inputs, model, auc, row_power, power, width, slope, validation.num_edges, scores, is_coded)


@dataclass(frozen=True, eq=False)
class _PairEnds:
    """The validation pairs of this rank with the structural columns of their nodes.

    Attributes:
        structure: Columns of the nodes of the pairs, or of all nodes.
        sources, targets: (num_pairs,) rows of these columns.
        pairs: The pairs.
    """

    structure: StructureMap
    sources: np.ndarray
    targets: np.ndarray
    pairs: Pairs

    @classmethod
    def of(cls, structure: StructureMap, pairs: Pairs, shared: SharedRows) -> _PairEnds:
        """A collective call."""
        sources, targets, _ = pairs.endpoints()
        if structure.span is None:
            return cls(structure, sources, targets, pairs)
        found = structure.with_rows(np.unique(np.concatenate([sources, targets])).astype(np.int64), shared)
        assert found.nodes is not None
        return cls(found, np.searchsorted(found.nodes, sources), np.searchsorted(found.nodes, targets), pairs)


def _widths(most: int, degrees_differ: bool) -> list[int]:
    """How many eigenvectors are tried, the usual number first. most: eigenvectors at most."""
    usual = min(LEAST_WIDTH, most)
    narrow = [width for width in _NARROW_WIDTHS if width < usual and (width > 1 or degrees_differ)]
    return [usual, *narrow, *([most] if most > usual else [])]


def _degrees_differ(structure: StructureMap, shared: SharedRows) -> bool:
    """Whether the first eigenvector alone tells nodes apart: where all degrees are alike, it is one point."""
    degrees = structure.found_rows[:, 0].astype(np.float64) ** 2  # up to a factor
    count, total, squares = shared.sums(float(len(degrees)), float(degrees.sum()), float((degrees**2).sum()))
    return squares * count - total**2 > (_LEAST_SPREAD * total) ** 2


def _find_best(ends: _PairEnds, widths: list[int], config: Config) -> _Best:
    """What tells the validation pairs apart best. widths: the usual one first. Each rank scores its own pairs."""
    usual, *others = (_best_of_width(ends, width, config) for width in widths)
    best, num_edges = usual, ends.pairs.num_edges
    for found in others:
        # Fewer eigenvectors stand in for the usual ones only where these are noise. More of them fit the validation
        # pairs a little better even where they are noise.
        is_narrow = found[1] < usual[1]
        known = usual[0] if is_narrow else best[0]
        if found[0] > known + needed_gain(known, num_edges) and not (is_narrow and found[0] <= best[0]):
            best = found
    return best


def _best_of_width(ends: _PairEnds, width: int, config: Config) -> _Best:
    """The best signs and scalings of so many eigenvectors."""
    structure, pairs = ends.structure, ends.pairs
    tried: list[_Best] = []
    for signed in (False, True) if structure.is_signed and config.can_be_signed else (False,):
        columns = structure.leading(width, signed=signed)
        values = columns.eigenvalues.astype(np.float64)
        for row_power in _ROW_POWERS:
            rows = scale_rows(columns.columns, row_power)[:, :-1].astype(np.float64)
            products = rows[ends.sources] * rows[ends.targets]
            for power in _EIGENVALUE_POWERS:
                scores = products @ (np.sign(values) * np.abs(values) ** (2 * power))
                tried.append((judge_scores(pairs, pairs.gather(scores)).auc, width, signed, row_power, power))
    return max(tried, key=lambda each: each[0])


def _spectral_settings(config: Config, *, is_signed: bool) -> Config:
    return replace(config, structure="spectral", decoder="signed" if is_signed else "inner", direct_width=0)


def may_reach(rough: float | None, short: float | None) -> bool:
    """Whether spectral vectors may come near to a short training.

    rough, short: validation AUC of approximate spectral vectors, and of the short training.
    """
    return rough is not None and short is not None and rough >= short - _ROUGHLY_NEAR


def adds_to_training(spectral: SpectralVectors, short: np.ndarray, validation: Pairs) -> bool:
    """Whether spectral vectors improve the scores of a short training on the validation pairs.

    short: (num_pairs,) scores by the short training, of the pairs of all ranks on the first one. Both are joined by
    logistic regression on their ranks. Where the features explain the structure, as in a block model whose blocks are
    a feature, this gains nothing, and neither would blended columns.
    """
    scores = spectral.scores
    assert scores is not None
    return validation.communicator.decide(lambda: _gains(short, scores, validation.num_edges))


def _gains(known: np.ndarray, added: np.ndarray, num_edges: int) -> bool:
    is_edge = np.arange(len(known)) < num_edges
    columns = np.stack([_log_odds_of_ranks(each) for each in (known, added)], axis=1)
    weights, _ = fit_logistic(columns, is_edge)
    before, joined = (link_scores(is_edge, each).auc for each in (known, columns @ weights))
    return joined > before + needed_gain(before, num_edges)


def _log_odds_of_ranks(scores: np.ndarray) -> np.ndarray:
    """(num_scores,) log-odds of the share of the scores that are lower: however skewed they are, these are not."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = (np.arange(len(scores)) + 0.5) / len(scores)
    return np.log(ranks / (1 - ranks))


def _set_weights(
    model: Autoencoder, inputs: InputMap, eigenvalue_power: float, slope: float, shared: SharedRows
) -> Autoencoder:
    """Give a model the weights with which column i becomes coordinate i, times a power of its eigenvalue."""
    structure = inputs.structure
    assert structure is not None
    values = torch.from_numpy(structure.eigenvalues.astype(np.float32))
    weights = values.abs() ** eigenvalue_power
    rows = scale_rows(structure.found_rows, inputs.row_power)[:, :-1]
    squares, num_rows = float(np.square(rows).sum(dtype=np.float64)), float(len(rows))
    if structure.span is not None:
        squares, num_rows = shared.sums(squares, num_rows)
    mean_length = math.sqrt(squares / num_rows)
    encoder = model.encoder_of(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        assert encoder.skip is not None
        size = len(weights)
        encoder.skip[:size, :size] = torch.diag(weights * (math.sqrt(slope) / max(mean_length, 1e-30)))
        if isinstance(model.decoder, SignedDecoder):
            model.decoder.weights.fill_(1.0)[:size] = values.sign()
    return model


def _calibrate(model: Autoencoder, ends: _PairEnds, row_power: float) -> tuple[float, np.ndarray]:
    """Set length of the vectors and bias so that scores are log-odds of the validation pairs.

    Returns the slope and the scores before, (num_pairs,) on the first rank.
    """
    encoder, bias = model.encoder_of(0), getattr(model.decoder, "bias", None)
    assert encoder.skip is not None
    weights = encoder.skip.detach()

    vectors = torch.from_numpy(scale_rows(ends.structure.columns, row_power)) @ weights
    scores = ends.pairs.gather(model.decoder.score(vectors.numpy(), ends.sources, ends.targets))
    is_edge = np.arange(len(scores)) < ends.pairs.num_edges
    slope, intercept = ends.pairs.communicator.decide(lambda: fit_log_odds(scores, is_edge))
    with torch.no_grad():
        encoder.skip.mul_(math.sqrt(slope))
        if isinstance(bias, torch.Tensor):
            bias.fill_(intercept)
    return slope, scores


def fit_log_odds(scores: np.ndarray, is_edge: np.ndarray, *, num_steps: int = 25) -> tuple[float, float]:
    """(slope, bias) of logistic regression on one score, slightly regularised; a slope that is not positive becomes 1.

    Example:
        >>> slope, bias = fit_log_odds(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, True, False, True]))
        >>> slope > 0
        True
    """
    spread = float(scores.std()) or 1.0
    design = np.stack([(scores - scores.mean()) / spread, np.ones(len(scores))], axis=1)
    found = np.zeros(2)
    for _ in range(num_steps):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        gradient = design.T @ (is_edge - chance) - found
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + np.eye(2)
        found = found + np.linalg.solve(curvature, gradient)
    slope = float(found[0] / spread)
    return (slope, float(found[1] - slope * scores.mean())) if slope > 0 else (1.0, 0.0)


def begin_choice(config: Config, spectral: SpectralVectors | None) -> Choice:
    """What is known before training. spectral: the spectral vectors; None where these are not among the candidates."""
    scores = {} if spectral is None or spectral.auc is None else {"spectral": spectral.auc}
    if config.structure == "spectral":
        assert spectral is not None
        return Choice("spectral", scores, spectral.row_power, spectral.eigenvalue_power)
    return Choice("none", scores) if config.structure == "auto" else Choice(config.structure)


def choose_blend(choice: Choice, blended: float | None, num_edges: int, *, is_learned: bool = False) -> Choice:
    """Decide whether structural columns stand beside the features. blended: score of the short training with them.

    is_learned: whether the decoder is.
    """
    least = 0.0 if is_learned else _LEAST_BLEND_GAIN
    choice = choice.with_score("blend, short", blended)
    plain, better = (choice.scores.get(f"{name}, short") for name in ("none", "blend"))
    if plain is None or better is None or better <= plain + max(least, needed_gain(plain, num_edges)):
        return choice
    return replace(choice, structure="blend")


def choose_negatives(choice: Choice, uniform: float | None, by_degree: float | None, num_edges: int) -> Choice:
    """Decide how the far ends of non-edges are drawn. uniform, by_degree: scores of short trainings."""
    choice = choice.with_score("uniform, short", uniform).with_score("degree, short", by_degree)
    is_better = uniform is not None and by_degree is not None and by_degree > uniform + needed_gain(uniform, num_edges)
    return replace(choice, negatives="degree" if is_better else "uniform")


def choose_assembly(choice: Choice, scores: dict[str, float]) -> Choice:
    """Decide how vectors are assembled: by a last pass over the whole graph, or as the mean of the patches.

    Both are of one training, so their difference varies far less than that of two, and a small gain counts.
    """
    assembly = "mean" if scores["mean"] > scores["whole"] + _LEAST_GAIN else "whole"
    named = {f"assembly {name}": score for name, score in scores.items()}
    return replace(choice, assembly=assembly, scores={**choice.scores, **named})


def choose_vectors(choice: Choice, trained: float | None, spectral: SpectralVectors | None) -> Choice:
    """Decide between trained and spectral vectors, when training is over. trained: validation AUC of its best epoch."""
    if trained is None or spectral is None or spectral.auc is None:
        return choice
    choice = replace(choice, scores={**choice.scores, "trained": trained})
    if spectral.auc <= trained + needed_gain(trained, spectral.num_edges):
        return choice
    choice = replace(choice, row_power=spectral.row_power, eigenvalue_power=spectral.eigenvalue_power)
    return replace(choice, structure="spectral", negatives=None)


def needed_gain(auc: float, num_edges: int) -> float:
    """What another candidate must have more than this AUC: 0.2 points, and half a standard error where edges are few.

    Both are scored on the same pairs, so their difference varies less than each. Then other seeds choose the same, and
    a few edges leave things as they are.
    """
    return max(_LEAST_GAIN, 0.5 * math.sqrt(auc * (1 - auc) / max(1, num_edges)))
