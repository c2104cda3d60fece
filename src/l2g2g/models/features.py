"""Features: the rows an encoder multiplies, dense or sparse, scaled, with entries dropped on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.masking import drop_entries, keep_entries
from l2g2g.models.narrow import STORAGE
from l2g2g.models.randomness import Purpose, stream_key
from l2g2g.models.sparse import SparseMatrix, ThinnedMatrix, csr_tensor

FeatureScaling = Literal["centred", "unit", "raw", "binary"]


def scale_features(features: Features, scaling: FeatureScaling) -> Features:
    """Scale features: `raw` leaves them, `binary` marks positive sparse entries, the others make rows of length 1.

    Example:
        >>> scale_features(np.array([[3.0, 4.0]], np.float32), "unit")
        array([[0.6, 0.8]], dtype=float32)
    """
    if scaling in ("unit", "centred"):
        return normalise_rows(features)
    if scaling == "binary" and sp.issparse(features):
        marked = (features.data > 0).astype(np.float32)
        return sp.csr_array((marked, features.indices, features.indptr), shape=features.shape)
    return features


def normalise_rows(features: Features) -> Features:
    """Scale every row to length 1; a row of zeros stays as it is."""
    if sp.issparse(features):
        squared = np.square(features.data, dtype=np.float64)  # float32 would overflow beyond 1e19
        squares = sp.csr_array((squared, features.indices, features.indptr), shape=features.shape).sum(axis=1)
        lengths = np.sqrt(np.maximum(squares, 1e-24))
        data = (features.data / np.repeat(lengths, np.diff(features.indptr))).astype(np.float32)
        return sp.csr_array((data, features.indices, features.indptr), shape=features.shape)
    scaled = np.empty(features.shape, np.float32)
    _normalise_dense(features, scaled)
    return scaled


@njit(cache=True, parallel=True, fastmath={"reassoc", "contract"})
def _normalise_dense(features: np.ndarray, scaled: np.ndarray) -> None:
    """In float64, because the squares of large entries are beyond float32."""
    for row in prange(len(features)):
        squares = 0.0
        for column in range(features.shape[1]):
            squares += np.float64(features[row, column]) * np.float64(features[row, column])
        factor = 1.0 / max(np.sqrt(squares), 1e-12)
        for column in range(features.shape[1]):
            scaled[row, column] = features[row, column] * factor


def feature_centre(features: Features) -> tuple[np.ndarray, float]:
    """(mean row, factor) that make the rows centred with a mean square length of one.

    Rows that share a large common part, as dense bags of words do, differ from each other only after this.
    """
    # In float64: in float32 rows that are all alike seem to differ, and the factor makes noise of that.
    if sp.issparse(features):  # scipy's own mean adds up in float32, whatever it is asked for
        sums = np.bincount(features.indices, weights=features.data, minlength=features.shape[1])
    else:
        sums = features.sum(axis=0, dtype=np.float64)
    squares = np.square(features.data if sp.issparse(features) else features, dtype=np.float64).sum()
    return centre_of_sums(sums, float(squares), features.shape[0])


def centre_of_sums(sums: np.ndarray, squares: float, num_rows: int) -> tuple[np.ndarray, float]:
    """The same from the sums of the columns (num_features,) and the sum of all squares, both in float64."""
    mean = sums / num_rows
    spread = squares / num_rows - float(mean @ mean)
    # Rows that are all alike carry nothing; scaling rounding errors up would make noise of them.
    scale = 1.0 / np.sqrt(spread) if spread > 1e-9 * max(float(mean @ mean), 1e-30) else 1.0
    return mean.astype(np.float32), float(scale)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The feature rows of some stacked patches.

    Attributes:
        matrix: (num_rows, num_features), dense tensor or sparse matrix.
        offsets: (num_patches + 1,) rows (dense) or entries (sparse) of each patch.
        patches: (num_patches,) their numbers, which key the dropout.
    """

    matrix: Tensor | SparseMatrix
    offsets: np.ndarray
    patches: np.ndarray

    @classmethod
    def build(
        cls,
        features: Features,
        row_offsets: np.ndarray,
        patches: np.ndarray,
        device: torch.device | str,
        storage: str = "float32",
        sections: np.ndarray | None = None,
    ) -> FeatureTable:
        """Take over the rows of some patches. storage: in what dense ones are held. sections: see `SparseMatrix`."""
        if not sp.issparse(features):
            held = torch.from_numpy(np.ascontiguousarray(features)).to(device, STORAGE[storage])
            return cls(held, row_offsets, patches)
        features = sp.csr_array(features)
        features.sort_indices()
        matrix = SparseMatrix.from_scipy(features, device, sections=sections)
        return cls(matrix, features.indptr[row_offsets].astype(np.int64), patches)

    def dropped(self, fraction: float, *, seed: int, epoch: int) -> Tensor | SparseMatrix | ThinnedMatrix:
        """The features with a fraction of the entries set to zero and the rest scaled up."""
        if fraction == 0:
            return self.matrix
        if isinstance(self.matrix, Tensor):
            return self._drop_dense(self.matrix, fraction, seed, epoch)
        kept = keep_entries(self.offsets, self._keys(seed, epoch), fraction)
        scale = 1.0 / (1.0 - fraction)
        if self.matrix.matrix.device.type == "cpu":
            return ThinnedMatrix(self.matrix, kept, scale)
        return _drop_on_device(self.matrix.matrix, torch.from_numpy(kept), scale)

    def _drop_dense(self, matrix: Tensor, fraction: float, seed: int, epoch: int) -> Tensor:
        entries = self.offsets * matrix.shape[1]
        flat = matrix.reshape(-1).cpu().float().numpy()
        dropped = drop_entries(flat, entries, self._keys(seed, epoch), fraction)
        return torch.from_numpy(dropped).reshape(matrix.shape).to(matrix.device)

    def _keys(self, seed: int, epoch: int) -> np.ndarray:
        keys = [stream_key(seed, Purpose.FEATURE_DROPOUT, epoch, int(patch)) for patch in self.patches]
        return np.array(keys, np.uint64)


def _drop_on_device(matrix: Tensor, kept: Tensor, scale: float) -> SparseMatrix:
    """The matrix with some entries set to zero, and its transpose, with torch operations only."""
    values = matrix.values() * kept.to(matrix.device) * scale
    rows, columns = matrix.shape
    forward = csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, (rows, columns))
    return SparseMatrix(forward, forward.t().to_sparse_csr())
