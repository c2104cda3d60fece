"""Loop: the one training loop. Align the patches, accumulate the gradient of an epoch, step, validate."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from l2g2g.alignment.solve import Start
from l2g2g.alignment.streaming import pair_distances
from l2g2g.alignment.synchronise import Frame, apply_frame, synchronise
from l2g2g.core import one_torch_thread
from l2g2g.errors import InputError
from l2g2g.methods import AlignGradient, Schedule
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.adam import Adam
from l2g2g.training.batches import Batches
from l2g2g.training.checkpoint_writer import CheckpointWriter, RankCheckpointWriter
from l2g2g.training.heap import keep_freed_memory, return_freed_memory
from l2g2g.training.objective import GlobalLoss, ObjectiveSettings, accumulate_gradients, in_patch_order
from l2g2g.training.shard import Shard
from l2g2g.training.state import History, LoopState, Recovery, embedding_trouble, loss_trouble

# While coordinates still move, a few steps from the last frame are enough; the final alignment is exact.
_REFRESH: dict[str, Any] = {"start": "tree", "tolerance": 1e-3, "max_steps": 5}
# The gradient through the alignment is the derivative of an optimum, so the rotations must be close to it.
_THROUGH: dict[str, Any] = {"start": "tree", "tolerance": 1e-4, "differentiable": True}
# With more patches rotations start from a tree of groups: products along the branches of a large tree drift.
_MANY_PATCHES = 1000
_FEW_ROWS = 2000  # rows of all rotations up to which an alignment is many small steps, best done by one thread
_FAST_FALL = 0.1  # relative fall of the loss over the patience above which training is not on a plateau
WholePass = Callable[[Autoencoder], Tensor]  # model -> (num_nodes, dim) by one pass over the whole graph


@dataclass(frozen=True)
class EpochReport:
    """One finished epoch, as callbacks get it.

    Attributes:
        epoch: Number of the epoch, from 1.
        loss: Loss before the step.
        seconds: Duration without the validation.
        validation: AUC on the validation pairs; None in epochs without a validation.
        refreshed: True if the alignment was solved anew in this epoch.
    """

    epoch: int
    loss: float
    seconds: float
    validation: float | None = None
    refreshed: bool = False
    measure: Callable[[], float] | None = field(default=None, repr=False, compare=False)

    @property
    def residual(self) -> float | None:
        """Root mean square distance of shared nodes in aligned patches; None without a refresh.

        Each access encodes all patches once more.
        """
        return self.measure() if self.refreshed and self.measure is not None else None

    def curves(self) -> dict[str, float]:
        """Return the points that this epoch adds to the curves of a training, by name."""
        found = {"loss": self.loss, "validation AUC": self.validation, "refresh residual": self.residual}
        return {name: value for name, value in found.items() if value is not None}


OnEpoch = Callable[[EpochReport], None]


@dataclass(frozen=True)
class LoopSettings(ObjectiveSettings):
    """Settings of the loop, named like the options of the command line.

    Attributes:
        schedule: Learning rate over the epochs. constant; linear: rise over the first tenth, then fall to 0, so that
            few epochs suffice.
        refresh_every: Epochs between two alignments.
        rotate, translate, scale: Parts of the alignment that are applied.
        align_gradient: held: the alignment is constant between refreshes; through: it is solved in every epoch, and
            the gradient passes through it.
        validate_every: Epochs between two validations.
        patience: Validations without a better one before training stops, unless the loss still falls fast; 0 disables
            early stopping.
    """

    epochs: int = 200
    learning_rate: float = 0.01
    schedule: Schedule = "constant"
    refresh_every: int = 10
    rotate: bool = True
    translate: bool = True
    scale: bool = False
    align_gradient: AlignGradient = "held"
    validate_every: int = 10
    patience: int = 0

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0."""
        if self.schedule == "constant":
            return self.learning_rate
        rise, fall = (epoch + 1) / (0.1 * self.epochs), 1 - epoch / self.epochs
        return self.learning_rate * min(1.0, rise) * fall

    @property
    def has_alignment(self) -> bool:
        """True if any part of the alignment is applied; otherwise it is the identity."""
        return self.rotate or self.translate or self.scale


