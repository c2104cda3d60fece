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

from l2g2g.graphs.graph import Features
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoders.base import Encoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.propagation import SYMMETRIC, Propagation
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
        """The steps of the encoder, without anything as large as the edges or the features."""
        num_nodes, width = self.rows.num_nodes, encoder.weights[-1].shape[1]
        message, own = _Table(num_nodes), _Table(num_nodes)
        direct = torch.zeros(num_nodes, width) if encoder.residual or encoder.skip is not None else None
        for low, held in self._features():
            rows = encoder.feature_rows(held)
            first, second = encoder.project(0, rows)
            message.write(low, first)
            own.write(low, second)
            if encoder.skip is not None and direct is not None:
                direct[low : low + len(first)] = rows.multiply(encoder.skip)
        vectors = _Table(num_nodes)
        for step in range(encoder.num_layers):
            is_last = step == encoder.num_layers - 1
            next_message, next_own = _Table(num_nodes), _Table(num_nodes)
            for low, summed in propagated_blocks(self.rows, message.rows, encoder.bias_of(step), encoder.propagation):
                here = slice(low, low + len(summed))
                summed = summed if own.table is None else summed + own.table[here]
                hidden, more = encoder.finish(step, summed, None if direct is None else direct[here])
                if direct is not None and more is not None:
                    direct[here] = more
                if is_last:
                    vectors.write(low, hidden if more is None else hidden + more)
                    continue
                first, second = encoder.project(step + 1, hidden)
                next_message.write(low, first)
                next_own.write(low, second)
            message, own = next_message, next_own
        return vectors.rows

    def _features(self) -> Iterator[tuple[int, Tensor | SparseMatrix]]:
        """The features as the encoder reads them, some rows at a time, and where they begin."""
        for low, rows in feature_blocks(self.rows, self.inputs):
            if sp.issparse(rows):
                yield low, SparseMatrix.from_scipy(sp.csr_array(rows))
            else:
                yield low, torch.from_numpy(np.ascontiguousarray(rows))


class _Table:
    """(num_rows, width) rows that are written range by range; it has no memory before the first."""

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows
        self.table: Tensor | None = None

    def write(self, low: int, part: Tensor | None) -> None:
        if part is None:
            return
        if self.table is None:
            self.table = torch.empty(self.num_rows, part.shape[1])
        self.table[low : low + len(part)] = part

    @property
    def rows(self) -> Tensor:
        assert self.table is not None
        return self.table


def propagate_stored(rows: StoredRows, hidden: Tensor) -> Tensor:
    """(num_nodes, width) Â H."""
    product = torch.empty_like(hidden)
    for low, part in propagated_blocks(rows, hidden):
        product[low : low + len(part)] = part
    return product


def propagated_blocks(
    rows: StoredRows, hidden: Tensor, bias: Tensor | None = None, propagation: Propagation = SYMMETRIC
) -> Iterator[tuple[int, Tensor]]:
    """P H + bias, some rows at a time, and where they begin."""
    for low, matrix in rows.propagations(propagation):
        yield low, product(matrix, hidden, None if bias is None else bias.detach())


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

    @property
    def strengths(self) -> np.ndarray:
        """(num_nodes,) float64 sum of the weights of a node's edges."""
        return 1.0 / np.square(self.rows.scale) - 1.0

    @property
    def components(self) -> np.ndarray:
        """(num_nodes,) number of the connected component of a node, in one pass."""
        return self.rows.find_components()

    def read_features(self, inputs: InputMap) -> Callable[[], Iterable[Features]]:
        """Block by block, read anew in every pass. inputs: without structural columns."""
        return lambda: (part for _, part in feature_blocks(self.rows, inputs))

    def propagate(self, table: Tensor) -> Tensor:
        """(num_nodes, width) Â times a table."""
        return propagate_stored(self.rows, table)
