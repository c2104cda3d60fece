"""Plan: how many patches, how much memory, disk and time a run will take, before it is started.

Memory and disk follow from the sizes. Time comes from a small training of the same shape (as many features and
neighbours, the same settings) on this machine: every part of an epoch grows with the number of nodes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.config import Config
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import keep_all, split_links
from l2g2g.graphs.store import write_graph
from l2g2g.models.structure import fit_structure
from l2g2g.patches.overlap import PatchSet, make_patches, whole_graph
from l2g2g.patches.partition import partition
from l2g2g.patches.store import write_patches
from l2g2g.runs.budget import (
    Needs,
    StoredSizes,
    asked_rows,
    estimate_memory,
    find_needs,
    fit_budget,
    ghost_rows,
    graph_bytes,
    kept_bytes,
    peak_of_reading,
    row_needs,
    show_size,
)
from l2g2g.runs.environment import available_cores, resident_memory
from l2g2g.runs.patches import RunPatches
from l2g2g.runs.resources import Stopwatch, choose_threads, prepare_torch, show_seconds
from l2g2g.runs.traffic import Traffic, estimate_traffic, exchange_seconds
from l2g2g.runs.training import run_split
from l2g2g.training.heap import return_freed_memory

_SAMPLE_NODES, _SAMPLE_ARCS, _SAMPLE_NUMBERS = 80_000, 1_200_000, 8_000_000
_INSIDE = 0.7  # of the edges of the sample, between nodes of one patch
_SAMPLE_EPOCHS = 10
_SAMPLE_PATCHES = 10
# How much longer it takes on a large graph, whose tables leave the caches, measured on four graphs: a node in an epoch
# and in the split than one of the sample, an arc in METIS than one of its small graph.
_EPOCH_GROWTH, _SPLIT_GROWTH, _METIS_GROWTH = 1.2, 2.0, 1.7
_METIS_NODES, _METIS_EDGES = 20_000, 300_000
_MOST_PASSES = 60  # over the graph, for structural columns
_UNEVEN = 1.1  # what the rank with most has, of an even share
_FAR_ROW_SECONDS = 3e-7  # to find, ask for and answer with the row of a far end of a pair, measured on three jobs
USUAL_NETWORK = 1.25e9  # bytes each second: 10 Gbit/s


@dataclass(frozen=True)
class GraphSizes:
    """What a plan depends on.

    Attributes:
        name: Of the graph.
        num_nodes, num_edges, num_features: Its sizes.
        entries_per_row: Numbers of a feature row; of a sparse one its entries.
        sparse: Whether features are sparse.
        on_disk: Whether it lies in a store; otherwise it is read first.
    """

    name: str
    num_nodes: int
    num_edges: int
    num_features: int
    entries_per_row: float
    sparse: bool = False
    on_disk: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, graph: GraphStore) -> GraphSizes:
        """Those of a graph in memory or on disk."""
        sizes = graph.name, graph.num_nodes, graph.num_edges, graph.num_features
        return cls(*sizes, graph.entries_per_row, graph.has_sparse_features, not graph.resident)

    @property
    def feature_bytes(self) -> int:
        """Of the features in memory or on disk."""
        return int((8 if self.sparse else 4) * self.entries_per_row * self.num_nodes)

    @property
    def stored(self) -> StoredSizes:
        """For the budget of a training from disk."""
        entries = (2 if self.sparse else 1) * self.entries_per_row
        return StoredSizes(self.num_nodes, self.num_edges, self.num_features, entries)


@dataclass(frozen=True)
class Plan:
    """What a run will take.

    Attributes:
        num_patches: Patches it is cut into.
        in_memory: Whether the graph is in memory, or on disk.
        ranks, hosts: Processes that share the work, and machines that they run on.
        memory_bytes: Peak of the process, of several of the first.
        other_ranks_bytes: Peak of each of the others; 0 where there are none.
        epoch_bytes: What each process sends to others in an epoch.
        disk_bytes: Of the store, and of what does not stay in memory while it trains; 0 for none.
        epochs: At most so many.
        seconds: By stage: split, structure (columns made from it), partition, exchange (the messages of an epoch, and
            finding their rows), epoch (each, with these), first_epoch (what the first takes more, because its memory is
            new to the process), validation (each), train, assemble, total; reading is not in it.
    """

    graph: str
    num_patches: int
    in_memory: bool
    ranks: int
    hosts: int
    memory_bytes: int
    other_ranks_bytes: int
    epoch_bytes: int
    disk_bytes: int
    epochs: int
    seconds: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def describe(self) -> str:
        """In one line."""
        where = "in memory" if self.in_memory else f"from disk ({show_size(self.disk_bytes)})"
        each = sent = ""
        if self.ranks > 1:
            where = f"on {self.ranks} ranks, {where}"
            each = f" ({show_size(self.other_ranks_bytes)} on all but the first)"
            sent = f", {show_size(self.epoch_bytes)} sent by each rank"
        return (
            f"{self.graph}: {self.num_patches} patches {where}, {show_size(self.memory_bytes)} of memory{each}, "
            f"{self.seconds['epoch']:.2g} s an epoch{sent}, {show_seconds(self.seconds['total'])} "
            f"for at most {self.epochs} epochs"
        )


def make_plan(
    sizes: GraphSizes, config: Config, *, ranks: int = 1, hosts: int = 1, network: float = USUAL_NETWORK
) -> Plan:
    """Plan a run. Refused, as the run would be, where `config.memory` is too small.

    ranks: processes that share the patches. Memory is that of the first, which holds all vectors in the end.
    hosts: machines like this one, on which the ranks are spread evenly. network: bytes each second between two of them.
    """
    num_arcs, columns = 2 * sizes.num_edges, sizes.feature_bytes
    cores, on_host = available_cores(), -(-ranks // hosts)
    threads = choose_threads(config, sizes.num_nodes, sizes.num_edges)
    if ranks > 1 and not config.threads:
        threads = min(threads, max(1, cores // on_host))
    return_freed_memory()  # what was read for the sizes
    resident = resident_memory()
    stored = replace(sizes.stored, num_ranks=ranks)
    needed = resident + max(estimate_memory(stored, config) + graph_bytes(stored), peak_of_reading(stored))
    in_memory = config.memory is None or needed <= config.memory
    in_memory = in_memory and ranks == 1  # several read their own parts of a store
    others = 0
    num_patches = config.num_patches(sizes.num_nodes) if config.definition.uses_patches else 1
    if not in_memory:
        needs = _find_needs(stored, config, num_patches, threads, sizes.name, resident)
        kept = kept_bytes(config)
        row = kept.row + kept.state + kept.held + int(8 * (stored.entries_per_row or config.structure_width))
        # If all of it may stay in memory: the rows of the own nodes, and the own patches, the larger share of them.
        stays = int((_UNEVEN if ranks > 1 else 1) * ((4 + kept.arc) * num_arcs + row * sizes.num_nodes) / ranks)
        num_patches = needs.num_patches
        needed = needs.without_limit(stays) if config.memory is None else min(config.memory, needs.total + stays)
        if ranks > 1:
            rest = _find_needs(replace(stored, gathers=False), config, num_patches, threads, sizes.name, resident)
            others = rest.without_limit(stays) if config.memory is None else min(config.memory, rest.total + stays)
        if config.memory is None and not sizes.on_disk:  # the first rank reads it
            needed = max(needed, resident + peak_of_reading(stored))
    sample = Sample.of(sizes, replace(config, threads=threads))
    seconds = sample.measure(in_memory)
    scale = sizes.num_nodes / sample.graph.num_nodes * sample.shrinkage
    epochs = config.num_epochs(sizes.num_edges)
    times = {stage: value * scale for stage, value in seconds.items()}
    if sample.graph.num_nodes < sizes.num_nodes:
        times["epoch"] *= _EPOCH_GROWTH
        times["first_epoch"] *= _EPOCH_GROWTH
        times["split"] *= _SPLIT_GROWTH
    # Ranks share passes and products, but not the partition. Those of a host that has fewer cores take turns.
    turns = max(1.0, on_host * threads / cores)
    for stage in ("structure", "first_epoch", "epoch", "validation", "assemble"):
        times[stage] *= turns / ranks
    traffic = estimate_traffic(stored, config, num_patches)
    times["exchange"] = exchange_seconds(traffic, ranks, hosts, network)
    if ranks > 1:
        times["exchange"] += turns * _FAR_ROW_SECONDS * asked_rows(stored, config)
        layers = int(4 * (config.hidden * (config.layers - 1) + config.dim) * ghost_rows(stored))
        fetched = exchange_seconds(Traffic(0, 0, 0, 0, layers), ranks, hosts, network)
        for stage in ("validation", "assemble"):  # passes over rows: those of neighbours are fetched
            times[stage] += fetched
    times["epoch"] += times["exchange"]
    validations = -(-epochs // config.validate_every) if config.patience else 0
    times["train"] = epochs * times["epoch"] + validations * times["validation"]
    times["train"] += times["first_epoch"] if epochs else 0.0
    times["total"] = sum(times[stage] for stage in ("split", "structure", "partition", "train", "assemble"))
    disk = 0
    if not in_memory:
        stored_bytes = columns + 4 * num_arcs
        copies = 2 if config.memory is not None and config.definition.uses_patches else 1  # as batches take them, too
        disk = int((1 + 1.2 * copies) * stored_bytes + 24 * sizes.num_nodes)
    bytes_needed = int(needed), int(others), traffic.total, disk
    return Plan(sizes.name, num_patches, in_memory, ranks, hosts, *bytes_needed, epochs, times)


def _find_needs(sizes: StoredSizes, config: Config, num_patches: int, threads: int, name: str, resident: int) -> Needs:
    """What a training from disk takes. name: of the graph, for what is refused."""
    if config.memory is not None:
        return fit_budget(sizes, config, threads, name, resident)
    if config.definition.uses_patches:
        return find_needs(sizes, config, num_patches, threads, resident)
    return row_needs(sizes, config, threads, resident)


@dataclass(frozen=True, eq=False)
class Sample:
    """A small graph of the shape of a large one.

    Attributes:
        graph: The graph.
        patch_set: Its patches, of about the size that those of the large one have, but two at least.
        config: The settings of the run, few epochs.
        shrinkage: By how much an average node of it has fewer numbers than one of the large graph.
        makes_columns: Whether the run makes columns from the structure: the large graph has no features.
        overlap_seconds: What growing the overlaps of the patches took.
        keeps_all: Whether nothing limits memory: then what is read from disk once stays.
    """

    graph: Graph
    patch_set: PatchSet
    config: Config
    shrinkage: float
    makes_columns: bool = False
    overlap_seconds: float = 0.0
    keeps_all: bool = False

    @classmethod
    def of(cls, sizes: GraphSizes, config: Config) -> Sample:
        """Draw it: patches one after the other, most edges inside them, to anywhere: no node is near its neighbours."""
        degree = max(1.0, 2 * sizes.num_edges / sizes.num_nodes)
        numbers = sizes.entries_per_row or config.structure_width
        wanted = min(_SAMPLE_NODES, _SAMPLE_ARCS / degree, _SAMPLE_NUMBERS / max(1.0, numbers))
        num_nodes = min(sizes.num_nodes, max(2000, int(wanted)))
        generator = np.random.default_rng(0)
        num_edges = max(1, int(min(degree, num_nodes / 4) * num_nodes / 2))
        # Patches as large as the real ones where that leaves two: what a patch takes of the caches decides its speed.
        few = round(config.num_patches(sizes.num_nodes) * num_nodes / sizes.num_nodes)
        few = max(2, min(few, num_nodes // (4 * config.overlap_range[1]), _SAMPLE_PATCHES))
        labels = np.arange(num_nodes) * few // num_nodes
        how: dict[str, Any] = {"num_nodes": num_nodes, "name": "sample", "directed": config.directed}
        graph = Graph.from_arcs(*_draw_edges(labels, num_edges, generator), **how)
        shrinkage = degree / max(1e-9, graph.adjacency.nnz / num_nodes) if num_nodes < 4 * degree else 1.0
        graph = replace(graph, features=_draw_features(sizes, config.structure_width, num_nodes, generator))
        keeps_all = config.memory is None
        config = replace(config, epochs=_SAMPLE_EPOCHS, patience=0, memory=None, structure="none")
        patch_set = whole_graph(num_nodes)
        clock = Stopwatch()
        if config.definition.uses_patches:
            config = replace(config, patches=few)
            least, most = config.overlap_range
            with clock.measure("overlap"):
                patch_set = make_patches(graph, labels, min_overlap=least, target_overlap=most)
            patch_set = replace(patch_set, inside_share=1.0)  # how the graph is cut is not known yet
        overlap_seconds = clock.seconds.get("overlap", 0.0)
        scored = config.scored_fraction(sizes.num_nodes, sizes.num_edges)
        config = replace(config, score_fraction=scored)
        return cls(graph, patch_set, config, shrinkage, not sizes.num_features, overlap_seconds, keeps_all)

    def measure(self, in_memory: bool) -> dict[str, float]:
        """Seconds of the stages of a training of the sample."""
        clock = Stopwatch()
        prepare_torch(self.config, self.graph.num_nodes, self.graph.num_edges)
        with torch.random.fork_rng(devices=[]):
            if in_memory:
                run = run_split(keep_all(self.graph), self.config, clock=clock, patches=RunPatches(self.patch_set))
            else:
                run = self._train_from_disk(clock)
        first, *epochs = run.trained.history.epoch_seconds
        usual = statistics.quantiles(epochs, n=4)[0]  # for the same reason as in the partition
        started = time.perf_counter()
        split_links(self.graph, test_fraction=0.0)
        split_seconds = time.perf_counter() - started
        partition_seconds = 0.0
        if self.config.definition.uses_patches:
            partition_seconds = self._measure_partition() + self.overlap_seconds
        prepared = clock.seconds.get("partition", 0.0)
        last = clock.seconds["assemble"]
        return {
            "split": split_seconds,
            "structure": self._measure_structure() if self.makes_columns else 0.0,
            "partition": partition_seconds + prepared,
            "epoch": usual,
            "first_epoch": max(0.0, first - usual),
            "validation": last,
            "assemble": last,
        }

    def _measure_structure(self) -> float:
        """Seconds of structural columns, had they taken as many passes over the graph as they may."""
        started = time.perf_counter()
        found = fit_structure(self.graph.adjacency, self.config.spectral_width(0))
        return (time.perf_counter() - started) * _MOST_PASSES / max(1, found.num_passes)

    def _measure_partition(self) -> float:
        """Seconds. METIS has a graph of its own: arcs of a sparse random one take it longer than real ones."""
        adjacency, growth = self.graph.adjacency, 1.0
        if self.config.partition == "metis":
            generator = np.random.default_rng(0)
            labels = np.arange(_METIS_NODES) * _SAMPLE_PATCHES // _METIS_NODES
            adjacency = Graph.from_arcs(
                *_draw_edges(labels, _METIS_EDGES, generator), num_nodes=_METIS_NODES, name="small"
            ).adjacency
            growth = _METIS_GROWTH * self.graph.adjacency.nnz / adjacency.nnz
        seconds = []
        for _ in range(2):  # the shorter counts: whatever else runs here only ever adds
            started = time.perf_counter()
            partition(adjacency, _SAMPLE_PATCHES, method=self.config.partition, fennel_passes=self.config.fennel_passes)
            seconds.append(time.perf_counter() - started)
        return growth * min(seconds)

    def _train_from_disk(self, clock: Stopwatch) -> Any:
        with tempfile.TemporaryDirectory(prefix="l2g2g-plan-") as folder:
            stored = write_graph(self.graph, folder)
            needs = None if self.keeps_all else Needs(0, 0, 0, 2, 0, self.patch_set.num_patches)  # nothing to spare
            on_disk = RunPatches(self.patch_set, None, needs, by_rows=True)
            if self.config.definition.uses_patches:
                with clock.measure("partition"):
                    written = write_patches(stored, self.patch_set)
                on_disk = RunPatches(self.patch_set, written, needs)
            config = replace(self.config, memory=None if self.keeps_all else 1)
            return run_split(keep_all(stored), config, clock=clock, patches=on_disk)


def _draw_edges(labels: np.ndarray, num_edges: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(sources, targets) of random edges, most of them between nodes of one label. labels: (num_nodes,) in order."""
    num_nodes = len(labels)
    sources = generator.integers(0, num_nodes, num_edges)
    starts = np.searchsorted(labels, np.arange(labels[-1] + 2))
    lows, highs = starts[labels[sources]], starts[labels[sources] + 1]
    far = generator.random(num_edges) > _INSIDE
    lows[far], highs[far] = 0, num_nodes
    return sources, generator.integers(lows, highs)


def _draw_features(sizes: GraphSizes, structure_width: int, num_nodes: int, generator: np.random.Generator) -> Any:
    """Random columns: dense or sparse as those of the graph, or in place of those that are made from its structure."""
    if not sizes.sparse or not sizes.num_features:
        width = sizes.num_features or structure_width
        return generator.standard_normal((num_nodes, width), dtype=np.float32)
    per_row = max(1, round(sizes.entries_per_row))
    columns = np.sort(generator.integers(0, sizes.num_features, (num_nodes, per_row)), axis=1)
    matrix = sp.csr_array(
        (np.ones(columns.size, np.float32), columns.ravel().astype(np.int32), np.arange(num_nodes + 1) * per_row),
        shape=(num_nodes, sizes.num_features),
    )
    matrix.sum_duplicates()
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr.astype(np.int32)), shape=matrix.shape)
