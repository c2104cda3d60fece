"""Baseline runs: a baseline scored on the split of `evaluate`, with the JSON line of a trained method."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import numpy as np

from l2g2g.config import Config
from l2g2g.evaluation.links import best_link_scores, evaluate_links, fit_baseline
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.split_files import PinnedSplit
from l2g2g.graphs.splits import LinkSplit, Protocol, split_links
from l2g2g.parallel.communicator import LOCAL
from l2g2g.runs.evaluate import Measures, pin_split
from l2g2g.runs.resources import Stopwatch, prepare_torch
from l2g2g.runs.scoring import FURTHER_MEASURES, describe_evaluation, directed_measures, further_measures
from l2g2g.runs.storage import shared_folder

_STAGES = ("partition", "train", "epoch_median", "synchronise", "assemble")  # of the contract; most take no time here


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
    prepare_torch(config, 2 * graph.num_edges)
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

    best = None
    with clock.measure("evaluate"):
        scores = evaluate_links(vectors, test, score)
        directions = directed_measures(graph, test, vectors, score)
        if graph.block_model is not None and protocol == "heldout":
            best = best_link_scores(graph.block_model, test).auc
    further: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
    if measures == "all":
        ranked = test if protocol == "heldout" else None
        how: dict[str, Any] = {"seed": config.seed, "directed": config.directed}
        further = further_measures(graph, train, ranked, baseline.vectors, score, clock, **how)
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
    more: dict[str, Any] = {"best_auc": best, **further, **directions, "chosen": {"scorer": baseline.chosen}}
    more |= {} if pinned is None else {"split": str(pinned.folder)}
    return describe_evaluation(graph, described, scores, seconds, protocol=protocol, seed=config.seed, **more)
