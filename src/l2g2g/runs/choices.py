"""Choices: what validation pairs decide in a run: whether structure is blended in, or spectral vectors handed out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.evaluation.links import link_scores
from l2g2g.graphs.splits import Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.structure import StructureMap
from l2g2g.runs.fitted import make_autoencoder
from l2g2g.runs.run import Run
from l2g2g.runs.stopwatch import Stopwatch

# Length of the short trainings that decide whether structure is blended in, and what a candidate must gain in AUC.
_TRIAL_EPOCHS = 15
_LEAST_GAIN = 0.002
# Blending is tried where spectral vectors alone come this near to a short training on the features. A learned decoder
# makes use of columns that say less.
_NEAR, _NEAR_LEARNED = 0.01, 0.05
# Rows are divided by a power of their length (inner product, between both, cosine), columns multiplied with one of
# their eigenvalue (as they are, or noisy columns damped).
_ROW_POWERS = (0.0, 0.5, 1.0)
_EIGENVALUE_POWERS = (0.0, 1.5)
LEAST_WIDTH = 16  # eigenvectors that are tried beside as many as a vector has dimensions: the rest may be noise
_ROW_POWER, _EIGENVALUE_POWER = 0.5, 0.0  # where no validation pairs can decide


@dataclass(frozen=True, eq=False)
class SpectralVectors:
    """A model whose vectors are the leading eigenvectors: structural columns on a direct way to the vector.

    Attributes:
        inputs: Reads the first columns only.
        model: All weights are zero but those of the direct way.
        auc: Of the validation pairs; None where there are none.
        row_power, eigenvalue_power: How rows and columns are scaled.
        width: Eigenvectors that were asked for; the rest of a vector is zero.
        slope: What makes inner products of vectors with mean square length 1 log-odds.
        num_edges: Validation edges.
    """

    inputs: InputMap
    model: Autoencoder
    auc: float | None
    row_power: float
    eigenvalue_power: float
    width: int
    slope: float = 1.0
    num_edges: int = 0

    @staticmethod
    def settings(config: Config) -> Config:
        """The settings of a run whose vectors are these: by inner product, whatever decoder was to be trained."""
        return replace(config, structure="spectral", decoder="inner")

    def refitted(self, structure: StructureMap, config: Config) -> SpectralVectors:
        """The same on the columns of a graph with more edges, which may be more or fewer; the decoder stays."""
        inputs = replace(self.inputs, structure=structure.leading(self.width))
        model = make_autoencoder(config, inputs.num_columns, 1)
        model.decoder.load_state_dict(self.model.decoder.state_dict())
        return replace(self, inputs=inputs, model=_make_model(model, inputs, self.eigenvalue_power, self.slope))


@dataclass(frozen=True)
class Choice:
    """What was chosen, and by which scores.

    Attributes:
        structure: none, blend or spectral.
        scores: Validation AUC of each candidate.
        row_power, eigenvalue_power: Of spectral vectors; None for trained ones.
    """

    structure: str = "none"
    scores: dict[str, float] = field(default_factory=dict)
    row_power: float | None = None
    eigenvalue_power: float | None = None

    def describe(self) -> dict[str, Any]:
        """What the JSON line says: the same bits in every run of the same seed."""
        vectors = "spectral" if self.structure == "spectral" else "trained"
        powers = (
            {}
            if self.row_power is None
            else {
                "row_power": self.row_power,
                "eigenvalue_power": self.eigenvalue_power,
            }
        )
        return {"vectors": vectors, "structure": self.structure, **powers, "validation_auc": self.scores}

    def summary(self) -> str:
        """One line for people; empty where there was nothing to choose."""
        if len(self.scores) < 2:
            return ""
        scores = ", ".join(f"{name} {100 * score:.1f}" for name, score in self.scores.items())
        return f"chosen by validation AUC: {self.structure if self.structure != 'none' else 'trained'} ({scores})"


def find_spectral(
    structure: StructureMap, num_features: int, validation: Pairs | None, config: Config
) -> SpectralVectors:
    """The spectral vectors that tell the validation pairs apart best. num_features: of the graph; they are not read."""
    widths = sorted({min(LEAST_WIDTH, config.dim), config.dim})
    best: tuple[float | None, int, float, float] = (None, config.dim, _ROW_POWER, _EIGENVALUE_POWER)
    if validation is not None:
        sources, targets, is_edge = validation.endpoints()
        for width, row_power in itertools.product(widths, _ROW_POWERS):
            leading = structure.leading(width)
            rows = leading.scaled_columns(row_power)[:, :-1].astype(np.float64)
            products = rows[sources] * rows[targets]
            for power in _EIGENVALUE_POWERS:
                auc = link_scores(is_edge, products @ leading.eigenvalues.astype(np.float64) ** (2 * power)).auc
                if best[0] is None or auc > best[0]:
                    best = auc, width, row_power, power
    auc_found, width, row_power, power = best
    columns = structure.leading(width)
    inputs = InputMap(num_features, "raw", structure=columns, structure_only=True, row_power=row_power)
    model = make_autoencoder(SpectralVectors.settings(config), inputs.num_columns, 1)
    model = _make_model(model, inputs, power, 1.0)
    slope = 1.0 if validation is None else _calibrate(model, inputs, validation)
    num_edges = 0 if validation is None else len(validation.positive)
    return SpectralVectors(inputs, model, auc_found, row_power, power, width, slope, num_edges)


def _make_model(like: Autoencoder, inputs: InputMap, eigenvalue_power: float, slope: float) -> Autoencoder:
    """The model in which column i reaches the number i of a vector, times a power of its eigenvalue."""
    structure = inputs.structure
    assert structure is not None
    weights = torch.from_numpy(structure.eigenvalues.astype(np.float32) ** eigenvalue_power)
    mean_length = float(np.sqrt(np.square(structure.scaled_columns(inputs.row_power)[:, :-1]).sum(1).mean()))
    encoder = like.encoder_of(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        assert encoder.skip is not None
        size = len(weights)
        encoder.skip[:size, :size] = torch.diag(weights * (math.sqrt(slope) / max(mean_length, 1e-30)))
    return like


def _calibrate(model: Autoencoder, inputs: InputMap, validation: Pairs) -> float:
    """Set length of the vectors and bias so that scores are log-odds of the validation pairs. Returns the slope."""
    structure, encoder, bias = inputs.structure, model.encoder_of(0), getattr(model.decoder, "bias", None)
    assert structure is not None
    assert encoder.skip is not None
    vectors = torch.from_numpy(structure.scaled_columns(inputs.row_power)) @ encoder.skip.detach()
    sources, targets, is_edge = validation.endpoints()
    scores = (vectors[sources] * vectors[targets]).sum(1).double().numpy()
    slope, intercept = fit_log_odds(scores, is_edge)
    with torch.no_grad():
        encoder.skip.mul_(math.sqrt(slope))
        if isinstance(bias, torch.Tensor):
            bias.fill_(intercept)
    return slope


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


def choose_structure(
    config: Config,
    clock: Stopwatch,
    *,
    num_edges: int,
    spectral: SpectralVectors | None,
    train: Callable[[Config], Run],
) -> tuple[Config, Choice]:
    """Decide `auto`: whether structural columns stand beside the features.

    A short training without them, and one with them unless spectral vectors, which see nothing else, are far worse.
    num_edges: validation edges to decide by; 0 where there are none, or no features to blend structure with: then none.
    spectral: the spectral vectors; None where these are not among the candidates.
    train: trains with other settings.
    """
    scores = {} if spectral is None or spectral.auc is None else {"spectral": spectral.auc}
    if config.structure == "spectral":
        assert spectral is not None
        chosen = Choice("spectral", scores, spectral.row_power, spectral.eigenvalue_power)
        return replace(config, epochs=0), chosen
    if config.structure != "auto":
        return config, Choice(config.structure)
    if num_edges == 0 or config.epochs == 0:
        return replace(config, structure="none"), Choice("none", scores)
    with clock.measure("choose"):
        epochs = _TRIAL_EPOCHS if config.epochs is None else min(_TRIAL_EPOCHS, config.epochs)
        short = replace(config, epochs=epochs, patience=_TRIAL_EPOCHS)
        scores["none, short"] = _best_score(train(replace(short, structure="none")))
        near = _NEAR if config.decoder == "inner" else _NEAR_LEARNED
        if "spectral" in scores and scores["spectral"] < scores["none, short"] - near:
            return replace(config, structure="none"), Choice("none", scores)
        scores["blend, short"] = _best_score(train(replace(short, structure="blend")))
    if scores["blend, short"] > scores["none, short"] + needed_gain(scores["none, short"], num_edges):
        return replace(config, structure="blend"), Choice("blend", scores)
    return replace(config, structure="none"), Choice("none", scores)


def choose_vectors(choice: Choice, trained: float | None, spectral: SpectralVectors | None) -> Choice:
    """Decide between trained and spectral vectors, when training is over. trained: validation AUC of its best epoch."""
    if trained is None or spectral is None or spectral.auc is None:
        return choice
    choice = replace(choice, scores={**choice.scores, "trained": trained})
    if spectral.auc <= trained + needed_gain(trained, spectral.num_edges):
        return choice
    return Choice("spectral", choice.scores, spectral.row_power, spectral.eigenvalue_power)


def needed_gain(auc: float, num_edges: int) -> float:
    """What another candidate must have more than this AUC: 0.2 points, and half a standard error where edges are few.

    Both are scored on the same pairs, so their difference varies less than each. Then other seeds choose the same, and
    a few edges leave things as they are.
    """
    return max(_LEAST_GAIN, 0.5 * math.sqrt(auc * (1 - auc) / max(1, num_edges)))


def _best_score(run: Run) -> float:
    return max(score for _, score in run.trained.history.validations)
