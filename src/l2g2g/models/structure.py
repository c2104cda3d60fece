"""Structure: input columns made from the graph alone, without an n × n identity, for graphs of weak or no features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.graphs.graph import Features
from l2g2g.models.features import feature_centre
from l2g2g.models.sparse import normalise_adjacency, to_torch_csr

_FEW_NUMBERS = 1_000_000
_SWEEPS = 3  # how far a new node is from the known ones, at most, to hear from them


@dataclass(frozen=True, eq=False)
class StructureMap:
    """Structural columns of some nodes, and what gives other nodes theirs.

    Attributes:
        columns: (num_nodes, width + 1) float32: eigenvectors of Â, scaled, and the log-degree.
        eigenvalues: (width,) of the eigenvectors.
        degree_mean, degree_spread: Of the logarithms of the degrees.
    """

    columns: np.ndarray
    eigenvalues: np.ndarray
    degree_mean: float
    degree_spread: float

    def extend(self, propagation: sp.csr_array, degrees: np.ndarray) -> np.ndarray:
        """(num_new, width + 1) columns of new nodes.

        propagation: (num_new, num_nodes + num_new) their rows of Â, loops included. degrees: (num_new,) neighbours.
        An eigenvector is what propagation only scales: λ u_i = Σ_j Â_ij u_j holds for the new nodes too (Nyström).
        Solved for u_i, whose own share Â_ii stands on both sides; a few sweeps reach nodes whose neighbours are new.
        No column leaves the range that training saw.
        """
        num_new, num_known = propagation.shape[0], len(self.columns)
        known, among = propagation[:, :num_known], sp.csr_array(propagation[:, num_known:])
        own = among.diagonal()
        among.setdiag(0)
        heard = known @ self.columns[:, :-1]
        rest = self.eigenvalues[None, :] - own[:, None]
        # Near zero the equation leaves u_i open: never scale up by more than twice what a node without a loop would.
        least = np.abs(self.eigenvalues)[None, :] / 2
        rest = np.where(self.eigenvalues < 0, -1, 1) * np.maximum(np.abs(rest), np.maximum(least, 1e-6))
        bound = np.abs(self.columns[:, :-1]).max(axis=0, initial=0)
        spectral = np.zeros((num_new, len(self.eigenvalues)))
        for _ in range(_SWEEPS if among.nnz else 1):
            spectral = np.clip((heard + among @ spectral) / rest, -bound, bound)
        logs = (np.log1p(degrees) - self.degree_mean) / self.degree_spread
        seen = self.columns[:, -1]
        logs = np.clip(logs, seen.min(), seen.max())
        return np.concatenate([spectral, logs[:, None]], axis=1).astype(np.float32)


def fit_structure(adjacency: sp.csr_array, width: int = 64, *, seed: int = 0, iterations: int = 6) -> StructureMap:
    """Leading eigenvectors of Â by subspace iteration, and the log-degree, for all nodes of a graph.

    Rows are scaled so that a column has unit variance: the encoder sees numbers of the size of features.
    Memory and time are those of `iterations` sparse products of this width.
    """
    propagation = to_torch_csr(normalise_adjacency(adjacency))
    return fit_products(
        lambda basis: propagation @ basis, np.diff(adjacency.indptr), width, seed=seed, iterations=iterations
    )


def fit_products(
    propagate: Callable[[torch.Tensor], torch.Tensor],
    num_neighbours: np.ndarray,
    width: int,
    *,
    seed: int = 0,
    iterations: int = 6,
) -> StructureMap:
    """The same for a graph that is told by its products Â B and by how many neighbours each node has."""
    num_nodes = len(num_neighbours)
    width = min(width, num_nodes)
    with _one_thread_for_few(num_nodes * width):
        start = torch.randn(num_nodes, width, generator=torch_generator(seed, Purpose.STRUCTURE))
        basis = torch.linalg.qr(start).Q
        for _ in range(iterations):
            basis = torch.linalg.qr(propagate(basis)).Q
        values, vectors = torch.linalg.eigh(basis.t() @ propagate(basis))
        order = values.abs().argsort(descending=True)
        spectral = basis @ vectors[:, order] * values[order].abs().sqrt() * num_nodes**0.5
    degrees = np.log1p(num_neighbours).astype(np.float32)
    mean, spread = degrees.mean(), float(degrees.std())
    spread = spread if spread > 1e-6 else 1.0  # all degrees alike say nothing; rounding errors must not
    columns = np.concatenate([spectral.numpy(), ((degrees - mean) / spread)[:, None]], axis=1)
    return StructureMap(columns, values[order].numpy(), float(mean), spread)


@contextmanager
def _one_thread_for_few(count: int) -> Iterator[None]:
    """Torch on one thread for small tables: quicker, and the same columns whatever the number of threads."""
    threads = torch.get_num_threads()
    if count < _FEW_NUMBERS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def structural_features(adjacency: sp.csr_array, width: int = 64, *, seed: int = 0, iterations: int = 6) -> np.ndarray:
    """(num_nodes, width + 1) float32: the columns of `fit_structure`."""
    return fit_structure(adjacency, width, seed=seed, iterations=iterations).columns


def blend_factor(feature_factor: float, structure: np.ndarray) -> float:
    """What structural columns are multiplied with, so that rows differ as much by them as by the features.

    feature_factor: of `feature_centre`, of the features.
    """
    return float(np.float32(feature_centre(structure)[1] / feature_factor))


def blend_structure(features: Features, structure: np.ndarray, factor: float | None = None) -> Features:
    """(num_nodes, num_features + width) features with structural columns beside them.

    The columns are scaled so that rows differ as much by them as by the features, whatever the numbers of both; or
    by a factor that was found on other nodes. Sparse features stay sparse; features that are all alike leave the
    columns as they are.
    """
    factor = blend_factor(feature_centre(features)[1], structure) if factor is None else factor
    columns = (structure * np.float32(factor)).astype(np.float32)
    if not sp.issparse(features):
        return np.concatenate([features, columns], axis=1)
    blended = sp.csr_array(sp.hstack([features, sp.csr_array(columns)], format="csr"))
    blended.sort_indices()
    return sp.csr_array(
        (blended.data, blended.indices.astype(np.int32), blended.indptr.astype(np.int32)), shape=blended.shape
    )
