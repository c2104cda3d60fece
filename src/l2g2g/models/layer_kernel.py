"""Layer kernel: a sparse product, a ReLU and the weights of the next layer in one compiled pass over the rows (CPU).

Apart, each of these reads and writes a table of all rows, which is more work than the products themselves. Here a few
rows go through all of it while they are in the cache; so does their gradient on the way back.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from torch import get_num_threads

from l2g2g.models.row_vectors import (
    add_outer,
    add_scaled,
    as_rows,
    blank_table,
    combine,
    keep_positive,
    project,
    share_rows,
    zero_table,
)

_BLOCK = 64  # rows that go through a pass together
_MOST_UNROLLED = 1024  # vectors of the weights: they are written out in the code, one after the other


def fits(hidden: int, width: int) -> bool:
    """Whether weights of this size are small enough for these kernels."""
    return hidden > 0 and width > 0 and hidden * -(-width // 16) <= _MOST_UNROLLED and -(-hidden // 16) * width <= 1024


def forward(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    dense: np.ndarray,
    bias: np.ndarray,
    weight: np.ndarray,
    *,
    sections: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """H = ReLU(S D + bias), and H W. S: CSR, D: (num_columns, hidden), bias: (hidden,), W: (hidden, width).

    sections: (num_sections + 1,) first row of each, see `share_rows`.

    Returns (num_rows, hidden) H and (num_rows, width) H W, all float32.
    """
    num_rows = len(indptr) - 1
    hidden, product = blank_table(num_rows, dense.shape[1]), blank_table(num_rows, weight.shape[1])
    tables = (as_rows(table) for table in (product, hidden, bias[None], dense, weight))
    _forward(*tables, values, indices, indptr, share_rows(indptr, get_num_threads(), sections))  # type: ignore[call-arg]
    return hidden, product


def backward(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    num_columns: int,
    hidden: np.ndarray,
    weight: np.ndarray,
    gradient: np.ndarray,
    *,
    through: bool,
    sections: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of what `forward` took, from that of H W, (num_rows, width).

    Returns them for D (num_columns, hidden), bias and W. through: whether the first of them goes through S as well; if
    not it is that of S D, (num_rows, hidden), for whoever has a quicker way through S.
    """
    bounds = share_rows(indptr, get_num_threads(), sections)
    num_parts, width = len(bounds) - 1, hidden.shape[1]
    of_dense = zero_table(num_parts, num_columns, width) if through else blank_table(1, len(hidden), width)
    of_bias, of_weight = zero_table(num_parts, 1, width), zero_table(num_parts, *weight.shape)
    turned, block = blank_table(*weight.shape[::-1]), blank_table(num_parts, _BLOCK, width)
    turned[:] = weight.T
    tables = [as_rows(table) for table in (of_dense, of_bias, of_weight, block, hidden, gradient, turned)]
    _backward(*tables, values, indices, indptr, bounds, through)  # type: ignore[call-arg, arg-type]
    summed = of_dense.sum(0) if through and num_parts > 1 else of_dense[0]
    return summed, of_bias.sum((0, 1)), of_weight.sum(0)


@njit(cache=True, parallel=True)
def _forward(
    product: np.ndarray,
    hidden: np.ndarray,
    bias: np.ndarray,
    dense: np.ndarray,
    weight: np.ndarray,
    values: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    bounds: np.ndarray,
) -> None:
    for part in prange(len(bounds) - 1):
        for low in range(bounds[part], bounds[part + 1], _BLOCK):
            high = min(low + _BLOCK, bounds[part + 1])
            for row in range(low, high):
                combine(hidden, row, bias, 0, values, indices, dense, indptr[row], indptr[row + 1])
                keep_positive(hidden, row, hidden, row)
            fours = low + (high - low) // 4 * 4
            for row in range(low, fours, 4):
                project(product, row, hidden, row, weight, 4)
            for row in range(fours, high):
                project(product, row, hidden, row, weight, 1)


@njit(cache=True, parallel=True)
def _backward(
    of_dense: np.ndarray,
    of_bias: np.ndarray,
    of_weight: np.ndarray,
    block: np.ndarray,
    hidden: np.ndarray,
    gradient: np.ndarray,
    turned: np.ndarray,
    values: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    bounds: np.ndarray,
    through: bool,
) -> None:
    for part in prange(len(bounds) - 1):
        own_bias, own_weight = of_bias[part], of_weight[part]
        rows = block[part] if through else of_dense[0]
        for low in range(bounds[part], bounds[part + 1], _BLOCK):
            high = min(low + _BLOCK, bounds[part + 1])
            first = low if through else 0  # the place of row `low` in `rows` is low - first
            fours = low + (high - low) // 4 * 4
            for row in range(low, fours, 4):
                project(rows, row - first, gradient, row, turned, 4)
                add_outer(own_weight, hidden, gradient, row, 4)
            for row in range(fours, high):
                project(rows, row - first, gradient, row, turned, 1)
                add_outer(own_weight, hidden, gradient, row, 1)
            for row in range(low, high):
                keep_positive(rows, row - first, hidden, row)
                add_scaled(own_bias, 0, np.float32(1.0), rows, row - first)
            if through:
                own_dense = of_dense[part]
                for row in range(low, high):
                    for entry in range(indptr[row], indptr[row + 1]):
                        add_scaled(own_dense, indices[entry], values[entry], rows, row - first)
