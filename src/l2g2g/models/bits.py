"""Bits: dense rows with one distinct non-zero value each, packed eight columns to a byte for faster native products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from l2g2g.core import blank_table, native

_LEAST_DENSITY = 1 / 6  # above it a byte holds more than one entry, which a product adds in one step
_ROWS = 4096  # rows that are packed at once


@dataclass(frozen=True, eq=False)
class BitRows:
    """A constant matrix whose non-zero entries in row r are all factor · values[r].

    Attributes:
        bits: (num_rows, num_bytes) uint8, the first column in the lowest bit, padded with zeros.
        values: (num_rows,) float32; None where all are 1.
        num_columns: Number of columns.
        factor: Factor of all entries.
    """

    bits: np.ndarray
    values: np.ndarray | None
    num_columns: int
    factor: float = 1.0

    @classmethod
    def pack(
        cls, starts: np.ndarray, ends: np.ndarray, indices: np.ndarray, values: np.ndarray | None, num_columns: int
    ) -> BitRows | None:
        """Pack the entries of a sparse matrix; None where bits are not faster, or a row has several values.

        Arguments as in `SparseMatrix`.
        """
        lengths, num_rows = ends - starts, len(starts)
        num_bytes = -(-num_columns // (8 * native().bit_padding)) * native().bit_padding
        is_dense = len(indices) >= _LEAST_DENSITY * num_rows * num_columns
        if not is_dense or num_columns == 0 or num_rows * num_bytes > indices.nbytes or lengths.sum() != len(indices):
            return None
        bits = np.empty((num_rows, num_bytes), np.uint8)
        own = np.ones(num_rows, np.float32)
        if values is not None:
            own[lengths > 0] = values[starts[lengths > 0]]
        for low in range(0, num_rows, _ROWS):
            here = slice(low, low + _ROWS)
            entries = slice(starts[low], ends[here][-1])
            rows = np.repeat(np.arange(len(lengths[here])), lengths[here])
            is_set = np.zeros((len(lengths[here]), 8 * num_bytes), np.bool_)
            is_set[rows, indices[entries]] = True
            if np.count_nonzero(is_set) != len(rows):
                return None  # repeated entries
            if values is not None and not np.array_equal(values[entries], own[here][rows]):
                return None
            bits[here] = np.packbits(is_set, axis=1, bitorder="little")
        return cls(bits, None if values is None else own, num_columns)

    def dropped(self, node_hashes: np.ndarray, key: int, threshold: int, factor: float) -> BitRows:
        """Return a copy with dropout; kept entries are multiplied by factor. Arguments as in `sparse.Dropout`."""
        kept = np.empty_like(self.bits)
        native().drop_bits(self.bits, node_hashes, key, threshold, kept)
        return BitRows(kept, self.values, self.num_columns, self.factor * factor)

    def multiply(
        self, table: np.ndarray, added: np.ndarray | None, out: np.ndarray, row_scale: np.ndarray | None
    ) -> np.ndarray:
        """Write row_scale · (rows @ table + added), (num_rows, width), to out. table: (num_columns, width) float32."""
        native().multiply_bits(self.bits, self.values, table, out, self.factor, row_scale, added, scale_added=True)
        return out

    def multiply_transposed(self, table: np.ndarray) -> np.ndarray:
        """Return rowsᵀ @ table, (num_columns, width). table: (num_rows, width) float32."""
        out = blank_table(self.num_columns, table.shape[1])
        native().multiply_bits_transposed(self.bits, self.values, table, out, self.factor)
        return out
