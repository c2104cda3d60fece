"""Choose settings on the validation pairs, by short trainings of which only one is in memory at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from l2g2g.config import Config
from l2g2g.evaluation.link_scorer import fit_logistic
from l2g2g.evaluation.links import link_scores
from l2g2g.graphs.splits import Pairs
from l2g2g.runs.candidate import Candidate, Candidates
from l2g2g.runs.spectral import LEAST_GAIN, SpectralVectors, final_gain, find_spectral, needed_gain
from l2g2g.training.loop import OnEpoch

_TRIAL_EPOCHS = 15  # of the trainings with and without structural columns
_TABLE_TRIAL_EPOCHS = 60  # where features are a table of numbers: few columns are behind at first and win in the end
_NEGATIVE_EPOCHS = 30  # of the trainings with each kind of negatives: after 15 the one ahead often lost in the end
# Some of an early lead of structural columns is lost. After 15 epochs with 16 columns UAI leads by at most 0.5 points,
# Amazon Photo by 0.7 to 1.2, others by more than 2, and only these stay ahead. A learned decoder keeps what it gained.
_LEAST_BLEND_GAIN = 0.006
# Structural columns are tried if the AUC of spectral vectors is at most this much lower than the short training's. A
# learned decoder makes use of columns that say less.
_NEAR, _NEAR_LEARNED = 0.01, 0.05
_ROUGHLY_NEAR, _TABLE_ROUGHLY_NEAR = 0.05, 0.1  # for approximate spectral vectors; beside a longer training
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
    "degree term": "with a term of the degree",
}


@dataclass(frozen=True)
class Choice:
    """Settings chosen on the validation pairs, with the scores of all candidates.

    Attributes:
        structure: none, blend or spectral.
        scores: Validation AUC by candidate.
        row_power, eigenvalue_power: Scaling of spectral vectors; None for trained ones.
        assembly: mean or whole; None if it was not compared.
        negatives: uniform or degree; None if they were not compared.
        direct: True if direct coordinates are used; None if they were not compared.
        degree_term: True if two coordinates carry a term of the degree; None if that was not compared.
    """

    structure: str = "none"
    scores: dict[str, float] = field(default_factory=dict)
    row_power: float | None = None
    eigenvalue_power: float | None = None
    assembly: str | None = None
    negatives: Literal["uniform", "degree"] | None = None
    direct: bool | None = None
    degree_term: bool | None = None

    @classmethod
    def initial(cls, config: Config, spectral: SpectralVectors | None) -> Choice:
        """Create the choice before training. spectral: None if spectral vectors are no candidate."""
        scores = {} if spectral is None or spectral.auc is None else {"spectral": spectral.auc}
        if config.structure == "spectral":
            assert spectral is not None
            found = cls("spectral", scores, spectral.row_power, spectral.eigenvalue_power)
            return replace(found, degree_term=spectral.has_degree_term)
        return cls("none", scores) if config.structure == "auto" else cls(config.structure)

    def with_score(self, name: str, score: float | None) -> Choice:
        """Return a copy with one more candidate's score, if it has one."""
        return self if score is None else replace(self, scores={**self.scores, name: score})

    def may_blend(self, config: Config) -> bool:
        """Return True if spectral vectors score close enough to the short training to try structural columns."""
        short, near = self.scores.get("none, short"), _NEAR_LEARNED if config.is_learned else _NEAR
        return short is not None and self.scores.get("spectral", 1.0) >= short - near

    def describe(self) -> dict[str, Any]:
        """Return the field `chosen` of the JSON line."""
        vectors = "spectral" if self.structure == "spectral" else "trained"
        decided = {
            "row_power": self.row_power,
            "eigenvalue_power": self.eigenvalue_power,
            "assembly": self.assembly,
            "negative_sampling": self.negatives,
            "direct": self.direct,
            "degree_term": self.degree_term,
        }
        decided = {name: value for name, value in decided.items() if value is not None}
        return {"vectors": vectors, "structure": self.structure, **decided, "validation_auc": self.scores}

    def summary(self) -> str:
        """Return the choice as one line for people; empty with fewer than two candidates."""
        if len(self.scores) < 2:
            return ""
        scores = ", ".join(f"{_CANDIDATES.get(name, name)} {100 * score:.1f}" for name, score in self.scores.items())
        chosen = [_CHOSEN[self.structure]]
        chosen += ["mean of the patches"] if self.assembly == "mean" else []
        chosen += ["negatives by degree"] if self.negatives == "degree" else []
        chosen += ["direct coordinates"] if self.direct else []
        chosen += ["a term of the degree"] if self.degree_term else []
        return f"best on the validation edges: {', '.join(chosen)} (AUC in %: {scores})"


