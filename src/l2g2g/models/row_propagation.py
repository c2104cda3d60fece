"""Row propagation: products with Â of a graph that is read block by block or shared by ranks, and their gradients.

The edges are symmetric, so that the rows of the transpose are those of the matrix with the factors of rows and columns
exchanged: both products are one pass over the rows of this rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from l2g2g.core import blank_table
from l2g2g.models.local_rows import LocalRows, block_matrix
from l2g2g.models.masking import MaskDraw, split_rows
from l2g2g.models.sparse import (
    SparseMatrix,
    invert_degrees,
    multiply_table,
    runs_native,
    scale_rows,
    sum_weights,
)

_MOST_COPIED = 1 << 29  # bytes of a table that are copied at a time; every part reads all edges once more
_LEAST_COLUMNS = 16  # a cache line


class VisibleRows:
    """The edges of this rank's rows that an encoder sees.

    Args:
        rows: All edges.
        mask: Which of them are hidden; None for none.
        keep_bytes: Blocks of visible edges are kept in memory until they have this size together.
        device: Where products are computed.
    """

    def __init__(
        self,
        rows: LocalRows,
        mask: MaskDraw | None = None,
        *,
        keep_bytes: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.mask, self.device = rows, mask, torch.device(device)
        self._bytes_left, self._kept = keep_bytes, dict[int, SparseMatrix]()

    def blocks(self) -> Iterator[tuple[int, SparseMatrix]]:
        """(first row, (num_rows, num_local) pattern with weights) of all blocks in order."""
        if self.mask is None:
            for block in self.rows.blocks():
                yield block.low, block_matrix(block, len(self.rows.nodes), self.device)
            return
        if self._is_complete:
            yield from self._kept.items()
            return
        for block in self.rows.blocks():
            matrix = self._kept.get(block.low)
            if matrix is None:
                whole = block_matrix(block, len(self.rows.nodes), self.device)
                matrix = split_rows(whole, block.indptr, self.mask, self.rows.first + block.low)
                if self._bytes_left > 0:
                    matrix = matrix.compact()
                    size = matrix.num_bytes
                    if size <= self._bytes_left:
                        self._kept[block.low] = matrix
                    self._bytes_left = max(0, self._bytes_left - size)
            yield block.low, matrix

    @property
    def _is_complete(self) -> bool:
        return sum(len(matrix.starts) for matrix in self._kept.values()) == self.rows.num_owned

    @cached_property
    def degrees(self) -> np.ndarray:
        """(num_owned,) float64 sum of the weights of the visible edges of every node."""
        found = [sum_weights(each.starts, each.ends, each.values) for _, each in self.blocks()]
        return np.concatenate([np.empty(0), *found])


@dataclass(frozen=True, eq=False)
class RowPropagation:
    """row_scale · (A + identity where `loops`) · column_scale of the rows of this rank; see `ConstantMatrix`.

    Attributes:
        edges: A.
        row_scale, column_scale: (num_owned,) float32; None for 1.
        loops: Whether the identity is added.
    """

    edges: VisibleRows
    row_scale: np.ndarray | None
    column_scale: np.ndarray | None
    loops: bool
    in_one_block: ClassVar[bool] = False

    @classmethod
    def symmetric(cls, edges: VisibleRows) -> RowPropagation:
        """Â = D^(-1/2) (A + I) D^(-1/2)."""
        scale = (1.0 / np.sqrt(1.0 + edges.degrees)).astype(np.float32)
        return cls(edges, scale, scale, loops=True)

    @cached_property
    def mean(self) -> RowPropagation:
        """D^(-1) A of the same edges."""
        return RowPropagation(self.edges, invert_degrees(self.edges.degrees), None, loops=False)

    def product(self, dense: Tensor, added: Tensor | None = None) -> Tensor:
        """(num_owned, width). dense: (num_owned, width) the rows of owned nodes."""
        result = self._multiply(dense, self.row_scale, self.column_scale)
        return result if added is None else result.add_(added)

    def transposed_product(self, dense: Tensor) -> Tensor:
        """(num_owned, width) the owned rows of the transpose times dense, (num_owned, width)."""
        return self._multiply(dense, self.column_scale, self.row_scale)

    def _multiply(self, dense: Tensor, row_scale: np.ndarray | None, column_scale: np.ndarray | None) -> Tensor:
        dense = dense.detach()
        out = torch.from_numpy(blank_table(*dense.shape)) if runs_native(dense) else torch.empty_like(dense)
        width = columns_at_once(self.edges.rows.num_nodes)  # the same on all ranks, which exchange every part
        for part, written in zip(dense.split(width, dim=1), out.split(width, dim=1), strict=True):
            self._multiply_columns(part, row_scale, column_scale, written)
        return out

    def _multiply_columns(
        self, dense: Tensor, row_scale: np.ndarray | None, column_scale: np.ndarray | None, out: Tensor
    ) -> None:
        """The same for some of the columns, written to those of the result."""
        rows, is_native = self.edges.rows, runs_native(dense)
        if column_scale is None:
            dense = dense.contiguous()
        elif is_native and dense.is_contiguous():
            dense = torch.from_numpy(scale_rows(dense.numpy(), column_scale))
        else:
            dense = (dense * torch.from_numpy(column_scale[:, None]).to(dense)).contiguous()
        table = rows.with_ghosts(dense)
        del dense
        for low, matrix in self.edges.blocks():
            here = slice(low, low + len(matrix.starts))
            own = table[rows.first + here.start : rows.first + here.stop] if self.loops else None
            scale = None if row_scale is None else row_scale[here]
            if is_native:
                loops = None if own is None else own.numpy()
                place = out[here].numpy() if out.is_contiguous() else None
                product = multiply_table(matrix, table.numpy(), loops, row_scale=scale, out=place)
                if place is None:
                    out[here] = torch.from_numpy(product)
                continue
            summed = matrix.product(table, own)
            out[here] = summed if scale is None else summed * torch.from_numpy(scale[:, None]).to(summed)


def columns_at_once(num_nodes: int) -> int:
    """Columns of a table that are copied at a time: all, or fewer of a large graph, so that the copy stays small."""
    return max(_LEAST_COLUMNS, _MOST_COPIED // (4 * num_nodes) // _LEAST_COLUMNS * _LEAST_COLUMNS)
