"""Patches as users hand them over: any ids, NumPy or torch, in memory or mapped from disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.errors import InputError
from l2g2g.patches.overlap_index import rows_of_shared_nodes


@dataclass(frozen=True, eq=False)
class PatchInput:
    """Checked patches with nodes numbered 0 .. num_nodes - 1 in ascending order of their ids.

    Attributes:
        numbers: one (num_local,) int64 array per patch.
        coordinates: one (num_local, dim) array or tensor per patch, untouched and possibly on disk.
        names: (num_nodes,) ids in ascending order.
        offsets: (num_patches + 1,) first row of each patch if all were stacked.
        shared_rows: stacked rows of the nodes that stand in several patches, ascending.
        dtype, device: of the result.
        is_torch: whether results are tensors or NumPy arrays.
    """

    numbers: list[np.ndarray]
    coordinates: list[Any]
    names: np.ndarray
    offsets: np.ndarray
    shared_rows: np.ndarray
    dtype: torch.dtype
    device: torch.device
    is_torch: bool

    @property
    def num_patches(self) -> int:
        """Number of patches."""
        return len(self.numbers)

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return self.coordinates[0].shape[1]

    def load(self, patch: int, rows: np.ndarray | None = None) -> Tensor:
        """Return the coordinates of a patch, or of some of its rows, as a tensor; only these are read from disk."""
        values = self.coordinates[patch]
        if isinstance(values, Tensor):
            values = values.detach()
            values = values if rows is None else values[torch.from_numpy(rows).to(values.device)]
            return values.to(self.device, self.dtype)
        values = np.asarray(values) if rows is None else np.asarray(values[rows])
        if not values.flags.writeable or not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))  # torch takes neither read-only nor foreign bytes
        return torch.from_numpy(values).to(self.device, self.dtype)

    def shared_of(self, patch: int) -> np.ndarray:
        """Local rows of a patch that hold nodes of other patches too."""
        start, stop = np.searchsorted(self.shared_rows, self.offsets[patch : patch + 2])
        return self.shared_rows[start:stop] - self.offsets[patch]

    def export(self, values: Tensor) -> Any:
        """Hand a result back as the kind of array that came in."""
        return values if self.is_torch else values.cpu().numpy()


def read_patches(patches: Sequence[tuple[Any, Any]]) -> PatchInput:
    """Check (nodes, coordinates) pairs and number their nodes.

    Raises:
        InputError: no patches, differing dimensions or devices, lengths that do not match, or ids of mixed kinds.
    """
    if len(patches) == 0:
        raise InputError("there is nothing to align: give at least one (nodes, coordinates) pair")
    ids, coordinates = [], []
    for number, patch in enumerate(patches):
        if len(patch) != 2:
            raise InputError(f"patch {number} is not a pair (nodes, coordinates)")
        ids.append(_as_ids(patch[0], number))
        coordinates.append(_as_coordinates(patch[1], number))
        if len(ids[-1]) != coordinates[-1].shape[0]:
            raise InputError(f"patch {number} has {len(ids[-1])} nodes and {coordinates[-1].shape[0]} coordinate rows")
        if coordinates[-1].shape[1] != coordinates[0].shape[1]:
            raise InputError(
                f"patch {number} has {coordinates[-1].shape[1]} dimensions, patch 0 has {coordinates[0].shape[1]}; "
                "align needs the same number in all patches"
            )
    if len({kind.dtype.kind in "US" for kind in ids}) > 1:
        raise InputError("some patches have integer ids and some have strings; convert them to one kind")
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in ids])]).astype(np.int64)
    names, numbers = _number(np.concatenate(ids))
    tensors = [part for part in coordinates if isinstance(part, Tensor)]
    devices = sorted({str(part.device) for part in tensors})
    if len(devices) > 1:
        raise InputError(f"the coordinates of the patches are on {' and '.join(devices)}; move them to one device")
    return PatchInput(
        numbers=np.split(numbers, offsets[1:-1]),
        coordinates=coordinates,
        names=names,
        offsets=offsets,
        shared_rows=rows_of_shared_nodes(numbers),
        dtype=_common_dtype(coordinates),
        device=tensors[0].device if tensors else torch.device("cpu"),
        is_torch=bool(tensors),
    )


def _as_ids(nodes: Any, patch: int) -> np.ndarray:
    ids = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
    if ids.dtype.kind == "O":
        ids = ids.astype(str)
    if ids.size == 0:
        ids = ids.reshape(0).astype(np.int64) if ids.dtype.kind == "f" else ids.reshape(0)
    if ids.ndim != 1 or ids.dtype.kind not in "iuUS":
        raise InputError(
            f"the nodes of patch {patch} must be a list of integers or strings, not {ids.dtype} {ids.shape}"
        )
    return ids


def _as_coordinates(values: Any, patch: int) -> Any:
    if not isinstance(values, (Tensor, np.ndarray)):
        values = np.asarray(values)
    kind_is_number = isinstance(values, Tensor) or values.dtype.kind in "fiu"
    if values.ndim != 2 or not kind_is_number:
        raise InputError(
            f"the coordinates of patch {patch} must be a table of numbers, not shape {tuple(values.shape)}"
        )
    return values


def _common_dtype(coordinates: list[Any]) -> torch.dtype:
    """The widest of the input precisions, at least float32; integers count as float64."""
    wide = {torch.float64, torch.int64, torch.int32, np.dtype("f8"), np.dtype("i8"), np.dtype("i4")}
    return torch.float64 if any(part.dtype in wide for part in coordinates) else torch.float32


def _number(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ids in ascending order, and the position of each id among them."""
    if ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < 8 * len(ids) + 1024:  # a table is many times faster than sorting
            shifted = ids.astype(np.int64) - low if low else ids.astype(np.int64, copy=False)
            present = np.zeros(high - low + 1, dtype=bool)
            present[shifted] = True
            if present.all():
                return np.arange(low, high + 1), shifted
            return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[shifted]
    names, numbers = np.unique(ids, return_inverse=True)
    return names, numbers.astype(np.int64)
