"""Propagation: which sparse matrix an encoder multiplies rows with, for a graph and for new nodes.

Every batch holds Â = D^(-1/2) (A + I) D^(-1/2) of its visible edges. An encoder names one of these classes, which makes
its own matrix from the same pattern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import NewNodes
from l2g2g.models.encoder_input import PropagationMatrix
from l2g2g.models.sparse import ConstantMatrix, SparseMatrix, invert_degrees, sum_weights


class Propagation(ABC):
    """A way to weigh the neighbours of a node."""

    @abstractmethod
    def of_graph(self, symmetric: PropagationMatrix) -> ConstantMatrix:
        """(num_rows, num_rows) matrix of the edges of Â."""

    @abstractmethod
    def of_new_nodes(self, new: NewNodes, known_degrees: np.ndarray) -> SparseMatrix:
        """(num_new, num_known + num_new) rows of new nodes. known_degrees: as in `NewNodes.propagation`."""


class SymmetricPropagation(Propagation):
    """Â = D^(-1/2) (A + I) D^(-1/2), D with the self-loop (Kipf and Welling 2017)."""

    def of_graph(self, symmetric: PropagationMatrix) -> ConstantMatrix:
        """Â itself."""
        return symmetric

    def of_new_nodes(self, new: NewNodes, known_degrees: np.ndarray) -> SparseMatrix:
        """Their rows of Â of the grown graph."""
        return SparseMatrix.from_scipy(new.propagation(known_degrees))


class MeanPropagation(Propagation):
    """D^(-1) A: the mean over the neighbours, weighted where edges have weights; 0 for a node without any.

    Its transpose is A D^(-1), another matrix.
    """

    def of_graph(self, symmetric: PropagationMatrix) -> ConstantMatrix:
        """The mean over the visible neighbours."""
        return symmetric.mean

    def of_new_nodes(self, new: NewNodes, known_degrees: np.ndarray) -> SparseMatrix:
        """The mean over known and new neighbours alike."""
        both = sp.csr_array(sp.hstack([new.to_known, new.among], format="csr"))
        both.sort_indices()
        starts, ends = both.indptr[:-1].astype(np.int64), both.indptr[1:].astype(np.int64)
        columns, weights = both.indices.astype(np.int32, copy=False), both.data.astype(np.float32)
        factor = invert_degrees(sum_weights(starts, ends, weights))
        return SparseMatrix(starts, ends, columns, weights, both.shape[1], row_scale=factor)


SYMMETRIC, MEAN = SymmetricPropagation(), MeanPropagation()
