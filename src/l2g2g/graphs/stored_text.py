"""Text in array folders: the bytes of all names one after the other, and where each begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import StoredArray
from l2g2g.graphs.array_writer import FolderWriter
from l2g2g.graphs.store_checks import REMEDY, check_offsets

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES_AT_ONCE = 1 << 16


def write_text(writer: FolderWriter, name: str, texts: np.ndarray) -> None:
    """Write names in UTF-8, as the arrays NAME_bytes and NAME_offsets."""
    blocks = (texts[low : low + _NAMES_AT_ONCE] for low in range(0, len(texts), _NAMES_AT_ONCE))
    for part, rows in text_arrays(name, blocks):
        writer.append(part, rows)


def text_arrays(name: str, blocks: Iterable[np.ndarray | pa.Array]) -> Iterator[tuple[str, np.ndarray]]:
    """Names, some at a time, as rows of the arrays NAME_bytes and NAME_offsets."""
    import pyarrow as pa

    yield f"{name}_offsets", np.zeros(1, np.int64)
    end = 0
    for texts in blocks:
        column = [str(text) for text in texts.tolist()] if isinstance(texts, np.ndarray) else texts
        array = pa.array(column, pa.large_string()) if isinstance(column, list) else column.cast(pa.large_string())
        _, places, content = array.buffers()
        offsets = np.frombuffer(places, np.int64, len(array) + 1, 8 * array.offset)
        data = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
        yield f"{name}_bytes", data[offsets[0] : offsets[-1]]
        yield f"{name}_offsets", end + offsets[1:] - offsets[0]
        end += int(offsets[-1] - offsets[0])


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
