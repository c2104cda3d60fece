"""Sparse: products with constant CSR matrices, and their gradients.

torch's own autograd for sparse matrices would build gradients of the matrices themselves; here the
matrices are constant, so each backward is again one plain product.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit, prange
from torch import Tensor

from l2g2g.models.product_kernel import multiply_rows, multiply_transposed

# torch says so once per process; users can do nothing about it.
warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)

_FEW_COLUMNS = 256


def to_torch_csr(matrix: sp.csr_array, device: torch.device | str = "cpu") -> Tensor:
    """A torch CSR tensor that shares memory with a scipy CSR matrix (on the CPU)."""
    return csr_tensor(
        torch.from_numpy(matrix.indptr).to(device),
        torch.from_numpy(matrix.indices).to(device),
        torch.from_numpy(matrix.data).to(device),
        matrix.shape,
    )


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR tensor without the cost of checking its invariants again."""
    return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A constant sparse matrix, CSR, and its transpose where one is needed.

    Attributes:
        matrix: The matrix.
        transposed: Its transpose; itself where it is symmetric; None where it has so few columns that sums over its
            rows stay in the nearest cache, which on the CPU is the quicker way. With sections it is that of each
            section, one below the other.
        sections: (num_sections + 1,) first row of each stretch of rows whose sums are made apart, and then added.
    """

    matrix: Tensor
    transposed: Tensor | None
    sections: np.ndarray | None = None

    @classmethod
    def from_scipy(
        cls,
        matrix: sp.csr_array,
        device: torch.device | str = "cpu",
        *,
        symmetric: bool = False,
        sections: np.ndarray | None = None,
    ) -> SparseMatrix:
        """Take over a scipy CSR matrix."""
        forward = to_torch_csr(matrix, device)
        if symmetric:
            return cls(forward, forward, sections)
        few = matrix.shape[1] <= _FEW_COLUMNS
        needless = forward.device.type == "cpu" and forward.dtype == torch.float32 and few
        return cls(forward, None if needless else to_torch_csr(_turn(matrix, sections), device), sections)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return tuple(self.matrix.shape)  # type: ignore[return-value]

    @property
    def entries_per_row(self) -> float:
        """Mean number of entries of a row."""
        return self.matrix.values().numel() / max(1, self.shape[0])

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(indptr, indices, values) on the CPU."""
        return self.matrix.crow_indices().numpy(), self.matrix.col_indices().numpy(), self.matrix.values().numpy()

    @cached_property
    def turned(self) -> SparseMatrix:
        """The transpose as a matrix of its own; itself where it is symmetric."""
        assert self.transposed is not None
        return self if self.transposed is self.matrix else SparseMatrix(self.transposed, self.matrix)


def _turn(matrix: sp.csr_array, sections: np.ndarray | None) -> sp.csr_array:
    """(num_sections · num_columns, num_rows) the transpose of each section, with zeros for the other rows."""
    if sections is None or len(sections) == 2:
        return sp.csr_array(matrix.T.tocsr())
    parts = []
    for low, high in pairwise(matrix.indptr[sections].tolist()):
        inside = matrix.data[low:high], matrix.indices[low:high], np.clip(matrix.indptr, low, high) - low
        parts.append(sp.csr_array(inside, shape=matrix.shape).T.tocsr())
    stacked = sp.csr_array(sp.vstack(parts, format="csr"))
    stacked.indptr, stacked.indices = stacked.indptr.astype(np.int32), stacked.indices.astype(np.int32)
    return stacked


@dataclass(frozen=True, eq=False)
class ThinnedMatrix:
    """A sparse matrix of which only some entries count, scaled up (CPU).

    Attributes:
        whole: The matrix with all entries.
        kept: (num_entries,) uint8, 1 for the entries that count.
        factor: What the entries that count are multiplied with.
    """

    whole: SparseMatrix
    kept: np.ndarray
    factor: float


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        sparse: SparseMatrix | ThinnedMatrix,
        dense: Tensor,
        added: Tensor | None,
    ) -> Tensor:
        ctx.sparse, ctx.added_dim = sparse, None if added is None else added.dim()  # type: ignore[attr-defined]
        return plain_product(sparse, dense, added)

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, gradient: Tensor
    ) -> tuple[None, Tensor | None, Tensor | None]:
        sparse: SparseMatrix | ThinnedMatrix = ctx.sparse  # type: ignore[attr-defined]
        of_dense, of_added = None, None
        if ctx.needs_input_grad[1]:  # type: ignore[attr-defined]
            of_dense = transposed_product(sparse, gradient)
        if ctx.needs_input_grad[2]:  # type: ignore[attr-defined]
            of_added = gradient
            if ctx.added_dim == 1:  # type: ignore[attr-defined]
                sections = sparse.whole.sections if isinstance(sparse, ThinnedMatrix) else sparse.sections
                of_added = sum_rows(gradient, sections)
        return None, of_dense, of_added


