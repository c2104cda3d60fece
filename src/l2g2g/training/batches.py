"""Batches: patches made ready for training, together in one block or one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.encoder import EncoderInput, prepare_input
from l2g2g.models.features import FeatureTable
from l2g2g.models.masking import hidden_edges, hidden_edges_torch, propagate_visible, propagate_visible_torch
from l2g2g.models.randomness import Purpose, stream_key
from l2g2g.models.sampling import NegativePlan, draw_negatives, draw_negatives_torch, plan_negatives
from l2g2g.models.sparse import PairPattern, SparseMatrix
from l2g2g.patches.overlap import PatchSet


@dataclass(frozen=True, eq=False)
class PairSource:
    """Edges and non-edges of some stacked patches, to be scored: all of them, or this epoch's share.

    Attributes:
        adjacency: Block-diagonal scipy CSR of the edges.
        nodes: (num_rows,) node numbers of the rows.
        edges: All edges in both directions, weighted N_j / (Σ N · 2 M_j): the mean of every patch.
        negatives: How non-edges are drawn.
        negative_weights: Weight of each non-edge, N_j / (Σ N · negatives of j).
        shares: (num_patches,) N_j / Σ N of all patches.
    """

    adjacency: sp.csr_array
    nodes: np.ndarray
    edges: PairPattern
    negatives: NegativePlan
    negative_weights: Tensor
    shares: np.ndarray

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.edges.indices.device

    def draw_negatives(self, *, seed: int, epoch: int) -> PairPattern:
        """Non-edges of this epoch."""
        if self.device.type == "cpu":
            return draw_negatives(self.negatives, self.negative_weights, seed=seed, epoch=epoch)
        return draw_negatives_torch(self.negatives, self.negative_weights, seed=seed, epoch=epoch, device=self.device)

    def draw_edges(self, fraction: float, *, seed: int, epoch: int) -> PairPattern:
        """The edges that are hidden from the encoder in this epoch, weighted like `edges`."""
        key = stream_key(seed, Purpose.MASK, epoch)
        if self.device.type == "cpu":
            indptr, indices = hidden_edges(self.adjacency.indptr, self.adjacency.indices, self.nodes, key, fraction)
        else:
            nodes = torch.from_numpy(self.nodes).to(self.device)
            indptr, indices = hidden_edges_torch(self.edges.indptr, self.edges.indices, nodes, key, fraction)
        counts = indptr[torch.from_numpy(self.negatives.offsets)].cpu().numpy().astype(np.int64)
        weights = _expand(self.shares / np.maximum(np.diff(counts), 1), np.diff(counts))
        return PairPattern(indptr, indices, weights.to(self.device))


@dataclass(frozen=True, eq=False)
class PatchBatch:
    """Some patches of a PatchSet as tensors; with the sum over batches the loss is that of all patches.

    Attributes:
        patches: (num_patches,) their numbers.
        offsets: (num_patches + 1,) their rows inside the batch.
        inputs: What the encoder sees when nothing is hidden.
        features: The feature rows, for dropout.
        pairs: What is scored inside the patches.
        share: Rows of this batch as a fraction of all rows.
    """

    patches: np.ndarray
    offsets: Tensor
    inputs: EncoderInput
    features: FeatureTable
    pairs: PairSource
    share: float

    @property
    def adjacency(self) -> sp.csr_array:
        """Block-diagonal scipy CSR of the patches."""
        return self.pairs.adjacency

    @property
    def num_rows(self) -> int:
        """Rows of the batch."""
        return self.adjacency.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.pairs.device

    def training_inputs(self, *, mask: float, feature_dropout: float, seed: int, epoch: int) -> EncoderInput:
        """What the encoder sees in this epoch: some edges hidden, some feature entries dropped."""
        if mask == 0 and feature_dropout == 0:
            return self.inputs
        propagation = self._visible(mask, seed, epoch) if mask else self.inputs.propagation
        features = self.features.dropped(feature_dropout, seed=seed, epoch=epoch)
        return EncoderInput(propagation, features, propagated=False)

    def _visible(self, mask: float, seed: int, epoch: int) -> SparseMatrix:
        key = stream_key(seed, Purpose.MASK, epoch)
        block, nodes = self.pairs.adjacency, self.pairs.nodes
        if self.device.type == "cpu":
            return propagate_visible(block.indptr, block.indices, block.data, nodes, key, mask)
        weights = torch.from_numpy(block.data).to(self.device)
        return propagate_visible_torch(
            self.pairs.edges.indptr,
            self.pairs.edges.indices,
            weights,
            torch.from_numpy(nodes).to(self.device),
            key,
            mask,
        )


def prepare_batches(
    patch_set: PatchSet,
    adjacency: sp.csr_array,
    features: Features,
    held_out: sp.csr_array,
    *,
    negatives_per_edge: float = 1.0,
    together: bool = True,
    propagate_once: bool = True,
    device: torch.device | str = "cpu",
) -> list[PatchBatch]:
    """Cut a training graph into its patches: one batch with all of them, or one batch each.

    adjacency: (num_nodes, num_nodes) training edges. features: (num_nodes, num_features).
    held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives.
    propagate_once: compute Â X once where that is cheaper; not for encoders that need X itself.
    """
    groups = [np.arange(patch_set.num_patches)]
    if not together:
        groups = [np.array([patch]) for patch in range(patch_set.num_patches)]
    batches = []
    for patches in groups:
        part = patch_set.select(patches)
        pairs = prepare_pairs(part, adjacency, held_out, patch_set.num_rows, patches, negatives_per_edge, device)
        rows = features if patch_set.num_patches == 1 else features[part.global_nodes]
        table = FeatureTable.build(rows, part.offsets, patches, device)
        inputs = prepare_input(pairs.adjacency, rows, device=device, propagate_once=propagate_once, held=table.matrix)
        share = part.num_rows / patch_set.num_rows
        batches.append(PatchBatch(patches, torch.from_numpy(part.offsets).to(device), inputs, table, pairs, share))
    return batches


def prepare_pairs(
    part: PatchSet,
    adjacency: sp.csr_array,
    held_out: sp.csr_array,
    num_rows_of_all: int,
    patches: np.ndarray,
    negatives_per_edge: float,
    device: torch.device | str,
) -> PairSource:
    """The pairs inside some patches, whose losses are weighted by their share of the rows of all patches."""
    whole = part.num_patches == 1 and part.num_rows == part.num_nodes
    block = adjacency if whole else part.induce(adjacency)
    excluded = block + sp.eye_array(block.shape[0], dtype=np.float32, format="csr")
    if held_out.nnz:
        excluded = excluded + (held_out if whole else part.induce(held_out))
    excluded = sp.csr_array(excluded)
    excluded.sort_indices()
    arcs = np.diff(block.indptr[part.offsets].astype(np.int64))
    wanted = np.ceil(negatives_per_edge * (arcs // 2)).astype(np.int64)
    plan = plan_negatives(excluded, part.offsets, wanted, patches)
    shares = np.diff(part.offsets) / num_rows_of_all
    drawn = np.diff(plan.pair_offsets)
    edges = PairPattern(
        torch.from_numpy(block.indptr).to(device),
        torch.from_numpy(block.indices).to(device),
        _expand(shares / np.maximum(arcs, 1), arcs).to(device),
    )
    negative_weights = _expand(shares / np.maximum(drawn, 1), drawn).to(device)
    return PairSource(block, part.global_nodes.astype(np.int64), edges, plan, negative_weights, shares)


def _expand(per_patch: np.ndarray, counts: np.ndarray) -> Tensor:
    """One weight per entry, or a scalar where there is only one patch."""
    if len(per_patch) == 1:
        return torch.tensor(per_patch[0], dtype=torch.float32)
    return torch.from_numpy(np.repeat(per_patch.astype(np.float32), counts))
