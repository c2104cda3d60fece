"""Product kernel: a sparse matrix, or its transpose, times a dense one, compiled (CPU).

A row of a product is summed in registers. A product with the transpose adds the rows of the dense matrix up in a small
table, one for each thread, that stays in the cache: the transpose itself is never made.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from torch import get_num_threads  # quicker to ask than numba, which has as many

from l2g2g.models.row_vectors import add_scaled, as_rows, blank_table, combine, share_rows, zero_table

_WIDEST = 256  # columns whose sums fit the registers, nearly


def multiply_rows(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    dense: np.ndarray,
    added: np.ndarray | None = None,
    kept: np.ndarray | None = None,
) -> np.ndarray:
    """CSR times dense: (num_rows, num_columns) and (num_columns, width) -> (num_rows, width), all float32.

    added: (1, width) or (num_rows, width), what the sums begin with.
    kept: (num_entries,) uint8, 0 for entries that are left out.
    """
    if dense.shape[1] > _WIDEST:
        parts = []
        for low in range(0, dense.shape[1], _WIDEST):
            here = slice(low, low + _WIDEST)
            begun = None if added is None else np.ascontiguousarray(added[:, here])
            part = np.ascontiguousarray(dense[:, here])
            parts.append(multiply_rows(indptr, indices, values, part, begun, kept))
        return np.concatenate(parts, axis=1)
    product = blank_table(len(indptr) - 1, dense.shape[1])
    if dense.shape[1] == 0:
        return product
    bounds = share_rows(indptr, get_num_threads())
    initial = np.zeros((1, dense.shape[1]), np.float32) if added is None else added
    sides = as_rows(product), as_rows(initial), values, indices, as_rows(dense), indptr, bounds
    if kept is None:
        _multiply(*sides)
    else:
        _multiply_kept(*sides, kept)
    return product


def multiply_transposed(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    dense: np.ndarray,
    num_columns: int,
    kept: np.ndarray | None = None,
    sections: np.ndarray | None = None,
) -> np.ndarray:
    """The transpose of a (num_rows, num_columns) CSR matrix times a (num_rows, width) dense one, in parts.

    kept: as in `multiply_rows`. sections: (num_sections + 1,) first row of each, see `share_rows`.

    Returns (num_parts, num_columns, width) what the rows of each part give: the product is their sum.
    """
    if dense.shape[1] > _WIDEST:
        slices = [np.ascontiguousarray(dense[:, low : low + _WIDEST]) for low in range(0, dense.shape[1], _WIDEST)]
        parts = [multiply_transposed(indptr, indices, values, part, num_columns, kept, sections) for part in slices]
        return np.concatenate(parts, axis=2)
    bounds = share_rows(indptr, get_num_threads(), sections)
    sums = zero_table(len(bounds) - 1, num_columns, dense.shape[1])
    if dense.shape[1]:
        every = np.empty(0, np.uint8) if kept is None else kept
        _scatter(as_rows(sums), values, indices, as_rows(dense), indptr, bounds, every)
    return sums


@njit(cache=True, parallel=True)
def _scatter(
    sums: np.ndarray,
    values: np.ndarray,
    indices: np.ndarray,
    dense: np.ndarray,
    indptr: np.ndarray,
    bounds: np.ndarray,
    kept: np.ndarray,
) -> None:
    longest = _longest_row(indptr)
    for part in prange(len(bounds) - 1):
        own = sums[part]
        entries = np.empty(longest + 1, np.int64)
        for row in range(bounds[part], bounds[part + 1]):
            if len(kept) == 0:
                for entry in range(indptr[row], indptr[row + 1]):
                    add_scaled(own, indices[entry], values[entry], dense, row)
                continue
            count = 0
            for entry in range(indptr[row], indptr[row + 1]):
                entries[count] = entry  # written always, counted only if it is kept
                count += kept[entry]
            for place in range(count):
                add_scaled(own, indices[entries[place]], values[entries[place]], dense, row)


@njit(cache=True, parallel=True)
def _multiply(
    product: np.ndarray,
    added: np.ndarray,
    values: np.ndarray,
    indices: np.ndarray,
    dense: np.ndarray,
    indptr: np.ndarray,
    bounds: np.ndarray,
) -> None:
    for part in prange(len(bounds) - 1):
        for row in range(bounds[part], bounds[part + 1]):
            begun = row if len(added) > 1 else 0
            combine(product, row, added, begun, values, indices, dense, indptr[row], indptr[row + 1])


@njit(cache=True, parallel=True)
def _multiply_kept(
    product: np.ndarray,
    added: np.ndarray,
    values: np.ndarray,
    indices: np.ndarray,
    dense: np.ndarray,
    indptr: np.ndarray,
    bounds: np.ndarray,
    kept: np.ndarray,
) -> None:
    longest = _longest_row(indptr)
    for part in prange(len(bounds) - 1):
        columns, factors = np.empty(longest + 1, indices.dtype), np.empty(longest + 1, np.float32)
        for row in range(bounds[part], bounds[part + 1]):
            count = 0
            for entry in range(indptr[row], indptr[row + 1]):
                # Written always, counted only if it is kept: no branch to guess.
                columns[count], factors[count] = indices[entry], values[entry]
                count += kept[entry]
            combine(product, row, added, row if len(added) > 1 else 0, factors, columns, dense, 0, count)


@njit(cache=True)
def _longest_row(indptr: np.ndarray) -> int:
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    return longest
