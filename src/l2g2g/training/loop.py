"""Loop: the only training loop. Encode every patch, align, score pairs, step."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from l2g2g.alignment.synchronise import Frame, apply_frame, assemble, synchronise
from l2g2g.errors import NumericalError
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.losses import all_pairs_loss, gaussian_divergence, reconstruction_loss
from l2g2g.models.randomness import Purpose, torch_generator
from l2g2g.models.sampling import sample_nodes_by_degree
from l2g2g.models.sparse import PairPattern
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.batches import PatchBatch
from l2g2g.training.methods import Alignment, PairChoice


@dataclass(frozen=True)
class LoopSettings:
    """Settings of the loop; the names are those of the command line.

    Attributes:
        refresh_every: Epochs between two alignments; the alignment is constant in between.
        rotate, translate, scale: Which parts of the alignment are applied.
        fresh_negatives: New negatives every epoch, or one set for the whole training.
        sample_size: Nodes of FastGAE's subgraph.
        validate_every: Epochs between two validations.
        patience: Validations without a better one before training stops; 0 never stops early.
    """

    epochs: int = 200
    learning_rate: float = 0.01
    seed: int = 0
    alignment: Alignment = "during"
    refresh_every: int = 10
    rotate: bool = True
    translate: bool = True
    scale: bool = False
    pairs: PairChoice = "sampled"
    fresh_negatives: bool = True
    sample_size: int = 0
    validate_every: int = 10
    patience: int = 0


@dataclass
class History:
    """What happened in training: a loss and a time for every epoch, a score for every validation."""

    losses: list[float] = field(default_factory=list)
    epoch_seconds: list[float] = field(default_factory=list)
    validations: list[tuple[int, float]] = field(default_factory=list)
    refresh_seconds: list[float] = field(default_factory=list)
    best_epoch: int = 0

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
    validate: Callable[[Tensor], float] | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> Trained:
    """Train in place. validate: global embedding (num_nodes, dim) -> score, higher is better.

    With `validate`, the state of the best validation is kept. on_epoch(epoch, loss) reports progress.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    frame = _identity(model, patch_set, batches[0].device)
    history = History()
    best_score, best_state, best_frame, waited = -math.inf, None, frame, 0
    for epoch in range(settings.epochs):
        started = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        if settings.alignment == "during" and epoch % settings.refresh_every == 0 and patch_set.num_patches > 1:
            frame = _refresh(model, batches, patch_set, settings, frame, history)
        loss = sum(_accumulate(model, batch, frame, settings, epoch) for batch in batches)
        if not math.isfinite(loss):
            raise NumericalError(f"the loss became {loss} in epoch {epoch + 1}; lower the learning rate (--lr)")
        optimiser.step()
        history.losses.append(loss)
        history.epoch_seconds.append(time.perf_counter() - started)
        if on_epoch is not None:
            on_epoch(epoch + 1, loss)
        last = epoch + 1 == settings.epochs
        if validate is not None and ((epoch + 1) % settings.validate_every == 0 or last):
            embedding, current = embed_nodes(model, batches, patch_set, settings, frame)
            score = validate(embedding)
            history.validations.append((epoch + 1, score))
            waited += 1
            if score > best_score:
                best_score, best_state, best_frame, waited = score, copy.deepcopy(model.state_dict()), current, 0
                history.best_epoch = epoch + 1
            if settings.patience and waited >= settings.patience:
                break
    if best_state is not None:
        model.load_state_dict(best_state)
        frame = best_frame
    else:
        history.best_epoch = history.num_epochs
    return Trained(model, frame, history)


def embed_nodes(
    model: Autoencoder, batches: list[PatchBatch], patch_set: PatchSet, settings: LoopSettings, frame: Frame
) -> tuple[Tensor, Frame]:
    """Encode all patches, align them anew, average: the global (num_nodes, dim) embedding, and its frame."""
    with torch.no_grad():
        stacked = encode_patches(model, batches)
        if patch_set.num_patches == 1:
            return stacked, frame
        if settings.alignment != "never":
            frame = _synchronise(stacked, patch_set, settings, frame)
        offsets = torch.from_numpy(patch_set.offsets).to(stacked.device)
        global_nodes = torch.from_numpy(patch_set.global_nodes).to(stacked.device)
        return assemble(apply_frame(stacked, offsets, frame), global_nodes, patch_set.num_nodes), frame


