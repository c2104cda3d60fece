"""Opening files safely: NumPy archives and compressed bytes, with every failure turned into one clear line."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from l2g2g.errors import InputError, ResourceError, first_line
from l2g2g.graphs.arrow_types import is_list, is_text, plain_type
from l2g2g.graphs.parquet_sizes import decoded_size

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Deflate cannot do better than this, so a file smaller than the limit by this factor needs no check.
_LARGEST_DEFLATE_RATIO = 1032
_BUFFER_BYTES = 1 << 24  # of all columns together
_TEXT_PARTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")  # not .txt, which is rather a note about the others


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
        TypeError,  # a header of an array that is no header
        OverflowError,
        KeyError,
        SyntaxError,  # a damaged .npy header is parsed as Python literals
        tokenize.TokenError,
        RuntimeError,  # encrypted, of an unknown compression or type (NotImplementedError), nested beyond recursion
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        struct.error,
        pyarrow.ArrowException,
    ) as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{path}: holds pickled objects, which are never run; save plain arrays") from error
        raise InputError(f"{path}: damaged or cut off ({first_line(error)}); write or fetch it again") from error


def load_arrays(path: Path, passed_over: Collection[str] = ()) -> dict[str, np.ndarray]:
    """All arrays of an .npz (by key) or of an .npy (under the key "array"); pickles are refused.

    passed_over: keys that are left aside where they hold pickled objects, which then stay unread.
    """
    # Opened here, because NumPy leaves the file open when it is damaged.
    with reading(path), path.open("rb") as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*created on Python 2")  # read all the same
        magic = file.read(6)
        if magic and not magic.startswith((b"\x93NUMPY", b"PK", b"\x80")):  # the last is how a pickle begins
            raise InputError(f"{path}: is neither an .npy nor an .npz file; write or fetch it again")
        file.seek(0)
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"array": native(loaded)}
        with loaded:
            keys = [key for key in loaded.files if key not in passed_over or not _is_pickled(loaded, key)]
            arrays = {key: loaded[key] for key in keys}
            for key, array in arrays.items():
                if not isinstance(array, np.ndarray):  # NumPy hands over the bytes of a member that is none
                    raise InputError(f"{path}: {key} is no array; write or fetch it again")
            return {key: native(array) for key, array in arrays.items()}


def plain_npy_shape(path: Path, kinds: str) -> tuple[int, ...] | None:
    """The shape of an .npy file of numbers of these kinds; None where it is anything else, or damaged."""
    with suppress(OSError, ValueError, TypeError, EOFError, SyntaxError, tokenize.TokenError), path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            return array.shape if array.dtype.kind in kinds else None
    return None


def read_npy_rows(path: Path, low: int, high: int) -> np.ndarray:
    """The rows low:high of an .npy file in memory of their own: pages of the file are given back at once."""
    with reading(path):
        return native(np.array(np.load(path, mmap_mode="r", allow_pickle=False)[low:high]))


def native(array: np.ndarray) -> np.ndarray:
    """The same array with the bytes of its numbers in the order of this machine, as others want them."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _is_pickled(archive: np.lib.npyio.NpzFile, key: str) -> bool:
    """Whether an array holds Python objects, by its header alone."""
    assert archive.zip is not None  # the archive is open
    with archive.zip.open(f"{key}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return bool(read(stream)[2].hasobject)


@contextmanager
def open_bytes(path: Path) -> Iterator[Any]:
    """A file opened to be read piece by piece, decompressed where its name ends in .gz."""
    with reading(path), gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
        yield stream


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A Parquet file, or the parts of a folder, of numbers, text and lists of numbers, opened to be read in batches.

    Attributes:
        path: The file or folder.
        parts: The files in order.
        schema: Names and types of its columns; text is a dictionary until it is unpacked.
        num_rows: Number of rows.
        num_bytes: Least number of bytes that the columns take in memory.
        texts: Names of the columns that are read as dictionaries.
    """

    path: Path
    parts: list[Path]
    schema: pa.Schema
    num_rows: int
    num_bytes: int
    texts: list[str]

    def batches(self, num_rows: int, memory_limit: int | None = None) -> Iterator[pa.Table]:
        """All rows, so many at a time, page by page: a part of a column may be as large as the file.

        memory_limit: bytes of text that a batch may hold; by default the free memory of the machine.
        """
        import pyarrow as pa

        for part in self.parts:
            with self._opened(part) as file:
                for batch in file.iter_batches(batch_size=num_rows):
                    if batch.num_rows:
                        yield self._in_full(pa.Table.from_batches([batch]), memory_limit)

    def read(self, memory_limit: int | None = None) -> pa.Table:
        """All rows at once: column by column, which takes less memory than to join batches.

        memory_limit: bytes that the table may take; by default the free memory of the machine.
        """
        import pyarrow as pa

        _refuse_size(self.path, self.num_bytes, memory_limit)
        tables = []
        for part in self.parts:
            with self._opened(part) as file:
                tables.append(self._in_full(file.read(), memory_limit))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    @contextmanager
    def _opened(self, part: Path) -> Iterator[pq.ParquetFile]:
        import pyarrow.parquet as pq

        buffer_size = max(1 << 14, min(1 << 20, _BUFFER_BYTES // max(1, len(self.schema))))
        with (
            reading(part),
            pq.ParquetFile(part, read_dictionary=self.texts, pre_buffer=False, buffer_size=buffer_size) as file,
        ):
            yield file

    def _in_full(self, table: pa.Table, memory_limit: int | None) -> pa.Table:
        """The table, checked, with dictionaries of text expanded, which may take far more memory than they did."""
        import pyarrow as pa

        table.validate(full=True)  # text that is no text, places that are none
        packed = [pa.types.is_dictionary(column.type) for column in table.columns]
        num_bytes = sum(_text_size(column) for column, it_is in zip(table.columns, packed, strict=True) if it_is)
        _refuse_size(self.path, num_bytes, memory_limit)
        columns = [
            column.cast(column.type.value_type) if it_is else column
            for column, it_is in zip(table.columns, packed, strict=True)
        ]
        return pa.table(columns, names=table.column_names)


def open_parquet(path: Path) -> ParquetTable:
    """Open a Parquet file, or a folder of parts that have the same columns."""
    if not path.is_dir():
        return _open_part(path)
    parts = [_open_part(part) for part in parquet_parts(path)]
    if not parts:
        raise InputError(f"{path}: no Parquet files in this folder; give a folder of .parquet parts, or a file")
    for part in parts[1:]:
        if not part.schema.equals(parts[0].schema):
            raise InputError(
                f"{part.path}: its columns are not those of {parts[0].path.name} ({_show(part.schema)} instead of "
                f"{_show(parts[0].schema)}); write all parts with the same columns and types"
            )
    num_rows, num_bytes = (sum(getattr(part, name) for part in parts) for name in ("num_rows", "num_bytes"))
    return ParquetTable(path, [part.path for part in parts], parts[0].schema, num_rows, num_bytes, parts[0].texts)


def parquet_parts(folder: Path) -> list[Path]:
    """The Parquet files of a folder in the order of their names, without those that begin with _ or a dot.

    A folder in it whose name ends like a file, as Spark writes a table, stands for the files that it holds.
    """
    return _parts(folder, (".parquet",))


def text_parts(folder: Path) -> list[Path]:
    """The .csv and .tsv files of a folder, packed by gzip or not, found as `parquet_parts` finds its own."""
    return _parts(folder, _TEXT_PARTS)


def parts_of(path: Path) -> list[Path]:
    """The files of a table: of a folder its parts, otherwise the file itself."""
    return (parquet_parts(path) or text_parts(path)) if path.is_dir() else [path]


def _parts(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    found = _named(folder, endings)
    return [part for path in found for part in (_named(path, endings) if path.is_dir() else [path])]


def _named(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    with reading(folder):
        found = sorted(path for path in folder.iterdir() if path.name.lower().endswith(endings))
    return [path for path in found if not path.name.startswith(("_", "."))]


def is_parquet(path: Path) -> bool:
    """Whether this is a Parquet file, by its ending, or a folder of them."""
    return bool(parquet_parts(path)) if path.is_dir() else path.suffix.lower() == ".parquet"


def _open_part(path: Path) -> ParquetTable:
    import pyarrow.parquet as pq

    with reading(path):
        num_bytes = decoded_size(path)  # refuses a damaged footer, which PyArrow might not survive
        texts = _text_columns(pq.read_schema(path), path)
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            schema = file.schema_arrow.remove_metadata()  # what wrote it may differ from part to part
            return ParquetTable(path, [path], schema, file.metadata.num_rows, num_bytes, texts)


def _show(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def read_parquet(path: Path, memory_limit: int | None = None) -> pa.Table:
    """The whole table of a Parquet file, refused where it is larger than it may be."""
    return open_parquet(path).read(memory_limit)


def _text_columns(schema: pa.Schema, path: Path) -> list[str]:
    """Names of the columns of text; a column that is neither numbers, text nor lists of numbers is refused."""
    import pyarrow as pa

    for field in schema:
        plain = field.type.value_type if is_list(field.type) else plain_type(field.type)
        if pa.types.is_nested(plain) or pa.types.is_binary(plain) or (is_list(field.type) and is_text(plain)):
            raise InputError(f"{path}: column {field.name!r} holds {field.type}; use numbers and text")
    return [field.name for field in schema if is_text(field.type)]


def _text_size(column: pa.ChunkedArray) -> int:
    """Bytes of a column of dictionaries once every row has its own value."""
    import pyarrow.compute as pc

    total = 8 * len(column)
    for chunk in column.chunks:
        if is_text(chunk.dictionary.type):
            lengths = pc.binary_length(chunk.dictionary).cast("int64")
            total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def check_unpacked_size(path: Path, memory_limit: int | None = None) -> None:
    """Refuse a compressed file that would unpack to more than memory_limit bytes, before unpacking it.

    Without a limit the memory that the machine has free is the limit.
    """
    memory_limit = _free_memory() if memory_limit is None else memory_limit
    with reading(path):
        num_bytes = _unpacked_size(path, memory_limit)
    _refuse_size(path, num_bytes, memory_limit)


def _refuse_size(path: Path, num_bytes: int, memory_limit: int | None) -> None:
    limit = _free_memory() if memory_limit is None else memory_limit
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
