"""Embedding files: Parquet, Arrow, CSV, word2vec text and NumPy, written whole or not at all.

An output that ends with a slash is a folder of Parquet files, part-00000.parquet and so on, of which every rank writes
those of its own nodes; in the order of their names they have the rows and columns of the one file.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.array_writer import move_into_place
from l2g2g.graphs.arrow_tables import ARROW_ENDINGS, write_arrow
from l2g2g.graphs.node_ids import as_node_ids
from l2g2g.graphs.store import NodeIds, StoredIds
from l2g2g.parallel.communicator import LOCAL, Communicator

_ROWS = 1 << 16  # rows that are written at a time
_PART_ROWS = 1 << 22
PARTS = "part-*.parquet"
EMBEDDING_ENDINGS = (".parquet", ".csv", ".txt", ".npy", *ARROW_ENDINGS)


def check_output(path: str | Path, node_ids: NodeIds | None = None) -> None:
    """Refuse an output that could not be written, before hours of training are spent on it.

    Raises:
        InputError: The ending is unknown, the folder is missing, the path is a folder, or the format
            cannot hold one of node_ids.
        ResourceError: The folder cannot be written to.
    """
    if is_parts(path):
        check_parts(Path(path))
        return
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file in it, or {path}/ for Parquet parts")
    check_place(path, EMBEDDING_ENDINGS)
    if node_ids is not None:
        _check_ids_fit(path, _checked_ids(node_ids, path))


def is_parts(output: str | Path) -> bool:
    """Whether an output is a folder of parts: it ends with a slash."""
    return str(output).endswith("/")


def check_place(path: Path, endings: tuple[str, ...]) -> None:
    """Refuse a path with another ending, or whose folder is missing or cannot be written to."""
    if path.suffix.lower() not in endings:
        raise InputError(f"{path}: unknown ending; use one of {', '.join(endings)}")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file in it")
    check_writable(path.parent)


def check_writable(folder: Path) -> None:
    """Refuse a folder that is missing or cannot be written to."""
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}; create the folder first or give another output")
    try:
        # Trying is the only honest test: permission bits say nothing to root or on a read-only mount.
        with tempfile.TemporaryFile(dir=folder, prefix=".l2g2g-"):
            pass
    except OSError as error:
        raise ResourceError(f"{folder}: cannot be written to ({error.strerror}); give another output") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, complete or not at all."""
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def write_embedding(path: str | Path, embedding: np.ndarray, node_ids: NodeIds | None = None) -> None:
    """Write one vector per node, some rows at a time; the ending of the path chooses the format.

    `.parquet`, `.arrow`, `.feather`: columns `id` and `embedding`, a list of float32.
    `.csv`: `id`, `dim_0`, `dim_1`, ... `.txt`: word2vec text. `.npy`: the array, and the ids one per line in
    `PATH.ids.txt`.
    With a slash at the end: a folder of parts. Everything appears complete or not at all; what was there before stays
    until then.

    Args:
        path: Where to write; see `check_output`.
        embedding: (num_nodes, dim) numbers; written as float32.
        node_ids: (num_nodes,) integers or text, also those of a graph on disk; None writes the row numbers.
    """
    if is_parts(path):
        write_parts(path, embedding, node_ids)
        return
    path = Path(path)
    check_output(path)
    vectors = np.ascontiguousarray(embedding, dtype=np.float32)
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise InputError(f"{path}: an embedding has one row per node, not shape {vectors.shape}")
    ids = np.arange(len(vectors)) if node_ids is None else _checked_ids(node_ids, path)
    if len(ids) != len(vectors):
        raise InputError(f"{path}: {len(vectors):,} vectors but {len(ids):,} ids; they must be equal")
    _check_ids_fit(path, ids)
    ending = path.suffix.lower()
    if ending == ".npy":
        write_whole(ids_path(path), lambda file: _write_ids(file, ids))
    writers = {".parquet": write_parquet, ".csv": _write_csv, ".txt": _write_word2vec, ".npy": _write_npy}
    write = writers.get(ending, _write_arrow)
    write_whole(path, lambda file: write(file, ids, vectors))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the target, force it to disk, then rename: no reader ever sees half a file."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with writing(path):
            write(temporary)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):  # its folder may have gone
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn whatever keeps a file from being written into an error that names it."""
    try:
        yield
    except ResourceError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError(f"{path}: cannot be written ({reason}); free some space or give another output") from error


def make_folder(path: Path) -> Path:
    """The folder, made where it is missing.

    Raises:
        InputError: Something else stands in its place.
        ResourceError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{path}: is or lies in a file; give a folder") from error
    except OSError as error:
        raise ResourceError(f"{path}: cannot be made ({error.strerror}); give another folder") from error
    return path


def _checked_ids(node_ids: NodeIds, path: Path) -> NodeIds:
    """Ids as they are written; those on disk were checked when they were stored."""
    return node_ids if isinstance(node_ids, StoredIds) else as_node_ids(node_ids, str(path))


