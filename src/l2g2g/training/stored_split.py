"""Stored split: what is held back of a graph on disk, found in one pass, with as many non-edges beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.errors import InputError
from l2g2g.graphs.array_writer import locked, write_folder
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import LinkSplit, Pairs, pair_pattern
from l2g2g.graphs.store import GRAPH_FOLDER, KIND, StoredGraph, open_graph, store_values
from l2g2g.models.held_back import HeldBack
from l2g2g.training.stored_rows import RowBlock, StoredRows

_PIECE_BYTES = 1 << 25


@dataclass(frozen=True)
class StoredSplit:
    """A graph on disk of which some edges are held back.

    Attributes:
        held: Which edges; None for none.
        validation, test: The edges that are held back, each with as many non-edges; None for none.
        held_out: (num_nodes, num_nodes) symmetric CSR pattern of all these pairs.
        num_edges: Edges that are left for training.
    """

    held: HeldBack | None
    validation: Pairs | None
    test: Pairs | None
    held_out: sp.csr_array
    num_edges: int

    def in_memory(self, whole: Graph) -> LinkSplit:
        """The same split of the whole graph in memory."""
        return LinkSplit(self.without_held(whole), self.validation, self.test, self.held_out)

    def without_held(self, whole: Graph) -> Graph:
        """The training graph in memory."""
        if self.held is None:
            return whole
        adjacency = whole.adjacency
        parts = adjacency.indptr, adjacency.indices, adjacency.data
        indptr, indices, data = self.held.drop(*parts, np.arange(whole.num_nodes))
        return whole.with_adjacency(sp.csr_array((data, indices, indptr), shape=adjacency.shape))


def split_stored(
    graph: StoredGraph, *, validation_fraction: float = 0.05, test_fraction: float = 0.0, seed: int = 0
) -> StoredSplit:
    """Hold back each edge with the given chances, and draw as many non-edges of the whole graph.

    Unlike `split_links` the numbers are those of chance, not exact.
    """
    num_nodes = graph.num_nodes
    if validation_fraction + test_fraction == 0:
        return StoredSplit(None, None, None, pair_pattern([], num_nodes), graph.num_edges)
    held, rows = HeldBack(seed, validation_fraction, test_fraction), StoredRows(graph)
    found: list[list[np.ndarray]] = [[], []]
    for block in rows.blocks():
        for pairs, more in zip(found, held.pick(block.indptr, block.indices, block.low), strict=True):
            pairs.append(more)
    validation, test = (np.concatenate(pairs) for pairs in found)
    num_held = len(validation) + len(test)
    if num_held == graph.num_edges:
        raise InputError(f"{graph.name}: {graph.num_edges} edges leave none to train on; use a larger graph")
    negatives = sample_stored_non_edges(rows, num_held, np.random.default_rng([seed, 0x5B117]))
    held_out = pair_pattern([validation, test, negatives], num_nodes)
    return StoredSplit(
        held,
        Pairs(validation, negatives[: len(validation)]) if len(validation) else None,
        Pairs(test, negatives[len(validation) :]) if len(test) else None,
        held_out,
        graph.num_edges - num_held,
    )


def write_training_graph(graph: StoredGraph, split: StoredSplit, directory: Path) -> StoredGraph:
    """Write what is left for training as a store of its own, so that patches can be cut without what is held back."""
    with locked(directory), write_folder(directory / GRAPH_FOLDER, KIND) as writer:
        indptr, indices = writer.array("indptr", np.int64), writer.array("indices", np.int32)
        weights = writer.array("weights", np.float32) if graph.weighted else None
        indptr.append(np.zeros(1, np.int64))
        end = 0
        for block in StoredRows(graph, split.held).blocks():
            indptr.append(end + block.indptr[1:])
            indices.append(block.indices)
            if weights is not None and block.weights is not None:
                weights.append(block.weights)
            end += len(block.indices)
        for name, stored in graph.arrays.items():
            if name.startswith("features"):
                copied = writer.array(name, stored.dtype, stored.shape[1:])
                for part in stored.blocks(max(1, _PIECE_BYTES // max(1, stored.info.row_bytes))):
                    copied.append(part)
        writer.values = store_values(
            name=graph.name,
            num_nodes=graph.num_nodes,
            num_edges=split.num_edges,
            num_features=graph.num_features,
            weighted=graph.weighted,
            cleaning=graph.cleaning,
            source={"split_of": graph.sha256, "held": None if split.held is None else asdict(split.held)},
        )
    return open_graph(directory)


def sample_stored_non_edges(rows: StoredRows, count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw `count` distinct pairs u < v, uniformly among those that are not edges. Returns (count, 2)."""
    num_nodes = rows.num_nodes
    num_free = num_nodes * (num_nodes - 1) // 2 - rows.graph.num_edges
    if count > num_free:
        raise InputError(
            f"{rows.graph.name}: {count} non-edges are needed but the graph has only {num_free}; "
            f"it is too dense to be evaluated on held-out links"
        )
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        size = int(1.2 * (count - len(drawn))) + 16
        ends = np.sort(generator.integers(0, num_nodes, (size, 2)), axis=1)
        keys = ends[ends[:, 0] != ends[:, 1]] @ np.array([num_nodes, 1])
        keys = np.concatenate([drawn, keys[~_are_edges(rows, keys)]])
        _, first = np.unique(keys, return_index=True)
        drawn = keys[np.sort(first)]  # first come, first kept: sorting by key would bias the cut below
    drawn = drawn[:count]
    return np.stack([drawn // num_nodes, drawn % num_nodes], axis=1)


def _are_edges(rows: StoredRows, keys: np.ndarray) -> np.ndarray:
    """(num_keys,) whether each key source · num_nodes + target is an edge; one pass over the graph."""
    order = np.argsort(keys)
    ordered, found = keys[order], np.empty(len(keys), bool)
    for block in rows.blocks():
        low, high = np.searchsorted(ordered, np.array([block.low, block.high]) * rows.num_nodes)
        found[order[low:high]] = _look_up(block, ordered[low:high], rows.num_nodes)
    return found


def _look_up(block: RowBlock, keys: np.ndarray, num_nodes: int) -> np.ndarray:
    return kernels().find_entries(block.indptr, block.indices, keys // num_nodes - block.low, keys % num_nodes) >= 0