def choose_candidate(
    candidates: Candidates, config: Config, validation: Pairs | None, on_epoch: OnEpoch | None, *, is_new: bool
) -> tuple[Candidate, Choice, SpectralVectors | None]:
    """Decide the settings that are `auto`.

    Returns the training to continue, the choice so far, and spectral vectors if these are still a candidate.
    validation: None if there are no pairs to decide on. is_new: True if spectral vectors may replace trained ones.
    """
    candidate, choice, spectral = _choose_structure(candidates, config, validation, on_epoch, is_new=is_new)
    if config.negative_sampling != "auto" or validation is None or not candidate.training.settings.epochs:
        return candidate, choice, spectral
    num_epochs = max(_NEGATIVE_EPOCHS, config.validate_every)
    with candidates.clock.measure("train"):
        candidate.training.run(num_epochs, on_epoch=on_epoch)
    uniform, paused = candidate.training.best_score, candidate.pause()
    del candidate
    with candidates.clock.measure("choose"):
        by_degree = candidates.begin(replace(paused.config, negative_sampling="degree"))
        by_degree.training.run(num_epochs)
    choice = choose_negatives(choice, uniform, by_degree.training.best_score, validation.num_edges)
    if choice.negatives == "degree":
        return by_degree, choice, spectral
    del by_degree
    return candidates.resume(paused), choice, spectral


def _choose_structure(
    candidates: Candidates, config: Config, validation: Pairs | None, on_epoch: OnEpoch | None, *, is_new: bool
) -> tuple[Candidate, Choice, SpectralVectors | None]:
    """Decide whether the encoder reads structural columns beside the features.

    Training starts without them. If approximate spectral vectors come close to it and add to its scores, a second
    short training reads structural columns. If that wins, training starts anew with all of them.
    """
    if config.structure != "auto":
        spectral = _find_spectral(candidates, validation, config) if config.structure == "spectral" else None
        settings = config if spectral is None else replace(config, epochs=0)
        return candidates.begin(settings), Choice.initial(config, spectral), spectral
    plain = replace(config, structure="none")
    if not candidates.columns.num_features or validation is None or config.epochs == 0:
        judges = validation is not None and config.epochs != 0
        spectral = _find_spectral(candidates, validation, config) if is_new and judges else None
        return candidates.begin(plain), Choice.initial(config, spectral), spectral
    candidate = candidates.begin(plain)
    has_numbers = candidate.setting.inputs.inputs.numbers is not None
    num_epochs = max(_TABLE_TRIAL_EPOCHS if has_numbers else _TRIAL_EPOCHS, config.validate_every)
    with candidates.clock.measure("train"):
        candidate.training.run(num_epochs, on_epoch=on_epoch)
    short = candidate.training.best_score
    rough, spectral = None, None
    if is_new:
        first = _find_spectral(candidates, validation, config, rough=True)
        rough = first.auc
        near = _TABLE_ROUGHLY_NEAR if has_numbers else _ROUGHLY_NEAR
        if rough is not None and short is not None and rough >= short - near:
            with candidates.clock.measure("choose"):
                is_worth_it = adds_to_training(first, candidate.score(validation), validation)
            spectral = _find_spectral(candidates, validation, config) if is_worth_it else None
    choice = Choice.initial(config, spectral).with_score("none, short", short).with_score("spectral, rough", rough)
    if not choice.may_blend(config) or (is_new and spectral is None):
        return candidate, choice, spectral
    paused = candidate.pause()
    del candidate
    with candidates.clock.measure("choose"):
        blended = candidates.begin(_blend_trial(config, candidates.columns.num_features))
        blended.training.run(num_epochs)
    choice = choose_blend(choice, blended.training.best_score, validation.num_edges, is_learned=config.is_learned)
    del blended
    if choice.structure == "blend":
        return candidates.begin(replace(config, structure="blend")), choice, spectral
    return candidates.resume(paused), choice, spectral


