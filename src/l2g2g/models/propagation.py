"""Propagation: which sparse matrix an encoder multiplies rows with, for a graph, rows on disk and new nodes.

Every batch holds Â = D^(-1/2) (A + I) D^(-1/2) of its visible edges. An encoder names one of these classes, which makes
its own matrix from the same pattern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.newcomers import Newcomers
from l2g2g.models.sparse import SparseMatrix, invert_degrees, sum_weights


class Propagation(ABC):
    """A way to weigh the neighbours of a node."""

    @abstractmethod
    def of_graph(self, symmetric: SparseMatrix) -> SparseMatrix:
        """(num_rows, num_rows) matrix of the edges of Â."""

    @abstractmethod
    def of_rows(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None,
        low: int,
        num_nodes: int,
        scale: Callable[[], np.ndarray],
    ) -> SparseMatrix:
        """(num_rows, num_nodes) consecutive rows of the matrix of a graph, beginning with node low.

        indptr, indices, weights: CSR of these rows of the adjacency, without diagonal; weights None where all are 1.
        scale: (num_nodes,) the diagonal of D^(-1/2), where D counts weights and a self-loop; asked where needed.
        """

    @abstractmethod
    def of_new_nodes(self, new: Newcomers, known_degrees: np.ndarray) -> SparseMatrix:
        """(num_new, num_known + num_new) rows of new nodes. known_degrees: as in `Newcomers.propagation`."""


class SymmetricPropagation(Propagation):
    """Â = D^(-1/2) (A + I) D^(-1/2), D with the self-loop (Kipf and Welling 2017)."""

    def of_graph(self, symmetric: SparseMatrix) -> SparseMatrix:
        """Â itself."""
        return symmetric

    def of_rows(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None,
        low: int,
        num_nodes: int,
        scale: Callable[[], np.ndarray],
    ) -> SparseMatrix:
        """Rows of Â, columns in order, the node itself among them: the same values as of the whole graph."""
        num_rows, scales = len(indptr) - 1, scale()
        new_indptr = indptr + np.arange(num_rows + 1)
        rows = np.repeat(np.arange(num_rows, dtype=np.int32), np.diff(indptr))
        is_beyond = indices > rows + low
        places = np.arange(len(indices)) + rows + is_beyond  # one further in every row, and behind the node itself
        new_indices, values = np.empty(new_indptr[-1], indices.dtype), np.empty(new_indptr[-1], np.float32)
        new_indices[places] = indices
        left = scales[rows + low] if weights is None else weights * scales[rows + low]
        values[places] = left * scales[indices]
        own = scales[low : low + num_rows]
        places = new_indptr[1:] - 1 - np.bincount(rows, is_beyond, num_rows).astype(np.int64)
        new_indices[places], values[places] = np.arange(low, low + num_rows), own * own
        return SparseMatrix.from_scipy(sp.csr_array((values, new_indices, new_indptr), shape=(num_rows, num_nodes)))

    def of_new_nodes(self, new: Newcomers, known_degrees: np.ndarray) -> SparseMatrix:
        """Their rows of Â of the grown graph."""
        return SparseMatrix.from_scipy(new.propagation(known_degrees))


class MeanPropagation(Propagation):
    """D^(-1) A: the mean over the neighbours, weighted where edges have weights; 0 for a node without any.

    Its transpose is A D^(-1), another matrix.
    """

    def of_graph(self, symmetric: SparseMatrix) -> SparseMatrix:
        """The mean over the visible neighbours."""
        return symmetric.mean

    def of_rows(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None,
        low: int,
        num_nodes: int,
        scale: Callable[[], np.ndarray],
    ) -> SparseMatrix:
        """The rows of the adjacency, each with the inverse of its degree as factor."""
        starts, ends = indptr[:-1].astype(np.int64), indptr[1:].astype(np.int64)
        columns = np.ascontiguousarray(indices, dtype=np.int32)
        factor = invert_degrees(sum_weights(starts, ends, weights))
        return SparseMatrix(starts, ends, columns, weights, num_nodes, row_scale=factor)

    def of_new_nodes(self, new: Newcomers, known_degrees: np.ndarray) -> SparseMatrix:
        """The mean over known and new neighbours alike."""
        both = sp.csr_array(sp.hstack([new.to_known, new.among], format="csr"))
        both.sort_indices()
        return self.of_rows(both.indptr, both.indices, both.data.astype(np.float32), 0, both.shape[1], lambda: both)


SYMMETRIC, MEAN = SymmetricPropagation(), MeanPropagation()
