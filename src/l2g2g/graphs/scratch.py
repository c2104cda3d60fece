"""Scratch files: numbers that are put aside while a store is written, and are gone when it is done."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np


class ScratchFile:
    """A file of numbers of one type, written at its end and read anywhere. It is made at the first write."""

    def __init__(self, path: Path) -> None:
        self.path, self.num_bytes = path, 0
        self._handle: int | None = None
        self._close: Any = None

    def write(self, array: np.ndarray) -> None:
        """Add numbers at the end."""
        if array.size == 0:
            return
        if self._handle is None:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            self._close = weakref.finalize(self, os.close, self._handle)
        data = np.ascontiguousarray(array).data.cast("B")
        while data:
            written = os.pwrite(self._handle, data, self.num_bytes)
            self.num_bytes += written
            data = data[written:]

    def read(self, dtype: Any, first: int, count: int) -> np.ndarray:
        """(count,) numbers from first on."""
        if count == 0:
            return np.empty(0, dtype)
        with self.path.open("rb") as file:
            return np.fromfile(file, dtype, count, offset=first * np.dtype(dtype).itemsize)

    def take(self, dtype: Any) -> np.ndarray:
        """All numbers, and the file is gone."""
        array = self.read(dtype, 0, self.num_bytes // np.dtype(dtype).itemsize)
        self.remove()
        return array

    def remove(self) -> None:
        """Delete the file, if it was made."""
        if self._handle is not None:
            self._close()
            self.path.unlink()
        self._handle, self.num_bytes = None, 0
