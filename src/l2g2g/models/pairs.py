"""Pairs: node pairs that a loss scores, as a list or as the arcs of a symmetric pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from l2g2g.core import native

WeightKind = Literal["all", "row", "pair"]


@dataclass(frozen=True, eq=False)
class PairList:
    """Node pairs (row, column), each once.

    Attributes:
        rows, columns: (num_pairs,) int32.
        weights: float32 weights in the loss: (1,) of all pairs, (num_rows,) by the row of a pair, or (num_pairs,).
        kind: The one of these three: all, row or pair.
    """

    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    kind: WeightKind = "all"

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.rows)

    @property
    def pair_list(self) -> PairList:
        """The list itself, as `Arcs` and `NegativeDraws` have it."""
        return self

    @property
    def pair_weights(self) -> np.ndarray:
        """(num_pairs,) weight of every pair."""
        if self.kind == "all":
            return np.full(len(self.rows), self.weights[0], np.float32)
        return self.weights[self.rows] if self.kind == "row" else self.weights

    def select(self, chosen: np.ndarray) -> PairList:
        """Return some of the pairs. chosen: (num_pairs,) bool."""
        weights = self.weights[chosen] if self.kind == "pair" else self.weights
        return PairList(self.rows[chosen], self.columns[chosen], weights, self.kind)

    def join(self, other: PairList) -> PairList:
        """Return the pairs of both lists, each with its weight."""
        parts = self, other
        return PairList(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.pair_weights for part in parts]),
            "pair",
        )


@dataclass(frozen=True, eq=False)
class Arcs:
    """Pairs in both directions, as a symmetric CSR pattern that may have gaps between its rows.

    Attributes:
        starts, ends: (num_rows,) int64 range of entries of each row.
        indices: (num_entries,) int32 columns.
        weights: float32 weights of the arcs, half the weight of a pair: (1,), (num_rows,) or (num_entries,).
        kind: The one of these three: all, row or pair.
        is_checked: A kernel made the pattern, so that it need not be checked.
    """

    starts: np.ndarray
    ends: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    kind: WeightKind = "all"
    is_checked: bool = False

    @property
    def num_pairs(self) -> int:
        """Number of arcs: every pair counts twice if both of its rows are here."""
        return int((self.ends - self.starts).sum())

    @cached_property
    def csr(self) -> Any:
        """The pattern as the native kernels take it."""
        return native().Csr(self.starts, self.ends, self.indices, None, len(self.starts), self.is_checked)

    @cached_property
    def pair_list(self) -> PairList:
        """Every pair once, the lower row first."""
        rows, entries = row_entries(self.starts, self.ends)
        columns = self.indices[entries]
        upper = columns > rows
        weights = self.weights[entries[upper]] if self.kind == "pair" else self.weights
        return PairList(rows[upper].astype(np.int32), columns[upper], 2 * weights, self.kind)


def row_entries(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the (rows, entries) of a CSR pattern that may have gaps between its rows."""
    lengths = ends - starts
    before = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(len(starts)), lengths)
    return rows, np.repeat(starts - before[:-1], lengths) + np.arange(before[-1])
