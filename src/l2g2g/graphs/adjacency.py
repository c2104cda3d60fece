"""Adjacency matrices: join both directions of arcs, clean and restrict them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels

FORTH, BACK = np.uint8(1), np.uint8(2)  # bits of directions: row → column, column → row


@dataclass(frozen=True)
class Cleaning:
    """Numbers of what was changed when a graph was read.

    Attributes:
        num_arcs_read: Rows of the input, before cleaning.
        num_self_loops: Self-loops, dropped.
        num_duplicates: Arcs that repeat an edge in the same direction, merged (weights are summed).
        num_reversed: Edges given in both directions, joined into one (with the heavier weight).
        num_isolated: Nodes without any edge, kept.
    """

    num_arcs_read: int = 0
    num_self_loops: int = 0
    num_duplicates: int = 0
    num_reversed: int = 0
    num_isolated: int = 0

    def describe(self) -> str:
        """Describe the changes in one line; an empty string if nothing was changed."""
        parts = [
            (self.num_self_loops, "self-loops dropped"),
            (self.num_duplicates, "duplicate edges merged"),
            (self.num_reversed, "edges given in both directions joined"),
            (self.num_isolated, "isolated nodes kept"),
        ]
        return ", ".join(f"{count:,} {what}" for count, what in parts if count)


def sort_columns(matrix: sp.csr_array) -> sp.csr_array:
    """Sort the columns of every row, in place where possible."""
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return use_small_indices(matrix)


def use_small_indices(matrix: sp.csr_array) -> sp.csr_array:
    """Use int32 indices where they fit, as the sparse kernels need them."""
    if max(matrix.nnz, *matrix.shape) < 2**31 and matrix.indices.dtype != np.int32:
        matrix.indices = matrix.indices.astype(np.int32)
        matrix.indptr = matrix.indptr.astype(np.int32)
    return matrix


def clean_arcs(
    sources: np.ndarray, targets: np.ndarray, weights: np.ndarray | None, num_nodes: int, *, keep_arcs: bool
) -> tuple[sp.csr_array, sp.csr_array | None, Cleaning]:
    """Return the symmetric adjacency, the arcs if keep_arcs, and what was changed."""
    loops = sources == targets
    num_self_loops = int(loops.sum())
    if num_self_loops:
        sources, targets = sources[~loops], targets[~loops]
        weights = None if weights is None else weights[~loops]
    # Without weights a byte per arc is enough while directions are joined, where reading takes most memory.
    values = np.ones(len(sources), np.bool_) if weights is None else weights
    index_type = np.int32 if num_nodes < 2**31 else np.int64
    ends = (part.astype(index_type, copy=False) for part in (sources, targets))
    directed = sp.coo_array((values, tuple(ends)), shape=(num_nodes, num_nodes)).tocsr()
    num_given = len(sources)
    directed.sum_duplicates()
    num_distinct = directed.nnz
    adjacency = directed.maximum(directed.T.tocsr())
    adjacency.sort_indices()
    arcs = use_small_indices(sp.csr_array(directed.astype(np.float32, copy=False))) if keep_arcs else None
    del directed
    adjacency.data = adjacency.data.astype(np.float32, copy=False)
    cleaning = Cleaning(
        num_arcs_read=num_given + num_self_loops,
        num_self_loops=num_self_loops,
        num_duplicates=num_given - num_distinct,
        num_reversed=num_distinct - adjacency.nnz // 2,
        num_isolated=int((np.diff(adjacency.indptr) == 0).sum()),
    )
    return use_small_indices(sp.csr_array(adjacency)), arcs, cleaning


def restrict(arcs: sp.csr_array, adjacency: sp.csr_array) -> sp.csr_array:
    """Return the arcs between nodes that the adjacency joins."""
    pattern = sp.csr_array((np.ones_like(adjacency.data), adjacency.indices, adjacency.indptr), shape=arcs.shape)
    kept = sp.csr_array(arcs.multiply(pattern))
    kept.sort_indices()
    return use_small_indices(kept)


def find_directions(
    arcs: sp.csr_array, rows: np.ndarray, columns: np.ndarray, *, weighted: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Look up arcs between pairs of nodes. Returns (num_pairs,) uint8 directions and (num_pairs,) float32 weights.

    A direction has the bit FORTH if the arc row → column exists and BACK if column → row does. weighted: also return
    the weights of the arcs row → column; otherwise None.
    """
    indptr, indices = arcs.indptr.astype(np.int64), arcs.indices.astype(np.int32, copy=False)
    ends = rows.astype(np.int64), columns.astype(np.int64)
    forth, back = (kernels().find_entries(indptr, indices, *pair) for pair in (ends, ends[::-1]))
    directions = FORTH * (forth >= 0).astype(np.uint8) + BACK * (back >= 0).astype(np.uint8)
    if not weighted:
        return directions, None
    return directions, np.where(forth >= 0, arcs.data[np.maximum(forth, 0)], 0).astype(np.float32)


def select_arcs(
    indptr: np.ndarray, indices: np.ndarray, directions: np.ndarray, weights: np.ndarray | None, num_columns: int
) -> sp.csr_array:
    """Return the (num_rows, num_columns) CSR of the arcs row → column among the entries of a symmetric CSR.

    directions, weights: (num_entries,) as in `RowBlock`.
    """
    is_arc = (directions & FORTH) > 0
    before = np.concatenate([[0], np.cumsum(is_arc)])[indptr]
    data = np.ones(int(before[-1]), np.float32) if weights is None else weights[is_arc]
    return use_small_indices(sp.csr_array((data, indices[is_arc], before), shape=(len(indptr) - 1, num_columns)))


def symmetric_adjacency(
    sources: np.ndarray, targets: np.ndarray, weights: np.ndarray | None, num_nodes: int
) -> sp.csr_array:
    """Return the (num_nodes, num_nodes) CSR of undirected edges, each given once, without self-loops."""
    values = np.ones(len(sources), np.float32) if weights is None else weights.astype(np.float32)
    rows, columns = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    adjacency = sp.coo_array((np.concatenate([values, values]), (rows, columns)), shape=(num_nodes, num_nodes)).tocsr()
    adjacency.sort_indices()
    return use_small_indices(adjacency)
