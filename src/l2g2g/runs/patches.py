"""Patches of a run: cut in memory, or kept on disk and so many that a limit of memory is kept."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from l2g2g.config import Config
from l2g2g.errors import ResourceError
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.store import StoredGraph
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.patches.cut import Cut, cut_graph, cut_stored_graph, find_refused
from l2g2g.patches.overlap import PatchSet, whole_graph, whole_graph_by_rows
from l2g2g.patches.partition import metis_memory
from l2g2g.patches.store import PatchStore, has_patches, open_patches
from l2g2g.runs.budget import Needs, StoredSizes, find_needs, fit_budget, most_patches, show_size
from l2g2g.runs.environment import resident_memory
from l2g2g.runs.resources import Stopwatch, choose_threads
from l2g2g.training.heap import return_freed_memory
from l2g2g.training.patch_source import InducedPatches, PatchSource, StoredPatches
from l2g2g.training.whole_pass import InputRows

_NODES_AT_ONCE = 1 << 20  # that are read of a list
_FINER = 1.6  # times as many patches where the largest is too large


@dataclass(frozen=True, eq=False)
class RunPatches:
    """The patches that a run trains on.

    Attributes:
        patch_set: Node lists and overlaps.
        on_disk: Where their edges and features lie; None where they are induced from a graph in memory.
        needs: What training takes within a limit of memory; None without one.
        by_rows: Whether the whole graph is one patch that is read by rows, of which each rank has a range.
        kept: Share of the training edges inside a patch, where the first rank has counted them; None otherwise.
    """

    patch_set: PatchSet
    on_disk: PatchStore | None = None
    needs: Needs | None = None
    by_rows: bool = False
    kept: float | None = None

    def source(self, graph: GraphStore, inputs: InputRows) -> PatchSource:
        """The patches with the edges of a graph: that of training, or the whole one. inputs: what the encoder reads."""
        if self.on_disk is not None:
            return StoredPatches(self.on_disk, self.patch_set, inputs.inputs, graph.rule)
        whole = graph.to_graph()
        return InducedPatches(self.patch_set, whole.adjacency, inputs.whole, graph.weighted, whole.arcs)

    def count_arcs(self, graph: GraphStore) -> np.ndarray:
        """(num_patches,) arcs inside every patch; on disk those held out are among them."""
        if self.on_disk is not None:
            return np.diff(self.on_disk.entry_offsets)
        return self.patch_set.count_arcs(graph.to_graph().adjacency)

    def kept_edge_fraction(self, graph: GraphStore) -> float:
        """Training edges that lie inside at least one patch."""
        return self.patch_set.count_covered_edges(graph) / graph.num_edges if self.kept is None else self.kept

    def spare(self, config: Config) -> int | None:
        """Bytes that rows and batches may keep; None where nothing limits them."""
        return None if self.needs is None or config.memory is None else self.needs.spare(config.memory)

    def digest(self) -> str:
        """SHA-256 of the node lists: the same wherever the patches lie."""
        found = hashlib.sha256()
        nodes, offsets = self.patch_set.global_nodes, self.patch_set.offsets.tolist()
        for first, last in pairwise(offsets):
            for low in range(first, last, _NODES_AT_ONCE):
                found.update(np.ascontiguousarray(nodes[low : min(last, low + _NODES_AT_ONCE)], np.int64).data)
        found.update(np.ascontiguousarray(self.patch_set.offsets, np.int64).data)
        return found.hexdigest()


def cut(graph: GraphStore, config: Config) -> PatchSet:
    """Cut a graph in memory into patches; methods that use none get one patch."""
    if not config.definition.uses_patches:
        return whole_graph(graph.num_nodes)
    return cut_graph(graph, plan_cut(graph, config.num_patches(graph.num_nodes), config, config.partition))[0]


def plan_cut(graph: GraphStore, num_patches: int, config: Config, method: str) -> Cut:
    """Describe the cut of a graph under these settings. method: partition method to use."""
    least, wanted = config.overlap_range
    return Cut.of(
        method,
        seed=config.seed,
        fennel_passes=config.fennel_passes,
        rule=graph.rule,
        num_patches=num_patches,
        min_overlap=least,
        target_overlap=wanted,
        mean_degree=config.patch_degree,
        most_share=config.widens_to(graph.num_edges),
    )


def find_patches(
    graph: GraphStore,
    config: Config,
    clock: Stopwatch,
    *,
    folder: Path | None = None,
    prepared: StoredGraph | None = None,
    communicator: Communicator = LOCAL,
    gathers: bool = True,
) -> RunPatches:
    """The patches of a training graph: those that lie on disk where they will do, or new ones.

    folder: where patches of a graph on disk are kept; None for its store. prepared: a store whose patches may be used
    for a graph that was read from it into memory. Of several ranks the first cuts, all open what it left. gathers:
    whether the first has the vectors of all nodes in the end.
    """
    if graph.resident:
        found = None if prepared is None else _existing(prepared, config, prepared.directory)
        if found is not None:
            return RunPatches(found.patch_set)
        with clock.measure("partition"):
            return RunPatches(cut(graph, config))
    sizes = replace(StoredSizes.of(graph), num_ranks=communicator.size, gathers=gathers)
    if not config.definition.uses_patches:
        return RunPatches(whole_graph_by_rows(graph.num_nodes), None, fit_rows(graph, config, sizes), by_rows=True)
    assert graph.stored is not None
    folder = graph.stored.directory if folder is None else folder
    kept = communicator.decide(lambda: _cut_and_count(graph, config, clock, folder, sizes))
    stored = open_patches(folder, graph=graph.stored)
    patch_set, needs = stored.patch_set if communicator.size == 1 else stored.listed, None
    if config.memory is not None:
        threads = choose_threads(config, graph.num_nodes, graph.num_edges)
        of_rank = replace(sizes_of(stored, sizes), gathers=gathers and communicator.is_first)
        needs = find_needs(of_rank, config, stored.num_patches, threads, resident_memory())
    return RunPatches(patch_set, stored, needs, kept=kept)


def fit_rows(graph: GraphStore, config: Config, sizes: StoredSizes) -> Needs | None:
    """What a training of the whole graph in rows takes; None without a limit. Refused where it is more than that."""
    if config.memory is None:
        return None
    return fit_budget(sizes, config, choose_threads(config, graph.num_nodes, graph.num_edges), graph.name)


def _cut_and_count(
    graph: GraphStore, config: Config, clock: Stopwatch, folder: Path, sizes: StoredSizes
) -> float | None:
    """Leave patches in a folder, see `_cut_to_fit`. Of several ranks the first one counts the edges inside them.

    It does so while it has the node lists of all patches, which no rank has later.
    """
    patches = _cut_to_fit(graph, config, clock, folder, sizes)
    if sizes.num_ranks == 1:
        return None
    with clock.measure("partition"):
        kept = patches.patch_set.count_covered_edges(graph) / graph.num_edges
    del patches
    return_freed_memory()
    return kept


def _cut_to_fit(graph: GraphStore, config: Config, clock: Stopwatch, folder: Path, sizes: StoredSizes) -> PatchStore:
    """Patches of which each fits `config.memory`, kept in a folder.

    Refused before anything is cut where sizes alone say that the limit is too small. Clusters of equally many nodes
    may have very different numbers of edges, so patches that are too large are cut again: not widened, then more.
    """
    patches, num_patches = _existing(graph, config, folder), config.num_patches(graph.num_nodes)
    if config.memory is None:
        return patches or cut_stored(graph, num_patches, config, clock, folder)
    threads = choose_threads(config, graph.num_nodes, graph.num_edges)
    limit, resident = config.memory, resident_memory()
    num_patches = fit_budget(sizes, config, threads, graph.name, resident).num_patches
    refused = None if patches is None else find_refused(patches)
    while True:
        if patches is None:
            patches = cut_stored(graph, num_patches, config, clock, folder, refused)
        needs = find_needs(sizes_of(patches, sizes), config, patches.num_patches, threads, resident)
        if needs.total <= limit:
            return patches
        if patches.num_widened:
            refused, patches = needs.total, None
            continue
        most = patches.num_patches if config.patches is not None else most_patches(graph.num_nodes, config)
        if patches.num_patches >= most:
            raise ResourceError(
                f"{graph.name}: the largest of {patches.num_patches} patches needs {show_size(needs.total)} in all; "
                f"--memory {show_size(limit)} is too small"
            )
        num_patches = min(most, max(num_patches, math.ceil(_FINER * patches.num_patches)))
        patches = None


def sizes_of(patches: PatchStore, sizes: StoredSizes) -> StoredSizes:
    """What memory depends on where patches are cut. sizes: what is known without them."""
    rows, arcs = np.diff(patches.offsets), np.diff(patches.entry_offsets)
    return replace(sizes, largest_rows=int(rows.max()), largest_arcs=int(arcs.max()), num_rows=int(rows.sum()))


def cut_stored(
    graph: GraphStore,
    num_patches: int,
    config: Config,
    clock: Stopwatch,
    folder: Path,
    refused_bytes: int | None = None,
) -> PatchStore:
    """Cut a graph on disk into this many patches and keep them in a folder. refused_bytes: see `cut_stored_graph`."""
    method, available = _choose_method(graph, config)
    if method != config.partition:
        warnings.warn(f"{graph.name}: METIS needs more than --memory allows; FENNEL cuts it in passes", stacklevel=2)
    with clock.measure("partition"):
        wanted = plan_cut(graph, num_patches, config, method)
        written = cut_stored_graph(graph, wanted, folder, memory_bytes=available, refused_bytes=refused_bytes)
    return_freed_memory()
    return written


def _choose_method(graph: GraphStore, config: Config) -> tuple[str, int | None]:
    """What cuts a graph within the limit, and the bytes that are left for it; None for no limit."""
    if config.memory is None:
        return config.partition, None
    available = max(0, config.memory - resident_memory())
    if config.partition == "metis" and metis_memory(graph) > available:
        return "streaming", available
    return config.partition, available


def _existing(graph: GraphStore, config: Config, folder: Path) -> PatchStore | None:
    """The patches in a folder where these settings would cut the same, as many as there are if no number is asked for.

    What `l2g2g prepare` has cut is also used where the settings leave open how.
    """
    if not has_patches(folder):
        return None
    patches = open_patches(folder, graph=graph.stored)
    wanted = plan_cut(graph, config.patches or patches.num_patches, config, _choose_method(graph, config)[0])
    names = {"partition": "partition", "fennel_passes": "fennel_passes", "mean_degree": "patch_degree"}
    left_open = [name for name, option in names.items() if getattr(config, option) == getattr(Config, option)]
    return patches if wanted.made(patches, config.memory) or wanted.accepts(patches, left_open) else None
