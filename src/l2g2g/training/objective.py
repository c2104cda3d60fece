"""Objective: the loss of an epoch, inside patches as in the paper or on the assembled embedding of all nodes."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.synchronise import Frame, apply_frame
from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.losses import gaussian_divergence
from l2g2g.models.pair_loss import NonEdges, ScoredEdges
from l2g2g.models.sampling import sample_nodes_by_degree
from l2g2g.parallel.node_table import Assemble, NodeTable, Placement
from l2g2g.training.batches import PatchBatch, PatchBatches
from l2g2g.training.methods import Alignment, PairChoice
from l2g2g.training.node_pairs import NodePairs

Scope = Literal["inside", "global"]
FrameSolver = Callable[[Tensor], Frame]


@dataclass(frozen=True)
class ObjectiveSettings:
    """What is scored, and what the encoder sees.

    Attributes:
        scope: inside: pairs inside each patch (the paper); global: pairs of all nodes, in one patch or in two,
            on the aligned and averaged embedding.
        pairs: All edges with as many non-edges, every pair, or FastGAE's subgraph.
        mask: Fraction of the edges between groups that is hidden from the encoder each epoch; only these are then
            predicted.
        mask_groups: Groups into which nodes or clusters are dealt anew each epoch; 0: every node is its own group.
        score_fraction: Fraction of the edges to predict that is scored each epoch, with as many non-edges.
        feature_dropout: Fraction of the feature entries that is dropped each epoch.
        fresh_negatives: New negatives every epoch, or one set for the whole training.
        sample_size: Nodes of FastGAE's subgraph.
        alignment: Whether patches are aligned during training.
    """

    scope: Scope = "inside"
    pairs: PairChoice = "sampled"
    mask: float = 0.0
    mask_groups: int = 0
    score_fraction: float = 1.0
    feature_dropout: float = 0.0
    fresh_negatives: bool = True
    sample_size: int = 0
    alignment: Alignment = "during"
    seed: int = 0


@dataclass(frozen=True, eq=False)
class GlobalPairs:
    """Pairs of all nodes, and the table in which the vectors of the nodes are added up.

    Attributes:
        pairs: Edges and non-edges of the whole graph.
        table: Vectors of the nodes, and later their gradients.
        shares: (num_local,) float32, one over the number of patches that hold a node, for the nodes of the table.
    """

    pairs: NodePairs
    table: NodeTable
    shares: np.ndarray
    _placements: weakref.WeakKeyDictionary[PatchBatch, Placement] = field(default_factory=weakref.WeakKeyDictionary)

    def place(self, batch: PatchBatch) -> Placement:
        """Where the rows of a batch stand in the table."""
        if batch not in self._placements:
            self._placements[batch] = self.table.place(batch.pairs.nodes, self.shares)
        return self._placements[batch]

    def assemble(self, aligned: Tensor, nodes: np.ndarray) -> Tensor:
        """(num_nodes, dim) mean of the aligned rows of every node, differentiable; where this process has all rows.

        nodes: (num_rows,) the node of each row.
        """
        return Assemble.apply(aligned, self.table.place(nodes, self.shares))

    def loss(self, model: Autoencoder, embedding: Tensor, settings: ObjectiveSettings, epoch: int) -> Tensor:
        """How badly the pairs of an epoch are told apart. embedding: (num_nodes, dim), differentiable."""
        return model.pair_loss(embedding, *self.pairs.draw(**_how_to_draw(settings, epoch)))

    def add_gradient(self, model: Autoencoder, settings: ObjectiveSettings, epoch: int) -> float:
        """Replace the vectors in the table by their gradient; that of the decoder goes to its parameters.

        Returns the loss of the pairs of this rank.
        """
        table = self.table
        table.complete("overlap sums")
        edges: ScoredEdges
        non_edges: NonEdges
        if table.has_all:
            edges, non_edges = self.pairs.draw(**_how_to_draw(settings, epoch))
            request, _ = table.request(None, 0)
        else:
            owned = self.pairs.draw_owned(**_how_to_draw(settings, epoch))
            request, total = table.request(owned.find_nodes(table.num_nodes), owned.total)
            assert request.nodes is not None
            owned = owned.weighed(total).renumbered(request.nodes, table.num_nodes)
            edges, non_edges = owned.edges, owned.non_edges
        vectors = table.gather(request).detach().requires_grad_()
        loss = model.pair_loss(vectors, edges, non_edges)
        loss.backward()
        assert vectors.grad is not None
        table.clear()
        table.scatter_add_to_owners(request, vectors.grad)
        table.return_ghosts("overlap gradients")
        return float(loss.detach())


def accumulate_gradients(
    model: Autoencoder,
    batches: PatchBatches,
    frame: Frame,
    settings: ObjectiveSettings,
    epoch: int,
    global_pairs: GlobalPairs | None = None,
    solve: FrameSolver | None = None,
) -> float:
    """Add the gradient of this epoch's loss to the parameters, batch by batch. Returns the loss.

    solve: (num_rows, dim) stacked embeddings -> a frame that the gradient passes through, instead of `frame`.
    """
    if solve is not None:
        return _accumulate_through(model, batches, solve, settings, epoch, global_pairs)
    if settings.scope == "inside":
        total = 0.0
        for batch in batches:
            loss = patch_loss(model, batch, frame, settings, epoch)
            loss.backward()
            total += float(loss.detach())
        return total
    assert global_pairs is not None
    table, encoded = global_pairs.table, dict[int, tuple[Tensor, Tensor]]()
    table.clear()
    for place, batch in enumerate(batches):
        with torch.set_grad_enabled(batches.holds(batch)):
            aligned, divergence = encode_aligned(model, batch, frame, settings, epoch)
        if batches.holds(batch):
            encoded[place] = aligned, divergence
        table.scatter_add(global_pairs.place(batch), aligned.detach())
    total = global_pairs.add_gradient(model, settings, epoch)
    for place, batch in enumerate(batches):
        found = encoded.pop(place, None)  # a batch that is not resident is encoded again
        aligned, divergence = encode_aligned(model, batch, frame, settings, epoch) if found is None else found
        roots = [aligned, divergence] if divergence.requires_grad else [aligned]
        torch.autograd.backward(roots, [table.take(global_pairs.place(batch)), None][: len(roots)])
        total += float(divergence.detach())
    return total


def _accumulate_through(
    model: Autoencoder,
    batches: PatchBatches,
    solve: FrameSolver,
    settings: ObjectiveSettings,
    epoch: int,
    global_pairs: GlobalPairs | None,
) -> float:
    """Align this epoch's own embeddings inside the graph: the gradient also says how each patch moves the others.

    Several batches: the gradient of the rows first, then encode again, as in `_accumulate_in_turn`.
    """
    in_turn = len(batches) > 1
    encoded, sizes, patches = [], [], []
    with torch.set_grad_enabled(not in_turn):
        for batch in batches:
            encoded.append(encode(model, batch, settings, epoch))
            sizes.append(batch.offsets.diff())
            patches.append(batch.patches)
        rows = torch.cat([embedding for embedding, _ in encoded])
    if in_turn:
        rows.requires_grad_()
    lengths = [len(embedding) for embedding, _ in encoded]
    offsets = torch.cat([sizes[0].new_zeros(1), torch.cat(sizes).cumsum(0)])
    frame = solve(in_patch_order(rows, patches, sizes))
    aligned = rows
    if not _is_without_effect(model, frame, settings):
        aligned = apply_frame(rows, offsets, frame.part(np.concatenate(patches)))
    if settings.scope == "global":
        assert global_pairs is not None
        nodes = np.concatenate([batch.pairs.nodes for batch in batches])
        loss = global_pairs.loss(model, global_pairs.assemble(aligned, nodes), settings, epoch)
    else:
        parts = aligned.split(lengths)
        losses = [inside_loss(model, part, batch, settings, epoch) for part, batch in zip(parts, batches, strict=True)]
        loss = torch.stack(losses).sum()
    if not in_turn:
        loss = loss + encoded[0][1]
    loss.backward()
    total = float(loss.detach())
    if in_turn:
        assert rows.grad is not None
        for batch, gradient in zip(batches, rows.grad.split(lengths), strict=True):
            embedding, divergence = encode(model, batch, settings, epoch)
            ((embedding * gradient).sum() + divergence).backward()
            total += float(divergence.detach())
    return total


def in_patch_order(rows: Tensor, patches: Sequence[np.ndarray], sizes: Sequence[Tensor]) -> Tensor:
    """Stacked rows, those of the patch with the lowest number first. patches, sizes: of every batch, as they stand."""
    numbers = np.concatenate(patches)
    if (np.diff(numbers) > 0).all():
        return rows
    parts = rows.split(torch.cat(list(sizes)).tolist())
    return torch.cat([parts[place] for place in np.argsort(numbers)])


def encode(model: Autoencoder, batch: PatchBatch, settings: ObjectiveSettings, epoch: int) -> tuple[Tensor, Tensor]:
    """(num_rows, dim) embeddings of a batch as training sees them, each patch in its own frame, and the divergence."""
    inputs = batch.training_inputs(
        mask=settings.mask,
        scored=_shares(settings)[1],
        feature_dropout=settings.feature_dropout,
        seed=settings.seed,
        epoch=epoch,
        num_groups=settings.mask_groups,
    )
    mean, log_deviation = model.encode(inputs, int(batch.patches[0]))
    embedding, divergence = mean, mean.new_zeros(())
    if log_deviation is not None:
        embedding = mean + _noise(batch, mean, settings.seed, epoch) * torch.exp(log_deviation)
        divergence = _divergence(mean, log_deviation, batch)
    return embedding, divergence


def encode_aligned(
    model: Autoencoder, batch: PatchBatch, frame: Frame, settings: ObjectiveSettings, epoch: int
) -> tuple[Tensor, Tensor]:
    """(num_rows, dim) aligned embeddings of a batch as training sees them, and the divergence of its noise.

    Where the frame cannot change the loss nor its gradient it is not applied.
    """
    embedding, divergence = encode(model, batch, settings, epoch)
    if settings.alignment == "during" and len(frame.rotations) > 1 and not _is_without_effect(model, frame, settings):
        embedding = apply_frame(embedding, batch.offsets, frame.part(batch.patches))
    return embedding, divergence


def _is_without_effect(model: Autoencoder, frame: Frame, settings: ObjectiveSettings) -> bool:
    """Pairs inside a patch are rotated together, which most decoders do not see."""
    unseen = frame.only_rotates and not model.decoder.sees_rotation
    return frame.is_identity or (settings.scope == "inside" and unseen)


def patch_loss(model: Autoencoder, batch: PatchBatch, frame: Frame, settings: ObjectiveSettings, epoch: int) -> Tensor:
    """This batch's part of Σ_j N_j L_j / Σ_j N_j, on the aligned embeddings."""
    embedding, divergence = encode_aligned(model, batch, frame, settings, epoch)
    return inside_loss(model, embedding, batch, settings, epoch) + divergence


