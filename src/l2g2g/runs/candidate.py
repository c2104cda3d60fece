"""Candidate: a training with one choice of settings, and what it has on this rank."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.alignment.frame import Frame
from l2g2g.config import Config
from l2g2g.evaluation.links import score_pairs
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import LinkSplit, Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.local_rows import LocalRows
from l2g2g.models.node_states import Parts, encode_states, node_degrees, whole_states
from l2g2g.models.preprocessing import FeatureStatistics
from l2g2g.models.shared_rows import SharedRows
from l2g2g.parallel.communicator import Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.runs.budget import kept_bytes
from l2g2g.runs.fitted import Start, make_autoencoder
from l2g2g.runs.patches import RunPatches
from l2g2g.runs.preparation import (
    choose_feature_dropout,
    count_features,
    find_inputs,
    make_loop_settings,
    make_pair_options,
    needs_final_pass,
    propagates_once,
)
from l2g2g.runs.ranks import held_out_rows, make_shard, share_inputs
from l2g2g.runs.resources import Stopwatch
from l2g2g.runs.scoring import score_validation
from l2g2g.runs.spectral import SpectralVectors, StructuralColumns, needed_gain
from l2g2g.training.batches import Batches, BatchOptions, PatchBatches, group_patches
from l2g2g.training.checkpoint_writer import CheckpointWriter, RankCheckpointWriter
from l2g2g.training.loop import LoopSettings, Trained, Training, WholePass, embed_nodes
from l2g2g.training.node_pairs import NodePairs
from l2g2g.training.objective import GlobalLoss, GlobalPairs, NodeSample
from l2g2g.training.row_batch import RowBatch, RowBatches, RowPass
from l2g2g.training.rows import TrainingRows, rank_span, share_rows
from l2g2g.training.shard import Shard
from l2g2g.training.state import Tensors
from l2g2g.training.whole_pass import InputRows, RowSource, WholeGraph

_UNLIMITED = 1 << 62
_BLOCK_BYTES = 1 << 16  # that blocks of rows take together beside their entries


@dataclass(eq=False)
class Setting:
    """What a training is made of on this rank.

    Attributes:
        split, patches: What it is trained on.
        held_out: (num_local, num_nodes) pairs of the nodes of this rank that are never drawn as negatives.
        config, settings: The settings of the run, and those of the loop that follow from them.
        inputs: What the encoder reads.
        model: The model that is trained, or that took its place (see `hand_out`).
        shard: The patches of this rank.
        checkpoints: Their writer; None where none are kept.
        rows: Edges of all nodes.
        own_rows: Edges of the nodes that this rank owns; None where one process owns all.
        local: The same where the whole graph is one patch that is read by rows; None for patches.
        pass_bytes: Memory for the rows of passes over the whole graph, on several ranks.
        batch_bytes: Memory for batches that stay; None for no limit.
        negatives: Non-edges drawn for every edge.
        row_batch: The batch of `local`, while there is one.
    """

    split: LinkSplit[Any]
    patches: RunPatches
    held_out: sp.csr_array
    config: Config
    inputs: InputRows
    model: Autoencoder
    settings: LoopSettings
    shard: Shard
    checkpoints: CheckpointWriter | RankCheckpointWriter | None
    rows: TrainingRows
    own_rows: TrainingRows | None
    local: LocalRows | None
    pass_bytes: int
    batch_bytes: int | None
    negatives: float
    row_batch: RowBatch = field(init=False)

    def make_batches(
        self, graph: GraphStore, keep_bytes: int | None, *, none: bool = False, every: bool = False
    ) -> Batches:
        """The patches of this rank with the edges of a graph, as batches; every: those of all ranks, to be encoded.

        none: no batches, where they are not needed.
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
            draws_pairs=not every and (config.loss_scope == "inside" or self.patches.patch_set.num_patches == 1),
            propagate_once=propagates_once(config),
            pairs=make_pair_options(self.split.train, config),
            storage=config.feature_storage,
            drops_features=self.settings.feature_dropout > 0,
            device=config.device,
        )
        return PatchBatches(
            self.patches.source(graph, self.inputs),
            groups,
            self.held_out,
            options,
            keep_bytes=keep_bytes,
            kept_bytes=kept_bytes(config, graph.weighted),
            held_nodes=None if shard.has_all else shard.nodes,
        )

    def _row_batch(self, rows: LocalRows, keep_bytes: int | None) -> RowBatch:
        """The rows of this rank as a batch. keep_bytes: for features and visible edges; None for no limit."""
        device, most = self.config.device, _UNLIMITED if keep_bytes is None else keep_bytes
        visible = min(most, _visible_bytes(self.rows.graph, self.config))
        storage = self.config.feature_storage
        features = self.inputs.of_range(rows.low, rows.high, keep_bytes=most - visible, storage=storage, device=device)
        return RowBatch(rows, features, keep_bytes=visible, device=device)

    def make_pairs(self, batches: Batches) -> GlobalLoss | None:
        """Pairs of all nodes, where these are scored."""
        config, shard, patch_set = self.config, self.shard, self.patches.patch_set
        if self.local is not None and config.loss_pairs != "sampled":
            return NodeSample(self.local, self.local.counts, shard.table, self.local.shares)
        if self.settings.scope != "global":
            return None
        held_out = self.held_out
        if self.own_rows is not None:
            held_out = held_out[np.searchsorted(shard.nodes, shard.table.owned_nodes)]
        pairs = NodePairs(
            self.own_rows or self.rows,
            held_out,
            negatives_per_edge=self.negatives,
            options=make_pair_options(self.split.train, config),
            device=config.device,
            communicator=shard.communicator,
            patch=cast(PatchBatches, batches)[0].pairs if self.local is None and patch_set.num_patches == 1 else None,
            directory=None if shard.has_all else shard.directory,
        )
        shares = shard.shares_of if self.local is None else self.local.shares
        return GlobalPairs(pairs, shard.table, shares)

    def make_pass(self, graph: GraphStore, *, trains: bool = False) -> WholePass | None:
        """The pass over all nodes that gives the vectors, where there is one: each rank has a range of rows.

        trains: whether the graph is that of training, whose rows are here.
        """
        config = self.config
        if self.local is None and not needs_final_pass(self.patches.patch_set, config):
            return None
        if graph.resident:
            return WholeGraph(
                graph.to_graph().adjacency,
                self.inputs,
                propagate_once=propagates_once(config),
                storage=config.feature_storage,
                device=config.device,
            )
        if trains and self.local is not None:
            return RowPass(self.row_batch)
        rows, keep_bytes = (self.rows, self.pass_bytes) if trains else (TrainingRows(graph), 0)
        return RowPass(self._row_batch(share_rows(rows, self.shard.communicator, keep_bytes=keep_bytes), 0))

    def with_all_inputs(self) -> Setting:
        """The same with what the encoder reads of all nodes on the first rank. A collective call."""
        inputs, structure = self.inputs.inputs, self.inputs.inputs.structure
        if structure is None or structure.span is None:
            return self
        gathered = replace(inputs, structure=structure.on_first(SharedRows(self.shard.communicator)))
        return replace(self, inputs=InputRows(self.inputs.graph, gathered))

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

    def hand_out(self, spectral: SpectralVectors, trained: Trained) -> Trained:
        """Put the model of spectral vectors in the place of the trained one, with its inputs; the history stays."""
        self.config = spectral.settings(self.config)
        return self.hand_out_model(spectral.model, with_rows(spectral.inputs, self.shard), trained)

    def hand_out_model(self, model: Autoencoder, inputs: InputMap, trained: Trained) -> Trained:
        """Put a wider model in the place of the trained one, with its inputs; the history stays."""
        self.model, self.inputs = model.to(self.config.device), InputRows(self.inputs.graph, inputs)
        frame = Frame.identity(self.patches.patch_set.num_patches, model.dim, device=self.config.device)
        return Trained(self.model, frame, trained.history)

    def forget_rows(self) -> None:
        """Give back the rows of training."""
        self.rows, self.own_rows = TrainingRows(self.rows.graph), None
        if self.local is not None:
            self.local.forget()
            del self.row_batch


