"""Spectral vectors: leading eigenvectors of the normalised adjacency, the baseline of every trained embedding."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from threadpoolctl import threadpool_limits

from l2g2g.core import score_inner_products
from l2g2g.core.randomness import Purpose, stream_key
from l2g2g.errors import NumericalError
from l2g2g.graphs.graph_store import EdgeSource

_SINGLE_PRECISION = 1e-2
_KEPT_EDGES = 1 << 22  # of a graph whose rows are read once and kept
_MOST_RESTARTS = 300
MOST_BASELINE_EDGES = 4_000_000  # of a graph for which they are found beside a training: for more it takes longer


@dataclass(frozen=True, eq=False)
class SpectralVectors:
    """Eigenvectors of D^(-1/2) A D^(-1/2), without self-loops, whose eigenvalues have the largest magnitude.

    Attributes:
        vectors: (num_nodes, dim) float32 u_k · sqrt(|λ_k|), columns by falling |λ_k|; 0 for a node without neighbours.
        signs: (dim,) float32 −1 or 1, the signs of the eigenvalues.
    """

    vectors: np.ndarray
    signs: np.ndarray

    def leading(self, dim: int) -> SpectralVectors:
        """The first columns, at most dim."""
        return SpectralVectors(np.ascontiguousarray(self.vectors[:, :dim]), self.signs[:dim])

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


def spectral_bytes(num_nodes: int, num_edges: int, dim: int) -> int:
    """Memory that `spectral_vectors` takes at most, in double precision: ARPACK's columns, the result, rows kept."""
    columns = max(2 * dim + 1, 20) + 2 * dim + 8
    return 8 * columns * num_nodes + (24 * num_edges if num_edges <= _KEPT_EDGES else 0)


def spectral_vectors(graph: EdgeSource, dim: int, *, seed: int = 0, tolerance: float = 1e-3) -> SpectralVectors:
    """The spectral vectors of a graph, by ARPACK; every product with the matrix is one pass over the rows.

    dim: columns; fewer where the graph has no more than dim + 1 nodes. seed: of the start. tolerance: of the
    eigenvalues; from 0.01 on single precision will do, which takes a quarter of the time.
    """
    num_nodes = graph.num_nodes
    dtype = np.float32 if tolerance >= _SINGLE_PRECISION else np.float64
    degrees = np.concatenate([np.diff(block.indptr) for block in graph.row_blocks()])
    factors = (1 / np.sqrt(np.maximum(degrees, 1))).astype(dtype)

    def blocks() -> Iterator[tuple[slice, sp.csr_array]]:
        for block in graph.row_blocks():
            shape, ones = (block.high - block.low, num_nodes), np.ones(len(block.indices), dtype)
            yield slice(block.low, block.high), sp.csr_array((ones, block.indices, block.indptr), shape=shape)

    kept = list(blocks()) if graph.num_edges <= _KEPT_EDGES else None

    def multiply(column: np.ndarray) -> np.ndarray:
        scaled, found = factors * column.ravel(), np.empty(num_nodes, dtype)
        for rows, part in blocks() if kept is None else kept:
            found[rows] = part @ scaled
        return factors * found

    dim = min(dim, num_nodes - 2)
    if dim < 1:
        return SpectralVectors(np.zeros((num_nodes, 1), np.float32), np.ones(1, np.float32))
    start = np.random.default_rng(stream_key(seed, Purpose.STRUCTURE)).standard_normal(num_nodes).astype(dtype)
    operator = LinearOperator((num_nodes, num_nodes), matvec=multiply, dtype=dtype)
    try:
        # ARPACK's steps are short: more threads mostly wait for each other, five times as long on a busy machine.
        with threadpool_limits(1, "blas"):
            values, vectors = eigsh(operator, dim, which="LM", v0=start, tol=tolerance, maxiter=_MOST_RESTARTS)
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
        if len(values) == 0:
            raise NumericalError(f"{graph.name}: no eigenvector converged; leave out --method spectral") from error
        warnings.warn(f"{graph.name}: {len(values)} of {dim} eigenvectors converged; the others count 0", stacklevel=2)
    order = np.argsort(-np.abs(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    scaled = vectors * np.sqrt(np.abs(values)) * (degrees > 0)[:, None]
    columns, signs = np.zeros((num_nodes, dim), np.float32), np.ones(dim, np.float32)
    columns[:, : len(values)], signs[: len(values)] = scaled, np.where(values < 0, -1, 1)
    return SpectralVectors(columns, signs)
