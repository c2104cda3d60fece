"""Text in array folders: the bytes of all names one after the other, and where each begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import StoredArray
from l2g2g.graphs.array_writer import FolderWriter
from l2g2g.graphs.store_checks import REMEDY, check_offsets

_NAMES_AT_ONCE = 1 << 16


def write_text(writer: FolderWriter, name: str, texts: np.ndarray) -> None:
    """Write names in UTF-8, as the arrays NAME_bytes and NAME_offsets."""
    blocks = (texts[low : low + _NAMES_AT_ONCE] for low in range(0, len(texts), _NAMES_AT_ONCE))
    for part, rows in text_parts(name, blocks):
        writer.append(part, rows)


def text_parts(name: str, blocks: Iterable[np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Names, some at a time, as rows of the arrays NAME_bytes and NAME_offsets."""
    yield f"{name}_offsets", np.zeros(1, np.int64)
    end = 0
    for texts in blocks:
        encoded = [str(text).encode() for text in texts.tolist()]
        ends = end + np.cumsum([len(text) for text in encoded], dtype=np.int64)
        yield f"{name}_bytes", np.frombuffer(b"".join(encoded), np.uint8)
        yield f"{name}_offsets", ends
        end = int(ends[-1]) if len(ends) else end


def read_text(arrays: dict[str, StoredArray], name: str, low: int, high: int | None) -> np.ndarray:
    """The names low:high as strings in an object array."""
    high = len(arrays[f"{name}_offsets"]) - 1 if high is None else high
    offsets = arrays[f"{name}_offsets"].read(low, high + 1)
    check_offsets(offsets, len(arrays[f"{name}_bytes"]), arrays[f"{name}_offsets"].path)
    content = arrays[f"{name}_bytes"].read(int(offsets[0]), int(offsets[-1]))
    try:
        return decode_text(content, offsets - offsets[0])
    except UnicodeDecodeError as error:
        raise InputError(f"{arrays[f'{name}_bytes'].path}: is damaged (no UTF-8); {REMEDY}") from error


def decode_text(content: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(num_names,) strings in an object array, from their bytes and where each begins and ends."""
    data = content.tobytes()
    texts = [data[first:last].decode() for first, last in pairwise(offsets.tolist())]
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array
