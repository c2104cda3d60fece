"""Number columns: tables of numbers, such as ages, incomes or coordinates, are brought to one scale.

Rows are scaled to length 1 before an encoder reads them, so that a column of large numbers would drown all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Features

_MOST_ROWS = 20_000  # that centre and spread are estimated from
_ROWS_AT_ONCE = 1 << 14
_NORMAL_RANGE = 1.349  # between the quartiles of a normal distribution with standard deviation 1


@dataclass(frozen=True, eq=False)
class NumberScale:
    """How number columns are read: arsinh((x − centre) / spread), which also holds back heavy tails, then rows scaled.

    Attributes:
        centres: (num_features,) float32 medians.
        spreads: (num_features,) float32 standard deviations, as the quartiles tell them; 0 for a column of zeros and
            ones, which stays as it is.
    """

    centres: np.ndarray
    spreads: np.ndarray

    @classmethod
    def fit(cls, blocks: Iterable[Features]) -> NumberScale | None:
        """Estimate from every n-th row. blocks: feature rows of all nodes in order. None without number columns."""
        sample = _sample_rows(blocks).astype(np.float64)
        is_number = ~((sample == 0) | (sample == 1)).all(axis=0)
        if not is_number.any():
            return None
        low, centres, high = np.percentile(sample, (25, 50, 75), axis=0)
        spreads = (high - low) / _NORMAL_RANGE
        spreads = np.where(spreads > 0, spreads, sample.std(axis=0))  # most values are one number
        spreads = np.where(spreads > 1e-9 * np.abs(centres), spreads, 1.0)
        centres, spreads = np.where(is_number, centres, 0.0), np.where(is_number, spreads, 0.0)
        return cls(centres.astype(np.float32), np.maximum(spreads, is_number * 1e-30).astype(np.float32))

    def apply(self, features: Features) -> np.ndarray:
        """Return (num_rows, num_features) float32 dense rows.

        They have the length 1 together with a further column of ones: alone, few columns would lose how far from the
        centre a row is.
        """
        is_number = self.spreads > 0
        rows: np.ndarray = features.toarray() if sp.issparse(features) else np.array(features, dtype=np.float32)
        rows = rows.astype(np.float32, copy=False)
        for low in range(0, len(rows), _ROWS_AT_ONCE):  # a table may take most of the memory
            part = rows[low : low + _ROWS_AT_ONCE]
            numbers = part[:, is_number].astype(np.float64)
            part[:, is_number] = np.arcsinh((numbers - self.centres[is_number]) / self.spreads[is_number])
            part /= np.sqrt(1 + np.square(part).sum(axis=1, keepdims=True))
        return rows


def _sample_rows(blocks: Iterable[Features]) -> np.ndarray:
    """Return the rows whose numbers are multiples of the smallest power of two that leaves few enough, dense."""
    step, first, kept = 1, 0, list[np.ndarray]()
    for rows in blocks:
        chosen = rows[-first % step :: step]
        while sum(map(len, kept)) + chosen.shape[0] > _MOST_ROWS:
            step, kept = 2 * step, [np.concatenate(kept)[::2]] if kept else []
            chosen = rows[-first % step :: step]
        # A copy: a view of a few rows would keep all rows of the block in memory.
        kept.append(np.array(chosen.toarray() if sp.issparse(chosen) else chosen, dtype=np.float32))
        first += rows.shape[0]
    return np.concatenate(kept)
