"""Edges between node numbers in an .npy file, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.archives import load_arrays, plain_npy_shape, reading
from l2g2g.graphs.graph import check_node_numbers, check_num_nodes
from l2g2g.graphs.read import edge_columns

_EDGES_AT_ONCE = 1 << 20
_MOST_NODES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class NumberedEdges:
    """Edges whose nodes are numbers already.

    Attributes:
        path: The file.
        shape: (num_edges, 2) or (2, num_edges).
        num_nodes: How many nodes the features say there are; None where the largest number says it.
        weighted: Never.
    """

    path: Path
    shape: tuple[int, int]
    num_nodes: int | None
    weighted: bool = False

    @property
    def num_edges(self) -> int:
        """Number of edges, repeated ones and self-loops included."""
        return self.shape[1] if self.shape[0] == 2 else self.shape[0]

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(num_rows,) sources and targets, checked."""
        for low in range(0, self.num_edges, _EDGES_AT_ONCE):
            part = slice(low, low + _EDGES_AT_ONCE)
            with reading(self.path):
                # Mapped anew for every piece: pages that were touched are given back with it.
                array = np.load(self.path, mmap_mode="r", allow_pickle=False)
                sources, targets = map(np.array, array[:, part] if self.shape[0] == 2 else array[part].T)
            check_node_numbers(sources, targets, self.num_nodes, str(self.path), low)
            largest = int(max(sources.max(), targets.max()))
            check_num_nodes(largest + 1, self.num_edges, str(self.path))
            if largest >= _MOST_NODES:
                raise InputError(
                    f"{self.path}: node number {largest}; a store holds no more than {_MOST_NODES:,} nodes"
                )
            yield sources, targets


def open_npy_edges(path: Path, num_nodes: int | None) -> NumberedEdges:
    """Open edges in an .npy file. num_nodes: how many nodes there are, where features say it."""
    shape = plain_npy_shape(path, "iu")
    if shape is None or len(shape) != 2 or 2 not in shape:  # something that is refused: let the reader say why
        columns = edge_columns(next(iter(load_arrays(path).values())), f"{path}: ")
        check_node_numbers(*columns, num_nodes, str(path))
        raise InputError(f"{path}: edges must be one array of integers in an .npy file")
    if 0 in shape:
        raise InputError(f"{path}: the graph has no edges; give at least one edge between two nodes")
    return NumberedEdges(path, (shape[0], shape[1]), num_nodes)
