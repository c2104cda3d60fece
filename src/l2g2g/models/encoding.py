"""Encoding: what an encoder reads of some stacked patches, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
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
    """Â = D^(-1/2) (A + I) D^(-1/2) of some rows."""

    @property
    def mean(self) -> ConstantMatrix:
        """D^(-1) A of the same edges."""


@dataclass(frozen=True, eq=False)
class EncoderInput:
    """Input of an encoder: the visible edges and the features of some stacked patches.

    Attributes:
        propagation: (num_rows, num_rows) Â, block-diagonal over the patches. An encoder with another propagation makes
            its own matrix of this pattern, see `Encoder.propagation_of`.
        features: (num_rows, num_features) X, or Â X if `propagated`.
        propagated: True if the features contain the first propagation.
    """

    propagation: PropagationMatrix
    features: Tensor | ConstantMatrix
    propagated: bool


@dataclass(frozen=True, eq=False)
class Encoding:
    """Output of an encoder outside autograd, and its backward pass.

    Attributes:
        vectors: (num_rows, width), detached.
        backward: Function of (gradient of the vectors, input) that adds to the gradients of the parameters.
        holds_inputs: True if the input stays in memory until the backward pass anyway.
    """

    vectors: Tensor
    backward: Callable[[Tensor, EncoderInput], None]
    holds_inputs: bool = False


def add_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """Add to the gradient of a parameter, as autograd does."""
    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


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
    """Normalise the adjacency and, where it is cheaper, precompute Â X.

    adjacency: (num_rows, num_rows) block-diagonal CSR. features: (num_rows, num_features).
    held: The same features as an encoder multiplies them, if they exist already; not used for Â X.
    storage: Precision of dense features. weighted: False if all edge weights are 1; None to look.
    """
    propagated = propagate_once and _precomputing_pays(adjacency, features)
    if propagated:
        features, held = normalise_adjacency(adjacency) @ features, None
        if sp.issparse(features) and features.nnz > 0.25 * np.prod(features.shape):
            features = features.toarray()
    held = as_input(features, device, storage) if held is None else held
    return EncoderInput(SparseMatrix.propagation(adjacency, device, weighted=weighted), held, propagated)


def _precomputing_pays(adjacency: sp.csr_array, features: Features) -> bool:
    """Return True if Â X has no more entries than Â and X together, which decide the cost of a product."""
    if not sp.issparse(features):
        return True
    per_row = features.nnz / features.shape[0]
    degree = adjacency.nnz / adjacency.shape[0] + 1
    width = features.shape[1]
    # A row of Â X joins `degree` rows of `per_row` entries each, some of which coincide.
    filled = min(width, width * (1 - (1 - min(1.0, per_row / width)) ** degree))
    return filled <= per_row + degree
