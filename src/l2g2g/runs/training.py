"""Training: the one path of every run, from a split to vectors, in memory, from disk and on several ranks."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
import torch

from l2g2g.alignment.frame import Frame
from l2g2g.config import BAD_CUT_MASK, Config
from l2g2g.errors import InputError, NumericalError
from l2g2g.evaluation.separation import ScoredPairs
from l2g2g.graphs.fingerprint import fingerprint
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import LinkSplit, Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders.base import Decoder
from l2g2g.models.feature_facts import FeatureFacts
from l2g2g.models.inputs import InputMap, fit_source
from l2g2g.models.local_rows import LocalRows
from l2g2g.models.node_states import Parts, encode_states, node_degrees, whole_states
from l2g2g.models.structure import StructureMap
from l2g2g.neighbours.link_model import LinkModel, fit_link_model
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.runs.budget import kept_bytes
from l2g2g.runs.choices import (
    NEGATIVE_EPOCHS,
    TRIAL_EPOCHS,
    Choice,
    SpectralVectors,
    begin_choice,
    choose_assembly,
    choose_blend,
    choose_negatives,
    choose_vectors,
    find_spectral,
    may_be_near,
)
from l2g2g.runs.feature_choices import FeatureCounts, choose_feature_dropout
from l2g2g.runs.fitted import Start, remember
from l2g2g.runs.inspection import Inspection, inspect_training
from l2g2g.runs.memory import check_memory
from l2g2g.runs.patches import RunPatches, find_patches
from l2g2g.runs.preparation import (
    find_inputs,
    is_limited,
    loop_settings,
    make_model,
    mask_clusters,
    pair_options,
    passes_whole_graph,
    propagates_once,
    refuse_nothing_to_predict,
)
from l2g2g.runs.ranks import describe_memory, describe_messages, make_shard, share_inputs
from l2g2g.runs.resources import describe_machine, prepare_torch
from l2g2g.runs.run import Run
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.runs.scoring import pair_scorer, score_pairs, score_spectral
from l2g2g.runs.stopwatch import Stopwatch, note_seconds
from l2g2g.training.batches import Batches, BatchOptions, PatchBatches, group_patches
from l2g2g.training.checkpoint_writer import CheckpointWriter
from l2g2g.training.heap import return_freed_memory
from l2g2g.training.loop import LoopSettings, Trained, Training, WholePass, embed_nodes
from l2g2g.training.node_pairs import NodePairs
from l2g2g.training.objective import GlobalLoss, GlobalPairs, NodeSample
from l2g2g.training.recovery import embedding_trouble
from l2g2g.training.report import OnEpoch
from l2g2g.training.row_batch import RowBatch, RowBatches, RowPass
from l2g2g.training.rows import TrainingRows, share_rows
from l2g2g.training.shard import Shard
from l2g2g.training.whole_pass import InputRows, RowSource, WholeGraph, feature_blocks

_UNLIMITED = 1 << 62
_BLOCK_BYTES = 1 << 16  # of rows: what each block of them takes besides, together
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
    if config.mask_is_open and patches.is_cut_badly(graph):
        config = replace(config, mask=BAD_CUT_MASK)
    validation = split.validation if config.patience else None
    start = None if config.structure == "spectral" else start  # nothing of it was trained: found anew on this graph
    if graph.num_features and not config.considers_structure(graph.num_nodes, is_limited=is_limited(graph, config)):
        config = replace(config, structure="none")
    columns = _Columns(graph, config, communicator)
    begin = partial(_begin, split, patches, start, checkpoints, communicator, columns, clock)
    is_new = start is None and config.can_be_spectral
    candidate, choice, spectral = _choose_structure(config, validation, columns, begin, clock, on_epoch, is_new=is_new)
    if config.negative_sampling == "auto" and validation is not None and candidate.training.settings.epochs:
        held, num_edges = [candidate], len(validation.positive)
        del candidate  # under a limit of memory only one is held at a time
        candidate, choice = _choose_negatives(held, choice, begin, clock, on_epoch, num_edges)
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
            choice = choose_assembly(choice, scores)
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
                    structure = _fit_structure(final_graph, spectral.width, communicator, **how)
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


def _choose_structure(
    config: Config,
    validation: Pairs | None,
    columns: _Columns,
    begin: Callable[[Config], _Candidate],
    clock: Stopwatch,
    on_epoch: OnEpoch | None,
    *,
    is_new: bool,
) -> tuple[_Candidate, Choice, SpectralVectors | None]:
    """Decide `auto`: the candidate that is trained to its end, with structural columns beside the features or without.

    A few epochs without them, and as many with some of them unless spectral vectors, which see nothing else, are far
    worse. Without them training goes on from there, with all of them it begins anew. Spectral vectors themselves are
    the third result, where they are a candidate: beside features only where a first impression is not far worse.
    is_new: whether they may replace the trained vectors.
    """
    judges = validation is not None and config.epochs != 0
    trial = max(TRIAL_EPOCHS, config.validate_every)  # there is nothing to compare before the first validation

    def find() -> SpectralVectors:
        # Without features they are what the encoder reads, whatever is chosen.
        with clock.measure("choose" if columns.num_features else "partition"):
            structure = columns.signed()
        with clock.measure("choose"):
            return find_spectral(structure, columns.num_features, validation, config)

    if config.structure != "auto":
        found = find() if config.structure == "spectral" else None
        return begin(config if found is None else replace(config, epochs=0)), begin_choice(config, found), found
    plain = replace(config, structure="none")
    if not columns.num_features or not judges:
        found = find() if is_new and judges else None
        return begin(plain), begin_choice(config, found), found
    assert validation is not None
    candidate = begin(plain)
    with clock.measure("train"):
        candidate.training.run(trial, on_epoch=on_epoch)
    short = candidate.training.best_score
    found, rough = None, None
    if is_new:
        with clock.measure("choose"):
            rough = find_spectral(columns.rough(), columns.num_features, validation, config).auc
        found = find() if may_be_near(rough, short) else None
    choice = begin_choice(config, found).with_score("none, short", short).with_score("spectral, rough", rough)
    if not choice.may_blend(config) or (is_new and found is None):
        return candidate, choice, found
    if config.memory is not None:  # both may not fit
        del candidate
    with clock.measure("choose"):
        # As many columns as spectral vectors have, which are found already: all would take most of the time of a run.
        few = min(config.structure_width, config.spectral_width(columns.num_features))
        blended = begin(replace(config, structure="blend", structure_width=few))
        blended.training.run(trial)
    choice = choose_blend(choice, blended.training.best_score, len(validation.positive), is_learned=config.is_learned)
    del blended
    if choice.structure == "blend":
        return begin(replace(config, structure="blend")), choice, found
    return (candidate if config.memory is None else begin(plain)), choice, found


def _choose_negatives(
    held: list[_Candidate],
    choice: Choice,
    begin: Callable[[Config], _Candidate],
    clock: Stopwatch,
    on_epoch: OnEpoch | None,
    num_edges: int,
) -> tuple[_Candidate, Choice]:
    """Decide how the far ends of non-edges are drawn: some epochs of either way, and the better one goes on.

    held: the candidate with uniform ones, which is taken out.
    """
    candidate = held.pop()
    config = candidate.setting.config
    trial = max(NEGATIVE_EPOCHS, config.validate_every)  # there is nothing to compare before the first validation
    with clock.measure("train"):
        candidate.training.run(trial, on_epoch=on_epoch)
    uniform = candidate.training.best_score
    if config.memory is not None:  # both may not fit
        del candidate
    with clock.measure("choose"):
        other = begin(replace(config, negative_sampling="degree"))
        other.training.run(trial)
    choice = choose_negatives(choice, uniform, other.training.best_score, num_edges)
    if choice.negatives == "degree":
        return other, choice
    del other
    return (candidate if config.memory is None else begin(config)), choice


class _Columns:
    """Structural columns of the training graph, each width found once.

    Args:
        graph: What they are made of.
        config: Seed, widths, and whether eigenvalues may be negative.
        communicator: Of the ranks, which get the same bits.
    """

    def __init__(self, graph: GraphStore, config: Config, communicator: Communicator) -> None:
        self._graph, self._config, self._communicator = graph, config, communicator
        self._found: dict[int, StructureMap] = {}

    @property
    def num_features(self) -> int:
        """Of the graph."""
        return self._graph.num_features

    def signed(self) -> StructureMap:
        """Those of spectral vectors: of a graph that is nearly bipartite with negative eigenvalues."""
        config = self._config
        width = config.spectral_width(self.num_features)
        return self._find(width, num_negative=min(config.dim, width) if config.can_be_signed else 0)

    def rough(self) -> StructureMap:
        """A first impression of those of spectral vectors."""
        return self._fit(self._config.spectral_width(self.num_features), rough=True)

    def inputs(self, width: int) -> StructureMap | None:
        """So many that an encoder reads, where as many are found already."""
        return next((found.leading(width) for known, found in self._found.items() if known >= width), None)

    def _find(self, width: int, **how: int) -> StructureMap:
        if width not in self._found:
            self._found[width] = self._fit(width, **how)
        return self._found[width]

    def _fit(self, width: int, **how: int) -> StructureMap:
        return _fit_structure(self._graph, width, self._communicator, seed=self._config.seed, **how)


@dataclass(eq=False)
class _Candidate:
    """A training that has begun, and what it is made of."""

    setting: _Setting
    batches: Batches
    training: Training


def _begin(
    split: LinkSplit[Any],
    patches: RunPatches,
    start: Start | None,
    checkpoints: CheckpointWriter | None,
    communicator: Communicator,
    columns: _Columns,
    clock: Stopwatch,
    config: Config,
) -> _Candidate:
    """Prepare a training with these settings."""
    graph: GraphStore = split.train
    validation = split.validation if config.patience else None
    with clock.measure("partition"):
        setting = _prepare(split, patches, config, start, checkpoints, communicator, columns)
        batches = setting.make_batches(graph, setting.batch_bytes)
        training = Training(
            setting.model,
            batches,
            patches.patch_set,
            setting.settings,
            global_pairs=setting.make_pairs(batches),
            whole=setting.make_pass(graph, trains=True),
            validate=None if validation is None else partial(score_pairs, setting.model, validation),
            either=config.assembly is None and patches.is_cut_badly(graph),
            shard=setting.shard,
        )
    return _Candidate(setting, batches, training)


@dataclass(eq=False)
class _Setting:
    """What a training has on this rank.

    Attributes:
        split, patches, config: As given.
        inputs: What the encoder reads.
        rows: The rows of all nodes; own_rows: of those that this rank owns; None where these are all.
        local: The rows of this rank, where the whole graph is one patch in rows; None otherwise.
        pass_bytes: What rows for passes over the whole graph may take, on several ranks.
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
    checkpoints: Any
    rows: TrainingRows
    own_rows: TrainingRows | None
    local: LocalRows | None
    pass_bytes: int
    batch_bytes: int | None
    units: np.ndarray | None
    negatives: float
    row_batch: RowBatch = field(init=False)

    def make_batches(
        self, graph: GraphStore, keep_bytes: int | None, *, none: bool = False, every: bool = False
    ) -> Batches:
        """The patches of this rank with the edges of a graph, as batches; every: those of all ranks.

        none: nobody will ask for them.
        """
        config, shard = self.config, self.shard
        if self.local is not None:
            if not none:
                self.row_batch = self._row_batch(self.local, keep_bytes)
            return RowBatches([] if none else [self.row_batch])
        together = config.together and config.shares_encoder and keep_bytes is None
        own = np.arange(self.patches.patch_set.num_patches) if every else shard.patches
        groups = [] if none else group_patches(own, together=together)
        options = BatchOptions(
            negatives_per_edge=self.negatives,
            draws_pairs=config.loss_scope == "inside" or self.patches.patch_set.num_patches == 1,
            propagate_once=propagates_once(config),
            pairs=pair_options(self.split.train, config),
            storage=config.feature_storage,
            drops_features=self.settings.feature_dropout > 0,
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

    def _row_batch(self, rows: LocalRows, keep_bytes: int | None) -> RowBatch:
        """The rows of this rank as a batch. keep_bytes: for features and visible edges; None for no limit."""
        device, room = self.config.device, _UNLIMITED if keep_bytes is None else keep_bytes
        visible = min(room, _visible_bytes(self.rows.graph, self.config))
        how: dict[str, Any] = {"keep_bytes": room - visible, "storage": self.config.feature_storage, "device": device}
        features = self.inputs.of_range(rows.low, rows.high, **how)
        return RowBatch(rows, features, units=self.units, keep_bytes=visible, device=device)

    def make_pairs(self, batches: Batches) -> GlobalLoss | None:
        """Pairs of all nodes, where these are scored."""
        config, shard, patch_set = self.config, self.shard, self.patches.patch_set
        if self.local is not None and config.loss_pairs != "sampled":
            return NodeSample(self.local, self.rows.degrees, shard.table, self.local.shares)
        if self.settings.scope != "global":
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
            patch=cast(PatchBatches, batches)[0].pairs if self.local is None and patch_set.num_patches == 1 else None,
        )
        refuse_nothing_to_predict(pairs.num_scored)
        shares = patch_set.shares_of if self.local is None else self.local.shares
        return GlobalPairs(pairs, shard.table, shares)

    def make_pass(self, graph: GraphStore, *, trains: bool = False, alone: bool = False) -> WholePass | None:
        """The pass over all nodes that gives the vectors, where there is one: each rank has a range of rows.

        trains: whether the graph is that of training, whose rows are here. alone: this rank takes all rows.
        """
        config = self.config
        if self.local is None and not passes_whole_graph(self.patches.patch_set, config):
            return None
        if graph.resident:
            how: dict[str, Any] = {"storage": config.feature_storage, "device": config.device}
            return WholeGraph(graph.to_graph().adjacency, self.inputs, propagate_once=propagates_once(config), **how)
        if trains and self.local is not None:
            return RowPass(self.row_batch)
        if alone:
            return RowPass(self._row_batch(LocalRows(TrainingRows(graph)), 0))
        rows, keep_bytes = (self.rows, self.pass_bytes) if trains else (TrainingRows(graph), 0)
        return RowPass(self._row_batch(share_rows(rows, self.shard.communicator, keep_bytes=keep_bytes), 0))

    def make_states(self, graph: GraphStore, patch_set: PatchSet | None) -> Parts:
        """What new nodes need of the nodes of a graph, by passes over its rows and patches; see `Fitted`."""
        rows = TrainingRows(graph)
        if patch_set is None:
            states = whole_states(self.model, self._row_batch(LocalRows(rows), 0).inputs)
            return chain(states, node_degrees(rows.blocks()))
        source, config = self.patches.source(graph, self.inputs), self.config
        loaded = (source.load(np.array([patch])) for patch in range(patch_set.num_patches))
        pieces = ((each.edges.adjacency, each.features) for each in loaded)
        states = encode_states(self.model, pieces, device=config.device, storage=config.feature_storage)
        return chain(states, node_degrees(rows.blocks()))

    def hand_out(self, spectral: SpectralVectors, trained: Trained) -> tuple[Autoencoder, Trained]:
        """Put the model of spectral vectors in the place of the trained one, with its inputs and its history."""
        model = spectral.model.to(self.config.device)
        self.config, self.model = spectral.settings(self.config), model
        self.inputs = InputRows(self.inputs.graph, spectral.inputs)
        frame = Frame.identity(self.patches.patch_set.num_patches, model.dim, device=self.config.device)
        return model, Trained(model, frame, trained.history)

    def forget_rows(self) -> None:
        """Give back the rows of training."""
        self.rows, self.own_rows = TrainingRows(self.rows.graph), None
        if self.local is not None:
            self.local.forget()
            del self.row_batch


