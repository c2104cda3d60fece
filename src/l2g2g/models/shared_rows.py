"""Shared rows: linear algebra on tables of which every rank has some rows.

What has no rows (sums, norms, small matrices) is the same on all ranks, to the bit; one process has all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.parallel.questions import ask


@dataclass(frozen=True)
class SharedRows:
    """The ranks that have the rows.

    Attributes:
        communicator: Of these ranks; those with lower numbers have the rows before.
        kind: Of their messages.
    """

    communicator: Communicator = LOCAL
    kind: str = "structure"

    @property
    def has_all(self) -> bool:
        """Whether this process has all rows."""
        return self.communicator.size == 1

    def total(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all ranks."""
        if self.has_all:
            return values
        summed = values.contiguous().to(self.communicator.device)
        self.communicator.all_reduce(self.kind, summed)
        return summed.to(values.device)

    def inner(self, left: Tensor, right: Tensor) -> Tensor:
        """(left_width, right_width) products of the columns of two tables."""
        return self.total(left.t() @ right)

    def norms(self, table: Tensor) -> Tensor:
        """(width,) lengths of the columns."""
        return table.norm(dim=0) if self.has_all else self.total(table.square().sum(0)).sqrt()

    def orthonormal(self, table: Tensor) -> Tensor:
        """(num_rows, width) orthonormal basis of the columns: QR of the rows here, then of the small factors of all."""
        basis, factor = torch.linalg.qr(table)
        if self.has_all:
            return basis
        counts = self._count_rows(len(factor))
        stacked = self.communicator.all_gather(self.kind, factor.to(self.communicator.device), counts).to(table.device)
        turn = self._of_first(torch.linalg.qr(stacked).Q)
        first = sum(counts[: self.communicator.rank])
        return basis @ turn[first : first + len(factor)]

    def eigh(self, matrix: Tensor) -> tuple[Tensor, Tensor]:
        """(width,) eigenvalues and (width, width) eigenvectors of a small symmetric matrix, largest first."""
        values, vectors = torch.linalg.eigh(matrix)
        return self._of_first(values.flip(0)), self._of_first(vectors.flip(1))

    def largest(self, table: Tensor) -> Tensor:
        """(width,) the entry of every column with the largest absolute value, the first of equals."""
        width = table.shape[1]
        found = table.new_zeros(1, width)
        if len(table):
            found = torch.take_along_dim(table, table.abs().argmax(dim=0, keepdim=True), 0)
        if not self.has_all:
            found = self.gather(found)
            found = torch.take_along_dim(found, found.abs().argmax(dim=0, keepdim=True), 0)
        return found[0]

    def sums(self, *values: float) -> list[float]:
        """The sum of each of some numbers over all ranks."""
        found: list[float] = self.total(torch.tensor(values, dtype=torch.float64)).tolist()
        return found

    def lowest(self, value: float) -> float:
        """The smallest of the numbers of all ranks."""
        return float(self.gather(torch.tensor([[value]], dtype=torch.float64)).min())

    def gather(self, table: Tensor) -> Tensor:
        """(num_rows of all, width) the rows of all ranks, on all; for tables of few rows."""
        if self.has_all:
            return table
        counts = self._count_rows(len(table))
        rows = self.communicator.all_gather(self.kind, table.contiguous().to(self.communicator.device), counts)
        return rows.to(table.device)

    def fetch(self, table: Tensor, rows: np.ndarray) -> Tensor:
        """(num_wanted, width) rows of the table of all ranks, each from the rank that has it.

        table: the rows of this rank. rows: (num_wanted,) int64 ascending, those that this rank wants.
        """
        if self.has_all:
            return table[torch.from_numpy(rows).to(table.device)]
        asked, expected, lengths = self._ask(len(table), rows)
        answer = table.index_select(0, torch.from_numpy(asked).to(table.device)).to(self.communicator.device)
        return self.communicator.all_to_all(self.kind, answer, expected, lengths).to(table.device)

    def fetch_pattern(self, pattern: sp.csr_array, rows: np.ndarray) -> sp.csr_array:
        """(num_wanted, num_columns) CSR: rows of the pattern of all ranks, each from the rank that has it.

        pattern: (num_rows, num_columns) the rows of this rank. rows: as in `fetch`.
        """
        if self.has_all:
            return pattern[rows]
        device = self.communicator.device
        asked, expected, lengths = self._ask(pattern.shape[0], rows)
        answer = pattern[asked]
        counts = torch.from_numpy(np.diff(answer.indptr).astype(np.int64)).to(device)
        wanted = self.communicator.all_to_all(self.kind, counts, expected, lengths).cpu().numpy()
        away = np.diff(answer.indptr[np.cumsum([0, *expected])]).tolist()
        ends = np.concatenate([[0], np.cumsum(wanted)])
        coming = np.diff(ends[np.cumsum([0, *lengths])]).tolist()
        sent = torch.from_numpy(answer.indices.astype(np.int32, copy=False)).to(device)
        entries = self.communicator.all_to_all(self.kind, sent, away, coming).cpu().numpy()
        ones = np.ones(len(entries), np.float32)
        return sp.csr_array((ones, entries, ends), shape=(len(rows), pattern.shape[1]))

    def _ask(self, num_rows: int, rows: np.ndarray) -> tuple[np.ndarray, list[int], list[int]]:
        """(rows here that others want, how many of them each rank does, how many rows each rank has for this one).

        num_rows: of this rank. rows: as in `fetch`.
        """
        bounds = np.cumsum([0, *self._count_rows(num_rows)])
        question = ask(self.communicator, self.kind, rows, np.diff(np.searchsorted(rows, bounds)).tolist())
        return question.received - bounds[self.communicator.rank], question.expected, question.lengths

    def on_first(self, table: Tensor) -> Tensor:
        """(num_rows of all, width) the rows of all ranks on the first one; no row on the others."""
        if self.has_all:
            return table
        counts = [count for (count,) in self.communicator.tell_all("count", [len(table)])]
        return self.communicator.gather(self.kind, table.to(self.communicator.device), counts).to(table.device)

    def _count_rows(self, num_rows: int) -> list[int]:
        """(num_ranks,) rows of each rank."""
        return [count for (count,) in self.communicator.tell_all(self.kind, [num_rows])]

    def _of_first(self, values: Tensor) -> Tensor:
        """What the first rank has: libraries of other machines may round otherwise, or choose another sign."""
        if self.has_all:
            return values
        data = values.contiguous().numpy().tobytes() if self.communicator.is_first else b""
        received = bytearray(self.communicator.broadcast(self.kind, data))
        return torch.frombuffer(received, dtype=values.dtype).view(values.shape)
