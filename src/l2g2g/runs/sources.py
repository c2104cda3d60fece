"""Sources: what a command trains on. A graph in memory, or a store on disk where a memory limit requires it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from l2g2g.config import Config
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.duckdb_store import Measure, Progress, silent
from l2g2g.graphs.formats import AS_FOUND, TableOptions
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.read import find_graph_file, is_streamed, read_graph
from l2g2g.graphs.store import StoredGraph, is_store, open_graph, write_graph
from l2g2g.graphs.store_writer import LEAST_MEMORY, describe_source, reading_bytes, write_store
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.budget import show_size
from l2g2g.runs.memory import estimate_memory, graph_bytes, resident_memory
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.runs.storage import STORE, scratch_folder, shared_graph
from l2g2g.training.heap import return_freed_memory


def is_store_path(source: object) -> bool:
    """Whether this is the path of a store."""
    return isinstance(source, str | Path) and is_store(source)


def check_directions(graph: StoredGraph, *, directed: bool) -> StoredGraph:
    """The store, refused where it keeps directions and they are not wanted, or the other way round."""
    if directed and not graph.directed:
        remedy = "write it with l2g2g prepare --directed, or leave --directed out"
        raise InputError(f"{graph.directory}: keeps no directions; {remedy}")
    if graph.directed and not directed:
        raise InputError(f"{graph.directory}: keeps directions; add --directed, or prepare another store without them")
    return graph


def read_whole(
    source: str, features: Path | None = None, *, directed: bool, tables: TableOptions = AS_FOUND, **how: Any
) -> Graph:
    """A graph in memory: a store, or anything that `read_graph` reads. how: more for `read_graph`."""
    if not is_store(source):
        return read_graph(source, features, directed=directed, tables=tables, **how)
    refuse_for_store(source, features, tables)
    graph = open_graph(source)
    return (check_directions(graph, directed=True) if directed else graph).to_graph()


def refuse_for_store(source: str, features: Path | None, tables: TableOptions) -> None:
    """Refuse what says how files are read, for a store, which is read already."""
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
    """The graph of a command. A store stays one; anything else is read, into memory where `config.memory` allows it.

    What does not fit is written to a store in the run directory, where a resumed run finds it again, or in a temporary
    folder that is gone afterwards. Of several ranks the first reads, and all open the store that it has written.
    progress: told how far DuckDB is where it prepares the store; measure: called with the name of each of its stages.
    """
    if communicator.size > 1 and not is_store(source):
        with ExitStack() as stack:
            how: dict[str, Any] = {"data_dir": data_dir, "directory": directory, "tables": tables}
            how |= {"progress": progress, "measure": measure}
            first = communicator.is_first
            yield stack.enter_context(  # without a name here for what is read: it is given back once it is written
                shared_graph(
                    stack.enter_context(open_source(source, features, config, **how)) if first else None,
                    communicator,
                    directory,
                )
            )
        return
    if is_store(source):
        refuse_for_store(source, features, tables)
        yield check_directions(open_graph(source), directed=config.directed)
        return
    if config.memory is None:
        yield read_graph(source, features, data_dir=data_dir, directed=config.directed, tables=tables)
        return
    available = config.memory - resident_memory()
    if available < LEAST_MEMORY:
        least = show_size(resident_memory() + LEAST_MEMORY + 10_000_000)
        raise ResourceError(f"--memory {show_size(config.memory)} is too small to read anything; {least} would do")
    path = find_graph_file(source)
    is_table = path is not None and is_streamed(path)
    if not is_table or (path is not None and reading_bytes(path, features) <= available):
        more: dict[str, Any] = {"directed": config.directed, "memory_limit": available, "tables": tables}
        graph = read_graph(source, features, data_dir=data_dir, **more)
        if estimate_memory(graph, config) + graph_bytes(graph) <= config.memory - resident_memory():
            found = [graph]
            del graph
            yield found.pop()
            return
        with scratch_folder(directory, STORE) as folder:
            name = write_graph(graph, folder).directory
            del graph
            return_freed_memory()
            yield open_graph(name)
        return
    with scratch_folder(directory, STORE) as folder:
        made_of = describe_source(source, features, 0, directed=config.directed, tables=tables)
        if is_store(folder) and open_graph(folder).source == made_of:
            yield open_graph(folder)
            return
        more = {"data_dir": data_dir, "directed": config.directed, "tables": tables}
        more |= {"progress": progress, "measure": measure}
        write_store(source, folder, features, memory_bytes=available, **more)
        return_freed_memory()
        yield open_graph(folder)