@dataclass(eq=False)
class Candidate:
    """A training that can run and pause, and what it is made of."""

    setting: Setting
    batches: Batches
    training: Training

    def score(self, pairs: Pairs) -> np.ndarray:
        """(num_pairs,) scores by the vectors as they are, on the first rank. A collective call."""
        training = self.training
        how = training.shard, training.settings, training.state.frame, training.whole
        vectors = embed_nodes(training.model, self.batches, *how)[0]
        return score_pairs(vectors.cpu().numpy(), pairs, training.model.decoder.score)

    def pause(self) -> Paused:
        """The state from which `Candidates.resume` continues; the batches are freed with this object."""
        return Paused(self.setting.config, self.setting.inputs.inputs, *self.training.state.capture())


@dataclass(frozen=True, eq=False)
class Paused:
    """A candidate between two epochs: its settings, weights and moments, but no batches."""

    config: Config
    inputs: InputMap
    tensors: Tensors
    values: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Makes trainings of one split on the same patches, with different settings.

    Attributes:
        split, patches: What they are trained on.
        start: A model to go on with; None for new ones.
        checkpoints, communicator: Of the run.
        columns: Structural columns of the training graph.
        clock: Measures how long they are prepared.
    """

    split: LinkSplit[Any]
    patches: RunPatches
    start: Start | None
    checkpoints: CheckpointWriter | None
    communicator: Communicator
    columns: StructuralColumns
    clock: Stopwatch

    def begin(self, config: Config, inputs: InputMap | None = None) -> Candidate:
        """Prepare a training with these settings. inputs: what its encoder reads, where that is known."""
        graph, patches = self.split.train, self.patches
        validation = self.split.validation if config.patience else None
        with self.clock.measure("partition"):
            setting = self._prepare(config, inputs)
            batches = setting.make_batches(graph, setting.batch_bytes)
            training = Training(
                setting.model,
                batches,
                patches.patch_set,
                setting.settings,
                global_pairs=setting.make_pairs(batches),
                whole=setting.make_pass(graph, trains=True),
                validate=None if validation is None else partial(score_validation, setting.model, validation),
                margin=None if validation is None else partial(needed_gain, num_edges=validation.num_edges),
                compares_assemblies=config.assembly is None and patches.patch_set.is_cut_badly,
                shard=setting.shard,
            )
        return Candidate(setting, batches, training)

    def resume(self, paused: Paused) -> Candidate:
        """Prepare a paused training again, to go on as if it had not been paused."""
        candidate = self.begin(paused.config, paused.inputs)
        state = candidate.training.state
        state.restore(paused.tensors, paused.values)
        state.history.resumed_from_epoch = 0  # of no checkpoint
        return candidate

    def _prepare(self, config: Config, found: InputMap | None) -> Setting:
        """Fit the inputs, make the model, share out the patches."""
        split, patches, start, communicator = self.split, self.patches, self.start, self.communicator
        graph: GraphStore = split.train
        spare = patches.spare(config)
        # Rows first: they save most for what they take.
        row_bytes = (8 if graph.weighted else 4) * 2 * graph.num_edges + 16 * graph.num_nodes + _BLOCK_BYTES
        # Of a whole graph in rows the edges that an epoch leaves visible come before: fewer, and read four times.
        first = _visible_bytes(graph, config) if patches.by_rows else 0
        keep_rows = _UNLIMITED if spare is None else max(0, min(spare - first, row_bytes))
        alone = communicator.size == 1
        rows = TrainingRows(graph, keep_bytes=keep_rows if alone else 0)
        counts = count_features(graph, communicator)
        if start is not None:
            found = start.inputs.with_degrees(lambda: rows.degrees)
        if found is None:
            source = RowSource(rows, communicator, _UNLIMITED if spare is None else 0)
            fitted = find_inputs(source, counts, config, self.columns.for_encoder(config.structure_width))
            found = share_inputs(communicator, fitted)
        # Each candidate trains a model of its own.
        model = self._new_model(InputRows(graph, found), config) if start is None else copy.deepcopy(start.model)
        model = model.to(config.device)
        validates = bool(config.patience) and split.validation is not None
        local = None
        if patches.by_rows:
            keep_rows = keep_rows if alone else keep_rows // 2  # with places as columns, and as nodes for the pairs
            local = share_rows(rows, communicator, keep_bytes=keep_rows)
        shard, of_rank = make_shard(
            communicator, graph, patches, model, config, self.checkpoints, local, validates=validates
        )
        inputs = InputRows(graph, with_rows(found, shard))
        own_rows = None
        if not alone and local is not None:
            own_rows = TrainingRows(graph, keep_bytes=keep_rows, span=(local.low, local.high))
        elif not alone:
            own_rows = TrainingRows(graph, keep_bytes=keep_rows, nodes=shard.table.owned_nodes)
        dropout = choose_feature_dropout(counts, inputs.num_columns, config)
        settings = make_loop_settings(config, graph.num_nodes, graph.num_edges, dropout)
        if patches.by_rows:  # one patch: pairs inside it are pairs of all nodes
            settings = replace(settings, scope="global")
        return Setting(
            split=split,
            patches=patches,
            held_out=held_out_rows(split, shard.nodes, communicator),
            config=config,
            inputs=inputs,
            model=model,
            settings=settings,
            shard=shard,
            checkpoints=of_rank,
            rows=rows,
            own_rows=own_rows,
            local=local,
            pass_bytes=_UNLIMITED if spare is None else 0,
            batch_bytes=None if spare is None else spare - keep_rows,
            negatives=config.negatives_per_edge * (config.hidden_fraction or 1.0) * settings.score_fraction,
        )

    def _new_model(self, inputs: InputRows, config: Config) -> Autoencoder:
        """Create an untrained model without direct coordinates. A collective call."""
        mean, scale = None, 1.0
        if config.feature_scaling == "centred":
            blocks = inputs.blocks(rank_span(inputs.graph, self.communicator))
            facts = FeatureStatistics.of_blocks(blocks, inputs.num_columns)
            mean, scale = facts.total(SharedRows(self.communicator)).centre()
            if float(mean @ mean) < 1e-9 and abs(scale - 1) < 1e-3:  # compressed features are centred already
                mean, scale = None, 1.0
        num_encoders = 1 if config.shares_encoder else self.patches.patch_set.num_patches
        centre = None if mean is None else torch.from_numpy(mean)
        config = replace(config, dim=config.trained_dim, hidden=config.trained_hidden, direct_width=0)
        return make_autoencoder(config, inputs.num_columns, num_encoders, centre, scale)


def with_rows(inputs: InputMap, shard: Shard) -> InputMap:
    """How nodes are read, with the structural columns of the nodes of this rank's patches. A collective call."""
    if inputs.structure is None:
        return inputs
    return replace(inputs, structure=inputs.structure.with_rows(shard.nodes, SharedRows(shard.communicator)))


def _visible_bytes(graph: GraphStore, config: Config) -> int:
    """What the edges take that a mask leaves visible in an epoch."""
    arcs = 2 * graph.num_edges * (1 - config.hidden_fraction)
    return int(1.02 * (8 if graph.weighted else 4) * arcs) + 16 * graph.num_nodes + 100_000
