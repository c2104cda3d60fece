"""Open files safely: NumPy archives, compressed bytes, Parquet footers; a failure becomes one clear error line."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from l2g2g.errors import InputError, ResourceError, first_line

_MAX_DEFLATE_RATIO = 1032  # a file smaller than the limit by this factor needs no check
_TEXT_PARTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")  # .txt files in a folder are notes, not parts
# Field numbers in the Thrift definition of a Parquet footer.
_ROW_GROUPS, _COLUMNS, _CHUNK, _NUM_VALUES, _NUM_BYTES = 4, 1, 3, 5, 6
_MIN_VALUE_BYTES = 4  # in memory; repeated values take next to nothing in the file
_MAX_DEPTH = 30


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any failure to read a file into an error that names the file."""
    try:
        yield
    except (InputError, ResourceError):
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder; give a file") from error
    except PermissionError as error:
        raise ResourceError(f"{path}: no permission to read it") from error
    except (MemoryError, pa.ArrowMemoryError) as error:
        raise ResourceError(f"{path}: does not fit into memory") from error
    except (
        OSError,
        EOFError,
        ValueError,  # includes pa.ArrowInvalid and UnicodeDecodeError
        TypeError,  # a damaged .npy header
        OverflowError,
        KeyError,
        SyntaxError,  # a damaged .npy header is parsed as Python literals
        tokenize.TokenError,
        RuntimeError,  # encrypted, of an unknown compression or type (NotImplementedError), nested beyond recursion
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        struct.error,
        pa.ArrowException,
    ) as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{path}: holds pickled objects, which are never run; save plain arrays") from error
        raise InputError(f"{path}: damaged or cut off ({first_line(error)}); write or fetch it again") from error


