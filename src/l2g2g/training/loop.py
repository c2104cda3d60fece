"""Loop: the only training loop. Encode every patch, align, score pairs, step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from l2g2g.alignment.solve import Start
from l2g2g.alignment.synchronise import Frame, apply_frame, assemble, synchronise
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoder import EncoderInput
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.adam import Adam
from l2g2g.training.batches import PatchBatch
from l2g2g.training.objective import GlobalPairs, ObjectiveSettings, accumulate_gradients
from l2g2g.training.recovery import Recovery, embedding_trouble, loss_trouble

Schedule = Literal["constant", "linear"]
# A few steps from the last frame are enough while the coordinates still move; the final alignment is exact.
_REFRESH: dict[str, Any] = {"start": "tree", "tolerance": 1e-3, "max_steps": 5}
AlignGradient = Literal["held", "through"]


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
        patience: Validations without a better one before training stops; 0 never stops early.
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


@dataclass
class History:
    """What happened in training: a loss and a time for every epoch, a score for every validation.

    recoveries: how often training went back to its last good state with smaller steps.
    """

    losses: list[float] = field(default_factory=list)
    epoch_seconds: list[float] = field(default_factory=list)
    validations: list[tuple[int, float]] = field(default_factory=list)
    refresh_seconds: list[float] = field(default_factory=list)
    best_epoch: int = 0
    recoveries: int = 0

    @property
    def num_epochs(self) -> int:
        """Epochs that were run."""
        return len(self.losses)


@dataclass(frozen=True)
class Trained:
    """A trained model with the last alignment of its patches and its history."""

    model: Autoencoder
    frame: Frame
    history: History


def train(
    model: Autoencoder,
    batches: list[PatchBatch],
    patch_set: PatchSet,
    settings: LoopSettings,
    *,
    global_pairs: GlobalPairs | None = None,
    whole: EncoderInput | None = None,
    validate: Callable[[Tensor], float] | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> Trained:
    """Train in place. validate: global embedding (num_nodes, dim) -> score, higher is better.

    global_pairs: what is scored where the scope is global. whole: as in `embed_nodes`.
    With `validate`, the state of the best validation is kept. on_epoch(epoch, loss) reports progress.
    """
    optimiser = Adam(model.parameters(), settings.learning_rate)
    frame = _identity(model, patch_set, batches[0].device)
    history = History()
    recovery = Recovery(model, frame)
    # Where training hides nothing, what it encodes is what a refresh would encode.
    sees_all = len(batches) == 1 and not (settings.mask or settings.feature_dropout or model.variational)
    best_score, best_state, best_frame, waited = -math.inf, None, frame, 0
    for epoch in range(settings.epochs):
        started = time.perf_counter()
        optimiser.clear_gradients()
        solver = None
        if settings.aligns_in_training and patch_set.num_patches > 1:
            due = epoch % settings.refresh_every == 0
            if settings.align_gradient == "through" or (due and sees_all):
                solver = _InGraph(patch_set, settings, frame, history)
            elif due:
                frame = _refresh(model, batches, patch_set, settings, frame, history)
        loss = accumulate_gradients(model, batches, frame, settings, epoch, global_pairs, solver)
        frame = frame if solver is None else solver.frame
        trouble = loss_trouble(loss, history.losses[0] if history.losses else 0.0)
        if trouble is None:
            optimiser.rate = settings.rate(epoch) * recovery.rate_factor
            optimiser.step()
        else:
            frame = recovery.go_back(trouble, epoch, optimiser)
        history.losses.append(loss)
        history.epoch_seconds.append(time.perf_counter() - started)
        if on_epoch is not None:
            on_epoch(epoch + 1, loss)
        last = epoch + 1 == settings.epochs
        due = (epoch + 1) % settings.validate_every == 0 or last
        if validate is None and due and trouble is None:
            recovery.keep(frame)
        if validate is not None and due:
            embedding, current = embed_nodes(model, batches, patch_set, settings, frame, whole)
            trouble = embedding_trouble(embedding)
            if trouble is not None:
                frame = recovery.go_back(trouble, epoch, optimiser)
                continue
            state = recovery.keep(frame)
            score = validate(embedding)
            history.validations.append((epoch + 1, score))
            waited += 1
            if score > best_score:
                best_score, best_state, best_frame, waited = score, state, current, 0
                history.best_epoch = epoch + 1
            if settings.patience and waited >= settings.patience:
                break
    if best_state is not None:
        model.load_state_dict(best_state)
        frame = best_frame
    else:
        recovery.check_end()
        history.best_epoch = history.num_epochs
    history.recoveries = recovery.count
    return Trained(model, frame, history)


def embed_nodes(
    model: Autoencoder,
    batches: list[PatchBatch],
    patch_set: PatchSet,
    settings: LoopSettings,
    frame: Frame,
    whole: EncoderInput | None = None,
) -> tuple[Tensor, Frame]:
    """The global (num_nodes, dim) embedding, and the frame of the patches.

    Encode all patches, align them anew and average; or, with `whole`, one pass of the shared encoder over the
    whole graph.
    """
    with torch.no_grad():
        if whole is not None:
            return model.encode(whole)[0], frame
        stacked = encode_patches(model, batches)
        if patch_set.num_patches == 1:
            return stacked, frame
        if settings.alignment != "never" and (settings.rotate or settings.translate or settings.scale):
            frame = _synchronise(stacked, patch_set, settings, frame)
        offsets = torch.from_numpy(patch_set.offsets).to(stacked.device)
        global_nodes = torch.from_numpy(patch_set.global_nodes).to(stacked.device)
        return assemble(apply_frame(stacked, offsets, frame), global_nodes, patch_set.num_nodes), frame


def encode_patches(model: Autoencoder, batches: list[PatchBatch]) -> Tensor:
    """(Σ N_j, dim) mean embeddings of all patches, stacked."""
    with torch.no_grad():
        return torch.cat([model.encode(batch.inputs, int(batch.patches[0]))[0] for batch in batches])


def _identity(model: Autoencoder, patch_set: PatchSet, device: torch.device) -> Frame:
    return Frame.identity(patch_set.num_patches, model.dim, dtype=torch.float32, device=device)


def _refresh(
    model: Autoencoder,
    batches: list[PatchBatch],
    patch_set: PatchSet,
    settings: LoopSettings,
    frame: Frame,
    history: History,
) -> Frame:
    started = time.perf_counter()
    stacked = encode_patches(model, batches)
    with _one_thread_for_few(patch_set.num_patches * stacked.shape[1]):
        frame = _synchronise(stacked, patch_set, settings, frame, **_REFRESH)
    history.refresh_seconds.append(time.perf_counter() - started)
    return frame


class _InGraph:
    """Aligns the embeddings of an epoch itself; keeps the frame it found, as a constant.

    The gradient passes where it is asked to. Otherwise this is a refresh that needs no encoding of its own.
    """

    def __init__(self, patch_set: PatchSet, settings: LoopSettings, frame: Frame, history: History) -> None:
        self.patch_set, self.settings, self.frame, self.history = patch_set, settings, frame, history

    def __call__(self, stacked: Tensor) -> Frame:
        started = time.perf_counter()
        # The derivative is that of an optimum, so the rotations must be close to one.
        options: dict[str, Any] = {"start": "tree", "tolerance": 1e-4, "differentiable": True}
        if self.settings.align_gradient == "held":
            stacked, options = stacked.detach(), _REFRESH
        with _one_thread_for_few(self.patch_set.num_patches * stacked.shape[1]):
            frame = _synchronise(stacked, self.patch_set, self.settings, self.frame, **options)
        self.frame = frame.detach()
        self.history.refresh_seconds.append(time.perf_counter() - started)
        return frame


@contextmanager
def _one_thread_for_few(num_rows: int) -> Iterator[None]:
    """Many tiny steps are faster on one thread than the waking of a second one."""
    threads = torch.get_num_threads()
    if num_rows <= 2000:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _synchronise(
    stacked: Tensor,
    patch_set: PatchSet,
    settings: LoopSettings,
    frame: Frame,
    start: Start = "auto",
    tolerance: float = 1e-7,
    max_steps: int = 50,
    differentiable: bool = False,
) -> Frame:
    with torch.set_grad_enabled(differentiable):  # otherwise the alignment is constant between refreshes
        return synchronise(
            stacked,
            torch.from_numpy(patch_set.offsets).to(stacked.device),
            patch_set.overlaps.to(stacked.device),
            rotate=settings.rotate,
            translate=settings.translate,
            scale=settings.scale,
            previous=frame,
            start=start,
            tolerance=tolerance,
            max_steps=max_steps,
            differentiable=differentiable,
        )
