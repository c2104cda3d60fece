"""Loop: the only training loop. Encode every patch, align, score pairs, step."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from l2g2g.alignment.solve import Start
from l2g2g.alignment.streaming import pair_distances
from l2g2g.alignment.synchronise import Frame, apply_frame, synchronise
from l2g2g.core.torch_threads import one_torch_thread
from l2g2g.errors import InputError
from l2g2g.methods import AlignGradient, Schedule
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.adam import Adam
from l2g2g.training.batches import Batches
from l2g2g.training.checkpoint_writer import CheckpointWriter
from l2g2g.training.heap import keep_freed_memory, return_freed_memory
from l2g2g.training.objective import GlobalLoss, ObjectiveSettings, accumulate_gradients, in_patch_order
from l2g2g.training.rank_checkpoints import RankCheckpointWriter
from l2g2g.training.recovery import Recovery, embedding_trouble, loss_trouble
from l2g2g.training.report import EpochReport, OnEpoch
from l2g2g.training.shard import Shard
from l2g2g.training.state import History, LoopState

# A few steps from the last frame are enough while the coordinates still move; the final alignment is exact.
_REFRESH: dict[str, Any] = {"start": "tree", "tolerance": 1e-3, "max_steps": 5}
# Above this many patches rotations start from a tree of groups: products along the branches of a large tree drift.
_MANY_PATCHES = 1000
# Rows of all rotations up to which an alignment is many small steps.
_FEW_ROWS = 2000
# A loss that falls by more than this share while patience runs out is not on a plateau.
_FAST_FALL = 0.1
WholePass = Callable[[Autoencoder], Tensor]  # (num_nodes, dim) from one pass over the whole graph, as `embed_nodes`


@dataclass(frozen=True)
class LoopSettings(ObjectiveSettings):
    """Settings of the loop; the names are those of the command line.

    Attributes:
        schedule: The learning rate over the epochs: constant, or linear: up to its value over the first tenth and
            then down to nothing, so that few epochs suffice.
        refresh_every: Epochs between two alignments; the alignment is constant in between.
        rotate, translate, scale: Which parts of the alignment are applied.
        align_gradient: held: the alignment is a constant between refreshes; through: it is solved in every epoch,
            and the gradient passes through it.
        validate_every: Epochs between two validations.
        patience: Validations without a better one before training stops, unless the loss still falls fast; 0 never
            stops early.
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
        """The learning rate of an epoch, counted from 0."""
        if self.schedule == "constant":
            return self.learning_rate
        rise, fall = (epoch + 1) / (0.1 * self.epochs), 1 - epoch / self.epochs
        return self.learning_rate * min(1.0, rise) * fall

    @property
    def aligns_in_training(self) -> bool:
        """Whether there is anything to refresh: with no part of the alignment applied it is the identity."""
        return self.alignment == "during" and (self.rotate or self.translate or self.scale)


@dataclass(frozen=True)
class Trained:
    """A trained model with the last alignment of its patches and its history."""

    model: Autoencoder
    frame: Frame
    history: History