def load_arrays(path: Path, optional: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Load all arrays of an .npz (by key) or of an .npy (under the key "array"); refuse pickles.

    optional: keys that are skipped where they hold pickled objects.
    """
    # Opened here, because NumPy leaves the file open when it is damaged.
    with reading(path), path.open("rb") as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*created on Python 2")
        magic = file.read(6)
        if magic and not magic.startswith((b"\x93NUMPY", b"PK", b"\x80")):  # \x80 begins a pickle
            raise InputError(f"{path}: is neither an .npy nor an .npz file; write or fetch it again")
        file.seek(0)
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"array": native(loaded)}
        with loaded:
            keys = [key for key in loaded.files if key not in optional or not _is_pickled(loaded, key)]
            arrays = {key: loaded[key] for key in keys}
            for key, array in arrays.items():
                if not isinstance(array, np.ndarray):  # NumPy returns the bytes of any other member
                    raise InputError(f"{path}: {key} is not an array; write or fetch it again")
            return {key: native(array) for key, array in arrays.items()}


def plain_npy_shape(path: Path, kinds: str) -> tuple[int, ...] | None:
    """Return the shape of an .npy file whose dtype has one of these kinds; None for any other or damaged file."""
    with suppress(OSError, ValueError, TypeError, EOFError, SyntaxError, tokenize.TokenError), path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            return array.shape if array.dtype.kind in kinds else None
    return None


def read_npy_rows(path: Path, low: int, high: int) -> np.ndarray:
    """Read the rows low:high of an .npy file into an array of their own, so that mapped pages are released at once."""
    with reading(path):
        return native(np.array(np.load(path, mmap_mode="r", allow_pickle=False)[low:high]))


def native(array: np.ndarray) -> np.ndarray:
    """Return the array in the byte order of this machine."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _is_pickled(archive: np.lib.npyio.NpzFile, key: str) -> bool:
    """Return True if the header of an array says that it holds Python objects."""
    assert archive.zip is not None  # the archive is open
    with archive.zip.open(f"{key}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return bool(read(stream)[2].hasobject)


@contextmanager
def open_bytes(path: Path) -> Iterator[Any]:
    """Open a file for reading, decompressed where its name ends in .gz."""
    with reading(path), gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
        yield stream


def parquet_parts(folder: Path) -> list[Path]:
    """List the Parquet files of a folder by name, without those that begin with _ or a dot.

    A subfolder whose name ends like a file, as Spark writes a table, stands for the files in it.
    """
    return _parts(folder, (".parquet",))


def text_parts(folder: Path) -> list[Path]:
    """List the .csv and .tsv files of a folder, also compressed by gzip, in the same way."""
    return _parts(folder, _TEXT_PARTS)


def parts_of(path: Path) -> list[Path]:
    """List the files of a table: the parts of a folder, otherwise the file itself."""
    return (parquet_parts(path) or text_parts(path)) if path.is_dir() else [path]


def _parts(folder: Path, endings: tuple[str, ...], *, nested: bool = True) -> list[Path]:
    with reading(folder):
        found = sorted(path for path in folder.iterdir() if path.name.lower().endswith(endings))
    found = [path for path in found if not path.name.startswith(("_", "."))]
    return [
        part for path in found for part in (_parts(path, endings, nested=False) if nested and path.is_dir() else [path])
    ]


def is_parquet(path: Path) -> bool:
    """Return True for a file that ends in .parquet, or a folder of such files."""
    return bool(parquet_parts(path)) if path.is_dir() else path.suffix.lower() == ".parquet"


def check_unpacked_size(path: Path, memory_limit: int | None = None) -> None:
    """Refuse a compressed file that would unpack to more than memory_limit bytes, before unpacking it.

    memory_limit: the free memory of the machine where it is None.
    """
    memory_limit = _free_memory() if memory_limit is None else memory_limit
    with reading(path):
        num_bytes = _unpacked_size(path, memory_limit)
    refuse_size(path, num_bytes, memory_limit)


def refuse_size(path: Path, num_bytes: int, memory_limit: int | None) -> None:
    """Refuse a file that takes more memory than memory_limit, or than the machine has free where that is None."""
    limit = _free_memory() if memory_limit is None else memory_limit
    if num_bytes > limit:
        raise ResourceError(
            f"{path}: unpacks to at least {num_bytes / 1e6:,.0f} MB but {limit / 1e6:,.0f} MB may be used; "
            f"use a smaller file or allow more memory"
        )


def _unpacked_size(path: Path, limit: int) -> int:
    """Return the number of bytes after unpacking; for .gz the count stops soon after the limit."""
    suffix = path.suffix.lower()
    if suffix == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    if suffix == ".gz" and path.stat().st_size * _MAX_DEFLATE_RATIO > limit:
        num_bytes = 0
        with gzip.open(path) as stream:
            while num_bytes <= limit and (block := stream.read(1 << 20)):
                num_bytes += len(block)
        return num_bytes
    if path.is_dir():
        return sum(_unpacked_size(part, limit) for part in parts_of(path))
    if suffix == ".parquet":
        return decoded_size(path)
    return path.stat().st_size


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 1 << 62


def decoded_size(path: Path) -> int:
    """Return a lower bound of the bytes that the columns of a Parquet file take in memory, from its footer alone.

    PyArrow offers these numbers too, but a damaged footer ends its process. Raises ValueError for a damaged footer.
    """
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length + 8 > end:
            raise ValueError("no Parquet footer at its end")
        file.seek(end - 8 - length)
        footer = _Reader(file.read(length)).struct()
    total = 0
    for group in _list(footer.get(_ROW_GROUPS)):
        for column in _list(group.get(_COLUMNS) if isinstance(group, dict) else None):
            chunk = column.get(_CHUNK) if isinstance(column, dict) else None
            values, size = (chunk.get(_NUM_VALUES), chunk.get(_NUM_BYTES)) if isinstance(chunk, dict) else (None, None)
            if not isinstance(values, int) or not isinstance(size, int) or min(values, size) < 0:
                raise ValueError("its footer has a column without sizes")
            total += max(_MIN_VALUE_BYTES * values, size)
    return total


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _Reader:
    """Reads Thrift's compact protocol: structs as {field: value}, None for what is no number, list or struct."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def byte(self) -> int:
        if self.place >= len(self.data):
            raise ValueError("its footer is cut off")
        self.place += 1
        return self.data[self.place - 1]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("its footer has a number beyond 64 bits")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, count: int) -> None:
        if count > len(self.data) - self.place:
            raise ValueError("its footer is cut off")
        self.place += count

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("its footer is nested too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            found[field] = None if kind in (1, 2) else self.value(kind, depth)  # a boolean is its own kind
        return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self.skip(1)
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 7:
            return self.skip(8)
        if kind == 8:
            return self.skip(self.varint())
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            if count > len(self.data) - self.place:
                raise ValueError("its footer is cut off")
            return [self.value(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("its footer has a value of an unknown kind")