def _find_spectral(
    candidates: Candidates, validation: Pairs | None, config: Config, *, rough: bool = False
) -> SpectralVectors:
    columns, clock = candidates.columns, candidates.clock
    # Without features the encoder reads the columns whatever is chosen, so they are no cost of the choice.
    with clock.measure("choose" if columns.num_features else "partition"):
        structure = columns.rough_spectral() if rough else columns.for_spectral()
    with clock.measure("choose"):
        how: dict[str, Any] = {"tries_degrees": not rough}
        return find_spectral(structure, columns.num_features, validation, config, candidates.communicator, **how)


def _blend_trial(config: Config, num_features: int) -> Config:
    """Return the settings of a short training with structural columns.

    It reads the eigenvectors that were computed for spectral vectors: all columns would take most of the time of a
    run. A learned decoder leads early only with all of them, and its training takes longer than to compute them.
    """
    width = config.structure_width
    if not config.is_learned:
        width = min(width, config.spectral_width(num_features))
    return replace(config, structure="blend", structure_width=width)


def adds_to_training(spectral: SpectralVectors, short: np.ndarray, validation: Pairs) -> bool:
    """Return True if spectral vectors improve the scores of a short training on the validation pairs.

    short: (num_pairs,) scores of the short training, of the pairs of all ranks on the first one. Both scores are
    combined by logistic regression on their ranks. If the features explain the structure, as in a block model whose
    blocks are a feature, this gains nothing, and neither would structural columns. A collective call.
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
    """(num_scores,) log-odds of the fraction of lower scores, which are never skewed."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = (np.arange(len(scores)) + 0.5) / len(scores)
    return np.log(ranks / (1 - ranks))


def choose_blend(choice: Choice, blended: float | None, num_edges: int, *, is_learned: bool = False) -> Choice:
    """Choose structural columns beside the features if their short training is clearly better.

    blended: validation AUC of that training. is_learned: True for a learned decoder.
    """
    least = 0.0 if is_learned else _LEAST_BLEND_GAIN
    choice = choice.with_score("blend, short", blended)
    plain = choice.scores.get("none, short")
    if plain is None or blended is None or blended <= plain + max(least, needed_gain(plain, num_edges)):
        return choice
    return replace(choice, structure="blend")


def choose_negatives(choice: Choice, uniform: float | None, by_degree: float | None, num_edges: int) -> Choice:
    """Choose how negatives are drawn. uniform, by_degree: validation AUC of short trainings."""
    choice = choice.with_score("uniform, short", uniform).with_score("degree, short", by_degree)
    is_better = uniform is not None and by_degree is not None and by_degree > uniform + needed_gain(uniform, num_edges)
    return replace(choice, negatives="degree" if is_better else "uniform")


def choose_assembly(choice: Choice, scores: dict[str, float]) -> Choice:
    """Choose the assembly: a last pass over the whole graph (whole), or the mean of the patches (mean).

    scores: validation AUC of both. They come from one training, so their difference varies little and a small gain
    counts.
    """
    assembly = "mean" if scores["mean"] > scores["whole"] + LEAST_GAIN else "whole"
    named = {f"assembly {name}": score for name, score in scores.items()}
    return replace(choice, assembly=assembly, scores={**choice.scores, **named})


def choose_vectors(choice: Choice, trained: float | None, spectral: SpectralVectors | None) -> Choice:
    """Choose trained or spectral vectors. trained: validation AUC of the best epoch, or with a term of the degree."""
    if trained is None or spectral is None or spectral.auc is None:
        return choice
    choice = choice.with_score("trained", choice.scores.get("trained", trained))
    if spectral.auc <= trained + final_gain(trained, spectral.num_edges):
        return choice
    choice = replace(choice, row_power=spectral.row_power, eigenvalue_power=spectral.eigenvalue_power)
    has_term = spectral.has_degree_term
    return replace(choice, structure="spectral", negatives=None, assembly=None, degree_term=has_term)


def choose_degree_term(choice: Choice, plain: float, with_term: float, num_edges: int) -> Choice:
    """Choose whether two coordinates of trained vectors carry a term of the degree.

    plain, with_term: validation AUC of one training, the latter cross-fitted.
    """
    helps = with_term > plain + final_gain(plain, num_edges)
    return replace(choice, degree_term=helps).with_score("trained", plain).with_score("degree term", with_term)
