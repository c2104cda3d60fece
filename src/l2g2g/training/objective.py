"""Objective: the loss of an epoch, inside patches as in the paper or on the assembled embedding of all nodes."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.synchronise import Frame, apply_frame
from l2g2g.core.randomness import gaussian_numbers
from l2g2g.methods import Alignment, PairChoice, Scope
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoding import EncoderInput
from l2g2g.models.local_rows import LocalRows
from l2g2g.models.losses import NonEdges, ScoredEdges, gaussian_divergence
from l2g2g.models.masking import EpochDraws
from l2g2g.models.pairs import row_entries
from l2g2g.models.sampling import first_arrivals, sample_nodes_by_degree
from l2g2g.models.shared_rows import SharedRows
from l2g2g.parallel.node_index import NodeIndex
from l2g2g.parallel.node_table import Assemble, NodeTable, Placement, Request, WantedNodes
from l2g2g.training.batches import Batch, Batches, PatchBatch
from l2g2g.training.node_pairs import NodePairs

FrameSolver = Callable[[Tensor], Frame]
Shares = Callable[[np.ndarray | None], np.ndarray]  # patches, None for all -> a factor for each of their rows
Scoring = Callable[[Tensor], tuple[float, Tensor]]  # vectors -> loss and its gradient, of the same shape
_DENSE_NUMBERS = 1 << 22  # scores of all pairs that are worked on at a time


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

    def draws(self, epoch: int) -> EpochDraws:
        """What an epoch draws."""
        return EpochDraws(
            self.seed,
            epoch,
            hidden=self.mask,
            scored=(self.mask or 1.0) * self.score_fraction,
            num_groups=self.mask_groups,
            fresh=self.fresh_negatives,
            feature_dropout=self.feature_dropout,
        )


class GlobalLoss(ABC):
    """What is scored on the vectors of all nodes, and the table in which these are added up.

    Attributes:
        table: Vectors of the nodes, and later their gradients.
        shares: Gives (num_rows,) float32 how much every row of some patches counts in the vector of its node.
    """

    table: NodeTable
    shares: Shares
    _placements: dict[bytes, Placement]

    def place(self, batch: Batch) -> Placement:
        """The places of a batch's rows in the table."""
        patches = batch.patches.tobytes()  # a batch may be made anew
        if patches not in self._placements:
            self._placements[patches] = self.table.place(batch.nodes, self.shares(batch.patches))
        return self._placements[patches]

    def add_gradient(self, model: Autoencoder, settings: ObjectiveSettings, epoch: int) -> float:
        """Replace the vectors in the table by their gradient; that of the decoder goes to its parameters.

        Returns the loss of the pairs of this rank.
        """
        table = self.table
        table.complete("overlap sums")
        request, score = self.draw(model, settings, epoch)
        vectors = table.gather(request).detach()
        table.clear()
        loss, gradient = score(vectors)
        del vectors, score  # with the pairs: the gradients on their way need room
        table.scatter_add_to_owners(request, gradient)
        table.return_ghosts("overlap gradients")
        return loss

    @abstractmethod
    def draw(self, model: Autoencoder, settings: ObjectiveSettings, epoch: int) -> tuple[Request, Scoring]:
        """The nodes whose vectors an epoch scores, and what scores these."""


@dataclass(frozen=True, eq=False)
class GlobalPairs(GlobalLoss):
    """Sampled pairs of all nodes.

    Attributes:
        pairs: Edges and non-edges of the whole graph.
        table, shares: As in `GlobalLoss`.
    """

    pairs: NodePairs
    table: NodeTable
    shares: Shares
    _placements: dict[bytes, Placement] = field(default_factory=dict)

    def assemble(self, aligned: Tensor, nodes: np.ndarray) -> Tensor:
        """(num_nodes, dim) mean of the aligned rows of every node, differentiable; where this process has all rows.

        nodes: (num_rows,) the node of each row.
        """
        return Assemble.apply(aligned, self.table.place(nodes, self.shares(None)))

    def loss(self, model: Autoencoder, embedding: Tensor, settings: ObjectiveSettings, epoch: int) -> Tensor:
        """The loss of the pairs of an epoch. embedding: (num_nodes, dim), differentiable."""
        return model.pair_loss(embedding, *self.pairs.draw(settings.draws(epoch)))

    def draw(self, model: Autoencoder, settings: ObjectiveSettings, epoch: int) -> tuple[Request, Scoring]:
        """See `GlobalLoss`."""
        table = self.table
        edges: ScoredEdges
        non_edges: NonEdges
        if table.has_all:
            edges, non_edges = self.pairs.draw(settings.draws(epoch))
            request, _ = table.request(None, 0)
        else:
            owned = self.pairs.draw_owned(settings.draws(epoch))
            request, total = table.request(owned.wanted, owned.total)
            owned = owned.weighed(total)
            edges, non_edges = owned.edges, owned.non_edges
        return request, lambda vectors: model.pair_gradient(vectors, edges, non_edges)


