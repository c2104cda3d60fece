"""GraphSAGE encoder with mean aggregation."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.graph import NewNodes
from l2g2g.models.encoders.base import Encoder
from l2g2g.models.encoding import PropagationMatrix
from l2g2g.models.sparse import ConstantMatrix, SparseMatrix, invert_degrees, sum_weights


class SageEncoder(Encoder):
    """h_i' = W_self h_i + W_neigh mean_{j ∈ N(i)} h_j + b (Hamilton, Ying and Leskovec 2017).

    `weights` are W_neigh. P = D^(-1) A is the mean over the visible neighbours, weighted where edges have weights, and
    0 for a node without any. Its transpose A D^(-1) is another matrix.
    """

    reads_own_rows = True
    tables_per_layer = 2

    def __init__(
        self,
        num_features: int,
        dim: int,
        *,
        hidden: int = 32,
        layers: int = 2,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_features, dim, hidden=hidden, layers=layers, generator=generator, **options)
        self.self_weights = self.make_weights(self.widths(num_features, hidden, layers, dim), generator)

    def propagation_of(self, symmetric: PropagationMatrix) -> ConstantMatrix:
        """Return D^(-1) A."""
        return symmetric.mean

    def propagation_of_new(self, new: NewNodes, known_degrees: np.ndarray) -> SparseMatrix:
        """Return the rows of D^(-1) A of new nodes, over known and new neighbours."""
        both = sp.csr_array(sp.hstack([new.to_known, new.among], format="csr"))
        both.sort_indices()
        starts, ends = both.indptr[:-1].astype(np.int64), both.indptr[1:].astype(np.int64)
        columns, weights = both.indices.astype(np.int32, copy=False), both.data.astype(np.float32)
        factor = invert_degrees(sum_weights(starts, ends, weights))
        return SparseMatrix(starts, ends, columns, weights, both.shape[1], row_scale=factor)

    def weight_of(self, step: int) -> Tensor | None:
        """Return both weights side by side, for one pass over the rows."""
        return torch.cat([self.weights[step], self.self_weights[step]], dim=1)

    def divide(self, step: int, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Propagate the product with W_neigh, add the product with W_self."""
        message, own = rows.chunk(2, dim=1)
        return message, own
