"""Structure: input columns made from the graph alone, without an n × n identity, for graphs of weak or no features."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.graphs.graph import Features
from l2g2g.models.features import feature_centre
from l2g2g.models.randomness import Purpose, torch_generator
from l2g2g.models.sparse import normalise_adjacency, to_torch_csr


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


def blend_structure(features: Features, structure: np.ndarray) -> Features:
    """(num_nodes, num_features + width) features with structural columns beside them.

    The columns are scaled so that rows differ as much by them as by the features, whatever the numbers of both.
    Sparse features stay sparse; features that are all alike leave the columns as they are.
    """
    spread, own = (1.0 / feature_centre(each)[1] for each in (features, structure))
    columns = (structure * np.float32(spread / own)).astype(np.float32)
    if not sp.issparse(features):
        return np.concatenate([features, columns], axis=1)
    blended = sp.csr_array(sp.hstack([features, sp.csr_array(columns)], format="csr"))
    blended.sort_indices()
    return sp.csr_array(
        (blended.data, blended.indices.astype(np.int32), blended.indptr.astype(np.int32)), shape=blended.shape
    )
