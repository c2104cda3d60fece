"""Patch cache: what batches need of patches that do not stay in memory, in a file, as they take it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from l2g2g.graphs.scratch_file import Piece, ScratchFile
from l2g2g.models.features import FeatureTable
from l2g2g.models.sparse import SparseMatrix
from l2g2g.patches.store import unit_weights
from l2g2g.training.pair_source import PatchEdges


@dataclass(frozen=True)
class _Matrix:
    """A CSR matrix in the file; data None where all entries are 1."""

    indptr: Piece
    indices: Piece
    data: Piece | None
    shape: tuple[int, int]


class PatchCache:
    """Edges and features of batches in a file without a name, which is gone with this object.

    Edges are those of training, features are scaled and in the precision in which they are held. Arrays are mapped:
    they take memory only while a batch is worked on, and nothing is copied.

    Args:
        folder: Where the file lies: beside the patches; it becomes about as large as they are.
    """

    def __init__(self, folder: Path) -> None:
        self._file = ScratchFile(folder)
        self._edges: dict[int, tuple[_Matrix, _Matrix | None]] = {}
        self._dense: dict[int, tuple[Piece, torch.dtype, FeatureTable]] = {}
        self._sparse: dict[int, tuple[list[Piece | None], FeatureTable]] = {}

    def has_edges(self, batch: int) -> bool:
        """Whether the edges of a batch are here, and its features with them."""
        return batch in self._edges

    def write_edges(self, batch: int, edges: PatchEdges) -> None:
        """Keep the edges of a batch."""
        arcs = None if edges.arcs is None else self._write_matrix(edges.arcs)
        self._edges[batch] = self._write_matrix(edges.adjacency), arcs

    def write_features(self, batch: int, table: FeatureTable) -> None:
        """Keep the features of a batch."""
        matrix = table.matrix
        if isinstance(matrix, Tensor):
            piece = self._file.write(matrix.cpu().contiguous().view(torch.uint8).numpy())
            self._dense[batch] = piece, matrix.dtype, replace(table, matrix=matrix.new_empty(0, matrix.shape[1]))
        else:
            parts = matrix.starts, matrix.ends, matrix.indices, matrix.values
            pieces = [None if part is None else self._file.write(part) for part in parts]
            nothing = np.empty(0, np.int64)
            empty = replace(matrix, starts=nothing, ends=nothing, indices=np.empty(0, np.int32), values=None)
            self._sparse[batch] = pieces, replace(table, matrix=empty)

    def read_edges(self, batch: int) -> PatchEdges:
        """The edges of a batch."""
        adjacency, arcs = self._edges[batch]
        return PatchEdges(self._read_matrix(adjacency), None if arcs is None else self._read_matrix(arcs))

    def read_features(self, batch: int) -> FeatureTable:
        """The features of a batch."""
        if batch in self._dense:
            piece, dtype, table = self._dense[batch]
            assert isinstance(table.matrix, Tensor)
            rows = torch.from_numpy(self._file.read(piece)).view(dtype)
            return replace(table, matrix=rows.to(table.matrix.device))  # on the CPU they stay mapped
        pieces, table = self._sparse[batch]
        starts, ends, indices, values = (None if piece is None else self._file.read(piece) for piece in pieces)
        assert isinstance(table.matrix, SparseMatrix)
        assert starts is not None
        assert ends is not None
        assert indices is not None
        return replace(table, matrix=replace(table.matrix, starts=starts, ends=ends, indices=indices, values=values))

    def prefetch(self, batch: int) -> None:
        """Let the system read what a batch has here, while another one is worked on."""
        matrices = [part for part in self._edges.get(batch, ()) if part is not None]
        pieces = [piece for part in matrices for piece in (part.indptr, part.indices, part.data)]
        if batch in self._dense:
            pieces.append(self._dense[batch][0])
        if batch in self._sparse:
            pieces += self._sparse[batch][0]
        for piece in pieces:
            if piece is not None:
                self._file.prefetch(piece)

    def _write_matrix(self, matrix: sp.csr_array) -> _Matrix:
        parts = self._file.write(matrix.indptr), self._file.write(matrix.indices)
        data = self._file.write(matrix.data) if matrix.data.strides != (0,) else None  # `unit_weights` take no memory
        return _Matrix(*parts, data, matrix.shape)

    def _read_matrix(self, found: _Matrix) -> sp.csr_array:
        indices = self._file.read(found.indices)
        data = unit_weights(len(indices)) if found.data is None else self._file.read(found.data)
        return sp.csr_array((data, indices, self._file.read(found.indptr)), shape=found.shape)
