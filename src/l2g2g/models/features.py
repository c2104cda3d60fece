"""Features: the rows an encoder multiplies, dense or sparse, scaled, with entries dropped on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.core import blank_table, hash_nodes, native, num_parts, reference, zero_table
from l2g2g.core.randomness import Purpose, share_threshold, stream_key
from l2g2g.graphs.graph import Features
from l2g2g.models.sparse import (
    ConstantMatrix,
    Dropout,
    SparseMatrix,
    add_parts,
    multiply,
    multiply_table,
    multiply_transposed_table,
    multiply_two_tables,
    sum_rows,
)

STORAGE = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
BLOCK_BYTES = 1 << 25
_ROWS = 1 << 14  # rows of 16-bit features that are widened at a time
_FEW_ENTRIES = 8  # of a row: then two products are quicker than one whose result is taken apart


def as_input(features: Features, device: torch.device | str, storage: str = "float32") -> Tensor | SparseMatrix:
    """Feature rows as an encoder multiplies them. storage: the precision in which dense ones are held."""
    if not sp.issparse(features):
        return torch.from_numpy(np.ascontiguousarray(features)).to(device, STORAGE[storage])
    features = sp.csr_array(features)
    features.sort_indices()
    return SparseMatrix.from_scipy(features, device)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The feature rows of some stacked patches.

    Attributes:
        matrix: (num_rows, num_features), dense tensor or sparse matrix.
        nodes: (num_rows,) int32 node numbers of the rows, which key the dropout.
    """

    matrix: Tensor | SparseMatrix
    nodes: np.ndarray

    @classmethod
    def build(
        cls, features: Features, nodes: np.ndarray, device: torch.device | str, storage: str = "float32"
    ) -> FeatureTable:
        """Take over the rows of some patches. nodes: (num_rows,). storage: as in `as_input`."""
        return cls(as_input(features, device, storage), nodes.astype(np.int32))

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows."""
        matrix = self.matrix
        return self.nodes.nbytes + (matrix.nbytes if isinstance(matrix, Tensor) else matrix.num_bytes)

    def dropped(self, fraction: float, *, seed: int, epoch: int) -> Tensor | SparseMatrix:
        """The features with a fraction of the entries set to zero and the rest scaled up."""
        if fraction == 0:
            return self.matrix
        key = stream_key(seed, Purpose.FEATURE_DROPOUT, epoch)
        hashes = hash_nodes(self.nodes, key)
        dropout = Dropout(hashes, key, share_threshold(fraction), 1.0 / (1.0 - fraction))
        if isinstance(self.matrix, SparseMatrix):
            return self.matrix.with_dropout(dropout)
        return drop_dense(self.matrix, dropout)


def drop_dense(rows: Tensor, dropout: Dropout) -> Tensor:
    """Dense rows with some entries set to zero and the others scaled up; 16-bit rows become float32."""
    if native() is not None and rows.device.type == "cpu":
        values = rows.to(torch.float32).numpy()
        out = blank_table(*values.shape)
        native().drop_dense(values, dropout.node_hashes, dropout.key, dropout.threshold, dropout.factor, out)
        return torch.from_numpy(out)
    return reference.drop_dense(rows.to(torch.float32), dropout)


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """factor · (X − 1 meanᵀ): the rows that weights are multiplied with, without making sparse ones dense.

    Attributes:
        rows: (num_rows, num_features) X, dense of any precision, sparse, or read block by block.
        mean: (num_features,) or None.
        factor: A number.
    """

    rows: Tensor | ConstantMatrix
    mean: Tensor | None = None
    factor: float = 1.0

    def multiply(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """(num_rows, width) rows @ weight + bias, differentiable in weight and bias."""
        weight = weight if self.factor == 1.0 else weight * self.factor
        if self.mean is not None:
            shift = -(self.mean @ weight)
            bias = shift if bias is None else bias + shift
        if not isinstance(self.rows, Tensor):
            return multiply(self.rows, weight, bias)
        if self.rows.dtype == weight.dtype:
            return self.rows @ weight if bias is None else torch.addmm(bias, self.rows, weight)
        parts = [part.to(weight.dtype) @ weight for part in self.rows.split(_ROWS)]
        product = torch.cat(parts) if parts else weight.new_zeros(0, weight.shape[1])
        return product if bias is None else product + bias

    def multiply_both(self, one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
        """(num_rows, width) rows @ one and rows @ two, differentiable; the rows are read once for both."""
        rows, both, widths = self.rows, torch.cat([one, two], dim=1), [one.shape[1], two.shape[1]]
        if isinstance(rows, FeatureBlocks) and not torch.is_grad_enabled():
            # Written where they belong: of a large graph every table counts.
            tables = [both.new_empty(rows.num_rows, width) for width in widths]
            for here, part in rows.blocks():
                product = replace(self, rows=part).multiply(both)
                for table, columns in zip(tables, product.split(widths, dim=1), strict=True):
                    table[here] = columns
        else:
            tables = [columns.contiguous() for columns in self.multiply(both).split(widths, dim=1)]
        return tables[0], tables[1]

    @np.errstate(over="ignore", invalid="ignore")  # the loss tells of weights that diverge
    def project(
        self, weight: np.ndarray, skip: np.ndarray | None, scale: np.ndarray | None, bias: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(rows @ weight, each row times its scale) and (rows @ skip + bias), by the native kernels.

        Sparse rows are read once for both where that is quicker.
        """
        rows = self.rows
        if not isinstance(rows, SparseMatrix):
            own = None if skip is None else self._multiply_dense(skip, bias, None)
            return self._multiply_dense(weight, None, scale), own
        if skip is None or not _reads_once(rows, weight, skip):
            own = None if skip is None else multiply_table(rows, *self._centred(skip, bias))
            table, shift = self._centred(weight, None)
            return multiply_table(rows, table, shift, row_scale=scale), own
        added: list[np.ndarray | None] = [None, bias]
        if self.mean is not None:
            mean = np.float32(-self.factor) * self.mean.numpy()
            added = [mean @ weight, mean @ skip + bias]
        return multiply_two_tables(rows, weight, skip, self.factor, added, scale)

    def _multiply_dense(self, weight: np.ndarray, bias: np.ndarray | None, scale: np.ndarray | None) -> np.ndarray:
        """scale · (rows @ weight + bias) of dense rows; 16-bit ones are widened some at a time."""
        assert isinstance(self.rows, Tensor)
        table, added = self._centred(weight, bias)
        out = blank_table(len(self.rows), weight.shape[1])
        for low in range(0, len(out), _ROWS):
            rows = self.rows[low : low + _ROWS].to(torch.float32).contiguous().numpy()
            own_scale = None if scale is None else scale[low : low + _ROWS]
            native().multiply_dense(rows, table, out[low : low + _ROWS], None if added is None else added[0], own_scale)
        return out

    def _centred(self, weight: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """(table, added row) with rows @ weight + bias = X @ table + added."""
        table = weight
        if self.factor != 1.0:
            table = np.multiply(weight, np.float32(self.factor), out=blank_table(*weight.shape))
        if self.mean is not None:
            shift = -(self.mean.numpy() @ table)
            bias = shift if bias is None else bias + shift
        return table, None if bias is None else bias[None]

    @np.errstate(over="ignore", invalid="ignore")  # the loss tells of weights that diverge
    def gradients(self, of_hidden: np.ndarray, of_own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Gradients of weight and skip from those of the two products, by the native kernels."""
        if of_own is None:
            return self._gradient(of_hidden), None
        if not isinstance(self.rows, SparseMatrix) or not _reads_once(self.rows, of_hidden, of_own):
            return self._gradient(of_hidden), self._gradient(of_own)
        one, two = multiply_two_tables(self.rows.transpose, of_hidden, of_own, self.factor)
        self._subtract_mean(one, of_hidden, self.factor)
        self._subtract_mean(two, of_own, self.factor)
        return one, two

    def _gradient(self, outer: np.ndarray) -> np.ndarray:
        """(num_features, width) transpose of the rows times outer, (num_rows, width)."""
        rows = self.rows
        if isinstance(rows, SparseMatrix):
            found = multiply_transposed_table(rows, outer)
        else:
            assert isinstance(rows, Tensor)
            sums = zero_table(num_parts(rows.numel()), rows.shape[1], outer.shape[1])
            for low in range(0, len(outer), _ROWS):
                part = rows[low : low + _ROWS].to(torch.float32).contiguous().numpy()
                native().multiply_dense_transposed(part, outer[low : low + _ROWS], sums)
            found = add_parts(sums)
        self._subtract_mean(found, outer)
        if self.factor != 1.0:
            found *= np.float32(self.factor)
        return found

    def _subtract_mean(self, found: np.ndarray, outer: np.ndarray, factor: float = 1.0) -> None:
        """Make factor · Xᵀ outer, (num_features, width), that of the centred rows, in place."""
        if self.mean is not None:
            once = np.zeros(len(found), np.int32)
            mean = np.float32(-factor) * self.mean.numpy()
            native().move_rows(sum_rows(outer)[None], found, once, mean, add=True)


def _reads_once(rows: SparseMatrix, one: np.ndarray, two: np.ndarray) -> bool:
    """Whether reading the rows once for both tables is possible and quicker."""
    if rows.bits is not None:
        return False
    return rows.entries_per_row >= _FEW_ENTRIES and (one.shape[1], two.shape[1]) == native().two_widths


def block_bounds(low: int, high: int, num_columns: int, block_bytes: int | None = None) -> list[tuple[int, int]]:
    """Ranges of rows that have about this size as dense float32."""
    step = max(1, (block_bytes or BLOCK_BYTES) // (4 * max(1, num_columns)))
    return [(start, min(start + step, high)) for start in range(low, high, step)]


class FeatureReader:
    """Rows of features as the encoder reads them, in memory where they fit.

    Args:
        read: Gives the rows of the nodes low:high.
        low, high: The nodes that are wanted.
        num_columns: Columns that the encoder reads.
        num_stored: Columns of a row as it is stored.
        keep_bytes: Blocks are kept in memory until they have this size together.
        storage, device: As in `FeatureTable`.
    """

    def __init__(
        self,
        read: Callable[[int, int], Features],
        low: int,
        high: int,
        num_columns: int,
        *,
        num_stored: int = 0,
        keep_bytes: int = 0,
        storage: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        self.low, self.high, self.num_columns = low, high, num_columns
        self._read, self._storage, self._device = read, storage, device
        self._bounds = block_bounds(low, high, max(num_columns, num_stored))
        self._bytes_left, self._kept = keep_bytes, dict[int, FeatureTable]()
        self._block_bytes = 4 * num_columns * max((stop - start for start, stop in self._bounds), default=0)

    def fits(self, num_blocks: int) -> bool:
        """Whether copies of so many blocks fit what is left."""
        return num_blocks * self._block_bytes <= self._bytes_left

    def blocks(self) -> Iterator[tuple[slice, FeatureTable]]:
        """(rows counted from `low`, their features) of all blocks in order."""
        for start, stop in self._bounds:
            table = self._kept.get(start)
            if table is None:
                nodes = np.arange(start, stop, dtype=np.int32)
                table = FeatureTable.build(self._read(start, stop), nodes, self._device, self._storage)
                size = table.num_bytes
                if size <= self._bytes_left:
                    self._kept[start] = table
                    self._bytes_left -= size
            yield slice(start - self.low, stop - self.low), table


@dataclass(frozen=True, eq=False)
class FeatureBlocks:
    """X of a range of nodes, some of its entries dropped; see `ConstantMatrix`.

    Attributes:
        reader: Gives the rows.
        dropout, seed, epoch: As in `FeatureTable.dropped`.
    """

    reader: FeatureReader
    dropout: float = 0.0
    seed: int = 0
    epoch: int = 0
    in_one_block: ClassVar[bool] = False
    _dropped: dict[int, Tensor] = field(default_factory=dict)

    def dropped(self, fraction: float, *, seed: int, epoch: int) -> FeatureBlocks:
        """The features with a fraction of the entries set to zero and the rest scaled up."""
        return FeatureBlocks(self.reader, fraction, seed, epoch)

    def product(self, dense: Tensor, added: Tensor | None = None) -> Tensor:
        """(num_rows, width) X times dense, (num_columns, width), and (width,) added."""
        dense = dense.detach()
        result = dense.new_empty(self.num_rows, dense.shape[1])
        bias = None if added is None else added.detach()
        for here, rows in self.blocks():
            result[here] = FeatureRows(rows).multiply(dense, bias)
        return result

    def transposed_product(self, dense: Tensor) -> Tensor:
        """(num_columns, width) the transpose of X times dense, (num_rows, width)."""
        dense = dense.detach().contiguous()
        total = dense.new_zeros(self.reader.num_columns, dense.shape[1])
        for here, rows in self.blocks():
            if isinstance(rows, SparseMatrix):
                total += rows.transposed_product(dense[here])
            else:
                total += rows.to(dense.dtype).t() @ dense[here]
        return total

    @property
    def num_rows(self) -> int:
        """Number of nodes."""
        return self.reader.high - self.reader.low

    def blocks(self) -> Iterator[tuple[slice, Tensor | SparseMatrix]]:
        """(rows, their features) of all blocks in order."""
        for here, table in self.reader.blocks():
            rows: Tensor | SparseMatrix | None = self._dropped.get(here.start)
            if rows is None:
                rows = table.dropped(self.dropout, seed=self.seed, epoch=self.epoch)
                if self.dropout and isinstance(rows, Tensor) and self.reader.fits(len(self._dropped) + 1):
                    self._dropped[here.start] = rows  # for the gradient
            yield here, rows
