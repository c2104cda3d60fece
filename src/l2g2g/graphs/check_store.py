"""Check a store that came from elsewhere: sizes, types, checksums, and that the rows are those of a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from l2g2g.core.randomness import hash_node_pairs, mix_words
from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import BACK, FORTH
from l2g2g.graphs.array_folder import REMEDY, StoredArray
from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.node_tables import EDGES, open_node_table
from l2g2g.graphs.read_edges import open_parquet_edges
from l2g2g.graphs.store import StoredGraph, open_graph

_ROWS_AT_ONCE = 1 << 20
_FEATURE_BYTES_AT_ONCE = 1 << 25


def check_store(directory: str | Path) -> StoredGraph:
    """Open a store and read all of it once; the first thing that is wrong is refused, with the array and the row.

    Memory: 8 bytes for every node, and a block of rows.
    """
    graph = open_graph(directory, verify=True)
    if graph.num_edges == 0:
        raise InputError(f"{directory}: the graph has no edges; {REMEDY}")
    ends = graph.indptr.read(0, 1).tolist(), graph.indptr.read(graph.num_nodes, graph.num_nodes + 1).tolist()
    if ends != ([0], [len(graph.indices)]):
        raise InputError(
            f"{graph.indptr.path}: begins with {ends[0][0]} and ends with {ends[1][0]}, not with 0 and the "
            f"{len(graph.indices):,} entries of indices; {REMEDY}"
        )
    sums: np.ndarray = np.zeros(graph.num_nodes, np.uint64)
    for block in graph.row_blocks(weights=True, directions=True):
        _check_rows(graph, block.rows, block)
        _add_up(sums, block.rows, block)
    if sums.any():
        node = int(np.argmax(sums != 0))
        raise InputError(
            f"{graph.indices.path}: is not symmetric: row {node} and column {node} differ; write every edge in both "
            f"directions, with the same weight"
        )
    _check_features(graph)
    return graph


def check_tables(folder: Path) -> tuple[int, int]:
    """Read the edge and node tables of another engine once, batch by batch; returns the numbers of nodes and edge rows.

    An id that two nodes have is found by `l2g2g prepare`, which has all of them on disk.
    """
    nodes = open_node_table(folder)
    for _ in nodes.id_batches():
        pass
    for _ in nodes.batches() if nodes.num_features else ():
        pass
    edges = open_parquet_edges(folder / EDGES)
    for table in edges.tables():
        table.as_node_numbers(nodes.shape[0], nodes.source_name)
    return nodes.shape[0], edges.num_edges


def _check_rows(graph: StoredGraph, rows: np.ndarray, block: RowBlock) -> None:
    """Refuse columns that do not ascend, a diagonal, weights that are none, and directions that are none."""
    columns, path = block.indices, graph.indices.path
    same_row = rows[1:] == rows[:-1]
    if (falls := same_row & (columns[1:] <= columns[:-1])).any():
        raise InputError(
            f"{path}: the columns of row {rows[int(np.argmax(falls))]} do not ascend; sort them, each once"
        )
    if (loops := columns == rows).any():
        raise InputError(
            f"{path}: row {rows[int(np.argmax(loops))]} has an entry on the diagonal; leave self-loops out"
        )
    if block.weights is not None:
        wrong = ~(np.isfinite(block.weights) & (block.weights > 0))
        _refuse_first(wrong, rows, graph.weights, "a weight that is not positive and finite")
    if block.directions is not None:
        wrong = (block.directions < FORTH) | (block.directions > (FORTH | BACK))
        _refuse_first(wrong, rows, graph.directions, "a direction that is none of 1, 2 and 3")
    if block.arc_weights is not None:
        wrong = ~(np.isfinite(block.arc_weights) & (block.arc_weights >= 0))
        _refuse_first(wrong, rows, graph.arc_weights, "a weight of an arc that is negative or not finite")


def _refuse_first(wrong: np.ndarray, rows: np.ndarray, array: StoredArray | None, what: str) -> None:
    if wrong.any():
        assert array is not None
        raise InputError(f"{array.path}: row {rows[int(np.argmax(wrong))]} has {what}; correct it")


def _add_up(sums: np.ndarray, rows: np.ndarray, block: RowBlock) -> None:
    """Add a number made of every entry to its row and take it from its column: all sums end at 0 if it is symmetric.

    The number is the same for both directions of an edge, and random otherwise.
    """
    columns = block.indices.astype(np.int64)
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    numbers = hash_node_pairs(low, high, key=0)
    if block.weights is not None:
        numbers = mix_words(numbers ^ block.weights.view(np.uint32))
    if block.directions is not None:
        swapped = (block.directions & FORTH) << 1 | (block.directions & BACK) >> 1
        numbers = mix_words(numbers ^ np.where(rows < columns, block.directions, swapped))
    np.add.at(sums, rows, numbers)
    np.subtract.at(sums, columns, numbers)


def _check_features(graph: StoredGraph) -> None:
    """Refuse features that are not finite, and ids that cannot be read."""
    at_once = max(1, _FEATURE_BYTES_AT_ONCE // max(1, int(4 * graph.entries_per_row)))
    for low in range(0, graph.num_nodes if graph.num_features else 0, at_once):
        rows = graph.read_features(slice(low, min(low + at_once, graph.num_nodes)))
        values = rows.data if graph.has_sparse_features else rows
        if not np.isfinite(values).all():
            raise InputError(
                f"{graph.folder.folder}: features of the rows {low}:{low + rows.shape[0]} hold NaN or Inf; replace them"
            )
    for low in range(0, graph.num_nodes, _ROWS_AT_ONCE):
        graph.read_node_ids(low, min(low + _ROWS_AT_ONCE, graph.num_nodes))
