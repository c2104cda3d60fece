"""Training: the one path of every run, from a split to vectors, in memory, from disk and on several ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch

from l2g2g.budget import kept_bytes
from l2g2g.config import Config
from l2g2g.errors import InputError, NumericalError
from l2g2g.feature_choices import FeatureCounts, choose_feature_dropout
from l2g2g.graphs.fingerprint import fingerprint
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import LinkSplit
from l2g2g.inspection import Inspection, inspect_training
from l2g2g.memory import check_memory
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.feature_facts import FeatureFacts
from l2g2g.models.node_states import Parts, encode_states
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.preparation import (
    find_inputs,
    loop_settings,
    make_model,
    mask_clusters,
    pair_options,
    passes_whole_graph,
    propagates_once,
    refuse_nothing_to_predict,
)
from l2g2g.resources import describe_machine, prepare_torch
from l2g2g.run import Run
from l2g2g.run_directory import RunDirectory
from l2g2g.runs.fitted import Start, remember
from l2g2g.runs.patches import RunPatches, find_patches
from l2g2g.runs.ranks import describe_messages, make_shard, share_inputs
from l2g2g.scoring import pair_scorer, score_pairs
from l2g2g.stopwatch import Stopwatch, note_seconds
from l2g2g.training.batches import BatchOptions, PatchBatches, group_patches
from l2g2g.training.heap import return_freed_memory
from l2g2g.training.keeper import Keeper
from l2g2g.training.loop import LoopSettings, Trained, WholePass, embed_nodes, train
from l2g2g.training.node_pairs import NodePairs
from l2g2g.training.objective import GlobalPairs
from l2g2g.training.recovery import embedding_trouble
from l2g2g.training.report import OnEpoch
from l2g2g.training.rows import TrainingRows
from l2g2g.training.shard import Shard
from l2g2g.training.whole_pass import InputRows, RowSource, WholeGraph, feature_blocks

# Length of the two trainings that decide whether structure is blended in, and what it must gain in AUC.
_TRIAL_EPOCHS = 15
_TRIAL_GAIN = 0.002
_UNLIMITED = 1 << 62


def keep_training(
    directory: RunDirectory | None, name: str, graph: GraphStore, patches: RunPatches, config: Config, **more: Any
) -> Keeper | None:
    """A keeper for a training on this graph with these patches and settings; more: what else decides the result."""
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
    keeper: Keeper | None = None,
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
    can_choose = graph.num_features > 0 and split.validation is not None
    train_again = partial(run_split, split, patches=patches, communicator=communicator)
    config = choose_structure(config, clock, can_choose=can_choose, train=train_again)
    validation = split.validation if config.patience else None
    with clock.measure("partition"):
        setting = _prepare(split, patches, config, start, keeper, communicator)
        model, shard, patch_set = setting.model, setting.shard, patches.patch_set
        batches = setting.make_batches(graph, setting.batch_bytes)
        global_pairs = setting.make_pairs(batches)
        whole = setting.make_pass(setting.rows)
    with clock.measure("train"):
        trained = train(
            model,
            batches,
            patch_set,
            setting.settings,
            global_pairs=global_pairs,
            whole=whole,
            validate=None if validation is None else partial(score_pairs, model, validation),
            on_epoch=on_epoch,
            keeper=setting.keeper,
            shard=shard,
        )
    inspection = Inspection()
    if keep and shard.is_first:
        with clock.measure("inspect"):
            # Vectors for these pairs must not have seen them; an evaluation has test pairs instead.
            can_score = validation is not None or not passes_whole_graph(patch_set, config)
            inspection = inspect_training(
                model,
                batches if communicator.size == 1 else setting.make_batches(graph, 0, every=True),
                patch_set,
                setting.settings,
                trained.frame,
                whole,
                validation=split.validation if final_graph is not None and can_score else None,
                scorer=pair_scorer(model),
            )
    with clock.measure("assemble"):
        del global_pairs
        final_graph = final_graph or graph
        if final_graph is not graph or not graph.resident or whole is not None:
            del batches  # large graphs need its memory for the next one
            if final_graph is not graph or not graph.resident:
                setting.forget_rows()
                whole = setting.make_pass(TrainingRows(final_graph))
                return_freed_memory()
            once = None if final_graph.resident else 0
            batches = setting.make_batches(final_graph, once, none=whole is not None)
        embedding, frame = embed_nodes(model, batches, shard, setting.settings, trained.frame, whole)
        check_embedding(embedding, config)
    note_seconds(clock, trained.history, keeper)
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
    )


@dataclass(eq=False)
class _Setting:
    """What a training has on this rank.

    Attributes:
        split, patches, config: As given.
        inputs: What the encoder reads.
        rows: The rows of all nodes; own_rows: of those that this rank owns; None where these are all.
        batch_bytes: What resident batches may take; None for no limit.
        units: (num_nodes,) what masks assign to groups; None for single nodes.
        negatives: Non-edges drawn for every edge.
    """

    split: LinkSplit[Any]
    patches: RunPatches
    config: Config
    inputs: InputRows
    model: Autoencoder
    settings: LoopSettings
    shard: Shard
    keeper: Any
    rows: TrainingRows
    own_rows: TrainingRows | None
    batch_bytes: int | None
    units: np.ndarray | None
    negatives: float

    def make_batches(
        self, graph: GraphStore, keep_bytes: int | None, *, none: bool = False, every: bool = False
    ) -> PatchBatches:
        """The patches of this rank with the edges of a graph, as batches; every: those of all ranks.

        none: nobody will ask for them.
        """
        config, shard = self.config, self.shard
        together = config.together and config.shares_encoder and keep_bytes is None
        own = np.arange(self.patches.patch_set.num_patches) if every else shard.patches
        groups = [] if none else group_patches(own, together=together)
        options = BatchOptions(
            negatives_per_edge=self.negatives,
            draws_pairs=config.loss_scope == "inside" or self.patches.patch_set.num_patches == 1,
            propagate_once=propagates_once(config),
            pairs=pair_options(self.split.train, config),
            storage=config.feature_storage,
            device=config.device,
        )
        return PatchBatches(
            self.patches.source(graph, self.inputs),
            groups,
            self.split.held_out,
            options,
            units=self.units,
            keep_bytes=keep_bytes,
            kept_bytes=kept_bytes(config, graph.weighted),
        )

    def make_pairs(self, batches: PatchBatches) -> GlobalPairs | None:
        """Pairs of all nodes, where these are scored."""
        config, shard, patch_set = self.config, self.shard, self.patches.patch_set
        if config.loss_scope != "global":
            return None
        pairs = NodePairs(
            self.own_rows or self.rows,
            self.split.held_out,
            negatives_per_edge=self.negatives,
            options=pair_options(self.split.train, config),
            units=self.units,
            patch_set=patch_set if config.mask_by == "patches" else None,
            device=config.device,
            communicator=shard.communicator,
            patch=batches[0].pairs if patch_set.num_patches == 1 else None,
        )
        refuse_nothing_to_predict(pairs.num_scored)
        return GlobalPairs(pairs, shard.table, patch_set.node_shares[shard.table.nodes])

    def make_pass(self, rows: TrainingRows) -> WholePass | None:
        """The pass over all nodes that gives the vectors, where there is one: the first rank makes it."""
        if not passes_whole_graph(self.patches.patch_set, self.config):
            return None
        if not self.shard.is_first:
            return lambda model: torch.empty(0, model.dim)
        config = self.config
        how: dict[str, Any] = {"storage": config.feature_storage, "device": config.device}
        return WholeGraph(rows, self.inputs, propagate_once=propagates_once(config), **how)

    def make_states(self, graph: GraphStore, patch_set: PatchSet | None) -> Parts:
        """What new nodes need of the nodes of a graph, by passes over its rows and patches; see `Fitted`."""
        whole = WholeGraph(TrainingRows(graph), self.inputs)
        if patch_set is None:
            return whole.states(self.model)
        source, config = self.patches.source(graph, self.inputs), self.config
        loaded = (source.load(np.array([patch])) for patch in range(patch_set.num_patches))
        pieces = ((edges.adjacency, rows) for edges, rows in loaded)
        states = encode_states(self.model, pieces, device=config.device, storage=config.feature_storage)
        return chain(states, whole.degrees())

    def forget_rows(self) -> None:
        """Give back the rows of training."""
        del self.rows, self.own_rows


def _prepare(
    split: LinkSplit[Any],
    patches: RunPatches,
    config: Config,
    start: Start | None,
    keeper: Keeper | None,
    communicator: Communicator,
) -> _Setting:
    """Fit the inputs, make the model, share out the patches."""
    graph: GraphStore = split.train
    spare = patches.spare(config)
    # Rows first: they save most for what they take.
    row_bytes = (8 if graph.weighted else 4) * 2 * graph.num_edges + 16 * graph.num_nodes
    keep_rows = _UNLIMITED if spare is None else min(spare, row_bytes)
    alone = communicator.size == 1
    rows = TrainingRows(graph, keep_bytes=keep_rows if alone else 0)
    counts = _count_features(graph)
    found = start.inputs if start is not None else None
    if found is None:
        found = share_inputs(communicator, lambda: find_inputs(RowSource(rows), counts, config))
    inputs = InputRows(graph, found)
    if start is None:

        def find_centre() -> tuple[np.ndarray, float]:
            blocks = (part for _, part in inputs.blocks())
            return FeatureFacts.of_blocks(blocks, inputs.num_columns).centre()

        model = make_model(inputs.num_columns, find_centre, patches.patch_set.num_patches, config)
    else:
        model = start.model
    model = model.to(config.device)
    validates = bool(config.patience) and split.validation is not None
    shard, shared_keeper = make_shard(communicator, graph, patches, model, config, keeper, validates=validates)
    own_rows = None
    if not alone:
        own_rows = TrainingRows(graph, nodes=np.flatnonzero(shard.table.is_owned), keep_bytes=keep_rows)
    dropout = choose_feature_dropout(counts, inputs.num_columns, config)
    settings = loop_settings(config, graph.num_nodes, graph.num_edges, dropout)
    units, hidden = None, config.hidden_fraction or 1.0
    if config.mask_by == "clusters":
        units, share = mask_clusters(rows, config, communicator)
        hidden *= share
    return _Setting(
        split,
        patches,
        config,
        inputs,
        model,
        settings,
        shard,
        shared_keeper,
        rows,
        own_rows,
        None if spare is None else spare - keep_rows,
        units,
        config.negatives_per_edge * hidden * settings.score_fraction,
    )


def _count_features(graph: GraphStore) -> FeatureCounts | None:
    """What is known of the features as they are stored; None without features."""
    if not graph.num_features:
        return None
    parts = (FeatureCounts.of(part, 0).num_entries for _, _, part in feature_blocks(graph, graph.num_features))
    return FeatureCounts(graph.num_nodes, 2 * graph.num_edges, graph.num_features, sum(parts))


def check_graph(graph: GraphStore, config: Config) -> None:
    """Refuse a graph from which nothing can be learned, and one in memory that leaves none for training."""
    if graph.num_nodes < 2 or graph.num_edges < 1:
        raise InputError(f"{graph.name}: {graph.num_nodes} nodes and {graph.num_edges} edges; nothing can be learned")
    if graph.resident:
        check_memory(graph.to_graph(), config)


def check_embedding(embedding: torch.Tensor, config: Config) -> None:
    """Refuse final vectors that say nothing."""
    trouble = embedding_trouble(embedding)
    if trouble is not None and (config.epochs != 0 or not bool(torch.isfinite(embedding).all())):
        raise NumericalError(f"{trouble}; lower the learning rate (--lr), or give features that tell nodes apart")


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
