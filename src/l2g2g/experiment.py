"""Experiment: the rim that wires the rooms: a graph and a config become an embedding and its scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.errors import InputError, NumericalError
from l2g2g.evaluation.limits import best_link_scores
from l2g2g.evaluation.links import LinkScores
from l2g2g.feature_choices import FeatureCounts, choose_feature_dropout
from l2g2g.fitted import Start, remember
from l2g2g.graphs.fingerprint import fingerprint
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.split_files import PinnedSplit
from l2g2g.graphs.splits import LinkSplit, Protocol, split_links
from l2g2g.inspection import Inspection, inspect_training
from l2g2g.link_model import LinkModel, fit_link_model
from l2g2g.memory import check_memory
from l2g2g.models.decoders.base import Decoder
from l2g2g.models.features import feature_centre
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.preparation import (
    Prepared,
    Purpose,
    cut,
    loop_settings,
    make_model,
    passes_whole_graph,
    prepare,
    read_inputs,
)
from l2g2g.rank_share import describe_messages, make_shard
from l2g2g.resources import describe_machine, prepare_torch
from l2g2g.run import Run
from l2g2g.run_directory import RunDirectory
from l2g2g.scoring import (
    FURTHER_MEASURES,
    describe_evaluation,
    directed_measures,
    further_measures,
    pair_scorer,
    score_pairs,
    score_test,
    with_separation,
)
from l2g2g.stopwatch import Stopwatch, note_seconds
from l2g2g.training.heap import return_freed_memory
from l2g2g.training.keeper import Keeper
from l2g2g.training.loop import Trained, embed_nodes, train
from l2g2g.training.recovery import embedding_trouble
from l2g2g.training.report import OnEpoch

Measures = Literal["auc", "all"]
# Length of the two trainings that decide whether structure is blended in, and what it must gain in AUC.
_TRIAL_EPOCHS = 15
_TRIAL_GAIN = 0.002
_MOST_VALIDATION_EDGES = 1_000_000
_LEAST_EDGES = 20  # below, none is held out for validation


def embed_graph(
    graph: Graph,
    config: Config,
    *,
    validation_fraction: float = 0.05,
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    keep: bool = False,
    start: Start | None = None,
    communicator: Communicator = LOCAL,
) -> Run:
    """Embed a graph. A few edges are held out for early stopping only and used for the final vectors.

    validation_fraction: of the edges, at most a million; 0 trains on all edges, without early stopping.
    directory: where the state of training is kept, and read from where the run is resumed.
    keep, start: as in `run_split`.
    communicator: of the ranks of a torchrun job, which train together; only the first gets the vectors.
    """
    clock = Stopwatch()
    validation_fraction = limit_validation(validation_fraction, graph.num_edges, config)
    with clock.measure("split"):
        split = split_links(graph, validation_fraction=validation_fraction, test_fraction=0.0, seed=config.seed)
    more: dict[str, Any] = {} if start is None or directory is None else {"warm_start": start.digest()}
    keeper = keep_training(directory, "embed", graph, split, config, validation_fraction=validation_fraction, **more)
    return run_split(
        split,
        config,
        final_graph=graph,
        clock=clock,
        on_epoch=on_epoch,
        keeper=keeper,
        keep=keep,
        start=start,
        communicator=communicator,
    )


def limit_validation(fraction: float, num_edges: int, config: Config) -> float:
    """The fraction of edges that `embed` holds out for early stopping: at most a million edges, none of very few."""
    if config.epochs == 0 or num_edges < _LEAST_EDGES:
        return 0.0
    return min(fraction, _MOST_VALIDATION_EDGES / num_edges)


def keep_training(
    directory: RunDirectory | None, name: str, graph: Graph, split: LinkSplit, config: Config, **more: Any
) -> Keeper | None:
    """A keeper for a training on this graph with these settings; more: what else decides the result."""
    if directory is None:
        return None
    settings = {**config.to_dict(), **more}
    machine = describe_machine(config, split.train.adjacency.nnz, settings)
    return directory.keep(name, {"graph": fingerprint(graph), "settings": settings, "machine": machine})


def run_split(
    split: LinkSplit,
    config: Config,
    *,
    final_graph: Graph | None = None,
    clock: Stopwatch | None = None,
    on_epoch: OnEpoch | None = None,
    keeper: Keeper | None = None,
    keep: bool = False,
    start: Start | None = None,
    patch_set: PatchSet | None = None,
    communicator: Communicator = LOCAL,
) -> Run:
    """Train on a split. final_graph: the graph the final vectors are computed on, if not the training graph.

    keep: also what it takes to embed new nodes later. start: a model to go on with, instead of a new one.
    patch_set: patches that were cut before; None cuts the training graph.
    """
    clock = clock or Stopwatch()
    graph = split.train
    return_freed_memory()
    prepare_torch(config, graph.adjacency.nnz)
    if graph.num_nodes < 2 or graph.num_edges < 1:
        raise InputError(f"{graph.name}: {graph.num_nodes} nodes and {graph.num_edges} edges; nothing can be learned")
    check_memory(graph, config)
    can_choose = graph.features is not None and split.validation is not None
    train_again = partial(run_split, split, communicator=communicator)
    config = choose_structure(config, clock, can_choose=can_choose, train=train_again)
    with clock.measure("partition"):
        patch_set = cut(graph, config) if patch_set is None else patch_set
        if start is None:
            inputs, features = read_inputs(graph, config)
            find_centre = partial(feature_centre, features)
            model = make_model(features.shape[1], find_centre, patch_set.num_patches, config).to(config.device)
        else:
            inputs, features, model = start.inputs, start.read(graph.features), start.model.to(config.device)
        validation = split.validation if config.patience else None
        purpose: Purpose = "train" if validation is None else "train and validate"
        validates = validation is not None
        shard, shared_keeper = make_shard(communicator, graph, patch_set, model, config, keeper, validates=validates)
        prepared: Prepared | None = prepare(graph, split, shard, features, config, purpose)
    counts = None if graph.features is None else FeatureCounts.of(graph.features, graph.adjacency.nnz)
    dropout = choose_feature_dropout(counts, features.shape[1], config)
    settings = loop_settings(config, graph.num_nodes, graph.num_edges, dropout)
    with clock.measure("train"):
        assert prepared is not None
        trained = train(
            model,
            prepared.batches,
            patch_set,
            settings,
            global_pairs=prepared.global_pairs,
            whole=prepared.whole_pass,
            validate=None if validation is None else partial(score_pairs, model, validation),
            on_epoch=on_epoch,
            keeper=shared_keeper,
            shard=shard,
        )
    inspection = Inspection()
    if keeper is not None and communicator.size == 1:  # several ranks would have to send all overlaps once more
        with clock.measure("inspect"):
            # Vectors for these pairs must not have seen them; an evaluation has test pairs instead.
            can_score = validation is not None or not passes_whole_graph(patch_set, config)
            inspection = inspect_training(
                model,
                prepared.batches,
                patch_set,
                settings,
                trained.frame,
                prepared.whole_pass,
                validation=split.validation if final_graph is not None and can_score else None,
                scorer=pair_scorer(model),
                fit_links=partial(_fit_links, split, model.decoder, config.seed),
            )
    with clock.measure("assemble"):
        final_graph = final_graph or graph
        if final_graph is not graph or (passes_whole_graph(patch_set, config) and prepared.whole is None):
            prepared = None  # large graphs need its memory for the next one
            prepared = prepare(final_graph, split, shard, features, config, "embed")
        embedding, frame = embed_nodes(model, prepared.batches, shard, settings, trained.frame, prepared.whole_pass)
        check_embedding(embedding, config)
        fitted = None
        if keep:
            prepared = None
            whole = passes_whole_graph(patch_set, config)
            fitted = remember(model, config, inputs, final_graph, features, patch_set, frame, whole=whole)
    note_seconds(clock, trained.history, keeper)
    return Run(
        embedding.cpu().numpy(),
        Trained(model, frame, trained.history),
        patch_set,
        config,
        patch_set.count_covered_edges(graph.adjacency) / graph.num_edges,
        clock.seconds,
        fitted,
        inspection,
        describe_messages(shard),
    )


def _fit_links(split: LinkSplit, decoder: Decoder, seed: int, vectors: np.ndarray) -> LinkModel | None:
    """The link model of vectors that have seen the training graph of a split and nothing else."""
    if split.validation is None or split.protocol != "heldout":
        return None
    return fit_link_model(split.train, vectors, decoder, split.validation, split.held_out, seed=seed)


def check_embedding(embedding: torch.Tensor, config: Config) -> None:
    """Refuse final vectors that say nothing."""
    trouble = embedding_trouble(embedding)
    if trouble is not None and (config.epochs != 0 or not bool(torch.isfinite(embedding).all())):
        raise NumericalError(f"{trouble}; lower the learning rate (--lr), or give features that tell nodes apart")


def evaluate_graph(
    graph: Graph,
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
    """Split, train, score. Returns the JSON line of the contract and the run.

    measures: auc for AUC and AP, all for ranks and a linear probe besides. directory: as in `embed_graph`.
    scorer: as in `score_test`.
    communicator: as in `embed_graph`; only the first scores, the others return an empty line.
    pinned: a split from files, to be used instead of one by the seed.
    """
    if pinned is not None and protocol != "heldout":
        raise InputError(f"--protocol {protocol} makes pairs of its own; leave out --split or --protocol")
    started = time.perf_counter()
    clock = Stopwatch()
    with clock.measure("split"):
        split = split_links(graph, protocol=protocol, seed=config.seed) if pinned is None else pinned.in_memory(graph)
    more = {"protocol": protocol, **name_split(pinned)}
    keeper = keep_training(directory, training_name(config), graph, split, config, **more)
    run = run_split(split, config, clock=clock, on_epoch=on_epoch, keeper=keeper, communicator=communicator)
    assert split.test is not None
    if not communicator.is_first:
        return {}, run
    scored = score_test(graph, split.train, split.validation, split.test, run, clock, wanted=scorer)
    best: LinkScores | None = None
    if graph.block_model is not None and protocol == "heldout":
        best = best_link_scores(graph.block_model, split.test)
    if directory is not None:
        with clock.measure("inspect"):
            run = with_separation(run, "test" if protocol == "heldout" else "paper", split.test, config.seed)
            links = _fit_links(split, run.trained.model.decoder, config.seed, run.embedding)
            if links is not None:
                run = replace(run, inspection=replace(run.inspection, link_model=links.to_dict()))
    further: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
    if measures == "all":
        ranked = split.test if protocol == "heldout" else None
        how: dict[str, Any] = {"seed": config.seed, "directed": config.directed}
        further = further_measures(graph, split.train, ranked, run.embedding, scored.scorer, clock, **how)
    clock.seconds["total"] = time.perf_counter() - started
    directions = directed_measures(graph, split.test, run.embedding, scored.scorer)
    more = {
        "best_auc": None if best is None else best.auc,
        **further,
        **directions,
        **scored.more,
        **show_split(pinned),
    }
    row = describe_evaluation(
        graph, run.describe(), scored.scores, clock.seconds, protocol=protocol, seed=config.seed, **more
    )
    return row, run


def name_split(pinned: PinnedSplit | None) -> dict[str, Any]:
    """What a split from files adds to the settings that a resumed run must share."""
    return {} if pinned is None else {"pinned_split": pinned.sha256}


def show_split(pinned: PinnedSplit | None) -> dict[str, Any]:
    """What a split from files adds to the JSON line."""
    return {} if pinned is None else {"split": str(pinned.folder)}


def training_name(config: Config) -> str:
    """What a training of an evaluation is called in a run directory."""
    return f"{config.method}-seed-{config.seed}"


def choose_structure(config: Config, clock: Stopwatch, *, can_choose: bool, train: Callable[[Config], Run]) -> Config:
    """Decide `auto` by two short trainings, without structure and with it, scored on the validation pairs.

    can_choose: whether there are features to blend structure with, and validation pairs to decide by; otherwise none.
    train: trains with other settings.
    """
    if config.structure != "auto":
        return config
    if not can_choose or config.epochs == 0:
        return replace(config, structure="none")
    with clock.measure("trial"):
        epochs = _TRIAL_EPOCHS if config.epochs is None else min(_TRIAL_EPOCHS, config.epochs)
        short = replace(config, epochs=epochs, patience=_TRIAL_EPOCHS)
        runs = [train(replace(short, structure=choice)) for choice in ("none", "blend")]
        without, blended = (max(score for _, score in run.trained.history.validations) for run in runs)
    return replace(config, structure="blend" if blended > without + _TRIAL_GAIN else "none")
