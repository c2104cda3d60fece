"""Store checks: a store may come from anywhere, and compiled code follows its numbers; so they are checked as read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import ArrayFolder

REMEDY = "write the store again with l2g2g prepare"


@contextmanager
def reading_manifest(folder: Path) -> Iterator[None]:
    """Turn values that are missing or of another kind into an error that names the folder."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder}: its manifest makes no sense ({error!r}); {REMEDY}") from error


def check_array(folder: ArrayFolder, name: str, dtypes: str, *shape: int | None) -> None:
    """Refuse an array that is missing, not of one of the dtypes ("int32 float16"), or of another shape; None: any."""
    array = folder.arrays.get(name)
    if array is None:
        raise InputError(f"{folder.folder}: has no {name}; {REMEDY}")
    fits = len(shape) == len(array.shape) and all(
        wanted is None or wanted == found for wanted, found in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.name not in dtypes.split():
        found = f"{array.dtype.name} of shape {array.shape}"
        raise InputError(f"{array.path}: is {found}, which does not fit the manifest; {REMEDY}")


def check_offsets(offsets: np.ndarray, most: int, path: Path) -> None:
    """Refuse places in an array that fall, or lie outside of it. most: the length of the array."""
    if len(offsets) and (offsets[0] < 0 or offsets[-1] > most or (offsets[1:] < offsets[:-1]).any()):
        raise InputError(f"{path}: is damaged (places that fall, or beyond {most:,}); {REMEDY}")


def check_numbers(numbers: np.ndarray, limit: int, path: Path) -> None:
    """Refuse numbers of nodes, columns or patches below 0, or from limit on."""
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= limit):
        wrong = int(numbers.min()) if numbers.min() < 0 else int(numbers.max())
        raise InputError(f"{path}: is damaged (number {wrong} of {limit:,}); {REMEDY}")