@dataclass(frozen=True, eq=False)
class NodeSample(GlobalLoss):
    """Every pair of a node sample (FastGAE), or of all nodes; of several ranks each scores the rows of its own nodes.

    Attributes:
        rows: The edges of this rank's nodes.
        degrees: (num_owned,) edges of these nodes.
        table, shares: As in `GlobalLoss`.
    """

    rows: LocalRows
    degrees: np.ndarray
    table: NodeTable
    shares: Shares
    _placements: dict[bytes, Placement] = field(default_factory=dict)

    def draw(self, model: Autoencoder, settings: ObjectiveSettings, epoch: int) -> tuple[Request, Scoring]:
        """See `GlobalLoss`."""
        nodes = self._sample(settings, epoch)
        sample, table = NodeIndex(nodes), self.table
        ends = self._induce(nodes, sample)
        wanted = None
        if not table.has_all:  # ranks own ranges of nodes
            wanted = WantedNodes(sample.nodes, np.diff(np.searchsorted(nodes, self.rows.owners.bounds)).tolist())
        request, num_arcs = table.request(wanted, ends.shape[1])
        own = np.flatnonzero((nodes >= self.rows.low) & (nodes < self.rows.high))
        rows, columns = ends
        order = np.argsort(rows, kind="stable")
        rows, columns = rows[order], columns[order]

        def score(vectors: Tensor) -> tuple[float, Tensor]:
            """By slices of rows, so that the dense scores stay small."""
            total, step = 0.0, max(1, _DENSE_NUMBERS // len(nodes))
            vectors.requires_grad_().grad = torch.zeros_like(vectors)
            for low in range(0, len(own), step):
                here = own[low : low + step]
                entries = slice(*np.searchsorted(rows, [here[0], here[-1] + 1]))
                target = vectors.new_zeros(len(here), len(nodes))
                target[np.searchsorted(here, rows[entries]), columns[entries]] = 1.0
                sampled = vectors[torch.from_numpy(nodes).to(vectors.device)] if table.has_all else vectors
                loss = model.all_pairs_loss(sampled, target, torch.from_numpy(here).to(vectors.device), round(num_arcs))
                loss.backward()
                total += float(loss.detach())
            assert vectors.grad is not None
            return total, vectors.grad

        return request, score

    def _sample(self, settings: ObjectiveSettings, epoch: int) -> np.ndarray:
        """(num_sampled,) int64 ascending, the nodes of an epoch, of all ranks."""
        if settings.pairs != "subgraph":
            return np.arange(self.rows.num_nodes)
        count, shared = settings.sample_size, SharedRows(self.rows.communicator, "node sample")
        nodes, times = first_arrivals(self.degrees, count, self.rows.low, seed=settings.seed, epoch=epoch)
        found = shared.gather(torch.from_numpy(np.stack([nodes.astype(np.float64), times], axis=1))).numpy()
        first = np.argpartition(found[:, 1], count - 1)[:count]
        return np.sort(found[first, 0].astype(np.int64))

    def _induce(self, nodes: np.ndarray, sample: NodeIndex) -> np.ndarray:
        """(2, num_arcs) places in the sample of the arcs inside it that begin with one of this rank's nodes."""
        found = [np.empty((2, 0), np.int64)]
        for block in self.rows.blocks():
            first = self.rows.low + block.low
            low, high = np.searchsorted(nodes, [first, first + len(block.indptr) - 1])
            chosen = nodes[low:high] - first
            rows, entries = row_entries(block.indptr[chosen], block.indptr[chosen + 1])
            columns = sample.places(self.rows.nodes[block.indices[entries]])
            inside = columns >= 0
            found.append(np.stack([low + rows[inside], columns[inside]]))
        return np.concatenate(found, axis=1)


def accumulate_gradients(
    model: Autoencoder,
    batches: Batches,
    frame: Frame,
    settings: ObjectiveSettings,
    epoch: int,
    global_pairs: GlobalLoss | None = None,
    solve: FrameSolver | None = None,
    align: FrameSolver | None = None,
) -> float:
    """Add the gradient of this epoch's loss to the parameters, batch by batch. Returns the loss.

    solve: (num_rows, dim) stacked embeddings -> a frame that the gradient passes through, instead of `frame`.
    align: The same for a frame that is a constant, where all patches are one batch.
    """
    if solve is not None:
        return _accumulate_through(model, batches, solve, settings, epoch, global_pairs)
    assert align is None or len(batches) == 1
    total = 0.0
    if settings.scope == "inside":
        for batch in batches:
            encoded = EncodedBatch(model, batch, frame, settings, epoch, align)
            loss, gradient = _inside_gradient(model, encoded.vectors, batch, settings, epoch)
            total += loss + encoded.backward(gradient, batch)
        return total
    assert global_pairs is not None
    table, kept = global_pairs.table, dict[int, EncodedBatch]()
    table.clear()
    for place, batch in enumerate(batches):
        holds = batches.holds(batch)
        with torch.set_grad_enabled(holds or batches.keeps_states):
            encoded = EncodedBatch(model, batch, frame, settings, epoch, align)
        table.scatter_add(global_pairs.place(batch), encoded.vectors)
        if holds or (batches.keeps_states and encoded.release_inputs()):
            kept[place] = encoded
        del encoded  # what its gradient needs is not kept beside that of the next batch
    total = global_pairs.add_gradient(model, settings, epoch)
    for place, batch in enumerate(batches):
        found = kept.pop(place, None)  # a batch of which nothing was kept is encoded again
        again = EncodedBatch(model, batch, frame, settings, epoch) if found is None else found
        total += again.backward(table.take(global_pairs.place(batch)), batch)
    table.clear()  # a validation needs its memory
    return total


def _accumulate_through(
    model: Autoencoder,
    batches: Batches,
    solve: FrameSolver,
    settings: ObjectiveSettings,
    epoch: int,
    global_pairs: GlobalLoss | None,
) -> float:
    """Align this epoch's own embeddings inside the graph: the gradient also says how each patch moves the others.

    Several batches: the gradient of the rows first, then encode again, as in `accumulate_gradients`.
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
        assert isinstance(global_pairs, GlobalPairs)
        nodes = np.concatenate([batch.nodes for batch in batches])
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
    """Stacked rows in the order of patch numbers. patches, sizes: of every batch, in the order of the rows."""
    numbers = np.concatenate(patches)
    if (np.diff(numbers) > 0).all():
        return rows
    parts = rows.split(torch.cat(list(sizes)).tolist())
    return torch.cat([parts[place] for place in np.argsort(numbers)])


def encode(model: Autoencoder, batch: Batch, settings: ObjectiveSettings, epoch: int) -> tuple[Tensor, Tensor]:
    """(num_rows, dim) embeddings of a batch as training sees them, each patch in its own frame, and the divergence."""
    output = model.encoder_of(int(batch.patches[0]))(batch.training_inputs(settings.draws(epoch)))
    return _add_noise(model, output, batch, settings, epoch)


def _add_noise(
    model: Autoencoder, output: Tensor, batch: Batch, settings: ObjectiveSettings, epoch: int
) -> tuple[Tensor, Tensor]:
    """The embeddings that an encoder's output means, drawn where it is variational, and their divergence."""
    mean, log_deviation = model.split(output)
    if log_deviation is None:
        return mean, mean.new_zeros(())
    noise = torch.from_numpy(gaussian_numbers(batch.nodes, mean.shape[1], seed=settings.seed, epoch=epoch))
    embedding = mean + noise.to(mean) * torch.exp(log_deviation)
    return embedding, _divergence(mean, log_deviation, batch)


class EncodedBatch:
    """The aligned embeddings of a batch as training sees them, and their backward pass through the encoder.

    Where the frame cannot change the loss nor its gradient it is not applied.

    Args:
        align: Finds the frame from the embeddings of this batch, instead of `frame`.

    Attributes:
        vectors: (num_rows, dim), detached.
    """

    def __init__(
        self,
        model: Autoencoder,
        batch: Batch,
        frame: Frame,
        settings: ObjectiveSettings,
        epoch: int,
        align: FrameSolver | None = None,
    ) -> None:
        self._settings, self._epoch = settings, epoch
        self._inputs: EncoderInput | None = batch.training_inputs(settings.draws(epoch))
        self._encoding = model.begin(self._inputs, int(batch.patches[0]))
        self.vectors = self._encoding.vectors
        if align is not None:
            frame = align(in_patch_order(self.vectors, [batch.patches], [batch.offsets.diff()]))
        self._roots: list[Tensor] = []  # what autograd made of the encoder's output, where something was done to it
        moves = settings.alignment == "during" and len(frame.rotations) > 1
        moves = moves and not _is_without_effect(model, frame, settings)
        if not moves and not model.variational:
            return
        self._output = self._encoding.vectors
        if torch.is_grad_enabled():
            self._output.requires_grad_()
        embedding, divergence = _add_noise(model, self._output, batch, settings, epoch)
        if moves:
            embedding = apply_frame(embedding, batch.offsets, frame.part(batch.patches))
        self.vectors, self._roots = embedding.detach(), [embedding, divergence]

    def release_inputs(self) -> bool:
        """Give back what the encoder saw, and make it anew for the gradient. Returns whether that is possible."""
        if self._encoding.holds_inputs:
            return False
        self._inputs = None
        return True

    def backward(self, gradient: Tensor, batch: Batch) -> float:
        """Add what a gradient of the vectors and the divergence give to the parameters. Returns the divergence.

        batch: the one that was encoded, or the same made anew.
        """
        inputs = self._inputs
        if inputs is None:
            inputs = batch.training_inputs(self._settings.draws(self._epoch))
        if not self._roots:
            self._encoding.backward(gradient, inputs)
            return 0.0
        embedding, divergence = self._roots
        if divergence.requires_grad:
            torch.autograd.backward([embedding, divergence], [gradient, None])
        else:
            embedding.backward(gradient)
        assert self._output.grad is not None
        self._encoding.backward(self._output.grad, inputs)
        return float(divergence.detach())


def _is_without_effect(model: Autoencoder, frame: Frame, settings: ObjectiveSettings) -> bool:
    """Pairs inside a patch are rotated together, which most decoders do not see."""
    unseen = frame.only_rotates and not model.decoder.sees_rotation
    return frame.is_identity or (settings.scope == "inside" and unseen)


def _inside_gradient(
    model: Autoencoder, embedding: Tensor, batch: Batch, settings: ObjectiveSettings, epoch: int
) -> tuple[float, Tensor]:
    """`inside_loss` and its gradient, (num_rows, dim); that of the decoder is added to its parameters."""
    assert isinstance(batch, PatchBatch), "a range of rows is scored by pairs of all nodes"
    if settings.pairs == "sampled":
        return model.pair_gradient(embedding, *batch.pairs.draw(settings.draws(epoch)))
    vectors = embedding.requires_grad_()
    loss = inside_loss(model, vectors, batch, settings, epoch)
    loss.backward()
    assert vectors.grad is not None
    return float(loss.detach()), vectors.grad


def inside_loss(model: Autoencoder, embedding: Tensor, batch: Batch, settings: ObjectiveSettings, epoch: int) -> Tensor:
    """The loss of pairs inside the patches of a batch. embedding: (num_rows, dim)."""
    assert isinstance(batch, PatchBatch), "a range of rows is scored by pairs of all nodes"
    if settings.pairs == "subgraph":
        return _subgraph_loss(model, embedding, batch, settings, epoch)
    if settings.pairs == "all":
        return _dense_loss(model, embedding, batch)
    edges, non_edges = batch.pairs.draw(settings.draws(epoch))
    return model.pair_loss(embedding, edges, non_edges)


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


def _divergence(mean: Tensor, log_deviation: Tensor, batch: Batch) -> Tensor:
    """Σ_j N_j KL_j / Σ_j N_j, every patch on the scale of its own pairs: one block or patch by patch is the same."""
    total = mean.new_zeros(())
    for (low, high), size in zip(itertools.pairwise(batch.offsets.tolist()), batch.patch_sizes, strict=True):
        total = total + gaussian_divergence(mean[low:high], log_deviation[low:high], size) * size
    return total * batch.row_share
