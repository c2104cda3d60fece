"""Streamed files: the arrays and the names of a record go to disk part by part, so that no second copy is in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

_KINDS = {"f": "F", "i": "I", "u": "U"}
_BYTES_AT_ONCE = 1 << 24
_NAMES_AT_ONCE = 1 << 16


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Write arrays as safetensors: a JSON header, then the bytes of one after the other. Returns sum and size."""
    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {"dtype": _type_of(array), "shape": array.shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    parts = (part for array in arrays.values() for part in _bytes_of(array))
    return _write(path, chain([len(text).to_bytes(8, "little"), text], parts))


def write_names(path: Path, ids: np.ndarray | None, classes: list[str] | None) -> dict[str, Any]:
    """Write ids and classes as one JSON object. Returns sum and size."""
    end = f', "classes": {json.dumps(classes)}}}'.encode()
    if ids is None:
        return _write(path, [b'{"ids": null', end])
    return _write(path, chain([b'{"ids": ['], chain(_texts_of(ids), [b"]" + end])))


def describe(data: bytes) -> dict[str, Any]:
    """Sum and size of the contents of a file, as the functions that write give them."""
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _write(path: Path, parts: Iterable[bytes | memoryview]) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            size += len(part)
    return {"sha256": digest.hexdigest(), "bytes": size}


def _type_of(array: np.ndarray) -> str:
    """As safetensors names it."""
    kind = array.dtype.kind
    return "BOOL" if kind == "b" else f"{_KINDS[kind]}{8 * array.dtype.itemsize}"


def _bytes_of(array: np.ndarray) -> Iterator[memoryview]:
    if array.size:
        flat = np.ascontiguousarray(array).reshape(-1).data.cast("B")
        for low in range(0, len(flat), _BYTES_AT_ONCE):
            yield flat[low : low + _BYTES_AT_ONCE]


def _texts_of(ids: np.ndarray) -> Iterator[bytes]:
    for low in range(0, len(ids), _NAMES_AT_ONCE):
        text = json.dumps(ids[low : low + _NAMES_AT_ONCE].tolist())[1:-1]
        yield (", " + text if low else text).encode()
