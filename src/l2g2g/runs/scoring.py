"""Scoring: what a trained model says about pairs, and how well its vectors do."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.errors import NumericalError
from l2g2g.evaluation.link_scorer import SPECTRAL_DIM, LinkEvidence, choose_scorer
from l2g2g.evaluation.links import SPECTRAL, LinkScores, PairScorer, evaluate_links, fit_baseline, link_scores
from l2g2g.evaluation.pair_features import EdgeRows
from l2g2g.evaluation.probe import probe_labels
from l2g2g.evaluation.ranking import rank_hard, rank_links
from l2g2g.evaluation.separation import PairKind, ScoredPairs
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import Pairs, Protocol
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.spectral import MOST_BASELINE_EDGES, spectral_bytes
from l2g2g.runs.direct import direct_auc
from l2g2g.runs.environment import peak_memory, resident_memory
from l2g2g.runs.resources import Stopwatch
from l2g2g.runs.run import Run

_log = logging.getLogger(__name__)


def score_validation(model: Autoencoder, pairs: Pairs, embedding: torch.Tensor) -> float:
    """AUC of some pairs. embedding: as in `score_pairs`. A collective call."""
    return evaluate_links(embedding.cpu().numpy(), pairs, model.decoder.score).auc


def score_spectral(train: EdgeRows, validation: Pairs, config: Config) -> float | None:
    """AUC of the validation pairs by the baseline `spectral` at the dimension of a run, on the first rank.

    None where its eigenvectors do not converge or do not fit the limit of memory, and for a graph of so many edges that
    they may take longer than training. A collective call.
    """
    if train.num_edges > MOST_BASELINE_EDGES:
        _log.info("the spectral baseline is left out for large graphs: l2g2g evaluate --method spectral computes it")
        return None
    pairs = validation.on_first()
    if not validation.communicator.is_first:
        return None
    needed = spectral_bytes(train.num_nodes, train.num_edges, config.dim)
    if config.memory is not None and needed + resident_memory() > config.memory:
        _log.info("the spectral baseline is left out: it needs about %s MB", f"{needed / 1e6:,.0f}")
        return None
    try:
        baseline = fit_baseline(SPECTRAL, train, pairs, dim=config.dim, seed=config.seed)
    except NumericalError as error:
        _log.info("the spectral baseline is left out: %s", error)
        return None
    sources, targets, is_edge = pairs.endpoints()
    return link_scores(is_edge, baseline.score(sources, targets)).auc


def directed_measures(
    graph: GraphStore, test: Pairs, vectors: np.ndarray, scorer: PairScorer
) -> dict[str, float | int | None]:
    """The two questions of a directed graph apart; nothing for an undirected one."""
    if graph.num_arcs is None:
        return {}
    joined = evaluate_links(vectors, test.without_reversed(), scorer).auc
    way = evaluate_links(vectors, test.only_reversed(), scorer).auc if test.num_reversed else None
    return {"auc_joined": joined, "auc_direction": way, "num_arcs": graph.num_arcs}


FURTHER_MEASURES = (
    "mrr",
    "hits@1",
    "hits@10",
    "hits@50",
    "hard_mrr",
    "hard_hits@1",
    "hard_hits@10",
    "hard_hits@50",
    "probe_accuracy",
    "probe_macro_f1",
)
SCORERS = ("vectors", "combined", "auto")


@dataclass(frozen=True, eq=False)
class ScoredTest:
    """How well test edges are separated from non-edges.

    Attributes:
        scores: By the scorer that was given or chosen.
        scorer: This scorer.
        more: What it adds to the JSON line.
    """

    scores: LinkScores
    scorer: PairScorer
    more: dict[str, Any]


def score_test(
    graph: GraphStore,
    train: EdgeRows,
    validation: Pairs | None,
    test: Pairs,
    run: Run,
    clock: Stopwatch,
    alone: LinkScores,
    *,
    wanted: str = "vectors",
) -> ScoredTest:
    """Score the test pairs of a run. wanted: vectors, combined, or auto: what the validation pairs prefer.

    train: the edges that training saw, the only ones that pair features are made of. alone: by the vectors.
    """
    own = run.trained.model.decoder.score
    if wanted == "vectors":
        return ScoredTest(alone, own, {"chosen": {"scorer": "vectors"}})
    with clock.measure("scorer"):
        seed, dim = run.config.seed, spectral_dim(graph.num_nodes, run.config.memory)
        evidence = LinkEvidence(train, run.embedding, own, graph, seed=seed, spectral_dim=dim)
        choice = choose_scorer(wanted, evidence, validation, seed=seed, crossed_auc=direct_auc(run.chosen))
        more = {"chosen": choice.describe(), "vectors_auc": alone.auc, "vectors_ap": alone.average_precision}
        if choice.chosen == "vectors" or choice.combined is None:
            return ScoredTest(alone, own, more)
        return ScoredTest(evaluate_links(run.embedding, test, choice.combined), choice.combined, more)


def spectral_dim(num_nodes: int, memory: int | None) -> int:
    """Spectral columns of the combined scorer: fewer where their eigensolver would not keep to the limit of memory."""
    if memory is None:
        return SPECTRAL_DIM
    # Three and a half tables of this width in single precision: ARPACK has two, the result is one.
    affordable = max(0, memory - resident_memory()) // (14 * num_nodes)
    return int(min(SPECTRAL_DIM, max(2, affordable)))


def further_measures(
    graph: GraphStore,
    train: EdgeRows,
    test: Pairs | None,
    vectors: np.ndarray | None,
    scorer: PairScorer,
    clock: Stopwatch,
    *,
    seed: int,
    directed: bool = False,
) -> dict[str, float | None]:
    """Ranks of the held-out edges, and classes read by a linear probe; None for what does not apply.

    train: the edges that training saw. vectors: (num_nodes, dim); None for a method that has none.
    test: None for the paper's pairs, which hold self-loops: these cannot be ranked among other partners of the node.
    """
    found: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
    table = np.empty((graph.num_nodes, 0), np.float32) if vectors is None else vectors
    if test is not None:
        with clock.measure("rank"):
            degrees = np.concatenate([np.diff(block.indptr) for block in train.row_blocks()])
            matched = rank_links(table, test.positive, graph.pattern_of, degrees, scorer, directed=directed, seed=seed)
        with clock.measure("rank_hard"):
            hard = rank_hard(table, test.positive, graph.pattern_of, train, graph, scorer, directed=directed, seed=seed)
        for prefix, ranks in (("", matched), ("hard_", hard)):
            if ranks is not None:
                hits = {"hits@1": ranks.hits_at_1, "hits@10": ranks.hits_at_10, "hits@50": ranks.hits_at_50}
                found |= {f"{prefix}{name}": value for name, value in {"mrr": ranks.mrr, **hits}.items()}
    if graph.labels is not None and vectors is not None:
        with clock.measure("probe"):
            probe = probe_labels(vectors, graph.labels, seed=seed)
        if probe is not None:
            found |= {"probe_accuracy": probe.accuracy, "probe_macro_f1": probe.macro_f1}
    return found


def with_scores(run: Run, kind: PairKind, pairs: Pairs, seed: int) -> Run:
    """The run with the scores of these pairs, which its artefact keeps."""
    scored = ScoredPairs.of(kind, run.embedding, pairs, run.trained.model.decoder.score, seed)
    return replace(run, inspection=replace(run.inspection, scored=scored))


def describe_evaluation(
    graph: GraphStore,
    described: dict[str, Any],
    scores: LinkScores,
    seconds: dict[str, float],
    *,
    protocol: Protocol,
    seed: int,
    **more: Any,
) -> dict[str, Any]:
    """The JSON line of the contract.

    described: what there is to say about the run or the baseline. more: best_auc, the further measures, the files of a
    pinned split and what was chosen.
    """
    return {
        **described,
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