@dataclass(frozen=True)
class Trained:
    """A trained model with the last alignment of its patches and its history."""

    model: Autoencoder
    frame: Frame
    history: History


class Training:
    """A training that can pause between two epochs: `run` it, possibly in several parts, then `finish` it.

    Args:
        model: Trained in place.
        batches: Iterated once or twice an epoch.
        global_pairs: Loss of pairs of all nodes, if the scope is global.
        whole: Pass over the whole graph that gives the vectors; None for the mean over the patches.
        validate: Score, higher is better, of vectors (num_nodes, dim); of several ranks each passes those of its range
            of nodes and gets the same score. The best state is kept.
        margin: Score of the last epoch -> lead that an earlier epoch needs to be kept instead, if the learning rate
            falls. With few validation pairs some epoch is best by chance.
        compares_assemblies: Also validate the mean over the patches beside `whole`; the better score counts.
        shard: The patches of this rank, to which the batches belong; None for all.
    """

    def __init__(
        self,
        model: Autoencoder,
        batches: Batches,
        patch_set: PatchSet,
        settings: LoopSettings,
        *,
        global_pairs: GlobalLoss | None = None,
        whole: WholePass | None = None,
        validate: Callable[[Tensor], float] | None = None,
        margin: Callable[[float], float] | None = None,
        compares_assemblies: bool = False,
        shard: Shard | None = None,
    ) -> None:
        self.model, self.batches, self.settings = model, batches, settings
        self.global_pairs, self.whole, self.validate, self.margin = global_pairs, whole, validate, margin
        self.compares_assemblies = compares_assemblies and whole is not None and validate is not None
        self.shard = shard or Shard(patch_set)
        device = next(model.parameters()).device
        if len(batches) and batches.device.type != device.type:
            raise InputError(f"the model is on {device} and its patches on {batches.device}; use one device for both")
        frame = Frame.identity(patch_set.num_patches, model.dim, dtype=torch.float32, device=device)
        optimiser = Adam(model.parameters(), settings.learning_rate)
        self.state = LoopState(model, optimiser, frame, Recovery(model, frame))

    def run(
        self,
        until: int | None = None,
        *,
        on_epoch: OnEpoch | None = None,
        checkpoints: CheckpointWriter | RankCheckpointWriter | None = None,
    ) -> None:
        """Train to the end, or until so many epochs are done. on_epoch: called after every epoch.

        checkpoints: restores the state if it has one, and saves it after epochs.
        """
        state, settings = self.state, self.settings
        with keep_freed_memory(), nullcontext() if checkpoints is None else checkpoints.watch():
            if checkpoints is not None:
                checkpoints.restore(state)
            while not self._is_over() and (until is None or state.epoch < until):
                num_refreshes = len(state.history.refresh_seconds)
                trouble = self._run_epoch()
                if state.epoch % settings.validate_every == 0 or state.epoch == settings.epochs:
                    if self.validate is not None:
                        self._validate()
                    elif trouble is None:
                        state.recovery.keep(state.frame)
                if on_epoch is not None:
                    on_epoch(self._report(refreshed=len(state.history.refresh_seconds) > num_refreshes))
                if checkpoints is not None:
                    checkpoints.after_epoch(state)
            if checkpoints is not None:
                checkpoints.finish(state)

    def finish(self) -> Trained:
        """Return the model of the best validation, or the current one without validations."""
        state, history, frame = self.state, self.state.history, self.state.frame
        history.losses = self.shard.end(history.losses)
        if state.best_model is not None:
            assert state.best_frame is not None
            self.model.load_state_dict(state.best_model)
            frame = state.best_frame
        else:
            state.recovery.check_end()
            history.best_epoch = history.num_epochs
        history.recoveries = state.recovery.count
        return Trained(self.model, frame, history)

    @property
    def best_score(self) -> float | None:
        """Best validation score so far; None before the first validation."""
        return max((score for _, score in self.state.history.validations), default=None)

    def score_assemblies(self, trained: Trained) -> dict[str, float]:
        """Return the validation scores of the pass over the whole graph and of the mean over the patches."""
        self.state.frame = trained.frame
        return {"whole": self._score(self.whole)[1], "mean": self._score(None)[1]}

    def _is_over(self) -> bool:
        state, settings = self.state, self.settings
        if state.epoch >= settings.epochs:
            return True
        if settings.patience == 0 or state.waited < settings.patience:
            return False
        return not _falls_fast(state.history.losses[-settings.patience * settings.validate_every :])

    def _run_epoch(self) -> str | None:
        """Align the patches if due, accumulate the gradient, step. Returns what went wrong, if anything."""
        started, state, settings = time.perf_counter(), self.state, self.settings
        epoch, history = state.epoch, state.history
        state.optimiser.clear_gradients()
        solve = align = None
        if settings.alignment == "during" and settings.has_alignment and self.shard.patch_set.num_patches > 1:
            is_due = epoch % settings.refresh_every == 0
            hides_nothing = not (settings.mask or settings.feature_dropout or self.model.variational)
            if settings.align_gradient == "through":
                solve = self._align
            elif is_due and self.batches.is_block and hides_nothing:
                align = self._align  # what the epoch encodes is what a refresh would encode
            elif is_due:
                self._align(encode_patches(self.model, self.batches), started)
        loss = accumulate_gradients(
            self.model, self.batches, state.frame, settings, epoch, self.global_pairs, solve, align
        )
        loss = self.shard.add_gradients(self.model, loss)
        trouble = loss_trouble(loss, history.losses[0] if history.losses else 0.0)
        if trouble is None:
            state.optimiser.rate = settings.rate(epoch) * state.recovery.rate_factor
            state.optimiser.step()
        else:
            state.frame = state.recovery.go_back(trouble, epoch, state.optimiser)
        history.losses.append(loss)
        history.epoch_seconds.append(time.perf_counter() - started)
        return trouble

    def _align(self, stacked: Tensor, started: float | None = None) -> Frame:
        """Align the patches anew, and keep the frame as a constant. Gradients pass through the returned frame if asked.

        stacked: (Σ N_j, dim) embeddings of all patches. started: time from which the refresh is measured.
        """
        started, state = time.perf_counter() if started is None else started, self.state
        options = _THROUGH
        if self.settings.align_gradient == "held":
            stacked, options = stacked.detach(), _REFRESH
        with one_torch_thread(self.shard.patch_set.num_patches * stacked.shape[1] <= _FEW_ROWS):
            frame = _synchronise(stacked, self.shard, self.settings, state.frame, **options)
        state.frame = frame.detach()
        state.history.refresh_seconds.append(time.perf_counter() - started)
        return frame

    def _validate(self) -> None:
        """Score the current vectors; keep the state as a good one, and as the best one if it is."""
        state, settings = self.state, self.settings
        trouble, score, frame = self._score(self.whole)
        if trouble is None and self.compares_assemblies:
            _, other, other_frame = self._score(None)
            score, frame = max((score, frame), (other, other_frame), key=lambda each: each[0])
        if trouble is not None:
            state.frame = state.recovery.go_back(trouble, state.epoch - 1, state.optimiser)
            return
        good = state.recovery.keep(state.frame)
        state.history.validations.append((state.epoch, score))
        state.waited += 1
        is_last = state.epoch == settings.epochs and settings.schedule == "linear"
        lead = self.margin(score) if is_last and self.margin is not None else 0.0
        if score > state.best_score - lead:
            state.best_score, state.best_model, state.best_frame, state.waited = score, good, frame, 0
            state.history.best_epoch = state.epoch

    def _score(self, whole: WholePass | None) -> tuple[str | None, float, Frame]:
        """Return (what is wrong with the vectors or None, their validation score, frame of the patches)."""
        assert self.validate is not None
        embedding, frame = embed_nodes(self.model, self.batches, self.shard, self.settings, self.state.frame, whole)
        trouble = embedding_trouble(embedding, self.shard.communicator)
        return trouble, 0.0 if trouble is not None else self.validate(embedding), frame

    def _report(self, *, refreshed: bool) -> EpochReport:
        """Report the last epoch. A rank with some patches only cannot measure the residual."""
        patch_set, frame, history = self.shard.patch_set, self.state.frame, self.state.history
        is_validated = bool(history.validations) and history.validations[-1][0] == history.num_epochs

        def measure() -> float:
            offsets = torch.from_numpy(patch_set.offsets).to(frame.rotations.device)
            aligned = apply_frame(encode_patches(self.model, self.batches), offsets, frame)
            return float(pair_distances(aligned, patch_set.overlaps.to(aligned.device)).mean().sqrt())

        return EpochReport(
            history.num_epochs,
            history.losses[-1],
            history.epoch_seconds[-1],
            history.validations[-1][1] if is_validated else None,
            refreshed and self.shard.has_all,
            measure,
        )


