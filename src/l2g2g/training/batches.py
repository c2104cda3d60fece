"""Batches: patches made ready for training, together in one block or one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.encoder import EncoderInput, prepare_input
from l2g2g.models.sampling import NegativePlan, draw_negatives, draw_negatives_torch, plan_negatives
from l2g2g.models.sparse import PairPattern
from l2g2g.patches.overlap import PatchSet


@dataclass(frozen=True, eq=False)
class PatchBatch:
    """Some patches of a PatchSet as tensors; with the sum over batches the loss is that of all patches.

    Attributes:
        patches: (num_patches,) their numbers.
        offsets: (num_patches + 1,) their rows inside the batch.
        inputs: What the encoder sees.
        edges: Edges inside the patches, in both directions, weighted N_j / (Σ N · 2 M_j).
        negatives: How non-edges are drawn.
        negative_weights: Weight of each non-edge, N_j / (Σ N · negatives of j).
        share: Rows of this batch as a fraction of all rows.
        adjacency: Block-diagonal scipy CSR of the patches, kept for the losses that need it.
    """

    patches: np.ndarray
    offsets: Tensor
    inputs: EncoderInput
    edges: PairPattern
    negatives: NegativePlan
    negative_weights: Tensor
    share: float
    adjacency: sp.csr_array

    @property
    def num_rows(self) -> int:
        """Rows of the batch."""
        return self.adjacency.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.edges.indices.device

    def draw_negatives(self, *, seed: int, epoch: int) -> PairPattern:
        """Non-edges of this epoch."""
        if self.device.type == "cpu":
            return draw_negatives(self.negatives, self.negative_weights, seed=seed, epoch=epoch)
        return draw_negatives_torch(self.negatives, self.negative_weights, seed=seed, epoch=epoch, device=self.device)


def prepare_batches(
    patch_set: PatchSet,
    adjacency: sp.csr_array,
    features: Features,
    held_out: sp.csr_array,
    *,
    negatives_per_edge: float = 1.0,
    together: bool = True,
    device: torch.device | str = "cpu",
) -> list[PatchBatch]:
    """Cut a training graph into its patches: one batch with all of them, or one batch each.

    adjacency: (num_nodes, num_nodes) training edges. features: (num_nodes, num_features).
    held_out: (num_nodes, num_nodes) pairs that are never drawn as negatives.
    """
    groups = [np.arange(patch_set.num_patches)]
    if not together:
        groups = [np.array([patch]) for patch in range(patch_set.num_patches)]
    return [_prepare(patch_set, group, adjacency, features, held_out, negatives_per_edge, device) for group in groups]


def _prepare(
    patch_set: PatchSet,
    patches: np.ndarray,
    adjacency: sp.csr_array,
    features: Features,
    held_out: sp.csr_array,
    negatives_per_edge: float,
    device: torch.device | str,
) -> PatchBatch:
    first, last = patch_set.offsets[patches[0]], patch_set.offsets[patches[-1] + 1]
    nodes = patch_set.global_nodes[first:last]
    offsets = patch_set.offsets[patches[0] : patches[-1] + 2] - first
    part = PatchSet(patch_set.num_nodes, nodes, offsets, patch_set.overlaps)
    whole = patch_set.num_patches == 1
    block = adjacency if whole else part.induce(adjacency)
    local_features = features if whole else features[nodes]
    arcs_per_patch = np.diff(block.indptr[offsets].astype(np.int64))
    wanted = np.ceil(negatives_per_edge * (arcs_per_patch // 2)).astype(np.int64)
    plan = plan_negatives(_excluded(block, part, held_out, whole), offsets, wanted, patches)
    share = np.diff(offsets) / patch_set.num_rows
    edge_weights = _expand(share / np.maximum(arcs_per_patch, 1), arcs_per_patch)
    negatives_per_patch = np.diff(plan.pair_offsets)
    negative_weights = _expand(share / np.maximum(negatives_per_patch, 1), negatives_per_patch)
    edges = PairPattern(
        torch.from_numpy(block.indptr).to(device), torch.from_numpy(block.indices).to(device), edge_weights.to(device)
    )
    return PatchBatch(
        patches,
        torch.from_numpy(offsets).to(device),
        prepare_input(block, local_features, device=device),
        edges,
        plan,
        negative_weights.to(device),
        float(share.sum()),
        block,
    )


def _excluded(block: sp.csr_array, part: PatchSet, held_out: sp.csr_array, whole: bool) -> sp.csr_array:
    excluded = block + sp.eye_array(block.shape[0], dtype=np.float32, format="csr")
    if held_out.nnz:
        excluded = excluded + (held_out if whole else part.induce(held_out))
    excluded = sp.csr_array(excluded)
    excluded.sort_indices()
    return excluded


def _expand(per_patch: np.ndarray, counts: np.ndarray) -> Tensor:
    """One weight per entry, or a scalar where there is only one patch."""
    if len(per_patch) == 1:
        return torch.tensor(per_patch[0], dtype=torch.float32)
    return torch.from_numpy(np.repeat(per_patch.astype(np.float32), counts))
