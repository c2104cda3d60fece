"""Edges between node numbers: arrays of two columns or two rows, in memory or in an .npy file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.archives import load_arrays, native, plain_npy_shape, reading
from l2g2g.graphs.checks import check_node_numbers
from l2g2g.graphs.streams import Stream

_EDGES_AT_ONCE = 1 << 20
Columns = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class NumberedEdges:
    """Edges whose nodes are numbers already, as a stream of batches.

    Attributes:
        path: The file.
        num_edges: Number of edges, repeated ones and self-loops included.
        num_nodes: How many nodes the features say there are; None where the largest number says it.
        columns: (num_rows,) sources and targets, not yet checked.
        weighted: Never.
    """

    path: Path
    num_edges: int
    num_nodes: int | None
    columns: Stream[Columns]
    weighted: bool = False

    def batches(self) -> Iterator[Columns]:
        """(num_rows,) sources and targets, checked."""
        first_row = 0
        for sources, targets in self.columns():
            yield check_node_numbers(sources, targets, self.num_nodes, str(self.path), first_row)
            first_row += len(sources)

    def collected(self) -> Columns:
        """(num_edges,) sources and targets, checked."""
        sources, targets = zip(*self.batches(), strict=True)
        return np.concatenate(sources), np.concatenate(targets)

    def largest_node(self) -> int:
        """The largest node number, found by a pass over all edges."""
        return max(int(max(sources.max(), targets.max())) for sources, targets in self.batches())


def open_npy_edges(path: Path, num_nodes: int | None) -> NumberedEdges:
    """Open edges in an .npy file. num_nodes: how many nodes there are, where features say it."""
    shape = plain_npy_shape(path, "iu")
    if shape is not None and len(shape) == 2 and 2 in shape:
        num_edges = shape[1] if shape[0] == 2 else shape[0]
        columns: Stream[Columns] = partial(_mapped_columns, path, num_edges)
    else:  # an archive under this name, or something that is refused
        loaded = edge_columns(next(iter(load_arrays(path).values())), f"{path}: ")
        num_edges = len(loaded[0])
        columns = partial(iter, [loaded])
    if num_edges == 0:
        raise InputError(f"{path}: the graph has no edges; give at least one edge between two nodes")
    return NumberedEdges(path, num_edges, num_nodes, columns)


def edge_columns(edges: Any, source: str = "") -> Columns:
    """(num_edges,) sources and targets from a (2, num_edges) or (num_edges, 2) array."""
    array = np.asarray(edges)
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(f"{source}edges have shape {array.shape}; give (2, num_edges) or (num_edges, 2)")
    columns = array if array.shape[0] == 2 else array.T
    return columns[0], columns[1]


def _mapped_columns(path: Path, num_edges: int) -> Iterator[Columns]:
    for low in range(0, num_edges, _EDGES_AT_ONCE):
        with reading(path):
            # Mapped anew for every batch: pages that were touched are given back with it.
            sources, targets = edge_columns(np.load(path, mmap_mode="r", allow_pickle=False))
            part = slice(low, low + _EDGES_AT_ONCE)
            batch = native(np.array(sources[part])), native(np.array(targets[part]))
        yield batch
