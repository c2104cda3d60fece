"""Sparse: products with constant sparse matrices, differentiable in the other factor.

The matrices are constant, so that each backward pass is one more product; torch's autograd for sparse matrices would
also build their gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.core import blank_table, native, num_parts, reference, zero_table
from l2g2g.models.bits import BitRows

# torch warns once per process; users can do nothing about it.
warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)

FEW_COLUMNS = 256  # up to so many columns the sums of a transposed product stay in cache: no transpose is made
WIDEST = 512  # most columns of a table that a native kernel takes


class ConstantMatrix(Protocol):
    """A constant matrix of which only products are needed.

    Attributes:
        in_one_block: True for a `SparseMatrix`, whose entries are all in the memory of one process.
    """

    in_one_block: ClassVar[bool]

    def product(self, dense: Tensor, added: Tensor | None = None) -> Tensor:
        """Return matrix @ dense + added without gradient. Arguments as in `multiply`."""

    def transposed_product(self, dense: Tensor) -> Tensor:
        """Return the transpose of the matrix @ dense."""


@dataclass(frozen=True, eq=False)
class Dropout:
    """Dropout of matrix entries, decided by a hash of (node of the row, column).

    Attributes:
        node_hashes: (num_rows,) uint32 hashes of the nodes of the rows, see `core.reference.hash_nodes`.
        key: Key of the stream of random numbers.
        threshold: Entries with a hash below it become zero.
        factor: Factor of the other entries.
        by_column: The nodes belong to the columns, as in a transpose.
    """

    node_hashes: np.ndarray
    key: int
    threshold: int
    factor: float
    by_column: bool = False


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """The constant matrix diag(row_scale) · (values + identity if `loops`) · diag(column_scale), values sparse.

    Attributes:
        starts, ends: (num_rows,) int64 range of the entries of each row; entries between the ranges are not used.
        indices: (num_entries,) int32 columns.
        values: (num_entries,) float32; None where all are 1.
        num_columns: Number of columns.
        row_scale: (num_rows,) float32; None for 1.
        column_scale: (num_columns,) float32; None for 1. The same array as `row_scale` where both are equal.
        loops: Add the identity.
        symmetric_pattern: The pattern with its values is its own transpose.
        dropout: Dropout of entries; None for none.
        whole: The matrix before dropout; None without dropout.
        device: Where products are computed.
        is_checked: A kernel or a reader checked the pattern, so that native kernels need not.
    """

    starts: np.ndarray
    ends: np.ndarray
    indices: np.ndarray
    values: np.ndarray | None
    num_columns: int
    row_scale: np.ndarray | None = None
    column_scale: np.ndarray | None = None
    loops: bool = False
    symmetric_pattern: bool = False
    dropout: Dropout | None = None
    whole: SparseMatrix | None = None
    device: torch.device = torch.device("cpu")  # noqa: RUF009
    is_checked: bool = False
    in_one_block: ClassVar[bool] = True

    @classmethod
    def from_scipy(
        cls, matrix: sp.csr_array, device: torch.device | str = "cpu", *, symmetric: bool = False
    ) -> SparseMatrix:
        """Make a matrix from scipy CSR."""
        indptr = matrix.indptr.astype(np.int64)
        indices = np.ascontiguousarray(matrix.indices, dtype=np.int32)
        values = np.ascontiguousarray(matrix.data, dtype=np.float32)
        return cls(
            indptr[:-1],
            indptr[1:],
            indices,
            None if (values == 1).all() else values,
            matrix.shape[1],
            symmetric_pattern=symmetric,
            device=torch.device(device),
        )

    @classmethod
    def propagation(
        cls, adjacency: sp.csr_array, device: torch.device | str = "cpu", *, weighted: bool | None = None
    ) -> SparseMatrix:
        """Make Â = D^(-1/2) (A + I) D^(-1/2) of a symmetric adjacency without diagonal, sharing its memory.

        weighted: False if all values are 1; None to look.
        """
        indptr = adjacency.indptr.astype(np.int64)
        if weighted is None:
            weighted = not bool((adjacency.data == 1).all())
        degrees = adjacency.sum(axis=1) if weighted else np.diff(indptr)
        scale = (1.0 / np.sqrt(1.0 + np.asarray(degrees, np.float64))).astype(np.float32)
        return cls(
            indptr[:-1],
            indptr[1:],
            np.ascontiguousarray(adjacency.indices, dtype=np.int32),
            np.ascontiguousarray(adjacency.data, dtype=np.float32) if weighted else None,
            adjacency.shape[1],
            scale,
            scale,
            loops=True,
            symmetric_pattern=True,
            device=torch.device(device),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.starts), self.num_columns

    @property
    def num_entries(self) -> int:
        """Number of entries in memory, those between the rows included."""
        return len(self.indices)

    @property
    def num_bytes(self) -> int:
        """Bytes of its entries and rows."""
        parts = self.starts, self.ends, self.indices, self.values
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def entries_per_row(self) -> float:
        """Mean number of entries of a row."""
        return self.num_entries / max(1, len(self.starts))

    @property
    def symmetric(self) -> bool:
        """True if the matrix is its own transpose."""
        return self.symmetric_pattern and self.row_scale is self.column_scale

    @cached_property
    def csr(self) -> Any:
        """The pattern as the native kernels take it."""
        return native().Csr(self.starts, self.ends, self.indices, self.values, self.num_columns, self.is_checked)

    @cached_property
    def bits(self) -> BitRows | None:
        """The matrix packed as bits if that makes products faster (for features, not for graphs); otherwise None."""
        if native() is None or self.symmetric_pattern or self.loops or not self._is_unscaled:
            return None
        if self.whole is None or self.dropout is None:
            return BitRows.pack(self.starts, self.ends, self.indices, self.values, self.num_columns)
        if self.whole.bits is None or self.dropout.by_column:
            return None
        dropout = self.dropout
        return self.whole.bits.dropped(dropout.node_hashes, dropout.key, dropout.threshold, dropout.factor)

    @property
    def _is_unscaled(self) -> bool:
        return self.row_scale is None and self.column_scale is None

    @cached_property
    def transpose(self) -> SparseMatrix:
        """The transpose; the matrix itself where it is symmetric."""
        if self.symmetric:
            return self
        if self.symmetric_pattern:
            return self._with_pattern(row_scale=self.column_scale, column_scale=self.row_scale)
        if self.whole is not None and self.dropout is not None:
            return self.whole.transpose.with_dropout(replace(self.dropout, by_column=not self.dropout.by_column))
        return SparseMatrix.from_scipy(sp.csr_array(self.to_scipy().T.tocsr()), self.device)

    @cached_property
    def mean(self) -> SparseMatrix:
        """D^(-1) A of the same pattern, without loops: the mean over the neighbours, 0 for a node without any."""
        if not self.symmetric_pattern or self.dropout is not None:
            raise ValueError("a mean over neighbours needs the pattern of a graph")
        scale = invert_degrees(sum_weights(self.starts, self.ends, self.values))
        return self._with_pattern(row_scale=scale, column_scale=None, loops=False)

    def _with_pattern(self, **changes: Any) -> SparseMatrix:
        """Return a copy with other factors that shares the checked pattern; faster than `replace`."""
        copy = object.__new__(SparseMatrix)
        vars(copy).update({name: vars(self)[name] for name in _FIELDS} | changes)
        if native() is not None:
            vars(copy)["csr"] = self.csr
        return copy

    def compact(self) -> SparseMatrix:
        """Return a copy without the entries between its rows."""
        lengths = self.ends - self.starts
        if lengths.sum() == len(self.indices):
            return self
        steps = np.zeros(len(self.indices) + 1, np.int8)  # +1 where a row begins, -1 after its end
        steps[self.starts[lengths > 0]] += 1
        steps[self.ends[lengths > 0]] -= 1
        chosen = np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)
        ends = np.cumsum(lengths)
        values = None if self.values is None else self.values[chosen]
        return replace(self, starts=ends - lengths, ends=ends, indices=self.indices[chosen], values=values)

    def with_dropout(self, dropout: Dropout) -> SparseMatrix:
        """Return a copy with dropout. It is not symmetric: entries (i, j) and (j, i) are dropped independently."""
        if self.loops:
            raise ValueError("dropout is for features, not for a propagation with loops")
        return self._with_pattern(dropout=dropout, symmetric_pattern=False, whole=self)

    def product(self, dense: Tensor, added: Tensor | None = None) -> Tensor:
        """See `ConstantMatrix`. dense: (columns, width) -> (rows, width)."""
        if not runs_native(dense):
            result = self.tensor.to(dense.dtype) @ dense.contiguous()
            return result if added is None else result + added
        table = dense.detach().contiguous().numpy()
        terms = None if added is None else added.detach().contiguous().numpy().reshape(-1, dense.shape[1])
        return torch.from_numpy(multiply_table(self, table, terms))

    def transposed_product(self, dense: Tensor) -> Tensor:
        """See `ConstantMatrix`. dense: (rows, width) -> (columns, width)."""
        if not runs_native(dense):
            return self.transposed_tensor.to(dense.dtype) @ dense.contiguous()
        return torch.from_numpy(multiply_transposed_table(self, dense.detach().contiguous().numpy()))

    def to_scipy(self) -> sp.csr_array:
        """Return a scipy CSR matrix with loops, scales and dropout in its values."""
        matrix = self._pattern_to_scipy()
        if self.loops:
            matrix = sp.csr_array(matrix + sp.eye_array(*self.shape, dtype=np.float32, format="csr"))
        if self.row_scale is not None:
            matrix = sp.csr_array(sp.diags_array(self.row_scale) @ matrix)
        if self.column_scale is not None:
            matrix = sp.csr_array(matrix @ sp.diags_array(self.column_scale))
        return matrix if matrix.has_sorted_indices else matrix.sorted_indices()

    def _pattern_to_scipy(self) -> sp.csr_array:
        """Return entries, values and dropout; shares memory if the rows have no gaps between them."""
        lengths = self.ends - self.starts
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        has_gaps = indptr[-1] != self.num_entries or not np.array_equal(indptr[:-1], self.starts)
        if not has_gaps and self.dropout is None:
            values = np.ones(self.num_entries, np.float32) if self.values is None else self.values
            return sp.csr_array((values, self.indices, indptr), shape=self.shape)
        entries = np.repeat(self.starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        rows, columns = np.repeat(np.arange(len(lengths)), lengths), self.indices[entries]
        values = np.ones(len(entries), np.float32) if self.values is None else self.values[entries]
        if self.dropout is not None:
            ends = (columns, rows) if self.dropout.by_column else (rows, columns)
            values = values * reference.keep_factors(self.dropout, *ends)
        return sp.csr_array((values, columns, indptr), shape=self.shape)

    @cached_property
    def tensor(self) -> Tensor:
        """`to_scipy` as a torch CSR tensor on the device, for products without native kernels."""
        return to_torch_csr(self.to_scipy(), self.device)

    @cached_property
    def transposed_tensor(self) -> Tensor:
        """The transpose of `tensor`."""
        return self.tensor if self.symmetric else to_torch_csr(sp.csr_array(self.to_scipy().T.tocsr()), self.device)


_FIELDS = tuple(each.name for each in fields(SparseMatrix))


def to_torch_csr(matrix: sp.csr_array, device: torch.device | str = "cpu") -> Tensor:
    """Convert a scipy CSR matrix to a torch CSR tensor, without checking its invariants."""
    parts = matrix.indptr, matrix.indices, matrix.data
    indptr, indices, values = (torch.from_numpy(part).to(device) for part in parts)
    return torch.sparse_csr_tensor(indptr, indices, values, matrix.shape, check_invariants=False)


def runs_native(*tensors: Tensor) -> bool:
    """Return True if the native kernels take these tensors: float32 on the CPU."""
    return native() is not None and all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)


def multiply(matrix: ConstantMatrix, dense: Tensor, added: Tensor | None = None) -> Tensor:
    """Return matrix @ dense + added in one pass, differentiable in dense and added.

    matrix: (rows, columns). dense: (columns, width). added: (width,) or (rows, width).
    """
    return _Multiply.apply(matrix, dense, added)


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: ConstantMatrix, dense: Tensor, added: Tensor | None) -> Tensor:
        ctx.matrix, ctx.added_dim = matrix, None if added is None else added.dim()
        return matrix.product(dense, added)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        of_dense = ctx.matrix.transposed_product(gradient) if ctx.needs_input_grad[1] else None
        of_added = None
        if ctx.needs_input_grad[2]:
            of_added = gradient.sum(0) if ctx.added_dim == 1 else gradient
        return None, of_dense, of_added


def multiply_table(
    sparse: SparseMatrix,
    table: np.ndarray,
    added: np.ndarray | None = None,
    *,
    is_scaled: bool = False,
    row_scale: np.ndarray | None = None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return sparse @ table + added, (rows, width), by the native kernel.

    table: (columns, width) float32. added: (1, width) or (rows, width). is_scaled: The table already contains the
    column scale. row_scale: (rows,) factor of the sum, for a matrix without scales. out: Memory for the result.
    """
    width = table.shape[1]
    if width > WIDEST:
        parts = []
        for low in range(0, width, WIDEST):
            columns = slice(low, low + WIDEST)
            terms = None if added is None else np.ascontiguousarray(added[:, columns])
            part = np.ascontiguousarray(table[:, columns])
            parts.append(multiply_table(sparse, part, terms, is_scaled=is_scaled, row_scale=row_scale))
        return np.concatenate(parts, axis=1, out=out)
    if sparse.column_scale is not None and not is_scaled:
        table = scale_rows(table, sparse.column_scale)
    out = blank_table(len(sparse.starts), width) if out is None else out
    if sparse.bits is not None:
        return sparse.bits.multiply(table, added, out, row_scale)
    scale = sparse.row_scale if row_scale is None else row_scale
    native().multiply(
        sparse.csr,
        table,
        out,
        scale,
        sparse.loops,
        added,
        **_dropout_of(sparse),
        scale_added=row_scale is not None,
    )
    return out


