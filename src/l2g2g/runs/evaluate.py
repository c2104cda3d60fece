"""Evaluate: a graph in memory or on disk is split, and a method or a baseline scored on what was held out."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from l2g2g.config import Config
from l2g2g.errors import InputError
from l2g2g.evaluation.links import best_link_scores, evaluate_links, fit_baseline
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.split_files import PinnedSplit
from l2g2g.graphs.splits import LinkSplit, Pairs, Protocol, split_links
from l2g2g.graphs.store import StoredGraph
from l2g2g.graphs.store_writer import write_training_graph
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.direct import direct_auc
from l2g2g.runs.patches import find_patches
from l2g2g.runs.ranks import share_split, split_on_ranks
from l2g2g.runs.resources import Stopwatch, prepare_torch
from l2g2g.runs.run import Run
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.runs.scoring import (
    FURTHER_MEASURES,
    describe_evaluation,
    directed_measures,
    further_measures,
    score_test,
    with_scores,
)
from l2g2g.runs.sources import check_settings, open_shared_store, place_graph, share_graph, shared_folder
from l2g2g.runs.training import check_graph, fit_links, keep_training, run_split
from l2g2g.training.loop import OnEpoch

Measures = Literal["auc", "all"]
_STAGES = ("partition", "train", "epoch_median", "synchronise", "assemble")  # of the contract; most take no time here


def evaluate_graph(
    graph: GraphStore,
    config: Config,
    *,
    protocol: Protocol = "heldout",
    measures: Measures = "auc",
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    communicator: Communicator = LOCAL,
    pinned: PinnedSplit | None = None,
    scorer: str = "vectors",
    gather: bool = True,
) -> tuple[dict[str, Any], Run]:
    """Split, train, score. Returns the JSON line of the contract and the run.

    measures: auc for AUC and AP, all for ranks and a linear probe besides. directory, communicator: as in
    `embed_graph`; each rank scores its own test pairs, and the first does what needs all pairs and vectors; the others
    return an empty line. scorer: as in `score_test`. pinned: a split from files, to be used instead of one by the seed.
    gather: whether the run of the first rank has the vectors of all nodes also where nothing here needs them.
    """
    if pinned is not None and protocol != "heldout":
        raise InputError(f"--protocol {protocol} makes pairs of its own; leave out --split or --protocol")
    started, clock = time.perf_counter(), Stopwatch()
    prepare_torch(config, graph.num_nodes, graph.num_edges)
    check_settings(graph, config, communicator)
    with ExitStack() as stack:
        shared = stack.enter_context(share_graph(graph, communicator, directory))
        placed = place_graph(shared, config, communicator)
        check_graph(placed, config)
        folder = None
        if not placed.resident:
            name = f"split-{config.seed if pinned is None else pinned.sha256[:16]}"
            folder = stack.enter_context(shared_folder(communicator, directory, name))
        with clock.measure("split"):
            if pinned is None:
                split = split_on_ranks(placed, communicator, protocol=protocol, seed=config.seed)
            else:
                split = pin_split(placed, pinned, folder, communicator)
        patches = find_patches(split.train, config, clock, folder=folder, communicator=communicator)
        decided = {"protocol": protocol, **({} if pinned is None else {"pinned_split": pinned.sha256})}
        run = run_split(
            split,
            config,
            clock=clock,
            on_epoch=on_epoch,
            checkpoints=keep_training(directory, training_name(config), shared, patches, config, **decided),
            keep=directory is not None,
            patches=patches,
            communicator=communicator,
            gather=False,
        )
        assert split.test is not None
        with clock.measure("evaluate"):
            alone = evaluate_links(run.embedding, split.test, run.trained.model.decoder.score)
        # What the first rank does with all vectors, and with all pairs.
        needs_vectors = directory is not None or measures == "all" or scorer != "vectors" or graph.directed
        needs_pairs = needs_vectors or (graph.block_model is not None and protocol == "heldout")
        gather, needs_vectors, needs_pairs = communicator.decide(
            lambda: [gather or needs_vectors, needs_vectors, needs_pairs]
        )
        run = run.gathered(communicator) if gather else run
        test = split.test.on_first() if needs_pairs else split.test
        validation = split.validation
        if needs_vectors and validation is not None:
            validation = validation.on_first()
        if not communicator.is_first:
            return {}, run
        scored = score_test(graph, split.train, validation, test, run, clock, alone, wanted=scorer)
        best_auc = _best_auc(graph, test, protocol)
        if directory is not None:
            with clock.measure("inspect"):
                run = _inspect(run, split, test, protocol, config.seed)
        further: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
        if measures == "all":
            ranked = test if protocol == "heldout" else None
            further = further_measures(
                graph,
                split.train,
                ranked,
                run.embedding,
                scored.scorer,
                clock,
                seed=config.seed,
                directed=config.directed,
            )
    clock.seconds["total"] = time.perf_counter() - started
    fields: dict[str, Any] = {
        "best_auc": best_auc,
        **further,
        **directed_measures(graph, test, run.embedding, scored.scorer),
        **scored.more,
        "chosen": _join_choices(run.chosen, scored.more["chosen"]),
    }
    fields |= {} if pinned is None else {"split": str(pinned.folder)}
    described = run.describe()
    row = describe_evaluation(
        graph, described, scored.scores, clock.seconds, protocol=protocol, seed=config.seed, **fields
    )
    return row, run


def _inspect(run: Run, split: LinkSplit[Any], test: Pairs, protocol: Protocol, seed: int) -> Run:
    """The run with the scores of its test pairs and a model of links, for its report."""
    run = with_scores(run, "test" if protocol == "heldout" else "paper", test, seed)
    links = fit_links(split, run.trained.model.decoder, seed, run.embedding, crossed_auc=direct_auc(run.chosen))
    if links is None:
        return run
    return replace(run, inspection=replace(run.inspection, link_model=links.to_dict()))


def _join_choices(vectors: dict[str, Any], scorer: dict[str, Any]) -> dict[str, Any]:
    """What was chosen, of vectors and of scorers, with the validation scores of all candidates."""
    joined = {**vectors, **scorer}
    scores = {**vectors.get("validation_auc", {}), **scorer.get("validation_auc", {})}
    return {**joined, "validation_auc": scores} if scores else joined


def training_name(config: Config) -> str:
    """What a training of an evaluation is called in a run directory."""
    return f"{config.method}-seed-{config.seed}"


def pin_split(
    graph: GraphStore, pinned: PinnedSplit, folder: Path | None, communicator: Communicator
) -> LinkSplit[Any]:
    """The split from files; the training edges of a graph on disk are written as a store of their own."""
    if graph.stored is None:
        return pinned.in_memory(graph.to_graph())
    assert folder is not None
    if communicator.is_first:
        _write_training_graph(graph.stored, pinned, folder)
    communicator.broadcast("ready", b"")
    train = open_shared_store(folder)
    return share_split(pinned.of_training_graph(train) if communicator.is_first else None, train, communicator)


def _write_training_graph(graph: StoredGraph, split: PinnedSplit, folder: Path) -> None:
    edges = split.training_edges(graph.num_nodes, directed=graph.directed)
    source = {"split_of": graph.sha256, "split": split.sha256}
    write_training_graph(
        graph,
        edges.row_blocks(weights=True, directions=True),
        folder,
        num_edges=edges.num_edges,
        weighted=edges.weighted,
        source=source,
    )


def _best_auc(graph: GraphStore, test: Pairs, protocol: Protocol) -> float | None:
    """What the generating model allows on these pairs; None for real graphs and under the paper's evaluation."""
    if graph.block_model is None or protocol != "heldout":
        return None
    return best_link_scores(graph.block_model, test).auc


