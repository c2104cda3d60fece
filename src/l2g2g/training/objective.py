"""Objective: the loss of an epoch, inside patches as in the paper or on the assembled embedding of all nodes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.alignment.synchronise import Frame, apply_frame
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.losses import all_pairs_loss, gaussian_divergence
from l2g2g.models.randomness import Purpose, torch_generator
from l2g2g.models.sampling import sample_nodes_by_degree
from l2g2g.models.sparse import PairPattern, SparseMatrix, multiply
from l2g2g.patches.overlap import PatchSet, whole_graph
from l2g2g.training.batches import PairSource, PatchBatch, prepare_pairs
from l2g2g.training.methods import Alignment, PairChoice

Scope = Literal["inside", "global"]


@dataclass(frozen=True)
class ObjectiveSettings:
    """What is scored, and what the encoder sees.

    Attributes:
        scope: inside: pairs inside each patch (the paper); global: pairs of all nodes, in one patch or in two,
            on the aligned and averaged embedding.
        pairs: All edges with as many non-edges, every pair, or FastGAE's subgraph.
        mask: Fraction of the edges that is hidden from the encoder each epoch; only these are then predicted.
        score_fraction: Fraction of the edges to predict that is scored each epoch, with as many non-edges.
        feature_dropout: Fraction of the feature entries that is dropped each epoch.
        fresh_negatives: New negatives every epoch, or one set for the whole training.
        sample_size: Nodes of FastGAE's subgraph.
        alignment: Whether patches are aligned during training.
    """

    scope: Scope = "inside"
    pairs: PairChoice = "sampled"
    mask: float = 0.0
    score_fraction: float = 1.0
    feature_dropout: float = 0.0
    fresh_negatives: bool = True
    sample_size: int = 0
    alignment: Alignment = "during"
    seed: int = 0


@dataclass(frozen=True, eq=False)
class GlobalPairs:
    """Pairs of all nodes, and the averaging that brings patch embeddings to them.

    Attributes:
        pairs: Edges and non-edges of the whole graph.
        average: (num_nodes, num_rows) mean over the patches that hold a node; None for one patch.
    """

    pairs: PairSource
    average: SparseMatrix | None

    def assemble(self, aligned: Tensor) -> Tensor:
        """(num_nodes, dim) mean of the aligned rows of every node, differentiable."""
        return aligned if self.average is None else multiply(self.average, aligned)


def prepare_global_pairs(
    patch_set: PatchSet,
    adjacency: sp.csr_array,
    held_out: sp.csr_array,
    *,
    negatives_per_edge: float = 1.0,
    device: torch.device | str = "cpu",
) -> GlobalPairs:
    """Pairs of the whole graph. adjacency, held_out: (num_nodes, num_nodes)."""
    whole = whole_graph(patch_set.num_nodes)
    pairs = prepare_pairs(whole, adjacency, held_out, patch_set.num_nodes, np.array([0]), negatives_per_edge, device)
    if patch_set.num_patches == 1:
        return GlobalPairs(pairs, None)
    counts = np.bincount(patch_set.global_nodes, minlength=patch_set.num_nodes)
    order = np.argsort(patch_set.global_nodes, kind="stable").astype(np.int32)
    average = sp.csr_array(
        (
            np.repeat(1.0 / counts, counts).astype(np.float32),
            order,
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        ),
        shape=(patch_set.num_nodes, patch_set.num_rows),
    )
    return GlobalPairs(pairs, SparseMatrix.from_scipy(average, device))


def accumulate_gradients(
    model: Autoencoder,
    batches: list[PatchBatch],
    frame: Frame,
    settings: ObjectiveSettings,
    epoch: int,
    global_pairs: GlobalPairs | None = None,
) -> float:
    """Add the gradient of this epoch's loss to the parameters, batch by batch. Returns the loss."""
    if settings.scope == "inside":
        total = 0.0
        for batch in batches:
            loss = patch_loss(model, batch, frame, settings, epoch)
            loss.backward()
            total += float(loss.detach())
        return total
    assert global_pairs is not None
    if len(batches) == 1:
        aligned, divergence = encode_aligned(model, batches[0], frame, settings, epoch)
        loss = global_loss(model, aligned, global_pairs, settings, epoch) + divergence
        loss.backward()
        return float(loss.detach())
    return _accumulate_in_turn(model, batches, frame, settings, epoch, global_pairs)


