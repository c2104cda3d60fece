"""Bounded evaluation: held-out links of a graph on disk. The training graph is written as a store of its own first."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from l2g2g.bounded import (
    fits_memory,
    keep_stored,
    refuse_what_is_not_shared,
    refuse_what_needs_memory,
    run_stored,
)
from l2g2g.budget import StoredSizes, fit_budget
from l2g2g.config import Config
from l2g2g.experiment import Measures, OnEpoch, evaluate_graph, name_split, run_split, show_split, training_name
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.split_files import PinnedSplit
from l2g2g.graphs.splits import EdgeSplit, LinkSplit, Protocol, split_edges
from l2g2g.graphs.store import StoredGraph
from l2g2g.graphs.training_store import training_rows, write_training_graph
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.preparation import refuse_missing_weights
from l2g2g.resources import choose_threads, prepare_torch
from l2g2g.run import Run
from l2g2g.run_directory import RunDirectory
from l2g2g.scoring import FURTHER_MEASURES, describe_evaluation, further_measures, score_test, with_separation
from l2g2g.sources import open_shared_store, shared_folder
from l2g2g.stopwatch import Stopwatch
from l2g2g.stored_patches import find_patches, fit_patches, fit_shared_patches
from l2g2g.training.heap import return_freed_memory


def evaluate_source(
    graph: Graph | StoredGraph,
    config: Config,
    *,
    protocol: Protocol = "heldout",
    measures: Measures = "auc",
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    communicator: Communicator = LOCAL,
    pinned: PinnedSplit | None = None,
    scorer: str = "vectors",
) -> tuple[dict[str, Any], Run]:
    """Split, train, score a graph in memory or on disk; see `evaluate_graph` and `evaluate_stored`."""
    how: dict[str, Any] = {"on_epoch": on_epoch, "directory": directory, "pinned": pinned, "scorer": scorer}
    if isinstance(graph, Graph):
        return evaluate_graph(graph, config, protocol=protocol, measures=measures, communicator=communicator, **how)
    return evaluate_stored(graph, config, protocol=protocol, measures=measures, communicator=communicator, **how)


def evaluate_stored(
    graph: StoredGraph,
    config: Config,
    *,
    protocol: Protocol = "heldout",
    measures: Measures = "auc",
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    communicator: Communicator = LOCAL,
    pinned: PinnedSplit | None = None,
    scorer: str = "vectors",
) -> tuple[dict[str, Any], Run]:
    """Hold out 5 % of the edges for validation and 10 % for the test, train on the rest, score.

    protocol, measures, pinned, scorer: as in `evaluate_graph`.
    communicator: as in `embed_stored`; only the first scores, the others return an empty line.
    """
    refuse_missing_weights(graph, config)
    started, clock = time.perf_counter(), Stopwatch()
    prepare_torch(config, 2 * graph.num_edges)
    if communicator.size > 1:
        refuse_what_is_not_shared(config, communicator)
    elif not fits_memory(graph, config):  # refused before any work, if at all
        refuse_what_needs_memory(config)
        fit_budget(StoredSizes.of(graph), config, choose_threads(config, 2 * graph.num_edges), graph.name)
    with clock.measure("split"):
        source: EdgeSplit | PinnedSplit = (
            split_edges(graph, protocol=protocol, seed=config.seed) if pinned is None else pinned
        )
    place = f"split-{config.seed if pinned is None else pinned.sha256[:16]}"
    with shared_folder(communicator, directory, place) as folder:
        with clock.measure("split"):
            train = _share_training_graph(graph, source, folder, communicator)
            split = source.of_training_graph(graph.num_nodes, train.num_edges)
            return_freed_memory()
        needs, patches = None, None
        if communicator.size > 1:
            patches, needs = fit_shared_patches(communicator, train, config, clock)
        elif not fits_memory(train, config):
            patches, needs = fit_patches(train, config, clock)
        elif config.definition.uses_patches:
            patches = find_patches(train, config, clock)
        name = training_name(config)
        keeper = keep_stored(directory, name, train, config, patches, protocol=protocol, **name_split(pinned))
        how: dict[str, Any] = {"clock": clock, "on_epoch": on_epoch, "keeper": keeper}
        if patches is None or (needs is None and communicator.size == 1):
            link_split = LinkSplit(train.to_graph(), split.validation, split.test, split.held_out, protocol)
            found = None if patches is None else patches.patch_set
            run = run_split(link_split, config, **how, patch_set=found)
        else:
            run = run_stored(train, patches, split, config, needs, **how, communicator=communicator)
        if not communicator.is_first:
            return {}, run
        assert split.test is not None
        scored = score_test(graph, train, split.validation, split.test, run, clock, wanted=scorer)
        further: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
        if measures == "all":
            ranked, seed = split.test if protocol == "heldout" else None, config.seed
            further = further_measures(graph, train, ranked, run.embedding, scored.scorer, clock, seed=seed)
    if directory is not None:
        with clock.measure("inspect"):
            run = with_separation(run, "test" if protocol == "heldout" else "paper", split.test, config.seed)
    clock.seconds["total"] = time.perf_counter() - started
    more: dict[str, Any] = {"best_auc": None, **further, **scored.more, **show_split(pinned)}
    row = describe_evaluation(
        graph, run.describe(), scored.scores, clock.seconds, protocol=protocol, seed=config.seed, **more
    )
    return row, run


def _share_training_graph(
    graph: StoredGraph, split: EdgeSplit | PinnedSplit, folder: Path, communicator: Communicator
) -> StoredGraph:
    """The training graph on disk: of several ranks the first writes it, and the others open it."""
    if communicator.size == 1:
        return _write_training_graph(graph, split, folder)
    if communicator.is_first:
        _write_training_graph(graph, split, folder)
    communicator.broadcast("ready", b"")
    return open_shared_store(folder)


def _write_training_graph(graph: StoredGraph, split: EdgeSplit | PinnedSplit, folder: Path) -> StoredGraph:
    """What a split leaves of a stored graph, or what its files say, as a store of its own."""
    if isinstance(split, PinnedSplit):
        edges = split.training_edges(graph.num_nodes)
        rows, num_edges, weighted = edges.row_blocks(weights=True), edges.num_edges, edges.weighted
        source: dict[str, Any] = {"split_of": graph.sha256, "split": split.sha256}
    else:
        rows, num_edges, weighted = training_rows(graph, split.rule), split.num_edges, graph.weighted
        source = {"split_of": graph.sha256, "held_out": None if split.rule is None else asdict(split.rule)}
    return write_training_graph(graph, rows, folder, num_edges=num_edges, weighted=weighted, source=source)
