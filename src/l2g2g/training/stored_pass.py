"""Stored pass: one pass of a shared encoder over a whole graph on disk, layer by layer.

A layer needs the vectors that the one before gave to all nodes; these are in memory, the rows of the graph and its
features are read block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from l2g2g.graphs.graph import Features
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoder import Encoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.sparse import SparseMatrix, product
from l2g2g.training.stored_rows import StoredRows

_BLOCK_BYTES = 1 << 25


class StoredPass:
    """Encodes all nodes of a graph on disk. CPU only.

    Args:
        rows: The edges that the encoder may see.
        inputs: How it reads nodes.
    """

    def __init__(self, rows: StoredRows, inputs: InputMap) -> None:
        self.rows, self.inputs = rows, inputs

    def __call__(self, model: Autoencoder) -> Tensor:
        """(num_nodes, dim) mean embeddings."""
        encoder = model.encoders[0]
        assert isinstance(encoder, Encoder)
        with torch.no_grad():
            output = self._encode(encoder)
        return output[:, : model.dim].contiguous() if model.variational else output

    def _encode(self, encoder: Encoder) -> Tensor:
        """The same as `Encoder.forward`, without anything as large as the edges or the features."""
        hidden, own = self._project(encoder)
        weights, biases = list(encoder.weights), list(encoder.biases)
        propagations = encoder.num_layers if encoder.kind == "linear" else 1
        for _ in range(propagations - 1):
            hidden = self._propagate(hidden)
        following = [*weights[1:], None]
        for bias, weight in zip(biases, following, strict=True):
            if weight is None:
                return self._propagate(hidden, bias, own)
            width = weights[-1].shape[1]
            projected = torch.empty(len(hidden), weight.shape[1])
            if encoder.residual and own is None:
                own = torch.zeros(len(hidden), width)
            for low, part in propagated_blocks(self.rows, hidden, bias):
                part = encoder.activation(part)
                projected[low : low + len(part)] = part @ weight
                if encoder.residual:
                    assert own is not None
                    own[low : low + len(part)] += functional.pad(part, (0, width - part.shape[1]))
            hidden = projected
        raise AssertionError("an encoder has at least one layer")

    def _project(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        """X times the weights of the first layer and of the skip, where there is one."""
        num_nodes = self.rows.num_nodes
        hidden = torch.empty(num_nodes, encoder.weights[0].shape[1])
        own = None if encoder.skip is None else torch.empty(num_nodes, encoder.skip.shape[1])
        for low, rows in feature_blocks(self.rows, self.inputs):
            held: Tensor | SparseMatrix
            if sp.issparse(rows):
                held = SparseMatrix.from_scipy(sp.csr_array(rows))
            else:
                held = torch.from_numpy(np.ascontiguousarray(rows))
            first, second = encoder.project(held)
            hidden[low : low + len(first)] = first
            if own is not None and second is not None:
                own[low : low + len(first)] = second
        return hidden, own

    def _propagate(self, hidden: Tensor, bias: Tensor | None = None, own: Tensor | None = None) -> Tensor:
        """Â H + bias + own."""
        product = torch.empty_like(hidden)
        for low, part in propagated_blocks(self.rows, hidden, bias):
            product[low : low + len(part)] = part if own is None else part + own[low : low + len(part)]
        return product


def propagate_stored(rows: StoredRows, hidden: Tensor) -> Tensor:
    """(num_nodes, width) Â H."""
    product = torch.empty_like(hidden)
    for low, part in propagated_blocks(rows, hidden):
        product[low : low + len(part)] = part
    return product


def propagated_blocks(rows: StoredRows, hidden: Tensor, bias: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
    """Â H + bias, some rows at a time, and where they begin."""
    for block, indptr, indices, values in rows.propagations():
        part = sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, len(hidden)))
        yield block.low, product(SparseMatrix.from_scipy(part), hidden, None if bias is None else bias.detach())


def feature_blocks(rows: StoredRows, inputs: InputMap | None) -> Iterator[tuple[int, Features]]:
    """The features of all nodes in order, as the encoder reads them, and where each block begins.

    inputs: None for the features as they are stored.
    """
    graph = rows.graph
    width = graph.num_features if inputs is None else max(graph.num_features, inputs.num_columns)
    step = max(1, _BLOCK_BYTES // (4 * max(1, width)))
    for low in range(0, graph.num_nodes, step):
        here = slice(low, min(low + step, graph.num_nodes))
        stored = graph.read_features(here) if graph.num_features else None
        if inputs is None:
            assert stored is not None
            yield low, stored
        else:
            yield low, inputs.read_nodes(stored, here)


class StoredSource:
    """A graph on disk, as its inputs are fitted; see `InputSource`.

    Args:
        rows: The edges that training may see.
    """

    def __init__(self, rows: StoredRows) -> None:
        self.rows = rows

    @property
    def num_features(self) -> int:
        """Feature columns; 0 without features."""
        return self.rows.graph.num_features

    @property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) number of neighbours."""
        return self.rows.degrees

    def read_features(self, inputs: InputMap) -> Callable[[], Iterable[Features]]:
        """Block by block, read anew in every pass. inputs: without structural columns."""
        return lambda: (part for _, part in feature_blocks(self.rows, inputs))

    def propagate(self, table: Tensor) -> Tensor:
        """(num_nodes, width) Â times a table."""
        return propagate_stored(self.rows, table)