def inside_loss(
    model: Autoencoder, embedding: Tensor, batch: PatchBatch, settings: ObjectiveSettings, epoch: int
) -> Tensor:
    """The loss of pairs inside the patches of a batch. embedding: (num_rows, dim)."""
    if settings.pairs == "subgraph":
        return _subgraph_loss(model, embedding, batch, settings, epoch)
    if settings.pairs == "all":
        return _dense_loss(model, embedding, batch)
    edges, non_edges = batch.pairs.draw(**_how_to_draw(settings, epoch))
    return model.pair_loss(embedding, edges, non_edges)


def _how_to_draw(settings: ObjectiveSettings, epoch: int) -> dict[str, Any]:
    """What a source of pairs is told."""
    hidden, scored = _shares(settings)
    return {
        "hidden": hidden,
        "scored": scored,
        "fresh": settings.fresh_negatives,
        "seed": settings.seed,
        "epoch": epoch,
        "num_groups": settings.mask_groups,
    }


def _shares(settings: ObjectiveSettings) -> tuple[float, float]:
    """The shares of the edges that an epoch hides from the encoder, and that it scores."""
    return settings.mask, (settings.mask or 1.0) * settings.score_fraction


def _subgraph_loss(
    model: Autoencoder, embedding: Tensor, batch: PatchBatch, settings: ObjectiveSettings, epoch: int
) -> Tensor:
    degrees = batch.adjacency.indptr[1:] - batch.adjacency.indptr[:-1]
    nodes = sample_nodes_by_degree(degrees, settings.sample_size, seed=settings.seed, epoch=epoch)
    subgraph = batch.adjacency[nodes][:, nodes].toarray() != 0
    target = torch.from_numpy(subgraph).to(embedding)
    return model.all_pairs_loss(embedding[torch.from_numpy(nodes).to(embedding.device)], target)


def _dense_loss(model: Autoencoder, embedding: Tensor, batch: PatchBatch) -> Tensor:
    loss = embedding.new_zeros(())
    for low, high in itertools.pairwise(batch.offsets.tolist()):
        target = torch.from_numpy(batch.adjacency[low:high, low:high].toarray() != 0).to(embedding)
        loss = loss + model.all_pairs_loss(embedding[low:high], target) * (high - low)
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
