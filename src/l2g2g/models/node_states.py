"""Node states: what new nodes read of the nodes of training, which stay what they were.

States are made as parts (name, rows): rows to be appended to the array of that name. So they go to disk block by block,
whether they come from a graph in memory, from patches on disk or from a pass over the rows of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoding import EncoderInput, prepare_input
from l2g2g.models.local_rows import Rows
from l2g2g.models.sparse import sum_weights

Parts = Iterator[tuple[str, np.ndarray]]
StateParts = Callable[[], Parts]  # every call makes them anew
DEGREES, NODE_DEGREES, LAYER = "degrees", "node_degrees", "layer_"


@dataclass(frozen=True, eq=False)
class NodeStates:
    """The state of the nodes of training, patch after patch; a whole graph is one patch.

    With it a new node needs its own features and edges only, and the others cannot be moved by it.

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

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray], patches: tuple[np.ndarray, np.ndarray] | None) -> NodeStates:
        """From the arrays that parts add up to. patches: nodes and offsets; None for the whole graph as one patch."""
        node_degrees = arrays[NODE_DEGREES]
        layers = [torch.from_numpy(arrays[f"{LAYER}{step}"]) for step in range(count_layers(arrays))]
        if patches is None:
            whole = np.arange(len(node_degrees)), np.array([0, len(node_degrees)])
            return cls(*whole, node_degrees, node_degrees, layers)
        nodes, offsets = (part.astype(np.int64, copy=False) for part in patches)
        return cls(nodes, offsets, arrays[DEGREES], node_degrees, layers)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of training."""
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


def collect(parts: Parts) -> dict[str, np.ndarray]:
    """The arrays that parts add up to; an array that comes in one part is not copied."""
    found: dict[str, list[np.ndarray]] = {}
    for name, rows in parts:
        found.setdefault(name, []).append(rows)
    return {name: blocks[0] if len(blocks) == 1 else np.concatenate(blocks) for name, blocks in found.items()}


def count_layers(names: Iterable[str]) -> int:
    """How many steps of an encoder have states among these arrays."""
    return sum(name.startswith(LAYER) for name in names)


@torch.no_grad()
def encode_states(
    model: Autoencoder,
    patches: Iterable[tuple[sp.csr_array, Features]],
    *,
    device: torch.device | str = "cpu",
    storage: str = "float32",
) -> Parts:
    """States of all patches in order, one pass of the encoder, without the degrees of the nodes in the whole graph.

    patches: adjacency and what the encoder reads, of each.
    """
    for patch, (adjacency, rows) in enumerate(patches):
        inputs = prepare_input(adjacency, rows, device=device, propagate_once=False, storage=storage)
        yield DEGREES, weigh_nodes(adjacency)
        yield from whole_states(model, inputs, patch)


@torch.no_grad()
def whole_states(model: Autoencoder, inputs: EncoderInput, patch: int = 0) -> Parts:
    """The messages of every step of the encoder of one patch, of all its rows."""
    encoder = model.encoder_of(patch)
    messages = encoder.encode_beside(inputs.features, encoder.propagation_of(inputs.propagation))[1]
    for step, message in enumerate(messages):
        yield f"{LAYER}{step}", message.cpu().contiguous().numpy()


def node_degrees(blocks: Iterable[Rows]) -> Parts:
    """The degrees of the nodes of consecutive rows, as a part of their states."""
    for block in blocks:
        starts, ends = block.indptr[:-1].astype(np.int64), block.indptr[1:].astype(np.int64)
        yield NODE_DEGREES, (sum_weights(starts, ends, block.weights) + 1).astype(np.float32)


def weigh_nodes(adjacency: sp.csr_array) -> np.ndarray:
    """(num_rows,) float32 sum of the weights of a row's edges, and 1 for its loop."""
    return (np.asarray(adjacency.sum(axis=1, dtype=np.float64)).ravel() + 1).astype(np.float32)
