"""Scratch file: arrays that do not stay in memory, in a file without a name, which is gone with its object."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from l2g2g.errors import ResourceError

_WILL_NEED = getattr(mmap, "MADV_WILLNEED", None)  # not on every system


@dataclass(frozen=True)
class Piece:
    """Where an array lies in the file."""

    first_byte: int
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the array."""
        return self.dtype.itemsize * int(np.prod(self.shape))


class ScratchFile:
    """Arrays are mapped: they take memory only while they are used, and nothing is copied.

    Args:
        folder: Where the file lies, if one may write there; None for a temporary folder.
    """

    def __init__(self, folder: Path | None) -> None:
        is_writable = folder is not None and os.access(folder, os.W_OK)
        self._folder = str(folder) if is_writable else tempfile.gettempdir()
        with tempfile.TemporaryFile(dir=self._folder) as file:
            self._handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._handle)
        self._num_bytes = 0

    def write(self, array: np.ndarray) -> Piece:
        """Append an array."""
        piece = Piece(self._num_bytes, array.dtype, array.shape)
        data = np.ascontiguousarray(array).data.cast("B") if array.size else memoryview(b"")
        place = self._num_bytes
        try:
            while data:
                written = os.pwrite(self._handle, data, place)
                place, data = place + written, data[written:]
        except OSError as error:
            raise ResourceError(
                f"what does not fit --memory is written to {self._folder}, which failed after "
                f"{place / 1e6:,.0f} MB ({error.strerror}); free space on its disk, or allow more --memory"
            ) from error
        self._num_bytes = -(-place // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        return piece

    def read(self, piece: Piece) -> np.ndarray:
        """Map an array."""
        if piece.num_bytes == 0:
            return np.empty(piece.shape, piece.dtype)
        return np.frombuffer(self._map(piece), piece.dtype).reshape(piece.shape)

    def prefetch(self, piece: Piece) -> None:
        """Let the system read an array while something else is worked on."""
        if piece.num_bytes and _WILL_NEED is not None:
            self._map(piece).madvise(_WILL_NEED)

    def _map(self, piece: Piece) -> mmap.mmap:
        """A private mapping: torch wants memory that may be written to, although nothing writes."""
        return mmap.mmap(self._handle, piece.num_bytes, access=mmap.ACCESS_COPY, offset=piece.first_byte)
