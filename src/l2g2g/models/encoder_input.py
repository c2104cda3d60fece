"""Encoder input: the propagation matrix and the features of some stacked patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.features import as_input
from l2g2g.models.sparse import ConstantMatrix, SparseMatrix, normalise_adjacency


class PropagationMatrix(ConstantMatrix, Protocol):
    """Â of some rows."""

    @property
    def mean(self) -> ConstantMatrix:
        """D^(-1) A of the same edges."""


@dataclass(frozen=True, eq=False)
class EncoderInput:
    """What an encoder sees of some stacked patches.

    Attributes:
        propagation: (num_rows, num_rows) Â, block-diagonal over the patches. An encoder with another propagation makes
            its own matrix from this pattern, see `models.propagation`.
        features: (num_rows, num_features) X, or Â X where `propagated`.
        propagated: Whether the first propagation is already in the features.
    """

    propagation: PropagationMatrix
    features: Tensor | ConstantMatrix
    propagated: bool


def prepare_input(
    adjacency: sp.csr_array,
    features: Features,
    *,
    device: torch.device | str = "cpu",
    propagate_once: bool = True,
    held: Tensor | SparseMatrix | None = None,
    storage: str = "float32",
    weighted: bool | None = None,
) -> EncoderInput:
    """Normalise the adjacency and, where it is cheaper, compute Â X once and for all.

    adjacency: (num_rows, num_rows) block-diagonal CSR. features: (num_rows, num_features).
    held: the same features as tensors, where they are there already; used unless Â X is.
    storage: in what dense features are held. weighted: whether edges have other weights than 1; None to look.
    """
    propagated = propagate_once and _precomputing_pays(adjacency, features)
    if propagated:
        features, held = normalise_adjacency(adjacency) @ features, None
        if sp.issparse(features) and features.nnz > 0.25 * np.prod(features.shape):
            features = features.toarray()
    held = as_input(features, device, storage) if held is None else held
    return EncoderInput(SparseMatrix.propagation(adjacency, device, weighted=weighted), held, propagated)


def _precomputing_pays(adjacency: sp.csr_array, features: Features) -> bool:
    """Â X has the cost of its own entries; X and Â apart have theirs together."""
    if not sp.issparse(features):
        return True
    per_row = features.nnz / features.shape[0]
    degree = adjacency.nnz / adjacency.shape[0] + 1
    width = features.shape[1]
    # Each propagated row joins `degree` rows of `per_row` entries; collisions bound it by the width.
    filled = min(width, width * (1 - (1 - min(1.0, per_row / width)) ** degree))
    return filled <= per_row + degree
