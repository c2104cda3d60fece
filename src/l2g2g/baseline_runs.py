"""Baseline runs: a baseline scored on the split of `evaluate`, with the JSON line of a trained method."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from l2g2g.config import Config
from l2g2g.evaluation.baselines import fit_baseline
from l2g2g.evaluation.limits import best_link_scores
from l2g2g.evaluation.links import evaluate_links
from l2g2g.evaluation.pair_features import EdgeRows
from l2g2g.experiment import Measures, show_split
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.split_files import PinnedSplit
from l2g2g.graphs.splits import Pairs, Protocol, split_edges, split_links
from l2g2g.graphs.store import StoredGraph
from l2g2g.graphs.training_view import TrainingView
from l2g2g.resources import prepare_torch
from l2g2g.scoring import FURTHER_MEASURES, describe_evaluation, directed_measures, further_measures
from l2g2g.stopwatch import Stopwatch

_STAGES = ("partition", "train", "epoch_median", "synchronise", "assemble")  # of the contract; most take no time here


def evaluate_baseline(
    graph: Graph | StoredGraph,
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
    directions: dict[str, Any] = {}
    with clock.measure("split"):
        train, validation, test = _split(graph, config.seed, protocol, pinned)
    with clock.measure("train"):
        baseline = fit_baseline(name, train, validation, dim=config.dim, seed=config.seed)
    vectors = np.empty((graph.num_nodes, 0), np.float32) if baseline.vectors is None else baseline.vectors

    def score(_: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return baseline.score(sources, targets)

    best = None
    with clock.measure("evaluate"):
        scores = evaluate_links(vectors, test, score)
        if isinstance(graph, Graph):
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
    more = {"best_auc": best, **further, **directions, "chosen": {"scorer": baseline.chosen}, **show_split(pinned)}
    return describe_evaluation(graph, described, scores, seconds, protocol=protocol, seed=config.seed, **more)


def _split(
    graph: Graph | StoredGraph, seed: int, protocol: Protocol, pinned: PinnedSplit | None
) -> tuple[EdgeRows, Pairs | None, Pairs]:
    """The training edges, validation pairs and test pairs, as trained methods get them."""
    if isinstance(graph, Graph):
        split = split_links(graph, protocol=protocol, seed=seed) if pinned is None else pinned.in_memory(graph)
        assert split.test is not None
        return split.train, split.validation, split.test
    if pinned is not None:
        return pinned.training_edges(graph.num_nodes), pinned.validation, pinned.test
    held = split_edges(graph, protocol=protocol, seed=seed)
    assert held.test is not None
    return TrainingView(graph, held.rule, held.num_edges), held.validation, held.test
