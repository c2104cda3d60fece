"""Whole pass: one pass of a shared encoder over a whole graph, at once in memory or layer by layer over its rows.

A layer needs the vectors that the one before gave to all nodes; these are in memory, the rows of the graph and its
features are read block by block.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoder_input import EncoderInput, prepare_input
from l2g2g.models.encoders.base import Encoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.node_states import LAYER, NODE_DEGREES, Parts
from l2g2g.models.propagation import SYMMETRIC, Propagation
from l2g2g.models.sparse import SparseMatrix, normalise_adjacency, product, sum_weights, to_torch_csr
from l2g2g.training.rows import TrainingRows

_BLOCK_BYTES = 1 << 25


class InputRows:
    """What an encoder reads of the nodes of a graph: read once where the graph is in memory, anew otherwise.

    Args:
        graph: The graph.
        inputs: How nodes are read.
    """

    def __init__(self, graph: GraphStore, inputs: InputMap) -> None:
        self.graph, self.inputs = graph, inputs

    @property
    def num_columns(self) -> int:
        """Columns that the encoder reads."""
        return self.inputs.num_columns

    @cached_property
    def whole(self) -> Features:
        """(num_nodes, num_columns) those of all nodes, in memory."""
        stored = self.graph.read_features(slice(None)) if self.graph.num_features else None
        return self.inputs.read_nodes(stored, slice(None))

    def blocks(self) -> Iterator[tuple[int, Features]]:
        """Those of all nodes in order, and where each block begins."""
        if self.graph.resident:
            yield 0, self.whole
            return
        width = max(self.graph.num_features, self.num_columns)
        for low, high, stored in feature_blocks(self.graph, width):
            yield low, self.inputs.read_nodes(stored, slice(low, high))


class WholeGraph:
    """The pass that gives all nodes their vectors.

    Args:
        rows: The edges that the encoder may see.
        inputs: What it reads of the nodes.
        propagate_once, storage, device: As in `prepare_input`, for edges in memory; others are worked on by the CPU.
    """

    def __init__(
        self,
        rows: TrainingRows,
        inputs: InputRows,
        *,
        propagate_once: bool = False,
        storage: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.inputs = rows, inputs
        self._how = {"propagate_once": propagate_once, "storage": storage, "device": device}

    @cached_property
    def _prepared(self) -> EncoderInput | None:
        """The whole graph as the encoder sees it, where its edges are in memory."""
        adjacency = self.rows.whole
        return None if adjacency is None else prepare_input(adjacency, self.inputs.whole, **self._how)  # type: ignore[arg-type]

    def __call__(self, model: Autoencoder) -> Tensor:
        """(num_nodes, dim) mean embeddings."""
        if self._prepared is not None:
            with torch.no_grad():
                return model.encode(self._prepared)[0]
        encoder, vectors = self._encoder_of(model), _Table(self.rows.num_nodes)
        for step, low, rows in self._encode(encoder):
            if step == encoder.num_layers:
                vectors.write(low, rows)
        return vectors.rows[:, : model.dim].contiguous() if model.variational else vectors.rows

    def states(self, model: Autoencoder) -> Parts:
        """The states of all nodes, in order, layer after layer; see `node_states`."""
        yield from self.degrees()
        encoder = self._encoder_of(model)
        for step, _, rows in self._encode(encoder):
            if step == encoder.num_layers:
                return
            yield f"{LAYER}{step}", rows.numpy()

    def degrees(self) -> Parts:
        """The degrees of all nodes, as a part of their states."""
        for block in self.rows.blocks():
            parts = block.indptr[:-1].astype(np.int64), block.indptr[1:].astype(np.int64), block.weights
            yield NODE_DEGREES, (sum_weights(*parts) + 1).astype(np.float32)

    def _encoder_of(self, model: Autoencoder) -> Encoder:
        return copy.deepcopy(model.encoder_of(0)).cpu()

    @torch.no_grad()
    def _encode(self, encoder: Encoder) -> Iterator[tuple[int, int, Tensor]]:
        """The steps of the encoder, without anything as large as the edges or the features.

        Gives (step, first node, messages) of some rows at a time, and the vectors as messages of a step after the last.
        """
        num_nodes, width = self.rows.num_nodes, encoder.weights[-1].shape[1]
        message, own = _Table(num_nodes), _Table(num_nodes)
        direct = torch.zeros(num_nodes, width) if encoder.residual or encoder.skip is not None else None
        for low, held in self._features():
            rows = encoder.feature_rows(held)
            first, second = encoder.project(0, rows)
            message.write(low, first)
            own.write(low, second)
            yield 0, low, first
            if encoder.skip is not None and direct is not None:
                direct[low : low + len(first)] = rows.multiply(encoder.skip)
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
                    yield step + 1, low, hidden if more is None else hidden + more
                    continue
                first, second = encoder.project(step + 1, hidden)
                next_message.write(low, first)
                next_own.write(low, second)
                yield step + 1, low, first
            message, own = next_message, next_own

    def _features(self) -> Iterator[tuple[int, Tensor | SparseMatrix]]:
        """The features as the encoder reads them, some rows at a time, and where they begin."""
        for low, rows in self.inputs.blocks():
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


def propagated_blocks(
    rows: TrainingRows, hidden: Tensor, bias: Tensor | None = None, propagation: Propagation = SYMMETRIC
) -> Iterator[tuple[int, Tensor]]:
    """P H + bias, some rows at a time, and where they begin."""
    for low, matrix in rows.propagations(propagation):
        yield low, product(matrix, hidden, None if bias is None else bias.detach())


def feature_blocks(graph: GraphStore, width: int) -> Iterator[tuple[int, int, Features | None]]:
    """(low, high, feature rows) of all nodes in order, as they are stored; None without features.

    width: of the widest rows that are made of them.
    """
    step = graph.num_nodes if graph.resident else max(1, _BLOCK_BYTES // (4 * max(1, width)))
    for low in range(0, graph.num_nodes, step):
        high = min(low + step, graph.num_nodes)
        yield low, high, graph.read_features(slice(low, high)) if graph.num_features else None


class RowSource:
    """A graph as its inputs are fitted; see `InputSource`.

    Args:
        rows: The edges that training may see.
    """

    def __init__(self, rows: TrainingRows) -> None:
        self.rows, self.graph = rows, rows.graph

    @property
    def num_features(self) -> int:
        """Feature columns; 0 without features."""
        return self.graph.num_features

    @property
    def degrees(self) -> np.ndarray:
        """(num_nodes,) number of neighbours."""
        return self.rows.degrees

    def read_features(self, inputs: InputMap) -> Callable[[], Iterable[Features]]:
        """Block by block, read anew in every pass from disk. inputs: without structural columns."""
        rows = InputRows(self.graph, inputs)
        return lambda: (part for _, part in rows.blocks())

    @cached_property
    def _propagation(self) -> Tensor | None:
        whole = self.rows.whole
        return None if whole is None else to_torch_csr(normalise_adjacency(whole))

    def propagate(self, table: Tensor) -> Tensor:
        """(num_nodes, width) Â times a table."""
        if self._propagation is not None:
            return self._propagation @ table
        result = torch.empty_like(table)
        for low, part in propagated_blocks(self.rows, table):
            result[low : low + len(part)] = part
        return result
