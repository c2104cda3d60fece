"""Array folders: arrays in .npy files beside a manifest, read piece by piece and checked before they are used.

FOLDER/manifest.json   format, kind, values, and of every array its type, shape and SHA-256, and its own SHA-256
FOLDER/NAME.npy        one array, rows one after the other; its SHA-256 is that of the numbers behind the header
FOLDER/NAME            another small file, in the manifest with its size and SHA-256

Pieces are read into memory of their own and never mapped: pages of a mapped file count as memory of the process.
Text is two arrays, the bytes of all names and where each begins. `array_writer` makes these folders, complete or not at
all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from l2g2g.errors import InputError

FORMAT = "l2g2g arrays 2"
MANIFEST = "manifest.json"
HEADER_BYTES = 128
_BLOCK_BYTES = 1 << 24
_GAP_BYTES = 1 << 16  # reading so much more is cheaper than reading twice
_LONGEST_READ = 1 << 30  # the system takes no more than 2 GB at once
REMEDY = "write the store again with l2g2g prepare"
_NAMES_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class ArrayInfo:
    """What the manifest says of one array."""

    dtype: np.dtype
    shape: tuple[int, ...]
    sha256: str

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def num_bytes(self) -> int:
        """Bytes of the numbers, without the header of the file."""
        return self.shape[0] * self.row_bytes


class StoredArray:
    """One array on disk. Pieces of it are read by plain file reads."""

    def __init__(self, path: Path, info: ArrayInfo, remedy: str = REMEDY) -> None:
        self.path, self.info, self.remedy = path, info, remedy
        self._handle = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""
        return self.info.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers."""
        return self.info.dtype

    def __len__(self) -> int:
        """Number of rows."""
        return self.info.shape[0]

    def read(self, low: int = 0, high: int | None = None) -> np.ndarray:
        """(high - low, ...) rows low:high, in an array of their own."""
        high = len(self) if high is None else high
        out = np.empty((max(0, high - low), *self.shape[1:]), self.dtype)
        self.read_into(out, low)
        return out

    def read_into(self, out: np.ndarray, low: int) -> None:
        """Fill out with the rows that begin at low."""
        if not 0 <= low <= low + len(out) <= len(self):
            raise IndexError(f"rows {low}:{low + len(out)} of {len(self)} in {self.path.name}")
        view = out.data.cast("B") if out.size else memoryview(b"")
        place, done = HEADER_BYTES + low * self.info.row_bytes, 0
        while done < len(view):
            count = os.preadv(self._handle, [view[done : done + _LONGEST_READ]], place + done)
            if count == 0:
                raise InputError(f"{self.path}: is cut off; {self.remedy}")
            done += count

    def take(self, rows: np.ndarray) -> np.ndarray:
        """(num_rows, ...) these rows, in their order. Ascending rows read best."""
        return self.take_ranges(rows, rows + 1)

    def take_ranges(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The rows starts[i]:ends[i] for every i, one after the other. Ascending ranges read best."""
        lengths = ends - starts
        places = np.concatenate([[0], np.cumsum(lengths)])
        out = np.empty((int(places[-1]), *self.shape[1:]), self.dtype)
        order = np.argsort(starts, kind="stable")
        for first, last in self._spans(starts[order], ends[order]):
            group = order[first:last]
            low, high = int(starts[group[0]]), int(ends[group].max())
            span = self.read(low, high)
            out[_positions(places[group], lengths[group])] = span[_positions(starts[group] - low, lengths[group])]
        return out

    def _spans(self, starts: np.ndarray, ends: np.ndarray) -> Iterator[tuple[int, int]]:
        """Consecutive ranges that are read at once: what lies between them is little, and all of them not too much."""
        row_bytes = max(1, self.info.row_bytes)
        far = np.flatnonzero(starts[1:] - ends[:-1] > _GAP_BYTES // row_bytes) + 1
        for first, last in pairwise([0, *far.tolist(), len(starts)]):
            while first < last:
                reach = starts[first] + max(1, _BLOCK_BYTES // row_bytes)
                middle = max(first + 1, int(np.searchsorted(ends[first:last], reach, side="right")) + first)
                yield first, middle
                first = middle

    def blocks(self, num_rows: int) -> Iterator[np.ndarray]:
        """All rows in order, num_rows at a time."""
        for low in range(0, len(self), num_rows):
            yield self.read(low, min(low + num_rows, len(self)))

    def map(self) -> np.ndarray:
        """The array mapped from the file: pages that are touched count as memory until they are given back."""
        return np.load(self.path, mmap_mode="r", allow_pickle=False)

    def check_size(self) -> None:
        """Refuse a file that is not as long as its manifest says, or that begins with another header."""
        expected = HEADER_BYTES + self.info.num_bytes
        found = os.fstat(self._handle).st_size
        if found != expected:
            raise InputError(f"{self.path}: is damaged ({found:,} bytes of {expected:,}); {self.remedy}")
        if os.pread(self._handle, HEADER_BYTES, 0) != npy_header(self.dtype, self.shape):
            raise InputError(f"{self.path}: is damaged (its header differs); {self.remedy}")

    def check_hash(self) -> None:
        """Refuse a file whose numbers are not those that were written."""
        if file_hash(self._handle, self.info.num_bytes) != self.info.sha256:
            raise InputError(f"{self.path}: is damaged (its checksum differs); {self.remedy}")


def _positions(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """starts[i], starts[i] + 1, … up to lengths[i] of them, for every i."""
    places = np.cumsum(lengths) - lengths
    return np.repeat(starts - places, lengths) + np.arange(int(lengths.sum()))


class SlicedArray:
    """A stored array that is sliced like one in memory; NumPy functions read it as a whole."""

    def __init__(self, stored: StoredArray) -> None:
        self.stored = stored

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.stored)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """(num_rows, ...) consecutive rows, in an array of their own."""
        low, high, _ = rows.indices(len(self))
        return self.stored.read(low, high)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The whole array."""
        return self.stored.read().astype(dtype or self.stored.dtype, copy=False)


class ArrayFolder:
    """An open folder of arrays; `open_folder` makes it.

    Attributes:
        folder: Its path.
        values: What the manifest says besides the arrays.
        arrays: The arrays by name.
        files: Size and SHA-256 of the other files by name.
        sha256: That of the manifest, which holds those of all arrays: equal where the folders are.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], remedy: str = REMEDY) -> None:
        self.folder, self.remedy = folder, remedy
        self.values: dict[str, Any] = manifest["values"]
        self.sha256: str = manifest["sha256"]
        self.arrays = {
            name: StoredArray(folder / f"{name}.npy", _read_info(name, item), remedy)
            for name, item in manifest["arrays"].items()
        }
        self.files: dict[str, dict[str, Any]] = {name: dict(item) for name, item in manifest["files"].items()}

    @property
    def num_bytes(self) -> int:
        """Bytes on disk of all arrays."""
        return sum(HEADER_BYTES + array.info.num_bytes for array in self.arrays.values())

    def read_file(self, name: str) -> bytes:
        """The bytes of another file, as they were written."""
        path = self.folder / name
        if name not in self.files:
            raise InputError(f"{self.folder}: has no {name}; {self.remedy}")
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise InputError(f"{path}: is missing; {self.remedy}") from error
        if self.files[name] != describe_bytes(data):
            raise InputError(f"{path}: is damaged (its checksum differs); {self.remedy}")
        return data


def describe_bytes(data: bytes) -> dict[str, Any]:
    """Size and SHA-256, as a manifest has them."""
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _read_info(name: str, item: dict[str, Any]) -> ArrayInfo:
    """An entry of a manifest; ValueError where it is none: names lead to files, and types decide how bytes are read."""
    dtype, shape = np.dtype(item["dtype"]), tuple(item["shape"])
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of an array")
    if dtype.kind not in "iuf" or not dtype.isnative:
        raise ValueError(f"{name} holds {dtype}")
    if not shape or not all(isinstance(size, int) and 0 <= size < 2**62 for size in shape):
        raise ValueError(f"{name} has shape {shape}")
    return ArrayInfo(dtype, shape, str(item["sha256"]))


def is_folder_of(folder: Path, kind: str) -> bool:
    """Whether a path is a complete folder of this kind; it may still be damaged."""
    try:
        return bool(json.loads((folder / MANIFEST).read_bytes())["kind"] == kind)
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return False


def open_folder(folder: Path, kind: str, *, verify: bool = False, remedy: str = REMEDY) -> ArrayFolder:
    """Open a folder and check its manifest and the size of every file; verify: also the SHA-256 of every array.

    remedy: what to do about a folder that cannot be read, for the end of an error.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise InputError(f"{folder}: holds no {kind}, or it was never finished; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{folder / MANIFEST}: is damaged (no JSON); {remedy}") from error
    if not isinstance(manifest, dict) or manifest.get("sha256") != manifest_hash(manifest):
        raise InputError(f"{folder / MANIFEST}: is damaged (its checksum differs); {remedy}")
    if manifest.get("format") != FORMAT or manifest.get("kind") != kind:
        found = f"{manifest.get('kind')} of '{manifest.get('format')}'"
        raise InputError(f"{folder}: holds {found}, this version reads {kind} of '{FORMAT}'; {remedy}")
    try:
        opened = ArrayFolder(folder, manifest, remedy)
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: is missing; {remedy}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / MANIFEST}: is no manifest of arrays ({error}); {remedy}") from error
    for array in opened.arrays.values():
        array.check_size()
        if verify:
            array.check_hash()
    return opened