class Training:
    """A training that can pause between two epochs: `run` it as far as wanted, then `finish` it.

    Args:
        model: Trained in place.
        batches: Gone through one by one, once or twice an epoch; a batch may be made when its turn comes.
        global_pairs: What is scored where the scope is global.
        whole: As in `embed_nodes`.
        validate: Embedding (num_nodes, dim) -> score, higher is better. The state of the best is kept. Every rank asks,
            with the vectors of its range of nodes, and all get the same.
        margin: By how much another score must be higher than this one to count; with a falling rate the last epoch is
            kept unless an earlier one is better by that much. Few validation pairs prefer some epoch by chance.
        either: With `whole` and `validate`: the mean of the patches is validated too, and the better of both counts.
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
        either: bool = False,
        shard: Shard | None = None,
    ) -> None:
        self.model, self.batches, self.settings = model, batches, settings
        self.global_pairs, self.whole, self.validate, self.margin = global_pairs, whole, validate, margin
        self.either = either and whole is not None and validate is not None
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
        """Train to the end, or until so many epochs are done. on_epoch is told of every epoch.

        checkpoints: saves the state while it changes, and brings it back where it has one.
        """
        state, settings = self.state, self.settings
        with keep_freed_memory(), nullcontext() if checkpoints is None else checkpoints.watch():
            if checkpoints is not None:
                checkpoints.restore(state)
            while not _is_over(state, settings) and (until is None or state.epoch < until):
                num_refreshes = len(state.history.refresh_seconds)
                trouble = _run_epoch(state, self.batches, self.shard, settings, self.global_pairs)
                if state.epoch % settings.validate_every == 0 or state.epoch == settings.epochs:
                    if self.validate is not None:
                        self._validate(self.validate)
                    elif trouble is None:
                        state.recovery.keep(state.frame)
                if on_epoch is not None:
                    refreshed = len(state.history.refresh_seconds) > num_refreshes
                    on_epoch(_report(state, refreshed, self.batches, self.shard))
                if checkpoints is not None:
                    checkpoints.after_epoch(state)
            if checkpoints is not None:
                checkpoints.finish(state)

    def _validate(self, validate: Callable[[Tensor], float]) -> None:
        """Score the embedding as it is; remember the state as a good one, and as the best if it is."""
        state = self.state
        trouble, score, frame = self._score(validate, self.whole)
        if trouble is None and self.either:
            _, other, other_frame = self._score(validate, None)
            score, frame = max((score, frame), (other, other_frame), key=lambda each: each[0])
        if trouble is not None:
            state.frame = state.recovery.go_back(trouble, state.epoch - 1, state.optimiser)
            return
        good = state.recovery.keep(state.frame)
        state.history.validations.append((state.epoch, score))
        state.waited += 1
        if score > state.best_score - self._lead_needed(score):
            state.best_score, state.best_model, state.best_frame, state.waited = score, good, frame, 0
            state.history.best_epoch = state.epoch

    def _lead_needed(self, score: float) -> float:
        """By how much an earlier epoch must be better than the current one to be kept. score: of the current one."""
        is_last = self.state.epoch == self.settings.epochs and self.settings.schedule == "linear"
        return self.margin(score) if is_last and self.margin is not None else 0.0

    def _score(self, validate: Callable[[Tensor], float], whole: WholePass | None) -> tuple[str | None, float, Frame]:
        """What is wrong with the vectors, if anything, their score if nothing is, and the frame of the patches."""
        state = self.state
        embedding, frame = embed_nodes(state.model, self.batches, self.shard, self.settings, state.frame, whole)
        trouble = embedding_trouble(embedding, self.shard.communicator)
        return trouble, 0.0 if trouble is not None else validate(embedding), frame

    def score_assemblies(self, trained: Trained) -> dict[str, float]:
        """Validation scores of the vectors as the mean of the patches, and by the pass over the whole graph."""
        assert self.validate is not None
        self.state.frame = trained.frame
        return {name: self._score(self.validate, each)[1] for name, each in (("whole", self.whole), ("mean", None))}

    @property
    def best_score(self) -> float | None:
        """Of the validations so far; None before the first."""
        return max((score for _, score in self.state.history.validations), default=None)

    def finish(self) -> Trained:
        """The model of the best validation, or as it is."""
        state, model = self.state, self.model
        frame, history = state.frame, state.history
        history.losses = self.shard.end(history.losses)
        if state.best_model is not None:
            assert state.best_frame is not None
            model.load_state_dict(state.best_model)
            frame = state.best_frame
        else:
            state.recovery.check_end()
            history.best_epoch = history.num_epochs
        history.recoveries = state.recovery.count
        return Trained(model, frame, history)


def train(
    model: Autoencoder,
    batches: Batches,
    patch_set: PatchSet,
    settings: LoopSettings,
    *,
    on_epoch: OnEpoch | None = None,
    checkpoints: CheckpointWriter | RankCheckpointWriter | None = None,
    **parts: Any,
) -> Trained:
    """Train in place, in one go. parts: further arguments of `Training`; on_epoch, checkpoints: as for its `run`."""
    training = Training(model, batches, patch_set, settings, **parts)
    training.run(on_epoch=on_epoch, checkpoints=checkpoints)
    return training.finish()


def _is_over(state: LoopState, settings: LoopSettings) -> bool:
    if state.epoch >= settings.epochs:
        return True
    if settings.patience == 0 or state.waited < settings.patience:
        return False
    return not _falls_fast(state.history.losses[-settings.patience * settings.validate_every :])


def _falls_fast(losses: list[float]) -> bool:
    """Whether the loss falls so fast over these epochs that training is far from a plateau."""
    few = max(1, len(losses) // 10)
    return fmean(losses[-few:]) < (1 - _FAST_FALL) * fmean(losses[:few])


def _run_epoch(
    state: LoopState,
    batches: Batches,
    shard: Shard,
    settings: LoopSettings,
    global_pairs: GlobalLoss | None,
) -> str | None:
    """Align where it is due, take the gradient, step. Returns what went wrong, if anything."""
    started, epoch = time.perf_counter(), state.epoch
    model, history = state.model, state.history
    # Where training hides nothing, what it encodes is what a refresh would encode.
    sees_all = batches.is_block and not (settings.mask or settings.feature_dropout or model.variational)
    state.optimiser.clear_gradients()
    solve = align = None
    if settings.aligns_in_training and shard.patch_set.num_patches > 1:
        due = epoch % settings.refresh_every == 0
        if settings.align_gradient == "through":
            solve = _InEpoch(shard, settings, state.frame, history)
        elif due and sees_all:
            align = _InEpoch(shard, settings, state.frame, history)
        elif due:
            state.frame = _refresh(model, batches, shard, settings, state.frame, history)
    loss = accumulate_gradients(model, batches, state.frame, settings, epoch, global_pairs, solve, align)
    loss = shard.add_gradients(model, loss)
    solver = solve or align
    state.frame = state.frame if solver is None else solver.frame
    trouble = loss_trouble(loss, history.losses[0] if history.losses else 0.0)
    if trouble is None:
        state.optimiser.rate = settings.rate(epoch) * state.recovery.rate_factor
        state.optimiser.step()
    else:
        state.frame = state.recovery.go_back(trouble, epoch, state.optimiser)
    history.losses.append(loss)
    history.epoch_seconds.append(time.perf_counter() - started)
    return trouble


def _report(state: LoopState, refreshed: bool, batches: Batches, shard: Shard) -> EpochReport:
    """The epoch that is just over. A rank that has some patches only cannot measure how well all agree."""
    patch_set = shard.patch_set
    history, model, frame = state.history, state.model, state.frame
    validated = bool(history.validations) and history.validations[-1][0] == state.epoch

    def measure() -> float:
        offsets = torch.from_numpy(patch_set.offsets).to(frame.rotations.device)
        aligned = apply_frame(encode_patches(model, batches), offsets, frame)
        return float(pair_distances(aligned, patch_set.overlaps.to(aligned.device)).mean().sqrt())

    return EpochReport(
        state.epoch,
        history.losses[-1],
        history.epoch_seconds[-1],
        history.validations[-1][1] if validated else None,
        refreshed and shard.has_all,
        measure,
    )


def embed_nodes(
    model: Autoencoder,
    batches: Batches,
    shard: Shard,
    settings: LoopSettings,
    frame: Frame,
    whole: WholePass | None = None,
) -> tuple[Tensor, Frame]:
    """The (num_nodes, dim) embedding, and the frame of the patches.

    Encode all patches, align them anew and average; or, with `whole`, one pass of the shared encoder over the
    whole graph. Of several ranks each gets the vectors of a range of nodes.
    """
    with torch.no_grad():
        if whole is not None:
            return whole(model), frame
        stacked = encode_patches(model, batches)
        if shard.patch_set.num_patches == 1:
            return stacked, frame
        if settings.alignment != "never" and (settings.rotate or settings.translate or settings.scale):
            frame = _synchronise(stacked, shard, settings, frame)
        return shard.assemble(stacked, frame), frame


def encode_patches(model: Autoencoder, batches: Batches) -> Tensor:
    """(Σ N_j, dim) mean embeddings of all patches, stacked by their numbers."""
    with torch.no_grad():
        rows, patches, sizes = [], [], []
        for batch in batches:
            rows.append(model.encode(batch.inputs, int(batch.patches[0]))[0])
            patches.append(batch.patches)
            sizes.append(batch.offsets.diff())
        if len(rows) > 1:
            return_freed_memory()  # of patches that came and went: what follows needs it in one piece
        return in_patch_order(torch.cat(rows), patches, sizes)


def _refresh(
    model: Autoencoder,
    batches: Batches,
    shard: Shard,
    settings: LoopSettings,
    frame: Frame,
    history: History,
) -> Frame:
    started = time.perf_counter()
    stacked = encode_patches(model, batches)
    with one_torch_thread(shard.patch_set.num_patches * stacked.shape[1] <= _FEW_ROWS):
        frame = _synchronise(stacked, shard, settings, frame, **_REFRESH)
    history.refresh_seconds.append(time.perf_counter() - started)
    return frame


class _InEpoch:
    """Aligns the embeddings of an epoch itself; keeps the frame it found, as a constant.

    The gradient passes where it is asked to. Otherwise this is a refresh that needs no encoding of its own.
    """

    def __init__(self, shard: Shard, settings: LoopSettings, frame: Frame, history: History) -> None:
        self.shard, self.settings, self.frame, self.history = shard, settings, frame, history

    def __call__(self, stacked: Tensor) -> Frame:
        started = time.perf_counter()
        # The derivative is that of an optimum, so the rotations must be close to one.
        options: dict[str, Any] = {"start": "tree", "tolerance": 1e-4, "differentiable": True}
        if self.settings.align_gradient == "held":
            stacked, options = stacked.detach(), _REFRESH
        with one_torch_thread(self.shard.patch_set.num_patches * stacked.shape[1] <= _FEW_ROWS):
            frame = _synchronise(stacked, self.shard, self.settings, self.frame, **options)
        self.frame = frame.detach()
        self.history.refresh_seconds.append(time.perf_counter() - started)
        return frame


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
    if shard.patch_set.num_patches > _MANY_PATCHES:
        start = "groups"
    parts: dict[str, Any] = {"rotate": settings.rotate, "translate": settings.translate, "scale": settings.scale}
    with torch.set_grad_enabled(differentiable):  # otherwise the alignment is constant between refreshes
        return synchronise(
            stacked,
            torch.from_numpy(shard.patch_set.offsets).to(stacked.device),
            shard.patch_set.overlaps.to(stacked.device),
            **parts,
            moments=None if differentiable else shard.measure_pairs(stacked, **parts),
            previous=frame,
            start=start,
            tolerance=tolerance,
            max_steps=max_steps,
            differentiable=differentiable,
        )
