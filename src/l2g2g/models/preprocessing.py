"""Preprocessing: from feature rows as given to the columns that an encoder reads, with their statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.graphs.adjacency import use_small_indices
from l2g2g.graphs.graph import Features
from l2g2g.models.shared_rows import SharedRows

FeatureScaling = Literal["centred", "unit", "raw", "binary"]
_ROWS = 1 << 14  # rows of features that are normalised at a time
_ITERATIONS, _SPARE_COLUMNS = 3, 10


def scale_features(features: Features, scaling: FeatureScaling) -> Features:
    """Scale features: `raw` leaves them, `binary` marks positive sparse entries, the others make rows of length 1.

    Example:
        >>> scale_features(np.array([[3.0, 4.0]], np.float32), "unit")
        array([[0.6, 0.8]], dtype=float32)
    """
    if scaling in ("unit", "centred"):
        return _normalise_rows(features)
    if scaling == "binary" and sp.issparse(features):
        marked = (features.data > 0).astype(np.float32)
        return sp.csr_array((marked, features.indices, features.indptr), shape=features.shape)
    return features


def _normalise_rows(features: Features) -> Features:
    """Scale every row to length 1; a row of zeros stays zero. Squares are float64: in float32 large ones overflow."""
    if sp.issparse(features):
        squared = np.square(features.data, dtype=np.float64)
        squares = sp.csr_array((squared, features.indices, features.indptr), shape=features.shape).sum(axis=1)
        lengths = np.sqrt(np.maximum(squares, 1e-24))
        data = (features.data / np.repeat(lengths, np.diff(features.indptr))).astype(np.float32)
        return sp.csr_array((data, features.indices, features.indptr), shape=features.shape)
    scaled = np.empty(features.shape, np.float32)
    for low in range(0, len(features), _ROWS):
        rows = features[low : low + _ROWS].astype(np.float64)
        scaled[low : low + _ROWS] = rows / np.maximum(np.sqrt(np.square(rows).sum(axis=1, keepdims=True)), 1e-12)
    return scaled


def append_columns(rows: Features, columns: np.ndarray) -> Features:
    """Append columns (num_rows, width) to float32 rows (num_rows, num_features); sparse rows stay sparse."""
    if not sp.issparse(rows):
        return np.concatenate([rows, columns], axis=1, dtype=np.float32)
    joined = sp.csr_array(sp.hstack([rows, sp.csr_array(columns)], format="csr"))
    joined.sort_indices()
    return use_small_indices(joined)


@dataclass
class FeatureStatistics:
    """Sums over all feature rows of a graph, added up block by block.

    Attributes:
        num_rows, num_columns: Shape of the features.
        num_entries: Number of non-zero entries.
    """

    num_rows: int
    num_columns: int
    num_entries: int
    _sums: np.ndarray
    _squares: float

    @classmethod
    def of(cls, rows: Features) -> FeatureStatistics:
        """Read rows that are in memory."""
        return cls.of_blocks([rows], rows.shape[1])

    @classmethod
    def of_blocks(cls, blocks: Iterable[Features], num_columns: int) -> FeatureStatistics:
        """Read all rows once."""
        found = cls(0, num_columns, 0, np.zeros(num_columns), 0.0)
        for rows in blocks:
            data = rows.data if sp.issparse(rows) else rows
            found.num_rows += rows.shape[0]
            found.num_entries += rows.nnz if sp.issparse(rows) else int(np.count_nonzero(rows))
            found._squares += float(np.square(data, dtype=np.float64).sum())
            # Sums are float64: in float32 equal rows seem to differ, and centring would leave noise.
            if sp.issparse(rows):  # SciPy's own mean sums in float32, whatever dtype is requested
                found._sums += np.bincount(rows.indices, weights=rows.data, minlength=num_columns)
            else:
                found._sums += rows.sum(axis=0, dtype=np.float64)
        return found

    def total(self, shared: SharedRows) -> FeatureStatistics:
        """Return the statistics of the rows of all ranks. A collective call."""
        found = shared.sums(self.num_rows, self.num_entries, self._squares, *self._sums.tolist())
        num_rows, num_entries, squares, *sums = found
        return FeatureStatistics(int(num_rows), self.num_columns, int(num_entries), np.array(sums), squares)

    def centre(self) -> tuple[np.ndarray, float]:
        """Return (mean row, factor) so that factor · (row − mean) has mean 0 and mean square length 1.

        Rows that share a large common part, as dense bags of words do, differ from each other only after this.
        """
        mean = self._sums / self.num_rows
        spread = self._squares / self.num_rows - float(mean @ mean)
        # Equal rows carry no information; scaling would turn their rounding errors into noise.
        scale = 1.0 / np.sqrt(spread) if spread > 1e-9 * max(float(mean @ mean), 1e-30) else 1.0
        return mean.astype(np.float32), float(scale)


def principal_map(
    blocks: Callable[[], Iterable[Features]], width: int, *, power: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Find (mean, map) that compress rows to (x − mean) · map. Shapes (num_features,) and (num_features, width).

    Bags of words spend most of their length on a few common directions. The columns of the map are the leading
    principal directions v of the features, each scaled by λ^(−power / 2): 0 is a plain projection, 1 whitens. Half
    whitening keeps what distinguishes the rows and makes training cheaper. The compressed rows have a mean square
    length of 1. Randomised subspace iteration; takes the memory of the map and the time of a few products.

    blocks: Returns the rows of all nodes in order; called once for every product.
    """
    num_features = next(iter(blocks())).shape[1]
    statistics = FeatureStatistics.of_blocks(blocks(), num_features)
    num_rows, mean = statistics.num_rows, statistics.centre()[0]
    width = min(width, num_features, num_rows)
    start = torch.randn(
        num_features, min(width + _SPARE_COLUMNS, num_features), generator=torch_generator(seed, Purpose.STRUCTURE)
    )
    basis = torch.linalg.qr(start).Q.numpy()
    for _ in range(_ITERATIONS):
        basis = torch.linalg.qr(torch.from_numpy(_covariance_times(blocks(), num_rows, mean, basis))).Q.numpy()
    moments = basis.T @ _covariance_times(blocks(), num_rows, mean, basis)
    values, vectors = np.linalg.eigh((moments + moments.T).astype(np.float64) / 2)
    values, vectors = values[::-1][:width], vectors[:, ::-1][:, :width]
    lengths = np.maximum(values, 1e-9 * max(float(values[0]), 1e-30))
    scaled = vectors * lengths ** (-power / 2)
    total = float((lengths ** (1 - power)).sum()) / num_rows
    return mean, (basis @ scaled / np.sqrt(max(total, 1e-30))).astype(np.float32)


def compress_features(features: Features, mean: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Return (num_rows, width) float32 rows (x − mean) · projection."""
    return np.asarray(features @ projection - mean @ projection, dtype=np.float32)


def _covariance_times(blocks: Iterable[Features], num_rows: int, mean: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return Σ (x − mean)(x − mean)ᵀ · basis without centring the rows one by one."""
    product = np.zeros(basis.shape)
    for rows in blocks:
        product += np.asarray(rows.T @ (rows @ basis), np.float64)
    centred = product - num_rows * np.outer(mean, mean @ basis).astype(np.float64)
    return np.ascontiguousarray(centred, dtype=np.float32)