def plain_product(sparse: SparseMatrix | ThinnedMatrix, dense: Tensor, added: Tensor | None = None) -> Tensor:
    """The same as `multiply`, for those who take the gradient themselves."""
    if isinstance(sparse, ThinnedMatrix):
        return _product(sparse.whole, dense * sparse.factor, added, sparse.kept)
    return _product(sparse, dense, added)


def _product(
    sparse: SparseMatrix, dense: Tensor, added: Tensor | None = None, kept: np.ndarray | None = None
) -> Tensor:
    """CSR times dense, and something added: compiled for float32 on the CPU, torch's own otherwise."""
    dense = dense.contiguous()
    if dense.device.type != "cpu" or dense.dtype != torch.float32:
        assert kept is None, "entries are left out in float32 on the CPU only"
        product = sparse.matrix @ dense
        return product if added is None else product + added
    begun = None if added is None else added.contiguous().reshape(-1, dense.shape[1]).numpy()
    return torch.from_numpy(multiply_rows(*sparse.arrays, dense.numpy(), begun, kept))


def transposed_product(sparse: SparseMatrix | ThinnedMatrix, dense: Tensor) -> Tensor:
    """The transpose times dense. dense: (rows, width) -> (columns, width)."""
    return sum_parts(list(transposed_parts(sparse, dense)))


def transposed_parts(sparse: SparseMatrix | ThinnedMatrix, dense: Tensor) -> Tensor:
    """(num_parts, columns, width) what the rows of each section, or each thread, add to the transpose times dense."""
    if isinstance(sparse, ThinnedMatrix):
        parts = _scatter(sparse.whole, dense, sparse.kept)
        return parts.mul_(sparse.factor)
    if sparse.transposed is None:
        return _scatter(sparse, dense)
    return _product(sparse.turned, dense).view(-1, sparse.shape[1], dense.shape[1])


def _scatter(sparse: SparseMatrix, dense: Tensor, kept: np.ndarray | None = None) -> Tensor:
    table, num_columns = dense.contiguous().numpy(), sparse.shape[1]
    return torch.from_numpy(multiply_transposed(*sparse.arrays, table, num_columns, kept, sparse.sections))


def sum_parts(parts: Sequence[Tensor]) -> Tensor:
    """Their sum, in order; the first one is written over."""
    total, *others = parts
    for part in others:
        total += part
    return total


def sum_rows(rows: Tensor, sections: np.ndarray | None = None) -> Tensor:
    """(width,) sum of the rows: of each section, and then of these."""
    if sections is None:
        return rows.sum(0)
    return sum_parts([rows[low:high].sum(0) for low, high in pairwise(sections.tolist())])


def multiply(sparse: SparseMatrix | ThinnedMatrix, dense: Tensor, added: Tensor | None = None) -> Tensor:
    """Sparse times dense, and something added. sparse: (rows, columns), dense: (columns, width) -> (rows, width).

    added: (width,) or (rows, width); it costs nothing where a pass of its own would.
    """
    return _Multiply.apply(sparse, dense, added)


def normalise_adjacency(adjacency: sp.csr_array) -> sp.csr_array:
    """Â = D^(-1/2) (A + I) D^(-1/2), the propagation of a graph convolution. D counts the self-loop.

    adjacency: (num_nodes, num_nodes), no entry twice; loops it has already count beside the new ones.
    """
    if not adjacency.has_sorted_indices:
        adjacency = adjacency.sorted_indices()
    parts = _normalise(adjacency.indptr, adjacency.indices, adjacency.data)
    narrow = np.int32 if len(parts[1]) < 2**31 else np.int64
    return sp.csr_array((parts[2], parts[1], parts[0].astype(narrow)), shape=adjacency.shape)


@njit(cache=True, parallel=True)
def _normalise(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, indices, values) of Â, columns in order; nothing of the size of the graph is made but the result."""
    num_rows = len(indptr) - 1
    new_indptr, scale = np.zeros(num_rows + 1, np.int64), np.empty(num_rows)
    for row in prange(num_rows):
        degree, count = 1.0, 1
        for entry in range(indptr[row], indptr[row + 1]):
            degree += values[entry]
            count += indices[entry] != row
        new_indptr[row + 1], scale[row] = count, 1.0 / np.sqrt(degree)
    new_indptr = np.cumsum(new_indptr)
    new_indices, new_values = np.empty(new_indptr[-1], indices.dtype), np.empty(new_indptr[-1], values.dtype)
    for row in prange(num_rows):
        place, own = new_indptr[row], 1.0
        entry = indptr[row]
        while entry < indptr[row + 1] and indices[entry] < row:
            new_indices[place], new_values[place] = indices[entry], values[entry] * scale[row] * scale[indices[entry]]
            place, entry = place + 1, entry + 1
        if entry < indptr[row + 1] and indices[entry] == row:
            own, entry = own + values[entry], entry + 1
        new_indices[place], new_values[place] = row, own * scale[row] * scale[row]
        place += 1
        while entry < indptr[row + 1]:
            new_indices[place], new_values[place] = indices[entry], values[entry] * scale[row] * scale[indices[entry]]
            place, entry = place + 1, entry + 1
    return new_indptr, new_indices, new_values
