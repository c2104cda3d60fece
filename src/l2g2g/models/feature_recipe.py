"""Feature recipe: how the feature rows of a graph on disk become what the encoder sees, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Features
from l2g2g.models.features import FeatureScaling, centre_of_sums, scale_features


@dataclass(frozen=True, eq=False)
class FeatureRecipe:
    """What is done to feature rows. Every row is treated alone: the result is that of all rows at once.

    Attributes:
        scaling: As in `scale_features`.
        structure: (num_nodes, width) columns made from the structure; None for none.
    """

    scaling: FeatureScaling = "raw"
    structure: np.ndarray | None = None

    def apply(self, rows: Features | None, nodes: np.ndarray | slice) -> Features:
        """What the encoder sees of some nodes. rows: their features as they are stored; None without features."""
        if rows is None:
            assert self.structure is not None, "a graph without features needs columns made from the structure"
            return self.structure[nodes] if isinstance(nodes, slice) else self.structure.take(nodes, axis=0)
        if rows.dtype != np.float32:
            rows = rows.astype(np.float32)
        return scale_features(rows, self.scaling)


@dataclass
class FeatureFacts:
    """What has to be known of all feature rows together, added up block by block.

    Attributes:
        num_rows, num_columns: Their shape.
        num_entries: Entries that are not zero.
    """

    num_rows: int
    num_columns: int
    num_entries: int
    _sums: np.ndarray
    _squares: float

    @classmethod
    def of_blocks(cls, blocks: Iterable[Features], num_columns: int) -> FeatureFacts:
        """Look at all rows once."""
        facts = cls(0, num_columns, 0, np.zeros(num_columns), 0.0)
        for rows in blocks:
            data = rows.data if sp.issparse(rows) else rows
            facts.num_rows += rows.shape[0]
            facts.num_entries += rows.nnz if sp.issparse(rows) else int(np.count_nonzero(rows))
            facts._squares += float(np.square(data, dtype=np.float64).sum())
            if sp.issparse(rows):
                facts._sums += np.bincount(rows.indices, weights=rows.data, minlength=num_columns)
            else:
                facts._sums += rows.sum(axis=0, dtype=np.float64)
        return facts

    def centre(self) -> tuple[np.ndarray, float]:
        """(mean row, factor), as in `feature_centre`."""
        return centre_of_sums(self._sums, self._squares, self.num_rows)
