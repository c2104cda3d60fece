"""Scoring: what a trained model says about pairs, and how well its vectors do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from l2g2g.evaluation.links import LinkScores, PairScorer, evaluate_links
from l2g2g.evaluation.probe import probe_labels
from l2g2g.evaluation.ranking import rank_links
from l2g2g.evaluation.separation import PairKind, ScoredPairs
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import LinkSplit, Pairs, Protocol
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.resources import peak_memory
from l2g2g.run import Run
from l2g2g.stopwatch import Stopwatch


def pair_scorer(model: Autoencoder) -> PairScorer:
    """How the model's decoder scores pairs."""
    return model.decoder.score


def score_pairs(model: Autoencoder, pairs: Pairs, embedding: torch.Tensor) -> float:
    """AUC of some pairs."""
    return evaluate_links(embedding.cpu().numpy(), pairs, pair_scorer(model)).auc


def directed_measures(graph: GraphStore, split: LinkSplit[Any], run: Run) -> dict[str, float | int | None]:
    """The two questions of a directed graph apart; nothing for an undirected one."""
    if graph.num_arcs is None or split.test is None:
        return {}
    scorer = pair_scorer(run.trained.model)
    joined = evaluate_links(run.embedding, split.test.without_reversed(), scorer).auc
    way = evaluate_links(run.embedding, split.test.only_reversed(), scorer).auc if split.test.num_reversed else None
    return {"auc_joined": joined, "auc_direction": way, "num_arcs": graph.num_arcs}


FURTHER_MEASURES = ("mrr", "hits@1", "hits@10", "hits@50", "probe_accuracy", "probe_macro_f1")


def further_measures(
    graph: GraphStore, test: Pairs | None, train_degrees: np.ndarray, run: Run, clock: Stopwatch
) -> dict[str, float | None]:
    """Ranks of the held-out edges, and classes read by a linear probe; None for what does not apply.

    test: None for the paper's pairs, which hold self-loops: these cannot be ranked among other partners of the node.
    train_degrees: (num_nodes,) number of neighbours in training.
    """
    found: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
    seed, scorer = run.config.seed, pair_scorer(run.trained.model)
    if test is not None:
        with clock.measure("rank"):
            edges, directed = test.positive, run.config.directed
            ranks = rank_links(
                run.embedding, edges, graph.pattern_of, train_degrees, scorer, directed=directed, seed=seed
            )
        if ranks is not None:
            hits = {"hits@1": ranks.hits_at_1, "hits@10": ranks.hits_at_10, "hits@50": ranks.hits_at_50}
            found |= {"mrr": ranks.mrr, **hits}
    if graph.labels is not None:
        with clock.measure("probe"):
            probe = probe_labels(run.embedding, graph.labels, seed=seed)
        if probe is not None:
            found |= {"probe_accuracy": probe.accuracy, "probe_macro_f1": probe.macro_f1}
    return found


def with_scores(run: Run, kind: PairKind, pairs: Pairs, seed: int) -> Run:
    """The run with the scores of these pairs, which its artefact keeps."""
    scored = ScoredPairs.of(kind, run.embedding, pairs, pair_scorer(run.trained.model), seed)
    return replace(run, inspection=replace(run.inspection, scored=scored))


def describe_evaluation(
    graph: GraphStore,
    run: Run,
    scores: LinkScores,
    seconds: dict[str, float],
    *,
    protocol: Protocol,
    seed: int,
    **more: Any,
) -> dict[str, Any]:
    """The JSON line of the contract. more: best_auc, the further measures and the files of a pinned split."""
    return {
        **run.describe(),
        "dataset": graph.name,
        "protocol": protocol,
        "seed": seed,
        "auc": scores.auc,
        "ap": scores.average_precision,
        **more,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": graph.num_features,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
    }
