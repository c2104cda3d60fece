"""Writing array folders: into a folder beside, forced to disk, renamed at the end. Half of one never counts."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.array_folder import (
    FORMAT,
    HEADER_BYTES,
    MANIFEST,
    ArrayInfo,
    describe_bytes,
    file_hash,
    manifest_hash,
    name_arrays,
    npy_header,
)

LOCK = "lock"  # the file that is locked in a folder


class ArrayWriter:
    """One array on its way to disk: rows are appended, or placed anywhere where the shape is known."""

    def __init__(self, path: Path, dtype: np.dtype, row_shape: tuple[int, ...], num_rows: int | None) -> None:
        self.path, self.dtype, self.row_shape = path, dtype, row_shape
        self.num_rows = 0 if num_rows is None else num_rows
        self._row_bytes = dtype.itemsize * int(np.prod(row_shape, dtype=np.int64))
        self._digest = hashlib.sha256() if num_rows is None else None
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        if num_rows is not None:
            os.ftruncate(self._handle, HEADER_BYTES + num_rows * self._row_bytes)

    def append(self, rows: np.ndarray) -> None:
        """Add rows at the end."""
        data = self._bytes(rows)
        assert self._digest is not None, "an array of known length is placed, not appended"
        self._digest.update(data)
        self._write(data, HEADER_BYTES + self.num_rows * self._row_bytes)
        self.num_rows += len(rows)

    def place(self, low: int, rows: np.ndarray) -> None:
        """Put rows at low of an array of known length."""
        assert self._digest is None, "an array of unknown length is appended to"
        if not 0 <= low <= low + len(rows) <= self.num_rows:
            raise IndexError(f"rows {low}:{low + len(rows)} of {self.num_rows} in {self.path.name}")
        self._write(self._bytes(rows), HEADER_BYTES + low * self._row_bytes)

    def finish(self) -> ArrayInfo:
        """Write the header, force the file to disk, and say what was written."""
        shape = (self.num_rows, *self.row_shape)
        self._write(memoryview(npy_header(self.dtype, shape)), 0)
        if self._digest is not None:
            sha256 = self._digest.hexdigest()
        else:
            sha256 = file_hash(self._handle, self.num_rows * self._row_bytes)
        os.fsync(self._handle)
        self.close()
        return ArrayInfo(self.dtype, shape, sha256)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _bytes(self, rows: np.ndarray) -> memoryview:
        rows = np.ascontiguousarray(rows, self.dtype)
        assert rows.shape[1:] == self.row_shape, f"rows of {rows.shape[1:]}, not {self.row_shape}"
        return rows.data.cast("B") if rows.size else memoryview(b"")

    def _write(self, data: memoryview, place: int) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._handle, data[done:], place + done)


class FolderWriter:
    """A folder of arrays on its way to disk; `write_folder` makes it.

    Attributes:
        part: The folder while it is not finished; files put there that are no arrays must be removed again.
        values: What the manifest is to say besides the arrays.
    """

    def __init__(self, part: Path) -> None:
        self.part = part
        self.values: dict[str, Any] = {}
        self._open: dict[str, ArrayWriter] = {}
        self._files: dict[str, dict[str, Any]] = {}

    def array(
        self, name: str, dtype: Any, row_shape: tuple[int, ...] = (), *, num_rows: int | None = None
    ) -> ArrayWriter:
        """Begin an array: rows are appended, or placed where num_rows is given."""
        self._open[name] = ArrayWriter(self.part / f"{name}.npy", np.dtype(dtype), row_shape, num_rows)
        return self._open[name]

    def save(self, name: str, array: np.ndarray) -> None:
        """Write a whole array."""
        self.array(name, array.dtype, array.shape[1:]).append(array)

    def append(self, name: str, rows: np.ndarray) -> None:
        """Add rows to an array, which begins with the first of them."""
        if name not in self._open:
            self.array(name, rows.dtype, rows.shape[1:])
        self._open[name].append(rows)

    def save_names(self, name: str, blocks: Iterable[Any]) -> None:
        """Write ids or labels, integers or text, of which some come at a time."""
        for part, rows in name_arrays(name, blocks):
            self.append(part, rows)

    def save_file(self, name: str, data: bytes) -> None:
        """Write another file."""
        _write_file(self.part / name, data)
        self._files[name] = describe_bytes(data)

    def finish(self, kind: str) -> None:
        """Close all arrays and write the manifest."""
        arrays = {name: writer.finish() for name, writer in self._open.items()}
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "kind": kind,
            "values": self.values,
            "arrays": {
                name: {"dtype": info.dtype.str, "shape": list(info.shape), "sha256": info.sha256}
                for name, info in arrays.items()
            },
            "files": self._files,
        }
        manifest = json.loads(json.dumps(manifest))
        manifest["sha256"] = manifest_hash(manifest)
        _write_file(self.part / MANIFEST, json.dumps(manifest, indent=1).encode())

    def close(self) -> None:
        """Let go of all files."""
        for writer in self._open.values():
            writer.close()


def _write_file(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def write_folder(folder: Path, kind: str) -> Iterator[FolderWriter]:
    """Write a folder of arrays. It has its name only when all is on disk; one of that name is replaced then.

    What goes wrong leaves everything as it was. One process at a time writes beside another: see `locked`.
    """
    part = folder.with_name(f".{folder.name}.part")
    if folder.exists() and not (folder / MANIFEST).exists():
        raise InputError(f"{folder}: is in the way, and was not written here; move it, or give another folder")
    writer = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        part.mkdir()
        writer = FolderWriter(part)
        yield writer
        writer.finish(kind)
        force_to_disk(part)
        move_into_place(part, folder)
        force_to_disk(folder.parent)
    except (InputError, ResourceError):
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError(
            f"{folder}: cannot be written ({reason}); free some space or give another folder"
        ) from error
    finally:
        if writer is not None:
            writer.close()
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def locked(folder: Path, option: str = "folder") -> Iterator[None]:
    """Make a folder and be the only process that works in it; the system unlocks it however the process ends.

    option: what messages call the way to give another folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{folder}: is a file, not a directory; give another {option}") from error
    except OSError as error:
        raise ResourceError(f"{folder}: cannot be written to ({error.strerror}); give another {option}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(handle, 20, 0).decode(errors="replace").strip() or "unknown"
            raise InputError(
                f"{folder}: another process is using it (process {owner}); wait for it, or give another {option}"
            ) from error
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise ResourceError(f"{folder}: cannot be written to ({error.strerror}); give another {option}") from error
        yield
    finally:
        os.close(handle)


@contextmanager
def locked_for_writing(folder: Path) -> Iterator[None]:
    """Lock a folder that is written to; folders that were made for nothing, because writing failed, are removed."""
    made = [path for path in (folder / LOCK, folder, *folder.parents) if not path.exists()]
    try:
        with locked(folder):
            yield
    except BaseException:
        _remove_empty(made)
        raise


def _remove_empty(made: list[Path]) -> None:
    """Remove a lock and the folders around it that were made with it, up to the first that holds anything else."""
    with suppress(OSError):
        for path in made:
            path.rmdir() if path.is_dir() else path.unlink()


def replaced_folder(folder: Path) -> Path:
    """Where a folder stays while another takes its name; a process that is killed right then leaves it there."""
    return folder.with_name(f".{folder.name}.old")


def move_into_place(part: Path, folder: Path) -> None:
    """Rename; what had the name is renamed first and deleted last."""
    old = replaced_folder(folder)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    try:
        part.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def force_to_disk(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
