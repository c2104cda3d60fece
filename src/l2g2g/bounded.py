"""Bounded: the rim for graphs on disk. A store and a config become an embedding within a limit of memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from l2g2g.budget import Needs, StoredSizes, kept_bytes
from l2g2g.config import Config
from l2g2g.errors import InputError
from l2g2g.experiment import OnEpoch, check_embedding, choose_structure, limit_validation, run_split
from l2g2g.feature_choices import FeatureCounts, choose_feature_dropout
from l2g2g.graphs.held_out import HeldOutRule
from l2g2g.graphs.splits import EdgeSplit, split_edges
from l2g2g.graphs.store import StoredGraph
from l2g2g.inspection import Inspection, inspect_training
from l2g2g.memory import estimate_bytes, resident_memory
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.feature_facts import FeatureFacts
from l2g2g.models.inputs import InputMap
from l2g2g.models.node_states import Parts, encode_states
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.partition import partition
from l2g2g.patches.store import PatchStore
from l2g2g.patches.stored_partition import metis_memory
from l2g2g.patches.streaming import DEFAULT_PASSES, stream_partition
from l2g2g.preparation import (
    count_mask_clusters,
    find_inputs,
    loop_settings,
    make_model,
    propagates_once,
    refuse_missing_weights,
    refuse_nothing_to_predict,
)
from l2g2g.rank_share import check_patches, describe_messages, make_shard
from l2g2g.resources import describe_machine, prepare_torch
from l2g2g.run import Run
from l2g2g.run_directory import RunDirectory
from l2g2g.runs.fitted import remember
from l2g2g.scoring import pair_scorer, score_pairs
from l2g2g.stopwatch import Stopwatch, note_seconds
from l2g2g.stored_patches import find_patches, fit_patches, fit_shared_patches
from l2g2g.training.heap import return_freed_memory
from l2g2g.training.keeper import Keeper
from l2g2g.training.loop import Trained, WholePass, embed_nodes, train
from l2g2g.training.objective import GlobalPairs
from l2g2g.training.pair_source import PairOptions
from l2g2g.training.stored_batches import StoredBatches
from l2g2g.training.stored_pairs import StoredPairs
from l2g2g.training.stored_pass import StoredPass, StoredSource, feature_blocks
from l2g2g.training.stored_rows import StoredRows


def embed_stored(
    graph: StoredGraph,
    config: Config,
    *,
    validation_fraction: float = 0.05,
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    communicator: Communicator = LOCAL,
    patches: PatchStore | None = None,
    keep: bool = False,
) -> Run:
    """Embed a graph on disk: in memory where `config.memory` allows it, otherwise patch by patch. Same result.

    Edges are held out for early stopping as in `embed_graph`. Patches of the store are used if they are cut as the
    settings want; otherwise patches are cut and kept in the store.

    communicator: of the ranks of a torchrun job. Each reads only its own patches, and keeps to `config.memory` by
    itself; the first cuts where that is needed, and gets the vectors. patches: used in memory, however they were cut.
    keep: as in `run_split`.
    """
    refuse_missing_weights(graph, config)
    clock = Stopwatch()
    fraction = limit_validation(validation_fraction, graph.num_edges, config)
    prepare_torch(config, 2 * graph.num_edges)
    needs = None
    if communicator.size > 1:
        refuse_what_is_not_shared(config, communicator)
        patches, needs = fit_shared_patches(communicator, graph, config, clock)
    elif not fits_memory(graph, config):
        refuse_what_needs_memory(config)
        patches, needs = fit_patches(graph, config, clock)
    elif config.definition.uses_patches and patches is None:
        patches = find_patches(graph, config, clock)
    with clock.measure("split"):
        split = split_edges(graph, validation_fraction=fraction, test_fraction=0.0, seed=config.seed)
    keeper = keep_stored(directory, "embed", graph, config, patches, validation_fraction=fraction)
    if patches is None or (needs is None and communicator.size == 1):
        whole = graph.to_graph()
        link_split = split.in_memory(whole)
        found = None if patches is None else patches.patch_set
        how: dict[str, Any] = {"clock": clock, "on_epoch": on_epoch, "keeper": keeper, "keep": keep}
        return run_split(link_split, config, final_graph=whole, patch_set=found, **how)
    how = {"clock": clock, "on_epoch": on_epoch, "keeper": keeper, "keep": keep, "communicator": communicator}
    return run_stored(graph, patches, split, config, needs, scores_validation=True, **how)


def fits_memory(graph: StoredGraph, config: Config) -> bool:
    """Whether a training in memory keeps to the limit, with the graph and what training sees of it beside it."""
    if config.memory is None or not config.definition.uses_patches:
        return True
    sizes, num_arcs = StoredSizes.of(graph), 2 * graph.num_edges
    columns = int(4 * sizes.entries_per_row * graph.num_nodes)
    needed = estimate_bytes(graph.num_nodes, num_arcs, columns, config) + 16 * num_arcs + columns
    return needed + resident_memory() <= config.memory


def keep_stored(
    directory: RunDirectory | None,
    name: str,
    graph: StoredGraph,
    config: Config,
    patches: PatchStore | None,
    **more: Any,
) -> Keeper | None:
    """A keeper for a training on this store with these settings."""
    if directory is None:
        return None
    settings = {**config.to_dict(), **more}
    machine = describe_machine(config, 2 * graph.num_edges, settings)
    described = {"graph": {"store": graph.sha256}, "patches": None if patches is None else patches.folder.sha256}
    return directory.keep(name, {**described, "settings": settings, "machine": machine})


def run_stored(
    graph: StoredGraph,
    patches: PatchStore,
    split: EdgeSplit,
    config: Config,
    needs: Needs | None,
    *,
    clock: Stopwatch,
    on_epoch: OnEpoch | None = None,
    keeper: Keeper | None = None,
    communicator: Communicator = LOCAL,
    keep: bool = False,
    scores_validation: bool = False,
) -> Run:
    """Train from disk within the limit. All edges count in the final vectors, also those held back from training.

    needs: None where there is no limit, and all that is read stays in memory. keep: as in `run_split`.
    scores_validation: whether the validation pairs are scored for the artefact; an evaluation has test pairs instead.
    """
    can_choose = graph.num_features > 0 and split.validation is not None

    def train_again(other: Config) -> Run:
        return run_stored(graph, patches, split, other, needs, clock=Stopwatch(), communicator=communicator)

    config = choose_structure(config, clock, can_choose=can_choose, train=train_again)
    return_freed_memory()
    spare = sys.maxsize if needs is None or config.memory is None else needs.spare(config.memory)
    # Rows first: they save most for what they take.
    keep_rows = min(spare, (8 if graph.weighted else 4) * 2 * graph.num_edges + 16 * graph.num_nodes)
    with clock.measure("prepare"):
        rows = StoredRows(graph, split.rule, keep_bytes=keep_rows)
        inputs, counts, facts = _prepare_inputs(rows, config)
        model = make_model(facts.num_columns, facts.centre, patches.num_patches, config)
        validation = split.validation if config.patience else None
        validates = validation is not None
        shard, shared_keeper = make_shard(
            communicator, patches, patches.patch_set, model, config, keeper, validates=validates
        )
        dropout = choose_feature_dropout(counts, facts.num_columns, config)
        settings = loop_settings(config, graph.num_nodes, split.num_edges, dropout)
        units, hidden = None, config.hidden_fraction or 1.0
        if config.mask_by == "clusters":
            units = _mask_clusters(rows, config)
            hidden *= max(rows.count_between(units) / int(rows.degrees.sum()), 1e-9)
        negatives = config.negatives_per_edge * hidden * settings.score_fraction
        make_batches = partial(_make_batches, patches, inputs, split, config, negatives, own=shard.patches, units=units)
        batches = make_batches(held=split.rule, keep_bytes=spare - keep_rows)
        global_pairs = None
        if config.loss_scope == "global":
            table = shard.table
            own = None if table.has_all else table.is_owned
            pairs = StoredPairs(
                rows,
                split.held_out,
                negatives_per_edge=negatives,
                weighted=config.weighted_loss,
                by_degree=config.negative_sampling == "degree",
                units=units,
                patch_set=patches.patch_set if config.mask_by == "patches" else None,
                is_owned=own,
            )
            refuse_nothing_to_predict(pairs.num_scored)
            global_pairs = GlobalPairs(pairs, table, patches.patch_set.node_shares[table.nodes])

    def make_pass(seen: StoredRows) -> WholePass | None:
        """The pass over all nodes that gives the vectors, where there is one: the first rank makes it."""
        if not config.passes_whole_graph:
            return None
        return StoredPass(seen, inputs) if shard.is_first else lambda model: torch.empty(0, model.dim)

    with clock.measure("train"):
        trained = train(
            model,
            batches,
            patches.patch_set,
            settings,
            global_pairs=global_pairs,
            whole=make_pass(rows),
            validate=None if validation is None else partial(score_pairs, model, validation),
            on_epoch=on_epoch,
            keeper=shared_keeper,
            shard=shard,
        )
    inspection = Inspection()
    if keep and shard.is_first:
        with clock.measure("inspect"):
            can_score = scores_validation and (validation is not None or not config.passes_whole_graph)
            inspection = inspect_training(
                model,
                batches if shard.patches is None else make_batches(held=split.rule, own=None),
                patches.patch_set,
                settings,
                trained.frame,
                make_pass(rows),
                validation=split.validation if can_score else None,
                scorer=pair_scorer(model),
            )
    del batches, global_pairs, rows
    return_freed_memory()
    with clock.measure("assemble"):
        whole = make_pass(StoredRows(graph))
        embedding, frame = embed_nodes(model, make_batches(), shard, settings, trained.frame, whole)
        check_embedding(embedding, config)
    note_seconds(clock, trained.history, keeper)
    kept = patches.num_covered_edges / graph.num_edges
    used = replace(config, patches=patches.num_patches)
    fitted = None
    if keep and shard.is_first:
        states = partial(_stored_states, model, inputs, graph, patches, used)
        whole_pass = config.passes_whole_graph
        fitted = remember(model, used, inputs, patches.patch_set, frame, states, whole=whole_pass)
    return Run(
        embedding.numpy(),
        Trained(model, frame, trained.history),
        patches.patch_set,
        used,
        kept,
        clock.seconds,
        fitted,
        inspection,
        messages=describe_messages(shard),
    )


def _stored_states(
    model: Autoencoder,
    inputs: InputMap,
    graph: StoredGraph,
    patches: PatchStore,
    config: Config,
    patch_set: PatchSet | None,
) -> Parts:
    """The states of the nodes of a graph on disk, by passes over its rows or patches. patch_set: None for whole."""
    rows = StoredPass(StoredRows(graph), inputs)
    if patch_set is None:
        yield from rows.states(model)
        return
    loaded = (
        (adjacency, inputs.read_nodes(features, patches.patch_set.nodes_of(patch)))
        for patch in range(patches.num_patches)
        for adjacency, features in [patches.load_patch(patch)]
    )
    yield from encode_states(model, loaded, whole=False, device=config.device, storage=config.feature_storage)
    yield from rows.degrees()


def _make_batches(
    patches: PatchStore,
    inputs: InputMap,
    split: EdgeSplit,
    config: Config,
    negatives_per_edge: float,
    *,
    own: np.ndarray | None = None,
    units: np.ndarray | None = None,
    held: HeldOutRule | None = None,
    keep_bytes: int = 0,
) -> StoredBatches:
    """The patches as training wants them; without `held`, with all edges. own: those of this rank; None for all."""
    return StoredBatches(
        patches,
        inputs,
        split.held_out,
        held=held,
        patches=own,
        units=units,
        draws_pairs=config.loss_scope == "inside",
        keep_bytes=keep_bytes,
        kept_bytes=kept_bytes(config, patches.weighted),
        negatives_per_edge=negatives_per_edge,
        # An encoder that hides edges, drops or centres features or skips needs X itself, not Â X.
        propagate_once=propagates_once(config),
        options=PairOptions(by_degree=config.negative_sampling == "degree", weighted=config.weighted_loss),
        storage=config.feature_storage,
    )


def refuse_what_is_not_shared(config: Config, communicator: Communicator) -> None:
    """What ranks that have only their own patches cannot do."""
    check_patches(2 if config.definition.uses_patches else 1, communicator, config)
    refuse_what_needs_memory(config, "leave torchrun or the option out")


def refuse_what_needs_memory(config: Config, remedy: str = "raise --memory, or leave it out") -> None:
    """Settings that need all of the graph at once."""
    for option, is_set in (
        ("--directed", config.directed),
        ("--align-gradient through", config.align_gradient == "through"),
        (f"--device {config.device}", torch.device(config.device).type != "cpu"),
        ("pairs of a node sample", config.loss_pairs == "subgraph"),
    ):
        if is_set:
            raise InputError(f"{option} needs the whole graph in memory; {remedy}")


def _mask_clusters(rows: StoredRows, config: Config) -> np.ndarray:
    """(num_nodes,) as `mask_clusters`, where METIS fits the limit; otherwise clusters of FENNEL, by passes."""
    graph = rows.graph
    num_clusters = count_mask_clusters(graph.num_nodes, config)
    if config.memory is not None and metis_memory(graph) > config.memory - resident_memory():
        return stream_partition(graph, num_clusters, num_passes=DEFAULT_PASSES)
    return partition(rows.to_adjacency(), num_clusters, seed=config.seed)


def _prepare_inputs(rows: StoredRows, config: Config) -> tuple[InputMap, FeatureCounts | None, FeatureFacts]:
    """How nodes are read, what is known of the features as they are stored, and of what the encoder sees."""
    graph, counts = rows.graph, None
    if graph.num_features:
        stored = FeatureFacts.of_blocks((part for _, part in feature_blocks(rows, None)), graph.num_features)
        counts = FeatureCounts(graph.num_nodes, int(rows.degrees.sum()), graph.num_features, stored.num_entries)
    inputs = find_inputs(StoredSource(rows), counts, config)
    facts = FeatureFacts.of_blocks((part for _, part in feature_blocks(rows, inputs)), inputs.num_columns)
    return inputs, counts, facts
