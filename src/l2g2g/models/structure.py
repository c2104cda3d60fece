"""Structure: what the encoder sees of a node: its features, scaled, or columns made from the graph itself."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.graphs.graph import Features
from l2g2g.models.randomness import Purpose, torch_generator
from l2g2g.models.sparse import normalise_adjacency, to_torch_csr

FeatureScaling = Literal["unit", "raw", "binary"]


def structural_features(adjacency: sp.csr_array, width: int = 64, *, seed: int = 0, iterations: int = 6) -> np.ndarray:
    """(num_nodes, width + 1) float32: leading eigenvectors of Â by subspace iteration, and the log-degree.

    Rows are scaled so that a column has unit variance: the encoder sees numbers of the size of features.
    Memory and time are those of `iterations` sparse products of this width.
    """
    num_nodes = adjacency.shape[0]
    width = min(width, num_nodes)
    propagation = to_torch_csr(normalise_adjacency(adjacency))
    start = torch.randn(num_nodes, width, generator=torch_generator(seed, Purpose.STRUCTURE))
    basis = torch.linalg.qr(start).Q
    for _ in range(iterations):
        basis = torch.linalg.qr(propagation @ basis).Q
    values, vectors = torch.linalg.eigh(basis.t() @ (propagation @ basis))
    order = values.abs().argsort(descending=True)
    spectral = basis @ vectors[:, order] * values[order].abs().sqrt() * num_nodes**0.5
    degrees = np.log1p(np.diff(adjacency.indptr)).astype(np.float32)
    scaled = (degrees - degrees.mean()) / max(float(degrees.std()), 1e-6)
    return np.concatenate([spectral.numpy(), scaled[:, None]], axis=1)


def scale_features(features: Features, scaling: FeatureScaling) -> Features:
    """Scale features: `raw` leaves them, `unit` makes rows of length 1, `binary` marks positive sparse entries.

    Example:
        >>> scale_features(np.array([[3.0, 4.0]], np.float32), "unit")
        array([[0.6, 0.8]], dtype=float32)
    """
    if scaling == "unit":
        return normalise_rows(features)
    if scaling == "binary" and sp.issparse(features):
        marked = (features.data > 0).astype(np.float32)
        return sp.csr_array((marked, features.indices, features.indptr), shape=features.shape)
    return features


def normalise_rows(features: Features) -> Features:
    """Scale every row to length 1; a row of zeros stays as it is."""
    if sp.issparse(features):
        squared = np.square(features.data, dtype=np.float64)  # float32 would overflow beyond 1e19
        squares = sp.csr_array((squared, features.indices, features.indptr), shape=features.shape).sum(axis=1)
        lengths = np.sqrt(np.maximum(squares, 1e-24))
        data = (features.data / np.repeat(lengths, np.diff(features.indptr))).astype(np.float32)
        return sp.csr_array((data, features.indices, features.indptr), shape=features.shape)
    lengths = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
    return (features / np.maximum(lengths, 1e-12)[:, None]).astype(np.float32)
