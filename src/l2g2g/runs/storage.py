"""Storage of a run: the graph in memory where it fits, or a store, which all ranks of a job share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from l2g2g.config import Config
from l2g2g.errors import InputError
from l2g2g.graphs.graph_store import GraphStore, as_source
from l2g2g.graphs.store import StoredGraph, is_store, open_graph, write_graph
from l2g2g.parallel.communicator import Communicator
from l2g2g.runs.budget import StoredSizes, fit_budget
from l2g2g.runs.memory import estimate_bytes, resident_memory
from l2g2g.runs.preparation import refuse_missing_weights
from l2g2g.runs.resources import choose_threads
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.training.heap import return_freed_memory

STORE = "store"


def fits_memory(graph: GraphStore, config: Config) -> bool:
    """Whether a training in memory keeps to the limit, with the graph and what training sees of it beside it."""
    if config.memory is None:
        return True
    num_arcs = 2 * graph.num_edges
    columns = int(4 * StoredSizes.of(graph).entries_per_row * graph.num_nodes)
    needed = estimate_bytes(graph.num_nodes, num_arcs, columns, config) + 16 * num_arcs + columns
    return needed + resident_memory() <= config.memory


def place_graph(graph: GraphStore, config: Config, communicator: Communicator) -> GraphStore:
    """The graph where the run reads it: in memory where one process may hold it, otherwise where it lies.

    What cannot be done there is refused before any work.
    """
    if graph.resident or communicator.size > 1:
        return graph
    if fits_memory(graph, config):
        return graph.to_graph()
    refuse_what_needs_memory(config, "raise --memory, or leave it out")
    fit_budget(StoredSizes.of(graph), config, choose_threads(config, graph.num_nodes, graph.num_edges), graph.name)
    return graph


def check_settings(graph: GraphStore, config: Config, communicator: Communicator) -> None:
    """Refuse what the graph or the number of ranks does not allow, before anything is read or written."""
    refuse_missing_weights(graph, config)
    if communicator.size > 1:
        refuse_what_needs_memory(config, "leave torchrun or the option out")


def refuse_what_needs_memory(config: Config, remedy: str) -> None:
    """Settings that need all patches at once."""
    if config.align_gradient == "through":
        raise InputError(f"--align-gradient through needs all patches in one process, in memory; {remedy}")


@contextmanager
def shared_graph(
    graph: GraphStore | None, communicator: Communicator, directory: RunDirectory | None
) -> Iterator[GraphStore]:
    """The graph of a run as all its ranks read it: one process as it is, several from a store.

    Where the graph of the first rank is in memory it writes a store, in the run directory or in a folder that is gone
    afterwards. graph: that of the first rank counts, others may have none.
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
    with scratch_folder(directory, STORE) as folder:
        stored = write_graph(graph.to_graph(), folder, source=as_source(graph.to_graph()))
        stored.block_model = graph.block_model
        del graph
        return_freed_memory()
        communicator.broadcast("folder", str(folder.resolve()).encode())
        yield stored


def open_shared_store(folder: Path) -> StoredGraph:
    """A store that the first rank has written."""
    if not is_store(folder):
        raise InputError(
            f"{folder}: the first rank wrote a store there, which is not seen here; "
            f"give a --run-dir on a disk that all hosts share"
        )
    return open_graph(folder)


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


@contextmanager
def shared_folder(communicator: Communicator, directory: RunDirectory | None, name: str) -> Iterator[Path]:
    """The same as `scratch_folder`; of several ranks all have the folder of the first."""
    if not communicator.is_first:
        yield Path(communicator.broadcast("folder", b"").decode())
        return
    with scratch_folder(directory, name) as folder:
        communicator.broadcast("folder", str(folder.resolve()).encode())
        yield folder
