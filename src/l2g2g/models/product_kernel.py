"""Product kernel: a sparse matrix times a dense one, compiled: a row of the result is summed in registers (CPU)."""

from __future__ import annotations

import numpy as np
from numba import get_num_threads, njit, prange

from l2g2g.models.row_vectors import as_rows, combine, share_rows

WIDEST = 256  # columns whose sums still fit the registers, nearly


def multiply_rows(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """CSR times dense: (num_rows, num_columns) and (num_columns, width) -> (num_rows, width), all float32."""
    product = np.empty((len(indptr) - 1, dense.shape[1]), np.float32)
    bounds = share_rows(indptr, get_num_threads())
    _multiply(as_rows(product), values, indices, as_rows(dense), indptr, bounds)
    return product


@njit(cache=True, parallel=True)
def _multiply(
    product: np.ndarray,
    values: np.ndarray,
    indices: np.ndarray,
    dense: np.ndarray,
    indptr: np.ndarray,
    bounds: np.ndarray,
) -> None:
    for part in prange(len(bounds) - 1):
        for row in range(bounds[part], bounds[part + 1]):
            combine(product, row, values, indices, dense, indptr[row], indptr[row + 1])
