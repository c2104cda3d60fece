"""Feature blocks: products with the features of a range of nodes that are read block by block, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from l2g2g.graphs.graph import Features
from l2g2g.models.features import FeatureRows, FeatureTable
from l2g2g.models.sparse import SparseMatrix

BLOCK_BYTES = 1 << 25


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
        result = dense.new_empty(self.reader.high - self.reader.low, dense.shape[1])
        bias = None if added is None else added.detach()
        for here, rows in self._blocks():
            result[here] = FeatureRows(rows).multiply(dense, bias)
        return result

    def transposed_product(self, dense: Tensor) -> Tensor:
        """(num_columns, width) the transpose of X times dense, (num_rows, width)."""
        dense = dense.detach().contiguous()
        total = dense.new_zeros(self.reader.num_columns, dense.shape[1])
        for here, rows in self._blocks():
            if isinstance(rows, SparseMatrix):
                total += rows.transposed_product(dense[here])
            else:
                total += rows.to(dense.dtype).t() @ dense[here]
        return total

    def _blocks(self) -> Iterator[tuple[slice, Tensor | SparseMatrix]]:
        for here, table in self.reader.blocks():
            rows: Tensor | SparseMatrix | None = self._dropped.get(here.start)
            if rows is None:
                rows = table.dropped(self.dropout, seed=self.seed, epoch=self.epoch)
                if self.dropout and isinstance(rows, Tensor) and self.reader.fits(len(self._dropped) + 1):
                    self._dropped[here.start] = rows  # for the gradient
            yield here, rows