def _falls_fast(losses: list[float]) -> bool:
    """Return True if the loss falls so fast over these epochs that training is far from a plateau."""
    few = max(1, len(losses) // 10)
    return fmean(losses[-few:]) < (1 - _FAST_FALL) * fmean(losses[:few])


def embed_nodes(
    model: Autoencoder,
    batches: Batches,
    shard: Shard,
    settings: LoopSettings,
    frame: Frame,
    whole: WholePass | None = None,
) -> tuple[Tensor, Frame]:
    """Return the (num_nodes, dim) embedding and the frame of the patches. Each rank gets those of a range of nodes.

    Encode all patches, align them anew and average; or, with `whole`, pass the shared encoder over the whole graph.
    """
    with torch.no_grad():
        if whole is not None:
            return whole(model), frame
        stacked = encode_patches(model, batches)
        if shard.patch_set.num_patches == 1:
            return stacked, frame
        if settings.alignment != "never" and settings.has_alignment:
            frame = _synchronise(stacked, shard, settings, frame)
        return shard.assemble(stacked, frame), frame


def encode_patches(model: Autoencoder, batches: Batches) -> Tensor:
    """Return (Σ N_j, dim) mean embeddings of all patches, stacked by patch number."""
    with torch.no_grad():
        rows, patches, sizes = [], [], []
        for batch in batches:
            rows.append(model.encode(batch.inputs, int(batch.patches[0]))[0])
            patches.append(batch.patches)
            sizes.append(batch.offsets.diff())
        if len(rows) > 1:
            return_freed_memory()  # of patches that came and went: the stacked rows need it in one piece
        return in_patch_order(torch.cat(rows), patches, sizes)


def _synchronise(
    stacked: Tensor,
    shard: Shard,
    settings: LoopSettings,
    frame: Frame,
    start: Start = "auto",
    tolerance: float = 1e-7,
    max_steps: int = 50,
    differentiable: bool = False,
) -> Frame:
    parts: dict[str, Any] = {"rotate": settings.rotate, "translate": settings.translate, "scale": settings.scale}
    with torch.set_grad_enabled(differentiable):  # otherwise the alignment is constant between refreshes
        return synchronise(
            stacked,
            torch.from_numpy(shard.patch_set.offsets).to(stacked.device),
            shard.patch_set.overlaps.to(stacked.device),
            **parts,
            moments=None if differentiable else shard.measure_pairs(stacked, **parts),
            previous=frame,
            start="groups" if shard.patch_set.num_patches > _MANY_PATCHES else start,
            tolerance=tolerance,
            max_steps=max_steps,
            differentiable=differentiable,
        )