def _blocks(ids: NodeIds, vectors: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ids and vectors, some rows at a time: a format may need many times their memory."""
    for low in range(0, len(vectors), _ROWS):
        yield ids[low : low + _ROWS], vectors[low : low + _ROWS]


def write_parquet(file: Path, ids: NodeIds, vectors: np.ndarray) -> None:
    """Ids and vectors as the columns `id` and `embedding`. Others as in `write_embedding`."""
    with pq.ParquetWriter(file, _list_table(ids[:1], vectors[:1]).schema) as writer:
        for block in _blocks(ids, vectors):
            writer.write_table(_list_table(*block))


def _write_arrow(file: Path, ids: NodeIds, vectors: np.ndarray) -> None:
    schema = _list_table(ids[:1], vectors[:1]).schema
    write_arrow(file, schema, (_list_table(*block) for block in _blocks(ids, vectors)))


def _list_table(ids: np.ndarray, vectors: np.ndarray) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.table({"id": pa.array(ids), "embedding": lists})


def _write_csv(file: Path, ids: NodeIds, vectors: np.ndarray) -> None:
    with pcsv.CSVWriter(file, _wide_table(ids[:1], vectors[:1]).schema) as writer:
        for block in _blocks(ids, vectors):
            writer.write_table(_wide_table(*block))


def _write_word2vec(file: Path, ids: NodeIds, vectors: np.ndarray) -> None:
    options = pcsv.WriteOptions(include_header=False, delimiter=" ")
    with file.open("wb") as stream:
        stream.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
        for some_ids, some in _blocks(ids, vectors):
            # Arrow refuses to write quotes and commas unquoted, which word2vec text asks for: only the numbers.
            numbers = pa.BufferOutputStream()
            pcsv.write_csv(_wide_table(some_ids, some).drop_columns("id"), numbers, options)
            lines = numbers.getvalue().to_pybytes().split(b"\n")
            pairs = zip(some_ids, lines, strict=False)
            stream.writelines(b"%s %s\n" % (str(name).encode(), line) for name, line in pairs)


def _write_npy(file: Path, ids: NodeIds, vectors: np.ndarray) -> None:
    with file.open("wb") as stream:  # given a name, NumPy would add another .npy to it
        np.save(stream, vectors)


def _write_ids(file: Path, ids: NodeIds) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        for low in range(0, len(ids), _ROWS):
            stream.writelines(f"{node_id}\n" for node_id in ids[low : low + _ROWS].tolist())


def _wide_table(ids: np.ndarray, vectors: np.ndarray) -> pa.Table:
    columns = {f"dim_{index}": pa.array(vectors[:, index]) for index in range(vectors.shape[1])}
    return pa.table({"id": pa.array(ids), **columns})


def _check_ids_fit(path: Path, ids: NodeIds) -> None:
    """Refuse ids that hold what separates the cells or lines of the format."""
    forbidden = {".txt": " \t\r\n", ".npy": "\r\n", ".csv": "\r\n"}.get(path.suffix.lower(), "")
    if ids[:1].dtype.kind != "O" or not forbidden:
        return
    for low in range(0, len(ids), _ROWS):
        for row, node_id in enumerate(ids[low : low + _ROWS], low):
            if (node_id == "" and " " in forbidden) or any(mark in node_id for mark in forbidden):
                raise InputError(
                    f"{path}: row {row}: the id {node_id!r} cannot stand in this format, whose separators it would "
                    f"break; write .parquet"
                )


def ids_path(path: Path) -> Path:
    """Where the ids of an .npy file lie."""
    return path.with_name(path.name + ".ids.txt")


def check_parts(folder: Path) -> None:
    """Refuse a folder that could not be written, or that holds anything but the parts of another embedding."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give a folder for the parts, or leave the slash out")
    check_writable(folder.parent)
    if not folder.exists():
        return
    foreign = sorted({path.name for path in folder.iterdir()} - {path.name for path in folder.glob(PARTS)})
    if foreign:
        raise InputError(f"{folder}: holds other files ({foreign[0]}), which would be lost; give a new folder")


def write_parts(
    folder: str | Path, embedding: np.ndarray, node_ids: NodeIds | None = None, communicator: Communicator = LOCAL
) -> None:
    """Write one vector per node as a folder of parts; parts that were there before stay until all are written.

    embedding: (num_nodes, dim); on several ranks the rows of the range of nodes of this one. node_ids: (num_nodes,) of
    all nodes; None for the row numbers. A collective call; the folder must be on a disk that all see.
    """
    folder = Path(folder)
    counts = [count for (count,) in communicator.tell_all("count", [len(embedding)])]
    before = counts[: communicator.rank]
    low, number = sum(before), sum(-(-count // _PART_ROWS) for count in before)
    name = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        if communicator.is_first:
            check_parts(folder)
            with writing(folder):
                name.mkdir()
        sent = communicator.broadcast("folder", str(name.resolve()).encode() if communicator.is_first else b"")
        name = Path(sent.decode())
        if not name.is_dir():
            raise ResourceError(f"{folder}: is not seen by rank {communicator.rank}; give one on a disk that all share")
        for first in range(0, len(embedding), _PART_ROWS):
            vectors = np.ascontiguousarray(embedding[first : first + _PART_ROWS], np.float32)
            span = slice(low + first, low + first + len(vectors))
            ids = np.arange(span.start, span.stop) if node_ids is None else node_ids[span]
            _write_part(name / f"part-{number:05d}.parquet", ids, vectors)
            number += 1
        communicator.tell_all("count", [number])  # now all are written
        if communicator.is_first:
            with writing(folder):
                move_into_place(name, folder)
    finally:
        if communicator.is_first:
            shutil.rmtree(name, ignore_errors=True)


def _write_part(path: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    write_whole(path, lambda file: write_parquet(file, ids, vectors))
