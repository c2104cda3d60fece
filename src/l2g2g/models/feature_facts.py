"""Feature facts: sums over all feature rows of a graph, added up block by block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Features
from l2g2g.models.features import centre_of_sums
from l2g2g.models.shared_rows import SharedRows


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

    def total(self, shared: SharedRows) -> FeatureFacts:
        """The facts of the rows of all ranks. Every rank must ask."""
        found = shared.sums(self.num_rows, self.num_entries, self._squares, *self._sums.tolist())
        num_rows, num_entries, squares, *sums = found
        return FeatureFacts(int(num_rows), self.num_columns, int(num_entries), np.array(sums), squares)

    def centre(self) -> tuple[np.ndarray, float]:
        """(mean row, factor), as in `feature_centre`."""
        return centre_of_sums(self._sums, self._squares, self.num_rows)
