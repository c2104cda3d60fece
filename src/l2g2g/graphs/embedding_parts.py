"""Embedding parts: an embedding as a folder of Parquet files, of which every rank writes those of its own nodes.

The files are called part-00000.parquet and so on; in the order of their names they have the rows of the one file that
`write_embedding` would write, with the same columns. The folder appears complete or not at all.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import numpy as np

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import write
from l2g2g.graphs.store import NodeIds
from l2g2g.graphs.write import check_writable, write_parquet, write_whole, writing
from l2g2g.parallel.communicator import LOCAL, Communicator

_PART_ROWS = 1 << 22
PARTS = "part-*.parquet"


def is_parts(output: str) -> bool:
    """Whether an output is a folder of parts: it ends with a slash."""
    return output.endswith("/")


def check_output(output: str, node_ids: NodeIds | None = None) -> None:
    """Refuse an output that could not be written, a file or a folder of parts; see `check_output` of `write`."""
    if is_parts(output):
        check_parts(Path(output))
    elif Path(output).is_dir():
        raise InputError(f"{output}: is a folder; give the name of a file in it, or {output}/ for Parquet parts")
    else:
        write.check_output(output, node_ids)


def write_output(output: str, embedding: np.ndarray, node_ids: NodeIds | None = None) -> None:
    """Write an embedding that one process has, to a file or to a folder of parts."""
    (write_parts if is_parts(output) else write.write_embedding)(output, embedding, node_ids)


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
    all nodes; None for the row numbers. Every rank must ask; the folder must be on a disk that all see.
    """
    folder = Path(folder)
    counts = [count for (count,) in communicator.tell_all("count", [len(embedding)])]
    low, number = (sum(each) for each in (counts[: communicator.rank], map(_num_parts, counts[: communicator.rank])))
    name = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        if communicator.is_first:
            check_parts(folder)
            with writing(folder):
                name.mkdir()
        told = communicator.broadcast("folder", str(name.resolve()).encode() if communicator.is_first else b"")
        name = Path(told.decode())
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
            _put_in_place(name, folder)
    finally:
        if communicator.is_first:
            shutil.rmtree(name, ignore_errors=True)


def _num_parts(num_rows: int) -> int:
    return -(-num_rows // _PART_ROWS)


def _write_part(path: Path, ids: np.ndarray, vectors: np.ndarray) -> None:
    write_whole(path, lambda file: write_parquet(file, ids, vectors))


def _put_in_place(new: Path, folder: Path) -> None:
    """Rename the new folder to the name of the old one, which is deleted."""
    with writing(folder):
        old = new.with_suffix(".old")
        if folder.exists():
            folder.replace(old)
        try:
            new.replace(folder)
        except BaseException:
            if old.exists():
                old.replace(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