def _fit_structure(graph: GraphStore, width: int, communicator: Communicator, **how: int) -> StructureMap:
    """Structural columns of a graph, the same bits on all ranks. how: further arguments of `fit_products`."""
    found = fit_source(RowSource(TrainingRows(graph), communicator), width, **how)
    shared = share_inputs(communicator, InputMap(0, "raw", structure=found)).structure
    assert shared is not None
    return shared


def _prepare(
    split: LinkSplit[Any],
    patches: RunPatches,
    config: Config,
    start: Start | None,
    checkpoints: CheckpointWriter | None,
    communicator: Communicator,
    columns: _Columns,
) -> _Setting:
    """Fit the inputs, make the model, share out the patches."""
    graph: GraphStore = split.train
    spare = patches.spare(config)
    # Rows first: they save most for what they take.
    row_bytes = (8 if graph.weighted else 4) * 2 * graph.num_edges + 16 * graph.num_nodes + _BLOCK_BYTES
    # But of a whole graph in rows the edges that an epoch leaves visible: they are read four times, and are fewer.
    first = _visible_bytes(graph, config) if patches.by_rows else 0
    keep_rows = _UNLIMITED if spare is None else max(0, min(spare - first, row_bytes))
    alone = communicator.size == 1
    rows = TrainingRows(graph, keep_bytes=keep_rows if alone else 0)
    counts = _count_features(graph)
    found = start.inputs if start is not None else None
    if found is None:
        source = RowSource(rows, communicator)
        found = share_inputs(communicator, find_inputs(source, counts, config, columns.inputs(config.structure_width)))
    inputs = InputRows(graph, found)
    if start is None:

        def find_centre() -> tuple[np.ndarray, float]:
            blocks = (part for _, part in inputs.blocks())
            return FeatureFacts.of_blocks(blocks, inputs.num_columns).centre()

        model = make_model(inputs.num_columns, find_centre, patches.patch_set.num_patches, config)
    else:
        model = copy.deepcopy(start.model)  # each candidate trains its own
    model = model.to(config.device)
    validates = bool(config.patience) and split.validation is not None
    local = None
    if patches.by_rows:
        keep_rows = keep_rows if alone else keep_rows // 2  # with places as columns, and as nodes for the pairs
        local = share_rows(rows, communicator, keep_bytes=keep_rows)
    shard, of_rank = make_shard(communicator, graph, patches, model, config, checkpoints, local, validates=validates)
    own_rows = None
    if not alone:
        how: dict[str, Any] = {"nodes": np.flatnonzero(shard.table.is_owned)}
        if local is not None:
            how = {"span": (local.low, local.high)}
        own_rows = TrainingRows(graph, keep_bytes=keep_rows, **how)
    dropout = choose_feature_dropout(counts, inputs.num_columns, config)
    settings = loop_settings(config, graph.num_nodes, graph.num_edges, dropout)
    if patches.by_rows:  # one patch: pairs inside it are pairs of all nodes
        settings = replace(settings, scope="global")
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
        of_rank,
        rows,
        own_rows,
        local,
        _UNLIMITED if spare is None else 0,
        None if spare is None else spare - keep_rows,
        units,
        config.negatives_per_edge * hidden * settings.score_fraction,
    )


def _visible_bytes(graph: GraphStore, config: Config) -> int:
    """What the edges take that a mask leaves visible in an epoch."""
    arcs = 2 * graph.num_edges * (1 - config.hidden_fraction)
    return int(1.02 * (8 if graph.weighted else 4) * arcs) + 16 * graph.num_nodes + 100_000


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
