"""Feature rows: how alike the features of two nodes are, of a graph in memory or on disk."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp


class FeatureRows(Protocol):
    """A graph in memory or on disk whose features can be read by rows."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""

    @property
    def num_features(self) -> int:
        """Columns; 0 without features."""

    def read_features(self, nodes: np.ndarray | slice) -> Any:
        """(len(nodes), num_features) rows, dense or CSR."""


def unit_rows(rows: Any) -> Any:
    """Rows of length 1, dense or CSR, float32; rows of zeros stay."""
    if sp.issparse(rows):
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel())
        scale = (1 / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return sp.csr_array(sp.diags_array(scale) @ rows.astype(np.float32))
    rows = np.asarray(rows, np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def feature_cosines(features: FeatureRows, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(num_pairs,) cosine of the features of the two nodes of each pair; 0 where one has none."""
    nodes, places = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    rows = unit_rows(features.read_features(nodes))
    one, other = rows[places[: len(sources)]], rows[places[len(sources) :]]
    if sp.issparse(rows):
        return np.asarray(one.multiply(other).sum(axis=1), np.float64).ravel()
    return np.einsum("ij,ij->i", one, other).astype(np.float64)