def multiply_two_tables(
    sparse: SparseMatrix,
    one: np.ndarray,
    two: np.ndarray,
    factor: float,
    added: Sequence[np.ndarray | None] = (None, None),
    row_scale: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return row_scale · (factor · sparse @ one + added[0]) and factor · sparse @ two + added[1] in one native pass.

    sparse: Without scales and loops. one, two: (columns, width) float32 of the widths `native().two_widths`.
    added: (width,) each; None for nothing.
    """
    outs = blank_table(len(sparse.starts), one.shape[1]), blank_table(len(sparse.starts), two.shape[1])
    native().multiply_two(sparse.csr, one, two, *outs, factor, *added, row_scale, **_dropout_of(sparse))
    return outs


def scale_rows(table: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return a table with each row multiplied by its scale, by the native kernel."""
    scaled = blank_table(*table.shape)
    native().move_rows(table, scaled, None, scale)
    return scaled


def multiply_transposed_table(sparse: SparseMatrix, table: np.ndarray) -> np.ndarray:
    """Return transpose(sparse) @ table, (columns, width), by the native kernels. table: (rows, width) float32."""
    if sparse.bits is None and (
        sparse.symmetric_pattern or not sparse._is_unscaled or sparse.num_columns > FEW_COLUMNS
    ):
        return multiply_table(sparse.transpose, table)
    if table.shape[1] > WIDEST:
        slices = [table[:, low : low + WIDEST] for low in range(0, table.shape[1], WIDEST)]
        return np.concatenate([multiply_transposed_table(sparse, np.ascontiguousarray(part)) for part in slices], 1)
    if sparse.bits is not None:
        return sparse.bits.multiply_transposed(table)
    sums = zero_table(num_parts(sparse.num_entries), sparse.num_columns, table.shape[1])
    native().multiply_transposed(sparse.csr, table, sums, **_dropout_of(sparse))
    return add_parts(sums)


def sum_rows(table: np.ndarray) -> np.ndarray:
    """Return the (width,) sum of the rows of a table, by the native kernel."""
    if table.shape[1] > WIDEST:
        return table.sum(0)
    sums = zero_table(num_parts(len(table)), table.shape[1])
    native().sum_rows(table, sums)
    return add_parts(sums)


def add_parts(parts: np.ndarray) -> np.ndarray:
    """Sum over the first axis, in order and in place of the first part."""
    total: np.ndarray = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _dropout_of(sparse: SparseMatrix) -> dict[str, Any]:
    """Return the dropout of a matrix as keyword arguments of the native kernels."""
    return {} if sparse.dropout is None else vars(sparse.dropout)


def sum_weights(starts: np.ndarray, ends: np.ndarray, values: np.ndarray | None) -> np.ndarray:
    """Return (num_rows,) float64 sums of the values of each row, or their number where values are None."""
    if values is None:
        return (ends - starts).astype(np.float64)
    before = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    return np.where(ends > starts, before[ends] - before[starts], 0.0)


def invert_degrees(degrees: np.ndarray) -> np.ndarray:
    """Return (num_rows,) float32 1 / degree, 0 for a degree of 0."""
    return np.divide(1.0, degrees, out=np.zeros(len(degrees)), where=degrees > 0).astype(np.float32)


def normalise_adjacency(adjacency: sp.csr_array) -> sp.csr_array:
    """Return Â = D^(-1/2) (A + I) D^(-1/2) as a scipy matrix with ascending columns. D counts the self-loop.

    adjacency: (num_nodes, num_nodes); existing loops count in addition to the new ones.
    """
    loops = sp.eye_array(*adjacency.shape, dtype=adjacency.dtype, format="csr")
    matrix = sp.csr_array(adjacency + loops)
    matrix.sort_indices()
    scale = 1.0 / np.sqrt(np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel())
    values = matrix.data * np.repeat(scale, np.diff(matrix.indptr)) * scale[matrix.indices]
    return sp.csr_array((values.astype(adjacency.dtype), matrix.indices, matrix.indptr), shape=matrix.shape)