def manifest_hash(manifest: dict[str, Any]) -> str:
    """SHA-256 of a manifest without its own, the same before writing and after reading."""
    rest = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def file_hash(handle: int, num_bytes: int) -> str:
    """SHA-256 of the bytes behind the header."""
    digest, place, end = hashlib.sha256(), HEADER_BYTES, HEADER_BYTES + num_bytes
    while place < end:
        block = os.pread(handle, min(_BLOCK_BYTES, end - place), place)
        if not block:
            break
        digest.update(block)
        place += len(block)
    return digest.hexdigest()


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The header of an .npy file, always HEADER_BYTES long: it is written again when the number of rows is known."""
    text = repr({"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    length = HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1).encode("latin1") + b"\n"


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
        raise InputError(f"{path}: is damaged (offsets decrease or exceed {most:,}); {REMEDY}")


def check_numbers(numbers: np.ndarray, limit: int, path: Path) -> None:
    """Refuse numbers of nodes, columns or patches below 0, or from limit on."""
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= limit):
        wrong = int(numbers.min()) if numbers.min() < 0 else int(numbers.max())
        raise InputError(f"{path}: is damaged (number {wrong} of {limit:,}); {REMEDY}")


def name_arrays(name: str, blocks: Iterable[np.ndarray | pa.Array]) -> Iterator[tuple[str, np.ndarray]]:
    """Ids or labels, some at a time: integers as rows of the array NAME, anything else as in `text_arrays`."""
    blocks = iter(blocks)
    first = next(blocks, None)
    if first is None:
        return
    if np.asarray(first[:0]).dtype.kind in "iu":
        yield from ((name, np.asarray(block, np.int64)) for block in chain([first], blocks))
    else:
        yield from text_arrays(name, chain([first], blocks))


def blocks_of(names: np.ndarray | Any) -> Iterator[np.ndarray]:
    """Ids or labels in slices, also those of a graph on disk."""
    return (names[low : low + _NAMES_AT_ONCE] for low in range(0, len(names), _NAMES_AT_ONCE))


def text_arrays(name: str, blocks: Iterable[np.ndarray | pa.Array]) -> Iterator[tuple[str, np.ndarray]]:
    """Names, some at a time, as rows of the arrays NAME_bytes and NAME_offsets."""
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
