"""Known rows: what new nodes read of the nodes that were there in training, which stay what they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoder_input import prepare_input
from l2g2g.patches.overlap import PatchSet


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The state of known nodes, patch after patch; a whole graph is one patch.

    With it a new node needs its own features and edges only, and known nodes cannot be moved by it.

    Attributes:
        nodes: (num_rows,) int64 node of every row.
        offsets: (num_patches + 1,) int64 patch j owns the rows offsets[j]:offsets[j + 1].
        degrees: (num_rows,) float32 sum of the weights of a row's edges inside its patch, and 1 for its loop.
        node_degrees: (num_nodes,) float32 the same in the whole graph.
        layers: The messages of every step of the encoder: (num_rows, width) each.
    """

    nodes: np.ndarray
    offsets: np.ndarray
    degrees: np.ndarray
    node_degrees: np.ndarray
    layers: list[Tensor]

    @property
    def num_nodes(self) -> int:
        """Number of known nodes."""
        return len(self.node_degrees)

    @property
    def num_patches(self) -> int:
        """Number of patches."""
        return len(self.offsets) - 1

    def rows_of(self, patch: int) -> slice:
        """The rows of a patch."""
        return slice(int(self.offsets[patch]), int(self.offsets[patch + 1]))

    def membership(self) -> sp.csr_array:
        """(num_nodes, num_patches) CSR: every node dealt in equal shares to the patches that hold it."""
        patches = np.repeat(np.arange(self.num_patches), np.diff(self.offsets))
        held = np.bincount(self.nodes, minlength=self.num_nodes)
        shares = 1.0 / held[self.nodes]
        return sp.csr_array((shares, (self.nodes, patches)), shape=(self.num_nodes, self.num_patches))


def record_known(
    model: Autoencoder,
    patch_set: PatchSet,
    adjacency: sp.csr_array,
    features: Features,
    *,
    device: torch.device | str = "cpu",
    storage: str = "float32",
) -> KnownRows:
    """The state of all nodes after training, one pass of the encoder.

    adjacency: (num_nodes, num_nodes) the graph that the final vectors were computed on. features: what the encoder
    reads, (num_nodes, num_columns).
    """
    states, degrees = [], []
    with torch.no_grad():
        for patch in range(patch_set.num_patches):
            nodes = patch_set.nodes_of(patch)
            part = patch_set.select(np.array([patch]))
            whole = len(nodes) == patch_set.num_nodes
            block = adjacency if whole else part.induce(adjacency)
            rows = features if whole else features[nodes]
            inputs = prepare_input(block, rows, device=device, propagate_once=False, storage=storage)
            encoder = model.encoder_of(patch)
            messages = encoder.encode_beside(inputs.features, encoder.propagation.of_graph(inputs.propagation))[1]
            states.append([each.cpu() for each in messages])
            degrees.append(weigh_nodes(block))
    layers = [torch.cat(parts).contiguous() for parts in zip(*states, strict=True)]
    nodes, offsets = (part.astype(np.int64) for part in (patch_set.global_nodes, patch_set.offsets))
    return KnownRows(nodes, offsets, np.concatenate(degrees), weigh_nodes(adjacency), layers)


def weigh_nodes(adjacency: sp.csr_array) -> np.ndarray:
    """(num_nodes,) float32 sum of the weights of a node's edges, and 1 for its loop."""
    return (np.asarray(adjacency.sum(axis=1, dtype=np.float64)).ravel() + 1).astype(np.float32)
