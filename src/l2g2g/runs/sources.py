"""Sources: a run reads its graph from memory, or from a store if a memory limit or several ranks require it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from l2g2g.config import Config
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.duckdb_store import Measure, Progress, silent
from l2g2g.graphs.formats import AS_FOUND, TableOptions
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.graph_store import GraphStore, describe_as_source
from l2g2g.graphs.read import find_graph_file, is_streamed, read_graph
from l2g2g.graphs.store import StoredGraph, is_store, open_graph, write_graph
from l2g2g.graphs.store_writer import LEAST_MEMORY, describe_source, reading_bytes, write_store
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.budget import StoredSizes, fit_budget, fits_memory, show_size
from l2g2g.runs.environment import resident_memory
from l2g2g.runs.preparation import refuse_missing_weights
from l2g2g.runs.resources import choose_threads
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.training.heap import return_freed_memory

_STORE = "store"  # folder of the store in a run directory


def check_directions(graph: StoredGraph, *, directed: bool) -> StoredGraph:
    """Return the store. Raises InputError if it keeps directions and `directed` is False, or the other way round."""
    if directed and not graph.directed:
        remedy = "write it with l2g2g prepare --directed, or leave --directed out"
        raise InputError(f"{graph.directory}: keeps no directions; {remedy}")
    if graph.directed and not directed:
        raise InputError(f"{graph.directory}: keeps directions; add --directed, or prepare another store without them")
    return graph


def read_whole(
    source: str, features: Path | None = None, *, directed: bool, tables: TableOptions = AS_FOUND, **options: Any
) -> Graph:
    """Read a store, or anything that `read_graph` reads, into memory. options: see `read_graph`."""
    if not is_store(source):
        return read_graph(source, features, directed=directed, tables=tables, **options)
    refuse_for_store(source, features, tables)
    graph = open_graph(source)
    return (check_directions(graph, directed=True) if directed else graph).to_graph()


def refuse_for_store(source: str, features: Path | None, tables: TableOptions) -> None:
    """Raise InputError for options that say how files are read, because a store has no use for them."""
    if features is not None:
        raise InputError(f"{source}: is a store, which has its features; leave --features out")
    if tables.given():
        name = next(iter(tables.given())).replace("_", "-")
        raise InputError(f"{source}: is a store, which is read already; give --{name} to l2g2g prepare")


@contextmanager
def open_source(
    source: str,
    features: Path | None,
    config: Config,
    *,
    data_dir: Path | None = None,
    directory: RunDirectory | None = None,
    communicator: Communicator = LOCAL,
    tables: TableOptions = AS_FOUND,
    progress: Progress = silent,
    measure: Measure = nullcontext,
) -> Iterator[GraphStore]:
    """Open the graph of a command: a store as it is, anything else in memory if `config.memory` allows it.

    Otherwise write a store to the run directory, where a resumed run finds it, or to a temporary folder. The first of
    several ranks writes the store, and all open it.

    progress, measure: called with the progress and the name of each stage while DuckDB prepares the store.
    """
    if is_store(source):
        refuse_for_store(source, features, tables)
        yield check_directions(open_graph(source), directed=config.directed)
        return
    with ExitStack() as stack:
        reading = _read_or_store(source, features, config, data_dir, directory, tables, progress, measure)
        # No variable here holds the graph, so that the first of several ranks can free it once the store is written.
        yield stack.enter_context(
            share_graph(stack.enter_context(reading) if communicator.is_first else None, communicator, directory)
        )


@contextmanager
def _read_or_store(
    source: str,
    features: Path | None,
    config: Config,
    data_dir: Path | None,
    directory: RunDirectory | None,
    tables: TableOptions,
    progress: Progress,
    measure: Measure,
) -> Iterator[GraphStore]:
    """Read a graph into memory, or into a store if it does not fit `config.memory`."""
    read = partial(read_graph, source, features, data_dir=data_dir, directed=config.directed, tables=tables)
    if config.memory is None:
        yield read()
        return
    available = config.memory - resident_memory()
    if available < LEAST_MEMORY:
        least = show_size(resident_memory() + LEAST_MEMORY + 10_000_000)
        raise ResourceError(f"--memory {show_size(config.memory)} is too small to read anything; {least} would do")
    path = find_graph_file(source)
    if path is None or not is_streamed(path) or reading_bytes(path, features) <= available:
        held = [read(memory_limit=available)]  # a list, so that the graph can be given away and freed there
        if fits_memory(held[0], config):
            yield held.pop()
            return
        with scratch_folder(directory, _STORE) as folder:
            write_graph(held.pop(), folder)
            return_freed_memory()
            yield open_graph(folder)
        return
    with scratch_folder(directory, _STORE) as folder:
        described = describe_source(source, features, 0, directed=config.directed, tables=tables)
        if not is_store(folder) or open_graph(folder).source != described:
            write_store(
                source,
                folder,
                features,
                memory_bytes=available,
                data_dir=data_dir,
                directed=config.directed,
                tables=tables,
                progress=progress,
                measure=measure,
            )
            return_freed_memory()
        yield open_graph(folder)


def place_graph(graph: GraphStore, config: Config, communicator: Communicator) -> GraphStore:
    """Load a stored graph into memory if one process trains and the limit allows it.

    Raises ResourceError or InputError if the run is possible neither in memory nor from disk.
    """
    if graph.resident or communicator.size > 1:
        return graph
    if fits_memory(graph, config):
        return graph.to_graph()
    _refuse_gradient_through(config, "raise --memory, or leave it out")
    fit_budget(StoredSizes.of(graph), config, choose_threads(config, graph.num_nodes, graph.num_edges), graph.name)
    return graph


def check_settings(graph: GraphStore, config: Config, communicator: Communicator) -> None:
    """Raise InputError for settings that this graph or this number of ranks does not support."""
    refuse_missing_weights(graph, config)
    if communicator.size > 1:
        _refuse_gradient_through(config, "leave torchrun or the option out")


def _refuse_gradient_through(config: Config, remedy: str) -> None:
    if config.align_gradient == "through":
        raise InputError(f"--align-gradient through needs all patches in one process, in memory; {remedy}")


@contextmanager
def share_graph(
    graph: GraphStore | None, communicator: Communicator, directory: RunDirectory | None
) -> Iterator[GraphStore]:
    """Yield the graph of the first rank on all ranks; several ranks read it from a store. A collective call.

    graph: None on other ranks. The first rank writes a graph in memory to the run directory or a temporary folder.
    """
    if communicator.size == 1:
        assert graph is not None
        yield graph
        return
    if not communicator.is_first:
        yield open_shared_store(Path(communicator.broadcast("folder", b"").decode()))
        return
    assert graph is not None
    if graph.stored is not None:
        communicator.broadcast("folder", str(graph.stored.directory.resolve()).encode())
        yield graph
        return
    with scratch_folder(directory, _STORE) as folder:
        stored = write_graph(graph.to_graph(), folder, source=describe_as_source(graph.to_graph()))
        stored.block_model = graph.block_model
        del graph
        return_freed_memory()
        communicator.broadcast("folder", str(folder.resolve()).encode())
        yield stored


def open_shared_store(folder: Path) -> StoredGraph:
    """Open a store that the first rank has written."""
    if not is_store(folder):
        raise InputError(
            f"{folder}: the first rank wrote a store there, which is not seen here; "
            f"give a --run-dir on a disk that all hosts share"
        )
    return open_graph(folder)


@contextmanager
def scratch_folder(directory: RunDirectory | None, name: str) -> Iterator[Path]:
    """Yield a folder for large files: a subfolder of the run directory, or a temporary one that is deleted."""
    if directory is not None:
        yield directory.folder / name
        return
    folder = Path(tempfile.mkdtemp(prefix="l2g2g-store-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shared_folder(communicator: Communicator, directory: RunDirectory | None, name: str) -> Iterator[Path]:
    """Yield the `scratch_folder` of the first rank on all ranks. A collective call."""
    if not communicator.is_first:
        yield Path(communicator.broadcast("folder", b"").decode())
        return
    with scratch_folder(directory, name) as folder:
        communicator.broadcast("folder", str(folder.resolve()).encode())
        yield folder
