"""Objective: the loss of an epoch, inside patches as in the paper or on the assembled embedding of all nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.alignment.synchronise import Frame, apply_frame
from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.losses import gaussian_divergence
from l2g2g.models.sampling import sample_nodes_by_degree
from l2g2g.models.sparse import SparseMatrix, multiply
from l2g2g.patches.overlap import PatchSet, whole_graph
from l2g2g.training.batches import PatchBatch
from l2g2g.training.home_pairs import HomePairs
from l2g2g.training.methods import Alignment, PairChoice
from l2g2g.training.node_exchange import PairExchange
from l2g2g.training.pair_source import PairOptions, PairSource, prepare_pairs
from l2g2g.training.stored_batches import StoredBatches
from l2g2g.training.stored_pairs import StoredPairs

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
    """Pairs of all nodes, and the averaging that brings patch embeddings to them.

    Attributes:
        pairs: Edges and non-edges of the whole graph.
        shares: (num_nodes, 1) one over the number of patches that hold a node.
        average: (num_nodes, num_rows) the mean over these patches; None for one patch, or where it is never taken of
            all patches at once.
        exchange: With the other ranks, where the patches lie on several.
    """

    pairs: PairSource | StoredPairs
    shares: Tensor
    average: SparseMatrix | None = None
    exchange: PairExchange | None = None

    def assemble(self, aligned: Tensor) -> Tensor:
        """(num_nodes, dim) mean of the aligned rows of every node, differentiable."""
        return aligned if self.average is None else multiply(self.average, aligned)

    @cached_property
    def home(self) -> HomePairs:
        """The pairs that this rank scores."""
        assert self.exchange is not None
        return HomePairs(self.pairs, self.exchange.is_home)

    def loss(self, model: Autoencoder, embedding: Tensor, settings: ObjectiveSettings, epoch: int) -> Tensor:
        """How badly the pairs of an epoch are told apart. embedding: (num_nodes, dim), differentiable.

        Of several ranks each scores a part of the pairs, and the embedding is its part of every mean.
        """
        if self.exchange is None:
            return model.pair_loss(embedding, *self.pairs.draw(**_how_to_draw(settings, epoch)))
        embedding, drawn = self.exchange.bring(embedding, self.home.draw(**_how_to_draw(settings, epoch)))
        return model.pair_loss(embedding, drawn.edges, drawn.non_edges)


def prepare_global_pairs(
    patch_set: PatchSet,
    adjacency: sp.csr_array,
    held_out: sp.csr_array,
    *,
    negatives_per_edge: float = 1.0,
    only_between: bool = False,
    units: np.ndarray | None = None,
    options: PairOptions | None = None,
    device: torch.device | str = "cpu",
    patches: np.ndarray | None = None,
    exchange: PairExchange | None = None,
    batches: Sequence[PatchBatch] = (),
) -> GlobalPairs:
    """Pairs of the whole graph. adjacency, held_out: (num_nodes, num_nodes).

    only_between: predict only the edges that lie in no patch. units: as in `prepare_batches`.
    patches: the numbers of the patches whose rows are averaged here; None for all. exchange: with the other ranks.
    batches: those of the patches; where there is one patch, its pairs are those of the whole graph.
    """
    whole = whole_graph(patch_set.num_nodes)
    counts = np.bincount(patch_set.global_nodes, minlength=patch_set.num_nodes)
    shares = torch.from_numpy((1.0 / counts).astype(np.float32)[:, None]).to(device)
    if patch_set.num_patches == 1 and batches and not only_between:
        return GlobalPairs(batches[0].pairs, shares)
    if only_between:
        held_out, adjacency = sp.csr_array(held_out + adjacency), edges_between(patch_set, adjacency)
    pairs = prepare_pairs(
        whole, adjacency, held_out, patch_set.num_nodes, np.array([0]), negatives_per_edge, device, units, options
    )
    if patch_set.num_patches == 1:
        return GlobalPairs(pairs, shares)
    here = patch_set if patches is None else patch_set.select(patches)
    return GlobalPairs(pairs, shares, SparseMatrix.from_scipy(_average(here, counts), device), exchange)


def _average(here: PatchSet, counts: np.ndarray) -> sp.csr_array:
    """(num_nodes, num_rows) what some patches add to the mean. counts: (num_nodes,) of all patches that hold a node."""
    own_counts = np.bincount(here.global_nodes, minlength=here.num_nodes)
    order = np.argsort(here.global_nodes, kind="stable").astype(np.int32)
    return sp.csr_array(
        (
            np.repeat(1.0 / counts, own_counts).astype(np.float32),
            order,
            np.concatenate([[0], np.cumsum(own_counts)]).astype(np.int32),
        ),
        shape=(here.num_nodes, here.num_rows),
    )


def edges_between(patch_set: PatchSet, adjacency: sp.csr_array) -> sp.csr_array:
    """(num_nodes, num_nodes) CSR of the edges that no patch holds, weights and both directions kept."""
    sources, targets = patch_set.cut_edges(adjacency)
    rows, columns = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    pattern = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=adjacency.shape)
    between = sp.csr_array(pattern.multiply(adjacency)).astype(adjacency.dtype)
    between.sort_indices()
    between.indptr, between.indices = between.indptr.astype(np.int32), between.indices.astype(np.int32)
    return between


def accumulate_gradients(
    model: Autoencoder,
    batches: Sequence[PatchBatch],
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
    if len(batches) == 1 and not isinstance(batches, StoredBatches):
        aligned, divergence = encode_aligned(model, batches[0], frame, settings, epoch)
        loss = global_loss(model, aligned, global_pairs, settings, epoch) + divergence
        loss.backward()
        return float(loss.detach())
    return _accumulate_in_turn(model, batches, frame, settings, epoch, global_pairs)


def _accumulate_in_turn(
    model: Autoencoder,
    batches: Sequence[PatchBatch],
    frame: Frame,
    settings: ObjectiveSettings,
    epoch: int,
    global_pairs: GlobalPairs,
) -> float:
    """The same gradient in the memory of one batch and of two vectors per node.

    Encode all and add up the vectors of the nodes, take the gradient of these, encode again. A batch may be made when
    its turn comes and forgotten after it; those that stay in memory are encoded once.
    """
    shares = global_pairs.shares
    embedding = shares.new_zeros(len(shares), model.dim)
    encoded: dict[int, tuple[Tensor, Tensor]] = {}
    for place, batch in enumerate(batches):
        stays = isinstance(batches, StoredBatches) and batches.holds(batch)
        with torch.set_grad_enabled(stays):
            aligned, divergence = encode_aligned(model, batch, frame, settings, epoch)
        if stays:
            encoded[place] = aligned, divergence
        embedding.index_add_(0, batch.nodes, aligned.detach())
    loss, gradient = global_gradient(model, embedding.mul_(shares), global_pairs, settings, epoch)
    gradient.mul_(shares)
    for place, batch in enumerate(batches):
        found = encoded.pop(place, None)
        aligned, divergence = encode_aligned(model, batch, frame, settings, epoch) if found is None else found
        roots = [aligned, divergence] if divergence.requires_grad else [aligned]
        torch.autograd.backward(roots, [gradient.index_select(0, batch.nodes), None][: len(roots)])
        loss += float(divergence.detach())
    return loss


def global_gradient(
    model: Autoencoder, embedding: Tensor, global_pairs: GlobalPairs, settings: ObjectiveSettings, epoch: int
) -> tuple[float, Tensor]:
    """The loss of pairs of all nodes and its gradient by their vectors; that of the decoder goes to its parameters.

    embedding: (num_nodes, dim) as it was assembled, a constant.
    """
    embedding = embedding.detach().requires_grad_()
    loss = global_pairs.loss(model, embedding, settings, epoch)
    loss.backward()
    assert embedding.grad is not None
    return float(loss.detach()), embedding.grad


def _accumulate_through(
    model: Autoencoder,
    batches: Sequence[PatchBatch],
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
        loss = global_loss(model, aligned, global_pairs, settings, epoch)
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
    """Inner products inside a patch do not see a rotation that all its vectors take."""
    return frame.is_identity or (settings.scope == "inside" and model.decoder is None and frame.only_rotates)


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


def global_loss(
    model: Autoencoder, aligned: Tensor, global_pairs: GlobalPairs, settings: ObjectiveSettings, epoch: int
) -> Tensor:
    """The loss of pairs of all nodes on the assembled embedding. aligned: (num_rows, dim)."""
    return global_pairs.loss(model, global_pairs.assemble(aligned), settings, epoch)


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
