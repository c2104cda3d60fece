"""Sources: what a command trains on. A graph in memory, or a store on disk where a limit of memory asks for it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from l2g2g.budget import show_size
from l2g2g.config import Config
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import find_graph_file, read_graph
from l2g2g.graphs.store import StoredGraph, is_store, open_graph, write_graph
from l2g2g.graphs.store_writer import LEAST_MEMORY, describe_source, write_store
from l2g2g.memory import estimate_memory, graph_bytes, resident_memory
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.run_directory import RunDirectory
from l2g2g.training.heap import return_freed_memory

# A text file of an edge list becomes at most this many times as many bytes while it is read into memory.
_READING_FACTOR = 12
_STORE = "store"


def is_store_path(source: object) -> bool:
    """Whether this is the path of a store."""
    return isinstance(source, str | Path) and is_store(source)


@contextmanager
def open_source(
    source: str,
    features: Path | None,
    config: Config,
    *,
    data_dir: Path | None = None,
    directory: RunDirectory | None = None,
    communicator: Communicator = LOCAL,
) -> Iterator[Graph | StoredGraph]:
    """The graph of a command. A store stays one; anything else is read, into memory where `config.memory` allows it.

    What does not fit is written to a store in the run directory, where a resumed run finds it again, or in a temporary
    folder that is gone afterwards. Of several ranks the first decides and writes.
    """
    if communicator.size > 1 and config.memory is not None and not is_store(source):
        with _open_shared(source, features, config, data_dir, directory, communicator) as shared:
            yield shared
        return
    if is_store(source):
        if features is not None:
            raise InputError(f"{source}: is a store, which has its features; leave --features out")
        if config.directed:
            raise InputError(f"{source}: a store keeps no directions; leave --directed out")
        yield open_graph(source)
        return
    if config.memory is None:
        yield read_graph(source, features, data_dir=data_dir, directed=config.directed)
        return
    room = config.memory - resident_memory()
    if room < LEAST_MEMORY:
        least = show_size(resident_memory() + LEAST_MEMORY + 10_000_000)
        raise ResourceError(f"--memory {show_size(config.memory)} is too small to read anything; {least} would do")
    path = find_graph_file(source)
    is_table = path is not None and path.suffix.lower() != ".npz" and not path.is_dir()
    if not is_table or (path is not None and _READING_FACTOR * path.stat().st_size < room):
        graph = read_graph(source, features, data_dir=data_dir, directed=config.directed, memory_limit=room)
        if config.directed or estimate_memory(graph, config) + graph_bytes(graph) <= config.memory - resident_memory():
            yield graph
            return
        with scratch_folder(directory, _STORE) as folder:
            name = write_graph(graph, folder).directory
            del graph
            return_freed_memory()
            yield open_graph(name)
        return
    if config.directed:
        raise InputError(f"{source}: --directed needs the graph in memory, which --memory does not allow; raise it")
    with scratch_folder(directory, _STORE) as folder:
        if is_store(folder) and open_graph(folder).source == describe_source(source, features, 0):
            yield open_graph(folder)
            return
        write_store(source, folder, features, memory_bytes=room, data_dir=data_dir)
        return_freed_memory()
        yield open_graph(folder)


@contextmanager
def _open_shared(
    source: str,
    features: Path | None,
    config: Config,
    data_dir: Path | None,
    directory: RunDirectory | None,
    communicator: Communicator,
) -> Iterator[Graph | StoredGraph]:
    """As the first rank opens it: in memory, which each fills by itself, or the store that the first has written."""
    if communicator.is_first:
        with open_source(source, features, config, data_dir=data_dir, directory=directory) as graph:
            where = str(graph.directory.resolve()) if isinstance(graph, StoredGraph) else ""
            communicator.broadcast("folder", where.encode())
            yield graph
        return
    where = communicator.broadcast("folder", b"").decode()
    if not where:
        yield read_graph(source, features, data_dir=data_dir, directed=config.directed)
        return
    yield open_shared_store(Path(where))


def open_shared_store(folder: Path) -> StoredGraph:
    """A store that the first rank has written."""
    if not is_store(folder):
        raise InputError(
            f"{folder}: the first rank wrote a store there, which is not seen here; "
            f"give a --run-dir on a disk that all hosts share"
        )
    return open_graph(folder)


@contextmanager
def shared_folder(communicator: Communicator, directory: RunDirectory | None, name: str) -> Iterator[Path]:
    """The same as `scratch_folder`; of several ranks all have the folder of the first."""
    if not communicator.is_first:
        yield Path(communicator.broadcast("folder", b"").decode())
        return
    with scratch_folder(directory, name) as folder:
        if communicator.size > 1:
            communicator.broadcast("folder", str(folder.resolve()).encode())
        yield folder


@contextmanager
def scratch_folder(directory: RunDirectory | None, name: str) -> Iterator[Path]:
    """A folder for what is kept on disk: in the run directory, where it stays, or one that is gone afterwards."""
    if directory is not None:
        yield directory.folder / name
        return
    folder = Path(tempfile.mkdtemp(prefix="l2g2g-store-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
