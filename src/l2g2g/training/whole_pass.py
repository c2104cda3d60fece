"""Whole pass: what an encoder reads of the nodes of a graph, and one pass of it over a whole graph in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoding import EncoderInput, prepare_input
from l2g2g.models.features import FeatureBlocks, FeatureReader, block_bounds
from l2g2g.models.inputs import InputMap
from l2g2g.models.local_rows import LocalRows, RowPropagation, VisibleRows, find_components
from l2g2g.models.sparse import ConstantMatrix, SparseMatrix, sum_weights
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.training.rows import NodeRows, TrainingRows, rank_span, share_rows

# Columns of a table that are multiplied at once: the kernel is fastest up to this width, and what a rank holds of the
# rows of other ranks is this wide.
_COLUMNS_AT_ONCE = 32


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

    def of_range(
        self,
        low: int,
        high: int,
        *,
        keep_bytes: int = 0,
        storage: str = "float32",
        device: torch.device | str = "cpu",
    ) -> FeatureBlocks:
        """Those of the nodes low:high, read block by block. keep_bytes: what may stay in memory."""

        def read(first: int, last: int) -> Features:
            nodes = slice(first, last)
            if self.graph.resident:
                return self.whole[nodes]
            return self.inputs.read_nodes(self.graph.read_features(nodes) if self.graph.num_features else None, nodes)

        reader = FeatureReader(
            read,
            low,
            high,
            self.num_columns,
            num_stored=self.graph.num_features,
            keep_bytes=keep_bytes,
            storage=storage,
            device=device,
        )
        return FeatureBlocks(reader)

    def blocks(self, span: tuple[int, int] | None = None) -> Iterator[Features]:
        """Those of all nodes in order, or of a range of nodes, some at a time."""
        if self.graph.resident and span in (None, (0, self.graph.num_nodes)):
            yield self.whole
            return
        width = max(self.graph.num_features, self.num_columns)
        for low, high, stored in feature_blocks(self.graph, width, span):
            yield self.inputs.read_nodes(stored, slice(low, high))


class WholeGraph:
    """The pass that gives all nodes their vectors at once; `RowPass` is the same for rows from disk and on ranks.

    Args:
        adjacency: (num_nodes, num_nodes) the edges that the encoder may see.
        inputs: What it reads of the nodes.
        propagate_once, storage, device: As in `prepare_input`.
    """

    def __init__(
        self,
        adjacency: sp.csr_array,
        inputs: InputRows,
        *,
        propagate_once: bool = False,
        storage: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        self.adjacency, self.inputs = adjacency, inputs
        self._how: dict[str, Any] = {"propagate_once": propagate_once, "storage": storage, "device": device}

    @cached_property
    def _prepared(self) -> EncoderInput:
        return prepare_input(self.adjacency, self.inputs.whole, **self._how)

    def __call__(self, model: Autoencoder) -> Tensor:
        """(num_nodes, dim) mean embeddings."""
        with torch.no_grad():
            return model.encode(self._prepared)[0]


def feature_blocks(
    graph: GraphStore, width: int, span: tuple[int, int] | None = None
) -> Iterator[tuple[int, int, Features | None]]:
    """(low, high, feature rows) of all nodes in order, as they are stored; None without features.

    width: of the widest rows that are made of them. span: of a range of nodes only.
    """
    whole = (0, graph.num_nodes) if span is None else span
    bounds = [whole] if graph.resident else block_bounds(*whole, width)
    for low, high in bounds:
        yield low, high, graph.read_features(slice(low, high)) if graph.num_features else None


class RowSource:
    """A graph as its inputs are fitted; see `InputSource`.

    Args:
        rows: The edges that training may see.
        communicator: Of the ranks, which share the products.
        keep_bytes: What the rows of one of several ranks may take to stay in memory between products.
    """

    def __init__(self, rows: TrainingRows, communicator: Communicator = LOCAL, keep_bytes: int = 0) -> None:
        self.rows, self.graph, self.communicator, self._keep_bytes = rows, rows.graph, communicator, keep_bytes

    @property
    def num_features(self) -> int:
        """Feature columns; 0 without features."""
        return self.graph.num_features

    @property
    def degrees(self) -> np.ndarray:
        """(num_owned,) number of neighbours of the nodes of the span."""
        return np.concatenate([np.empty(0, np.int64), *(np.diff(block.indptr) for block in self._own_blocks())])

    @property
    def strengths(self) -> np.ndarray:
        """(num_owned,) float64 sum of the weights of a node's edges."""
        blocks = ((block.indptr.astype(np.int64), block.weights) for block in self._own_blocks())
        sums = (sum_weights(indptr[:-1], indptr[1:], weights) for indptr, weights in blocks)
        return np.concatenate([np.empty(0), *sums])

    def _own_blocks(self) -> Iterator[NodeRows]:
        rows = self.rows if self.communicator.size == 1 else TrainingRows(self.graph, span=self.span)
        return rows.blocks()

    @property
    def components(self) -> np.ndarray:
        """(num_owned,) number of the connected component of a node, in one pass."""
        whole = self.rows.whole
        if whole is not None and self.communicator.size == 1:
            return sp.csgraph.connected_components(whole, directed=False)[1]
        return find_components(self._own_rows)

    def read_features(self, inputs: InputMap) -> Callable[[], Iterable[Features]]:
        """Block by block, read anew in every pass from disk. inputs: without structural columns."""
        return InputRows(self.graph, inputs).blocks

    @cached_property
    def _own_rows(self) -> LocalRows:
        return share_rows(self.rows, self.communicator, keep_bytes=self._keep_bytes)

    @property
    def span(self) -> tuple[int, int]:
        """The nodes whose rows of a product this rank computes."""
        return rank_span(self.graph, self.communicator)

    def propagate(self, table: Tensor) -> Tensor:
        """(num_owned, width) the rows of this rank's nodes of Â times a table; see `InputSource`."""
        return self._product(table)

    @cached_property
    def _product(self) -> Callable[[Tensor], Tensor]:
        whole = self.rows.whole
        own: ConstantMatrix
        if whole is not None and self.communicator.size == 1:
            own = SparseMatrix.propagation(whole)
        else:
            own = RowPropagation.symmetric(VisibleRows(self._own_rows))
            if self.communicator.size == 1:
                return own.product

        def multiply(table: Tensor) -> Tensor:
            if table.shape[1] <= _COLUMNS_AT_ONCE:
                return own.product(table)
            out = torch.empty_like(table)
            for part, placed in zip(*(each.split(_COLUMNS_AT_ONCE, dim=1) for each in (table, out)), strict=True):
                placed.copy_(own.product(part))
            return out

        return multiply
