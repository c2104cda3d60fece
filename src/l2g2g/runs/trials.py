"""Trials: short trainings whose validation decides with which settings a run goes on.

Of the candidates only one has batches at a time: the other one is paused.
"""

from __future__ import annotations

from dataclasses import replace

from l2g2g.config import Config
from l2g2g.graphs.splits import Pairs
from l2g2g.runs.candidate import Candidate, Candidates
from l2g2g.runs.choices import (
    NEGATIVE_EPOCHS,
    TRIAL_EPOCHS,
    Choice,
    SpectralVectors,
    adds_to_training,
    begin_choice,
    choose_blend,
    choose_negatives,
    find_spectral,
    may_reach,
)
from l2g2g.training.loop import OnEpoch


def choose_candidate(
    candidates: Candidates, config: Config, validation: Pairs | None, on_epoch: OnEpoch | None, *, is_new: bool
) -> tuple[Candidate, Choice, SpectralVectors | None]:
    """Decide what is `auto`. Returns the training that goes on, the choice, and spectral vectors if these are tried.

    validation: None where there is nothing to decide by. is_new: whether spectral vectors may replace trained ones.
    """
    candidate, choice, spectral = _choose_structure(candidates, config, validation, on_epoch, is_new=is_new)
    if config.negative_sampling != "auto" or validation is None or not candidate.training.settings.epochs:
        return candidate, choice, spectral
    trial = _num_epochs(NEGATIVE_EPOCHS, config)
    with candidates.clock.measure("train"):
        candidate.training.run(trial, on_epoch=on_epoch)
    uniform, paused = candidate.training.best_score, candidate.pause()
    del candidate
    with candidates.clock.measure("choose"):
        by_degree = candidates.begin(replace(paused.config, negative_sampling="degree"))
        by_degree.training.run(trial)
    choice = choose_negatives(choice, uniform, by_degree.training.best_score, validation.num_edges)
    if choice.negatives == "degree":
        return by_degree, choice, spectral
    del by_degree
    return candidates.resume(paused), choice, spectral


def _choose_structure(
    candidates: Candidates, config: Config, validation: Pairs | None, on_epoch: OnEpoch | None, *, is_new: bool
) -> tuple[Candidate, Choice, SpectralVectors | None]:
    """The candidate with structural columns beside the features or without.

    A few epochs without them, and as many with some of them unless spectral vectors, which see nothing else, are far
    worse. Without them training goes on from there, with all of them it begins anew. Spectral vectors themselves are
    tried beside features only where a first impression of them is not far worse.
    """
    columns, clock = candidates.columns, candidates.clock
    judges = validation is not None and config.epochs != 0
    trial = _num_epochs(TRIAL_EPOCHS, config)

    def find(*, rough: bool = False) -> SpectralVectors:
        # Without features they are what the encoder reads, whatever is chosen.
        with clock.measure("choose" if columns.num_features else "partition"):
            structure = columns.rough_spectral() if rough else columns.for_spectral()
        with clock.measure("choose"):
            return find_spectral(structure, columns.num_features, validation, config, candidates.communicator)

    if config.structure != "auto":
        found = find() if config.structure == "spectral" else None
        settings = config if found is None else replace(config, epochs=0)
        return candidates.begin(settings), begin_choice(config, found), found
    plain = replace(config, structure="none")
    if not columns.num_features or not judges:
        found = find() if is_new and judges else None
        return candidates.begin(plain), begin_choice(config, found), found
    assert validation is not None
    candidate = candidates.begin(plain)
    with clock.measure("train"):
        candidate.training.run(trial, on_epoch=on_epoch)
    short = candidate.training.best_score
    first = find(rough=True) if is_new else None
    rough = None if first is None else first.auc
    found = None
    if first is not None and may_reach(rough, short):
        with clock.measure("choose"):
            is_worth_it = adds_to_training(first, candidate.score(validation), validation)
        found = find() if is_worth_it else None
    choice = begin_choice(config, found).with_score("none, short", short).with_score("spectral, rough", rough)
    if not choice.may_blend(config) or (is_new and found is None):
        return candidate, choice, found
    paused = candidate.pause()
    del candidate
    with clock.measure("choose"):
        # As many columns as spectral vectors have, which are found already: all would take most of the time of a run.
        # A learned decoder leads early only with all of them, and its training takes longer than to find them.
        few = config.structure_width
        if not config.is_learned:
            few = min(few, config.spectral_width(columns.num_features))
        blended = candidates.begin(replace(config, structure="blend", structure_width=few))
        blended.training.run(trial)
    choice = choose_blend(choice, blended.training.best_score, validation.num_edges, is_learned=config.is_learned)
    del blended
    if choice.structure == "blend":
        return candidates.begin(replace(config, structure="blend")), choice, found
    return candidates.resume(paused), choice, found


def _num_epochs(wanted: int, config: Config) -> int:
    """Of a trial: there is nothing to compare before the first validation."""
    return max(wanted, config.validate_every)