def encode_patches(model: Autoencoder, batches: list[PatchBatch]) -> Tensor:
    """(Σ N_j, dim) mean embeddings of all patches, stacked."""
    with torch.no_grad():
        return torch.cat([model.encode(batch.inputs, int(batch.patches[0]))[0] for batch in batches])


def patch_loss(model: Autoencoder, batch: PatchBatch, frame: Frame, settings: LoopSettings, epoch: int) -> Tensor:
    """This batch's part of Σ_j N_j L_j / Σ_j N_j, on the aligned embeddings."""
    mean, log_deviation = model.encode(batch.inputs, int(batch.patches[0]))
    embedding, divergence = mean, mean.new_zeros(())
    if log_deviation is not None:
        embedding = mean + _noise(batch, mean, settings.seed, epoch) * torch.exp(log_deviation)
        divergence = _divergence(mean, log_deviation, batch)
    if settings.alignment == "during" and len(frame.rotations) > 1:
        own = torch.as_tensor(batch.patches, device=mean.device)
        part = Frame(frame.rotations[own], frame.translations[own], frame.scales[own])
        embedding = apply_frame(embedding, batch.offsets, part)
    if settings.pairs == "subgraph":
        return _subgraph_loss(embedding, batch, model.bias, settings, epoch) + divergence
    if settings.pairs == "all":
        return _dense_loss(embedding, batch, model.bias) + divergence
    return reconstruction_loss(embedding, batch.edges, _negatives(batch, settings, epoch), model.bias) + divergence


def _accumulate(model: Autoencoder, batch: PatchBatch, frame: Frame, settings: LoopSettings, epoch: int) -> float:
    loss = patch_loss(model, batch, frame, settings, epoch)
    loss.backward()
    return float(loss.detach())


def _negatives(batch: PatchBatch, settings: LoopSettings, epoch: int) -> PairPattern:
    return batch.draw_negatives(seed=settings.seed, epoch=epoch if settings.fresh_negatives else 0)


def _subgraph_loss(
    embedding: Tensor, batch: PatchBatch, bias: Tensor | None, settings: LoopSettings, epoch: int
) -> Tensor:
    degrees = batch.adjacency.indptr[1:] - batch.adjacency.indptr[:-1]
    nodes = sample_nodes_by_degree(degrees, settings.sample_size, seed=settings.seed, epoch=epoch)
    subgraph = batch.adjacency[nodes][:, nodes].toarray() != 0
    target = torch.from_numpy(subgraph).to(embedding)
    return all_pairs_loss(embedding[torch.from_numpy(nodes).to(embedding.device)], target, bias)


def _dense_loss(embedding: Tensor, batch: PatchBatch, bias: Tensor | None) -> Tensor:
    loss = embedding.new_zeros(())
    bounds = batch.offsets.tolist()
    for low, high in itertools.pairwise(bounds):
        target = torch.from_numpy(batch.adjacency[low:high, low:high].toarray() != 0).to(embedding)
        loss = loss + all_pairs_loss(embedding[low:high], target, bias) * (high - low)
    return loss * batch.share / batch.num_rows


def _divergence(mean: Tensor, log_deviation: Tensor, batch: PatchBatch) -> Tensor:
    """Σ_j N_j KL_j / Σ_j N_j, every patch on the scale of its own pairs: one block or patch by patch is the same."""
    total = mean.new_zeros(())
    for low, high in itertools.pairwise(batch.offsets.tolist()):
        total = total + gaussian_divergence(mean[low:high], log_deviation[low:high], high - low) * (high - low)
    return total * batch.share / batch.num_rows


def _noise(batch: PatchBatch, like: Tensor, seed: int, epoch: int) -> Tensor:
    bounds = batch.offsets.tolist()
    parts = [
        torch.randn(high - low, like.shape[1], generator=torch_generator(seed, Purpose.NOISE, epoch, int(patch)))
        for patch, low, high in zip(batch.patches, bounds[:-1], bounds[1:], strict=True)
    ]
    return torch.cat(parts).to(like)


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
    frame = _synchronise(encode_patches(model, batches), patch_set, settings, frame)
    history.refresh_seconds.append(time.perf_counter() - started)
    return frame


def _synchronise(stacked: Tensor, patch_set: PatchSet, settings: LoopSettings, frame: Frame) -> Frame:
    with torch.no_grad():  # the alignment is constant between refreshes
        return synchronise(
            stacked,
            torch.from_numpy(patch_set.offsets).to(stacked.device),
            patch_set.overlaps.to(stacked.device),
            rotate=settings.rotate,
            translate=settings.translate,
            scale=settings.scale,
            previous=frame,
        )