def evaluate_baseline(
    graph: GraphStore,
    name: str,
    config: Config,
    *,
    protocol: Protocol = "heldout",
    measures: Measures = "auc",
    pinned: PinnedSplit | None = None,
) -> dict[str, Any]:
    """Split a graph in memory or on disk, score a baseline of `BASELINES`, and return the JSON line of the contract.

    config: its seed makes the split and its dim is that of the spectral vectors; nothing else counts.
    """
    started, clock = time.perf_counter(), Stopwatch()
    prepare_torch(config, graph.num_nodes, graph.num_edges)
    with ExitStack() as stack:
        with clock.measure("split"):
            if pinned is None:
                split = split_links(graph, protocol=protocol, seed=config.seed)
            else:
                split = pin_split(graph, pinned, stack.enter_context(shared_folder(LOCAL, None, "split")), LOCAL)
        return _score(graph, name, config, split, clock, started, protocol=protocol, measures=measures, pinned=pinned)


def _score(
    graph: GraphStore,
    name: str,
    config: Config,
    split: LinkSplit[Any],
    clock: Stopwatch,
    started: float,
    *,
    protocol: Protocol,
    measures: Measures,
    pinned: PinnedSplit | None,
) -> dict[str, Any]:
    train, test = split.train, split.test
    assert test is not None
    with clock.measure("train"):
        baseline = fit_baseline(name, train, split.validation, dim=config.dim, seed=config.seed)
    vectors = np.empty((graph.num_nodes, 0), np.float32) if baseline.vectors is None else baseline.vectors

    def score(_: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return baseline.score(sources, targets)

    with clock.measure("evaluate"):
        scores = evaluate_links(vectors, test, score)
        directions = directed_measures(graph, test, vectors, score)
        best_auc = _best_auc(graph, test, protocol)
    further: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
    if measures == "all":
        ranked = test if protocol == "heldout" else None
        further = further_measures(
            graph, train, ranked, baseline.vectors, score, clock, seed=config.seed, directed=config.directed
        )
    seconds = dict.fromkeys(_STAGES, 0.0) | clock.seconds | {"total": time.perf_counter() - started}
    described = {
        "method": name,
        "preset": config.preset,
        "dim": vectors.shape[1],
        "epochs": 0,
        "num_patches": 1,  # a whole graph is one patch
        "kept_edge_fraction": 1.0,
        "node_duplication": 1.0,
        "largest_patch_nodes": graph.num_nodes,
    }
    more: dict[str, Any] = {"best_auc": best_auc, **further, **directions, "chosen": {"scorer": baseline.chosen}}
    more |= {} if pinned is None else {"split": str(pinned.folder)}
    return describe_evaluation(graph, described, scores, seconds, protocol=protocol, seed=config.seed, **more)
