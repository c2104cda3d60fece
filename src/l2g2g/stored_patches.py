"""Stored patches: those of a store where they will do, or new ones, cut so finely that a limit of memory is kept."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

from l2g2g.budget import Needs, StoredSizes, find_needs, fit_budget, most_patches, show_size
from l2g2g.config import Config
from l2g2g.errors import ResourceError
from l2g2g.graphs.store import StoredGraph
from l2g2g.memory import resident_memory
from l2g2g.parallel.communicator import Communicator
from l2g2g.patches.store import PatchStore, has_patches, open_patches
from l2g2g.patches.stored_cut import Cut, cut_stored_graph
from l2g2g.patches.stored_partition import metis_memory
from l2g2g.resources import choose_threads
from l2g2g.stopwatch import Stopwatch
from l2g2g.training.heap import return_freed_memory

_FINER = 1.6  # times as many patches where the largest is too large


def find_patches(graph: StoredGraph, config: Config, clock: Stopwatch) -> PatchStore:
    """The patches of a store, or as many new ones as wanted, kept in the store; memory does not count."""
    found = _existing(graph, config)
    return found or cut_stored(graph, config.num_patches(graph.num_nodes), config, clock)


def fit_patches(graph: StoredGraph, config: Config, clock: Stopwatch, num_ranks: int = 1) -> tuple[PatchStore, Needs]:
    """The same with patches of which each fits `config.memory`, and what training then takes.

    Refused before anything is cut where sizes alone say that the limit is too small. Clusters of equally many nodes
    may have very different numbers of edges, so patches that are too large are cut again, more of them.
    """
    assert config.memory is not None
    threads, resident = choose_threads(config, 2 * graph.num_edges), resident_memory()
    whole = replace(StoredSizes.of(graph), num_ranks=num_ranks)
    planned = fit_budget(whole, config, threads, graph.name, resident)
    num_patches, patches = planned.num_patches, _existing(graph, config)
    while True:
        if patches is None:
            patches = cut_stored(graph, num_patches, config, clock)
        needs = find_needs(sizes_of(graph, patches, num_ranks), config, patches.num_patches, threads, resident)
        if needs.total <= config.memory:
            return patches, needs
        most = patches.num_patches if config.patches is not None else most_patches(graph.num_nodes, config)
        if patches.num_patches >= most:
            raise ResourceError(
                f"{graph.name}: the largest of {patches.num_patches} patches needs {show_size(needs.total)} in all; "
                f"--memory {show_size(config.memory)} is too small"
            )
        num_patches = min(most, max(num_patches, math.ceil(_FINER * patches.num_patches)))
        patches = None


def fit_shared_patches(
    communicator: Communicator, graph: StoredGraph, config: Config, clock: Stopwatch
) -> tuple[PatchStore, Needs | None]:
    """The same for the ranks of a job, each within `config.memory`: the first cuts, all open what it left.

    Without a limit nothing has to fit, and there are no needs.
    """
    if communicator.is_first:
        if config.memory is None:
            find_patches(graph, config, clock)
        else:
            fit_patches(graph, config, clock, communicator.size)
    communicator.broadcast("ready", b"")
    patches = open_patches(graph.directory, graph=graph)
    if config.memory is None:
        return patches, None
    threads, sizes = choose_threads(config, 2 * graph.num_edges), sizes_of(graph, patches, communicator.size)
    return patches, find_needs(sizes, config, patches.num_patches, threads, resident_memory())


def sizes_of(graph: StoredGraph, patches: PatchStore, num_ranks: int = 1) -> StoredSizes:
    """What memory depends on, of a graph whose patches are cut."""
    rows, arcs = np.diff(patches.offsets), np.diff(patches.entry_offsets)
    return replace(
        StoredSizes.of(graph),
        largest_rows=int(rows.max()),
        largest_arcs=int(arcs.max()),
        num_rows=int(rows.sum()),
        num_ranks=num_ranks,
    )


def cut_stored(graph: StoredGraph, num_patches: int, config: Config, clock: Stopwatch) -> PatchStore:
    """Cut a graph into this many patches and keep them in its store."""
    method, room = _choose_method(graph, config)
    if method != config.partition:
        warnings.warn(f"{graph.name}: METIS needs more than --memory allows; FENNEL cuts it in passes", stacklevel=2)
    with clock.measure("partition"):
        written = cut_stored_graph(graph, plan_cut(num_patches, config, method), memory_bytes=room)
    return_freed_memory()
    return written


def _choose_method(graph: StoredGraph, config: Config) -> tuple[str, int | None]:
    """What cuts a graph within the limit, and the bytes that are left for it; None for no limit."""
    if config.memory is None:
        return config.partition, None
    room = max(0, config.memory - resident_memory())
    if config.partition == "metis" and metis_memory(graph) > room:
        return "streaming", room
    return config.partition, room


def plan_cut(num_patches: int, config: Config, method: str) -> Cut:
    """How these settings cut a graph."""
    least, wanted = config.overlap_range
    return Cut.of(
        method,
        seed=config.seed,
        fennel_passes=config.fennel_passes,
        num_patches=num_patches,
        min_overlap=least,
        target_overlap=wanted,
        mean_degree=config.patch_degree,
    )


def _existing(graph: StoredGraph, config: Config) -> PatchStore | None:
    """The patches of a store where these settings would cut the same, as many as there are if no number is asked for.

    What `l2g2g prepare` has cut is also used where the settings leave open how.
    """
    if not has_patches(graph.directory):
        return None
    patches = open_patches(graph.directory, graph=graph)
    wanted = plan_cut(config.patches or patches.num_patches, config, _choose_method(graph, config)[0])
    names = {"partition": "partition", "fennel_passes": "fennel_passes", "mean_degree": "patch_degree"}
    left_open = [name for name, option in names.items() if getattr(config, option) == getattr(Config, option)]
    return patches if wanted.made(patches) or wanted.accepts(patches, left_open) else None
