"""Opening files safely: NumPy archives and compressed bytes, with every failure turned into one clear line."""

from __future__ import annotations

import gzip
import os
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from l2g2g.errors import InputError, ResourceError

# Deflate cannot do better than this, so a file smaller than the limit by this factor needs no check.
_LARGEST_DEFLATE_RATIO = 1032


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into an error that names the file."""
    import pyarrow

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
    except (MemoryError, pyarrow.ArrowMemoryError) as error:
        raise ResourceError(f"{path}: does not fit into memory") from error
    except (
        OSError,
        EOFError,
        ValueError,  # includes pyarrow.ArrowInvalid and UnicodeDecodeError
        KeyError,
        SyntaxError,  # a damaged .npy header is parsed as Python literals
        tokenize.TokenError,
        NotImplementedError,  # an unknown compression inside a zip, an unsupported parquet type
        zipfile.BadZipFile,
        zlib.error,
        pyarrow.ArrowException,
    ) as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{path}: holds pickled objects, which are never run; save plain arrays") from error
        raise InputError(f"{path}: damaged or cut off ({_first_line(error)}); write or fetch it again") from error


def load_arrays(path: Path, passed_over: Collection[str] = ()) -> dict[str, np.ndarray]:
    """All arrays of an .npz (by key) or of an .npy (under the key "array"); pickles are refused.

    passed_over: keys that are left aside where they hold pickled objects, which then stay unread.
    """
    # Opened here, because NumPy leaves the file open when it is damaged.
    with reading(path), path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"array": loaded}
        with loaded:
            keys = [key for key in loaded.files if key not in passed_over or not _is_pickled(loaded, key)]
            arrays = {key: loaded[key] for key in keys}
            for key, array in arrays.items():
                if not isinstance(array, np.ndarray):  # NumPy hands over the bytes of a member that is none
                    raise InputError(f"{path}: {key} is no array; write or fetch it again")
            return arrays


def _is_pickled(archive: np.lib.npyio.NpzFile, key: str) -> bool:
    """Whether an array holds Python objects, by its header alone."""
    assert archive.zip is not None  # the archive is open
    with archive.zip.open(f"{key}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return bool(read(stream)[2].hasobject)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked where its name ends in .gz."""
    with reading(path):
        if path.suffix.lower() != ".gz":
            return path.read_bytes()
        with gzip.open(path) as stream:
            return stream.read()


def check_unpacked_size(path: Path, memory_limit: int | None = None) -> None:
    """Refuse a compressed file that would unpack to more than memory_limit bytes, before unpacking it.

    Without a limit the memory that the machine has free is the limit.
    """
    limit = _free_memory() if memory_limit is None else memory_limit
    with reading(path):
        num_bytes = _unpacked_size(path, limit)
    if num_bytes > limit:
        raise ResourceError(
            f"{path}: unpacks to at least {num_bytes / 1e6:,.0f} MB but {limit / 1e6:,.0f} MB may be used; "
            f"use a smaller file or allow more memory"
        )


def _unpacked_size(path: Path, limit: int) -> int:
    """Bytes after unpacking; for .gz the count stops soon after the limit."""
    suffix = path.suffix.lower()
    if suffix == ".npz" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    if suffix == ".gz" and path.stat().st_size * _LARGEST_DEFLATE_RATIO > limit:
        num_bytes = 0
        with gzip.open(path) as stream:
            while num_bytes <= limit and (block := stream.read(1 << 20)):
                num_bytes += len(block)
        return num_bytes
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(path)
        return sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    return path.stat().st_size


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 1 << 62


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:160]
