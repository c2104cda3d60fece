"""Training: the one path of every run, from a split to vectors, in memory, from disk and on several ranks."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from l2g2g.config import BAD_CUT_MASK, Config
from l2g2g.errors import InputError, NumericalError
from l2g2g.evaluation.separation import ScoredPairs
from l2g2g.graphs.fingerprint import fingerprint
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import LinkSplit
from l2g2g.models.decoders.base import Decoder
from l2g2g.neighbours.link_model import LinkModel, fit_link_model
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.candidate import Candidates
from l2g2g.runs.choices import choose_assembly, choose_vectors
from l2g2g.runs.columns import Columns, fit_columns
from l2g2g.runs.fitted import Start, remember
from l2g2g.runs.inspection import Inspection, inspect_training
from l2g2g.runs.memory import check_memory
from l2g2g.runs.patches import RunPatches, find_patches
from l2g2g.runs.preparation import passes_whole_graph
from l2g2g.runs.ranks import describe_memory, describe_messages
from l2g2g.runs.resources import describe_machine, prepare_torch
from l2g2g.runs.run import Run
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.runs.scoring import pair_scorer, score_spectral
from l2g2g.runs.stopwatch import Stopwatch, note_seconds
from l2g2g.runs.trials import choose_candidate
from l2g2g.training.checkpoint_writer import CheckpointWriter
from l2g2g.training.heap import return_freed_memory
from l2g2g.training.loop import Trained, embed_nodes
from l2g2g.training.recovery import embedding_trouble
from l2g2g.training.report import OnEpoch

_MOST_LINK_EDGES = 2_000_000
_log = logging.getLogger(__name__)


def keep_training(
    directory: RunDirectory | None, name: str, graph: GraphStore, patches: RunPatches, config: Config, **more: Any
) -> CheckpointWriter | None:
    """A checkpoint writer for a training. more: what decides the result beside graph, patches and settings."""
    if directory is None:
        return None
    settings = {**config.to_dict(), **more}
    machine = describe_machine(config, 2 * graph.num_edges, settings)
    described = {"graph": fingerprint(graph), "patches": patches.digest(), "settings": settings, "machine": machine}
    return directory.keep(name, described)


def run_split(
    split: LinkSplit[Any],
    config: Config,
    *,
    final_graph: GraphStore | None = None,
    clock: Stopwatch | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoints: CheckpointWriter | None = None,
    keep: bool = False,
    start: Start | None = None,
    patches: RunPatches | None = None,
    communicator: Communicator = LOCAL,
) -> Run:
    """Train on a split. final_graph: the graph the final vectors are computed on, if not the training graph.

    keep: also what it takes to embed new nodes later. start: a model to go on with, instead of a new one.
    patches: that were cut before; None cuts the training graph.
    communicator: of the ranks of a torchrun job, which train together; only the first gets the vectors.
    """
    clock = clock or Stopwatch()
    graph: GraphStore = split.train
    return_freed_memory()
    prepare_torch(config, 2 * graph.num_edges)
    check_graph(graph, config)
    if patches is None:
        patches = find_patches(graph, config, clock, communicator=communicator)
    if config.mask_is_open and patches.patch_set.is_cut_badly:
        config = replace(config, mask=BAD_CUT_MASK)
    validation = split.validation if config.patience else None
    start = None if config.structure == "spectral" else start  # nothing of it was trained: found anew on this graph
    if graph.num_features and not config.considers_structure(graph.num_nodes):
        config = replace(config, structure="none")
    columns = Columns(graph, config, communicator)
    candidates = Candidates(split, patches, start, checkpoints, communicator, columns, clock)
    is_new = start is None and config.can_be_spectral
    candidate, choice, spectral = choose_candidate(candidates, config, validation, on_epoch, is_new=is_new)
    setting, batches, whole = candidate.setting, candidate.batches, candidate.training.whole
    config, model, shard, patch_set = setting.config, setting.model, setting.shard, patches.patch_set
    with clock.measure("train"):
        candidate.training.run(on_epoch=on_epoch, checkpoints=setting.checkpoints)
        trained = candidate.training.finish()
    if choice.negatives is not None:
        config = setting.config = replace(config, negative_sampling=choice.negatives)
    choice = choose_vectors(choice, candidate.training.best_score, spectral)
    if choice.structure != "spectral" and candidate.training.either:
        with clock.measure("choose"):
            scores = candidate.training.score_assemblies(trained)
            choice = choose_assembly(choice, scores, 0 if validation is None else len(validation.positive))
        if choice.assembly == "mean":
            config, whole = replace(config, assembly="mean"), None
            setting.config = config
    if choice.summary():
        _log.info("%s: %s", graph.name, choice.summary())
    if choice.structure == "spectral":
        assert spectral is not None
        config = spectral.settings(config)
        model, trained = setting.hand_out(spectral, trained)
        batches, whole = setting.make_batches(graph, setting.batch_bytes), setting.make_pass(graph, trains=True)
    inspection, spectral_auc = Inspection(), None
    # Vectors for these pairs must not have seen them; an evaluation has test pairs instead.
    can_score = final_graph is not None and (validation is not None or not passes_whole_graph(patch_set, config))
    scored_pairs = split.validation if can_score else None
    if not keep and scored_pairs is not None:
        with clock.measure("inspect"):
            held_out_vectors, _ = embed_nodes(model, batches, shard, setting.settings, trained.frame, whole)
            if shard.is_first:
                how: Any = ("validation", held_out_vectors.cpu().numpy(), scored_pairs, pair_scorer(model), config.seed)
                inspection = Inspection(ScoredPairs.of(*how))
            del held_out_vectors
    if keep and shard.is_first:
        with clock.measure("inspect"):
            inspection = inspect_training(
                model,
                batches if communicator.size == 1 else setting.make_batches(graph, 0, every=True),
                patch_set,
                setting.settings,
                trained.frame,
                whole if communicator.size == 1 else setting.make_pass(graph, alone=True),
                validation=scored_pairs,
                scorer=pair_scorer(model),
                fit_links=None if checkpoints is None else partial(fit_links, split, model.decoder, config.seed),
            )
    if scored_pairs is not None and shard.is_first:
        with clock.measure("baseline"):
            spectral_auc = score_spectral(graph, scored_pairs, config)
    with clock.measure("assemble"):
        del candidate
        final_graph = final_graph or graph
        if final_graph is not graph or not graph.resident or whole is not None:
            del batches  # large graphs need its memory for the next one
            if final_graph is not graph or not graph.resident:
                setting.forget_rows()
                if spectral is not None and choice.structure == "spectral" and final_graph is not graph:
                    how = {"num_negative": spectral.width if spectral.is_signed else 0, "seed": config.seed}
                    structure = fit_columns(final_graph, spectral.width, communicator, **how)
                    model, trained = setting.hand_out(spectral.refitted(structure, config), trained)
                whole = setting.make_pass(final_graph)
                return_freed_memory()
            once = None if final_graph.resident else 0
            batches = setting.make_batches(final_graph, once, none=whole is not None)
        embedding, frame = embed_nodes(model, batches, shard, setting.settings, trained.frame, whole)
        check_embedding(embedding, config)
    note_seconds(clock, trained.history, checkpoints)
    used = config if patches.on_disk is None else replace(config, patches=patch_set.num_patches)
    fitted = None
    if keep and shard.is_first:
        passes, states = passes_whole_graph(patch_set, config), partial(setting.make_states, final_graph)
        fitted = remember(model, used, setting.inputs.inputs, patch_set, frame, states, whole=passes)
    return Run(
        embedding.cpu().numpy(),
        Trained(model, frame, trained.history),
        patch_set,
        used,
        patches.kept_edge_fraction(graph),
        clock.seconds,
        fitted,
        inspection,
        describe_messages(shard),
        choice.describe() if spectral is not None or choice.scores else {},
        spectral_auc,
        describe_memory(shard),
    )


def check_graph(graph: GraphStore, config: Config) -> None:
    """Refuse a graph from which nothing can be learned, and one in memory that leaves none for training."""
    if graph.num_nodes < 2 or graph.num_edges < 1:
        raise InputError(f"{graph.name}: {graph.num_nodes} nodes and {graph.num_edges} edges; nothing can be learned")
    if graph.resident:
        check_memory(graph.to_graph(), config)


def fit_links(split: LinkSplit[Any], decoder: Decoder, seed: int, vectors: np.ndarray) -> LinkModel | None:
    """The link model of vectors that have seen the training graph of a split and nothing else.

    None without validation pairs, for a graph on disk, and where it would take longer than training.
    """
    train = split.train
    if split.validation is None or split.protocol != "heldout":
        return None
    if not train.resident or train.num_edges > _MOST_LINK_EDGES:
        return None
    return fit_link_model(train.to_graph(), vectors, decoder, split.validation, split.held_out, seed=seed)


def check_embedding(embedding: torch.Tensor, config: Config) -> None:
    """Refuse final vectors that say nothing."""
    trouble = embedding_trouble(embedding)
    if trouble is not None and (config.epochs != 0 or not bool(torch.isfinite(embedding).all())):
        raise NumericalError(f"{trouble}; lower the learning rate (--lr), or give features that tell nodes apart")