def _accumulate_in_turn(
    model: Autoencoder,
    batches: list[PatchBatch],
    frame: Frame,
    settings: ObjectiveSettings,
    epoch: int,
    global_pairs: GlobalPairs,
) -> float:
    """The same gradient in the memory of one batch: encode all, take the gradient of the rows, encode again."""
    with torch.no_grad():
        parts = [encode_aligned(model, batch, frame, settings, epoch)[0] for batch in batches]
    rows = torch.cat(parts).requires_grad_()
    loss = global_loss(model, rows, global_pairs, settings, epoch)
    loss.backward()
    assert rows.grad is not None
    total, low = float(loss.detach()), 0
    for batch in batches:
        aligned, divergence = encode_aligned(model, batch, frame, settings, epoch)
        ((aligned * rows.grad[low : low + batch.num_rows]).sum() + divergence).backward()
        total += float(divergence.detach())
        low += batch.num_rows
    return total


def encode_aligned(
    model: Autoencoder, batch: PatchBatch, frame: Frame, settings: ObjectiveSettings, epoch: int
) -> tuple[Tensor, Tensor]:
    """(num_rows, dim) aligned embeddings of a batch as training sees them, and the divergence of its noise."""
    inputs = batch.training_inputs(
        mask=settings.mask, feature_dropout=settings.feature_dropout, seed=settings.seed, epoch=epoch
    )
    mean, log_deviation = model.encode(inputs, int(batch.patches[0]))
    embedding, divergence = mean, mean.new_zeros(())
    if log_deviation is not None:
        embedding = mean + _noise(batch, mean, settings.seed, epoch) * torch.exp(log_deviation)
        divergence = _divergence(mean, log_deviation, batch)
    if settings.alignment == "during" and len(frame.rotations) > 1:
        own = torch.as_tensor(batch.patches, device=mean.device)
        part = Frame(frame.rotations[own], frame.translations[own], frame.scales[own])
        embedding = apply_frame(embedding, batch.offsets, part)
    return embedding, divergence


def patch_loss(model: Autoencoder, batch: PatchBatch, frame: Frame, settings: ObjectiveSettings, epoch: int) -> Tensor:
    """This batch's part of Σ_j N_j L_j / Σ_j N_j, on the aligned embeddings."""
    embedding, divergence = encode_aligned(model, batch, frame, settings, epoch)
    if settings.pairs == "subgraph":
        return _subgraph_loss(embedding, batch, model.bias, settings, epoch) + divergence
    if settings.pairs == "all":
        return _dense_loss(embedding, batch, model.bias) + divergence
    edges, non_edges = _draw_pairs(batch.pairs, settings, epoch)
    return model.pair_loss(embedding, edges, non_edges) + divergence


def global_loss(
    model: Autoencoder, aligned: Tensor, global_pairs: GlobalPairs, settings: ObjectiveSettings, epoch: int
) -> Tensor:
    """The loss of pairs of all nodes on the assembled embedding. aligned: (num_rows, dim)."""
    edges, non_edges = _draw_pairs(global_pairs.pairs, settings, epoch)
    return model.pair_loss(global_pairs.assemble(aligned), edges, non_edges)


def _draw_pairs(source: PairSource, settings: ObjectiveSettings, epoch: int) -> tuple[PairPattern, PairPattern]:
    fraction = (settings.mask or 1.0) * settings.score_fraction
    edges = source.edges if fraction == 1.0 else source.draw_edges(fraction, seed=settings.seed, epoch=epoch)
    return edges, source.draw_negatives(seed=settings.seed, epoch=epoch if settings.fresh_negatives else 0)


def _subgraph_loss(
    embedding: Tensor, batch: PatchBatch, bias: Tensor | None, settings: ObjectiveSettings, epoch: int
) -> Tensor:
    degrees = batch.adjacency.indptr[1:] - batch.adjacency.indptr[:-1]
    nodes = sample_nodes_by_degree(degrees, settings.sample_size, seed=settings.seed, epoch=epoch)
    subgraph = batch.adjacency[nodes][:, nodes].toarray() != 0
    target = torch.from_numpy(subgraph).to(embedding)
    return all_pairs_loss(embedding[torch.from_numpy(nodes).to(embedding.device)], target, bias)


def _dense_loss(embedding: Tensor, batch: PatchBatch, bias: Tensor | None) -> Tensor:
    loss = embedding.new_zeros(())
    for low, high in itertools.pairwise(batch.offsets.tolist()):
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
