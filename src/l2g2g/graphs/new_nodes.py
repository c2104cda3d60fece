"""New nodes: nodes that join a graph later, with their features and their edges to its known nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class NewNodes:
    """New nodes beside known ones. Edges between known nodes are not among it.

    Attributes:
        to_known: (num_new, num_known) CSR weights of the edges to known nodes.
        among: (num_new, num_new) symmetric CSR weights of the edges between new nodes, no diagonal.
        features: (num_new, num_features) float32, dense or CSR; None without features.
        name: What messages call them.
    """

    to_known: sp.csr_array
    among: sp.csr_array
    features: Any = None
    name: str = "new nodes"

    @property
    def num_new(self) -> int:
        """Number of new nodes."""
        return self.to_known.shape[0]

    @property
    def num_known(self) -> int:
        """Number of known nodes."""
        return self.to_known.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(num_new, num_known), what scikit-learn asks for."""
        return self.num_new, self.num_known

    @property
    def degrees(self) -> np.ndarray:
        """(num_new,) number of neighbours."""
        return np.diff(self.to_known.indptr) + np.diff(self.among.indptr)

    def propagation(self, known_degrees: np.ndarray, *, loops: bool = True) -> sp.csr_array:
        """(num_new, num_known + num_new) their rows of Â = D^(-1/2) (A + I) D^(-1/2) of the grown graph.

        known_degrees: (num_known,) sums of weights of the known nodes before, a loop of weight 1 counted.
        loops: False for their rows of D^(-1/2) A D^(-1/2), D without loops.
        """
        among = self.among + sp.eye_array(self.num_new) if loops else self.among
        both = sp.csr_array(sp.hstack([self.to_known, among], format="csr"))
        grown = known_degrees + np.asarray(self.to_known.sum(axis=0)).ravel() - (0 if loops else 1)
        sums = np.concatenate([grown, np.asarray(both.sum(axis=1)).ravel()])
        scale = 1 / np.sqrt(np.where(sums > 0, sums, 1.0))  # a node without edges has no entry to scale
        rows = np.repeat(np.arange(self.num_new), np.diff(both.indptr))
        values = both.data * scale[self.num_known + rows] * scale[both.indices]
        indptr, indices = both.indptr.astype(np.int32), both.indices.astype(np.int32)
        found = sp.csr_array((values.astype(np.float32), indices, indptr), shape=both.shape)
        found.sort_indices()
        return found

    def select(self, members: np.ndarray, known: np.ndarray) -> NewNodes:
        """Some of them beside some of the known nodes, by number. Features are left out."""
        to_known = sp.csr_array(self.to_known[members][:, known])
        return NewNodes(to_known, sp.csr_array(self.among[members][:, members]), None, self.name)
