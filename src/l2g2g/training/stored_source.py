"""Stored source: the features and products of a graph on disk, as its inputs are fitted and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.feature_blocks import FeatureBlocks, block_bounds
from l2g2g.models.inputs import InputMap
from l2g2g.models.local_rows import LocalRows
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.training.row_batch import propagate_rows, read_blocks
from l2g2g.training.stored_rows import StoredRows


def read_rows(rows: StoredRows, inputs: InputMap) -> Callable[[int, int], Features]:
    """Gives what these inputs read of the nodes low:high."""
    graph = rows.graph

    def read(low: int, high: int) -> Features:
        here = slice(low, high)
        return inputs.read_nodes(graph.read_features(here) if graph.num_features else None, here)

    return read


def feature_blocks(rows: StoredRows, inputs: InputMap | None) -> Iterator[Features]:
    """The features of all nodes in order, as the encoder reads them, some at a time.

    inputs: None for the features as they are stored.
    """
    graph = rows.graph
    width = graph.num_features if inputs is None else max(graph.num_features, inputs.num_columns)
    for low, high in block_bounds(0, graph.num_nodes, width):
        yield graph.read_features(slice(low, high)) if inputs is None else read_rows(rows, inputs)(low, high)


def stored_features(rows: StoredRows, inputs: InputMap, local: LocalRows, keep_bytes: int = 0) -> FeatureBlocks:
    """What the encoder reads of the nodes of this rank."""
    num_stored = rows.graph.num_features
    return read_blocks(read_rows(rows, inputs), local, inputs.num_columns, num_stored=num_stored, keep_bytes=keep_bytes)


class StoredSource:
    """A graph on disk, as its inputs are fitted; see `InputSource`.

    Args:
        rows: The edges that training may see.
        communicator: Of the ranks, which share the products.
    """

    def __init__(self, rows: StoredRows, communicator: Communicator = LOCAL) -> None:
        self.rows, self.communicator = rows, communicator
        self._propagate: Callable[[Tensor], Tensor] | None = None

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
        return lambda: feature_blocks(self.rows, inputs)

    def propagate(self, table: Tensor) -> Tensor:
        """(num_nodes, width) Â times a table."""
        if self._propagate is None:
            self._propagate = propagate_rows(LocalRows(self.rows, self.communicator))
        return self._propagate(table)
