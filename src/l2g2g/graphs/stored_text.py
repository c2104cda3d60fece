"""Text in array folders: the bytes of all names one after the other, and where each begins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import StoredArray
from l2g2g.graphs.array_writer import FolderWriter
from l2g2g.graphs.store_checks import REMEDY, check_offsets

_NAMES_AT_ONCE = 1 << 16


def write_text(writer: FolderWriter, name: str, texts: np.ndarray) -> None:
    """Write names in UTF-8, as the arrays NAME_bytes and NAME_offsets."""
    content, offsets = writer.array(f"{name}_bytes", np.uint8), writer.array(f"{name}_offsets", np.int64)
    offsets.append(np.zeros(1, np.int64))
    end = 0
    for low in range(0, len(texts), _NAMES_AT_ONCE):
        encoded = [str(text).encode() for text in texts[low : low + _NAMES_AT_ONCE].tolist()]
        ends = end + np.cumsum([len(text) for text in encoded], dtype=np.int64)
        content.append(np.frombuffer(b"".join(encoded), np.uint8))
        offsets.append(ends)
        end = int(ends[-1])


def read_text(arrays: dict[str, StoredArray], name: str, low: int, high: int | None) -> np.ndarray:
    """The names low:high as strings in an object array."""
    high = len(arrays[f"{name}_offsets"]) - 1 if high is None else high
    offsets = arrays[f"{name}_offsets"].read(low, high + 1)
    check_offsets(offsets, len(arrays[f"{name}_bytes"]), arrays[f"{name}_offsets"].path)
    content = arrays[f"{name}_bytes"].read(int(offsets[0]), int(offsets[-1])).tobytes()
    starts = (offsets - offsets[0]).tolist()
    try:
        texts = [content[first:last].decode() for first, last in pairwise(starts)]
    except UnicodeDecodeError as error:
        raise InputError(f"{arrays[f'{name}_bytes'].path}: is damaged (no UTF-8); {REMEDY}") from error
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array
