"""Spectral vectors: leading eigenvectors of the normalised adjacency, the embedding that trained ones are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from l2g2g.core.pair_scores import score_inner_products
from l2g2g.core.randomness import Purpose, stream_key
from l2g2g.graphs.non_edges import EdgeSource

_TOLERANCE = 1e-3
_MOST_RESTARTS = 300


@dataclass(frozen=True, eq=False)
class SpectralVectors:
    """Eigenvectors of D^(-1/2) A D^(-1/2), without self-loops, whose eigenvalues have the largest magnitude.

    Attributes:
        vectors: (num_nodes, dim) float32 u_k · sqrt(|λ_k|), columns by falling |λ_k|; 0 for a node without neighbours.
        signs: (dim,) float32 −1 or 1, the signs of the eigenvalues.
    """

    vectors: np.ndarray
    signs: np.ndarray

    def inner(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs,) Σ_k λ_k u_k(s) u_k(t): an entry of the nearest matrix of this rank."""
        return _score(self.vectors, self.signs, sources, targets)

    def cosine(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs,) the same by the lengths of both vectors; 0 where one is zero."""
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        return _score(self.vectors / np.maximum(lengths, 1e-12), self.signs, sources, targets)


def _score(vectors: np.ndarray, signs: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Signed inner products as two of positive numbers: columns of either sign apart."""
    is_positive = signs > 0
    scores = np.zeros(len(sources))
    for sign, columns in ((1.0, is_positive), (-1.0, ~is_positive)):
        if columns.any():
            scores += sign * score_inner_products(np.ascontiguousarray(vectors[:, columns]), sources, targets)
    return scores


def spectral_vectors(graph: EdgeSource, dim: int, *, seed: int = 0) -> SpectralVectors:
    """The spectral vectors of a graph, by ARPACK; every product with the matrix is one pass over the rows.

    dim: columns; fewer where the graph has no more than dim + 1 nodes.
    """
    num_nodes = graph.num_nodes
    degrees = np.concatenate([np.diff(block.indptr) for block in graph.row_blocks()])
    factors = 1 / np.sqrt(np.maximum(degrees, 1))

    def multiply(column: np.ndarray) -> np.ndarray:
        scaled, found = factors * column.ravel(), np.empty(num_nodes)
        for block in graph.row_blocks():
            shape = (block.high - block.low, num_nodes)
            ones = np.ones(len(block.indices))
            found[block.low : block.high] = sp.csr_array((ones, block.indices, block.indptr), shape=shape) @ scaled
        return factors * found

    dim = min(dim, num_nodes - 2)
    if dim < 1:
        return SpectralVectors(np.zeros((num_nodes, 1), np.float32), np.ones(1, np.float32))
    start = np.random.default_rng(stream_key(seed, Purpose.STRUCTURE)).standard_normal(num_nodes)
    operator = LinearOperator((num_nodes, num_nodes), matvec=multiply, dtype=np.float64)
    values, vectors = eigsh(operator, dim, which="LM", v0=start, tol=_TOLERANCE, maxiter=_MOST_RESTARTS)
    order = np.argsort(-np.abs(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    scaled = vectors * np.sqrt(np.abs(values)) * (degrees > 0)[:, None]
    return SpectralVectors(scaled.astype(np.float32), np.where(values < 0, -1, 1).astype(np.float32))
