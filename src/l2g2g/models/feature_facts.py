"""Feature facts: sums over all feature rows of a graph, added up block by block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Features
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
    def of(cls, rows: Features) -> FeatureFacts:
        """Those of rows that are in memory."""
        return cls.of_blocks([rows], rows.shape[1])

    @classmethod
    def of_blocks(cls, blocks: Iterable[Features], num_columns: int) -> FeatureFacts:
        """Look at all rows once."""
        facts = cls(0, num_columns, 0, np.zeros(num_columns), 0.0)
        for rows in blocks:
            data = rows.data if sp.issparse(rows) else rows
            facts.num_rows += rows.shape[0]
            facts.num_entries += rows.nnz if sp.issparse(rows) else int(np.count_nonzero(rows))
            facts._squares += float(np.square(data, dtype=np.float64).sum())
            # In float64: in float32 rows that are all alike seem to differ, and the centre makes noise of that.
            if sp.issparse(rows):  # SciPy's own mean adds up in float32, whatever it is asked for
                facts._sums += np.bincount(rows.indices, weights=rows.data, minlength=num_columns)
            else:
                facts._sums += rows.sum(axis=0, dtype=np.float64)
        return facts

    def total(self, shared: SharedRows) -> FeatureFacts:
        """The facts of the rows of all ranks. A collective call."""
        found = shared.sums(self.num_rows, self.num_entries, self._squares, *self._sums.tolist())
        num_rows, num_entries, squares, *sums = found
        return FeatureFacts(int(num_rows), self.num_columns, int(num_entries), np.array(sums), squares)

    def centre(self) -> tuple[np.ndarray, float]:
        """(mean row, factor) that make the rows centred with a mean square length of one.

        Rows that share a large common part, as dense bags of words do, differ from each other only after this.
        """
        mean = self._sums / self.num_rows
        spread = self._squares / self.num_rows - float(mean @ mean)
        # Rows that are all alike carry nothing; scaling rounding errors up would make noise of them.
        scale = 1.0 / np.sqrt(spread) if spread > 1e-9 * max(float(mean @ mean), 1e-30) else 1.0
        return mean.astype(np.float32), float(scale)
