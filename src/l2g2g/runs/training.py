"""Training: the one path of every run, from a split to vectors, in memory, from disk and on several ranks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from l2g2g.alignment.frame import Frame
from l2g2g.config import BAD_CUT_MASK, Config
from l2g2g.errors import InputError, NumericalError
from l2g2g.evaluation.links import score_pairs
from l2g2g.evaluation.separation import ScoredPairs
from l2g2g.graphs.graph_store import GraphStore, fingerprint
from l2g2g.graphs.splits import LinkSplit, Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders.base import Decoder
from l2g2g.models.inputs import InputMap, fit_inputs
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import DegreeTerm
from l2g2g.neighbours.link_model import LinkModel, fit_link_model
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.budget import check_memory
from l2g2g.runs.candidate import Candidate, Candidates, Setting
from l2g2g.runs.choices import Choice, choose_assembly, choose_candidate, choose_degree_term, choose_vectors
from l2g2g.runs.degree_term import LEAST_TERM_EDGES, TermTrial, add_term, try_term
from l2g2g.runs.direct import (
    DEGREE_COORDINATES,
    choose_width,
    direct_auc,
    fit_direct,
    set_weights,
    widen,
)
from l2g2g.runs.fitted import Start, remember
from l2g2g.runs.patches import RunPatches, find_patches
from l2g2g.runs.preparation import count_features, needs_final_pass, scales_numbers
from l2g2g.runs.ranks import describe_memory, describe_messages, share_inputs
from l2g2g.runs.resources import Stopwatch, describe_machine, note_seconds, prepare_torch
from l2g2g.runs.run import Inspection, Run, patch_residuals
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.runs.scoring import score_spectral
from l2g2g.runs.spectral import SpectralVectors, StructuralColumns, fit_columns
from l2g2g.training.batches import Batches
from l2g2g.training.checkpoint_writer import CheckpointWriter
from l2g2g.training.heap import return_freed_memory, return_tables_at_once
from l2g2g.training.loop import OnEpoch, Trained, WholePass, embed_nodes, encode_patches
from l2g2g.training.rows import TrainingRows
from l2g2g.training.state import NOT_FINITE, embedding_trouble
from l2g2g.training.whole_pass import InputRows, RowSource, feature_blocks

_MOST_LINK_EDGES = 2_000_000
_log = logging.getLogger(__name__)


def keep_training(
    directory: RunDirectory | None, name: str, graph: GraphStore, patches: RunPatches, config: Config, **more: Any
) -> CheckpointWriter | None:
    """A checkpoint writer for a training. more: what decides the result beside graph, patches and settings."""
    if directory is None:
        return None
    settings = {**config.to_dict(), **more}
    machine = describe_machine(config, graph.num_nodes, graph.num_edges, settings)
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
    gather: bool = True,
) -> Run:
    """Train on a split. final_graph: the graph the final vectors are computed on, if not the training graph.

    keep: also what it takes to embed new nodes later. start: a model to go on with, instead of a new one.
    patches: that were cut before; None cuts the training graph.
    communicator: of the ranks of a torchrun job, which train together. gather: whether the first gets the vectors of
    all nodes; otherwise each rank has those of a range of nodes.
    """
    clock = clock or Stopwatch()
    graph: GraphStore = split.train
    return_freed_memory()
    if communicator.size > 1:
        return_tables_at_once()
    prepare_torch(config, graph.num_nodes, graph.num_edges)
    check_graph(graph, config)
    if patches is None:
        patches = find_patches(graph, config, clock, communicator=communicator, gathers=gather or keep)
    if config.mask_is_open and patches.patch_set.is_cut_badly:
        config = replace(config, mask=BAD_CUT_MASK)
    validation = split.validation if config.patience else None
    start = None if config.structure == "spectral" else start  # nothing of it was trained: found anew on this graph
    if graph.num_features and not config.considers_structure(graph.num_nodes):
        config = replace(config, structure="none")
    if start is None:
        num_edges = 0 if validation is None else validation.num_edges
        width = choose_width(count_features(graph, communicator), num_edges, config) if config.most_direct else 0
        config = replace(config, direct_width=width)
    columns = StructuralColumns(graph, config, communicator)
    candidates = Candidates(split, patches, start, checkpoints, communicator, columns, clock)
    is_new = start is None and config.can_be_spectral
    if config.negative_sampling == "auto" and validation is None:
        _log.warning("%s: no validation pairs for --negative-sampling auto to decide by; uniform is used", graph.name)
    candidate, choice, spectral = choose_candidate(candidates, config, validation, on_epoch, is_new=is_new)
    with clock.measure("train"):
        candidate.training.run(on_epoch=on_epoch, checkpoints=candidate.setting.checkpoints)
    term_pairs = validation if start is None and config.tries_degree_term else None
    done = _finish(candidate, choice, spectral, clock, term_pairs)
    del candidate
    if start is None and done.setting.config.most_direct:
        assert validation is not None
        with clock.measure("choose"):
            done.add_direct(validation)
    if done.choice.summary():
        _log.info("%s: %s", graph.name, done.choice.summary())
    setting = done.setting
    shard, patch_set = setting.shard, patches.patch_set
    # Vectors for these pairs must not have seen them; an evaluation has test pairs instead.
    passes = needs_final_pass(patch_set, setting.config)
    scored = split.validation if final_graph is not None and (validation is not None or not passes) else None
    inspection = Inspection()
    if keep or scored is not None:
        crossed_auc = direct_auc(done.choice.describe())
        links = None
        if checkpoints is not None:
            links = partial(fit_links, split, setting.model.decoder, setting.config.seed, crossed_auc=crossed_auc)
        with clock.measure("inspect"):
            inspection = done.inspect(scored, links) if keep else done.inspect_scores(scored)
    spectral_auc = None
    if scored is not None:
        with clock.measure("baseline"):
            spectral_auc = score_spectral(graph, scored, setting.config)
    with clock.measure("assemble"):
        final_graph = final_graph or graph
        embedding, frame = done.assemble(final_graph)
        check_embedding(embedding, setting.config, communicator)
        if gather:
            embedding = SharedRows(communicator, "node vectors").on_first(embedding)
    messages = describe_messages(shard)
    note_seconds(clock, done.trained.history, checkpoints)
    used = setting.config if patches.on_disk is None else replace(setting.config, patches=patch_set.num_patches)
    fitted = None
    if keep:
        setting = setting.with_all_inputs()
    if keep and communicator.is_first:
        states = partial(setting.make_states, final_graph)
        fitted = remember(setting.model, used, setting.inputs.inputs, patch_set, frame, states, whole=passes)
    return Run(
        embedding.cpu().numpy(),
        Trained(setting.model, frame, done.trained.history),
        patch_set,
        used,
        patches.kept_edge_fraction(graph),
        clock.seconds,
        fitted,
        inspection,
        messages,
        done.choice.describe() if spectral is not None or done.choice.scores else {},
        spectral_auc,
        describe_memory(shard),
    )


@dataclass(eq=False)
class _Finished:
    """A training that is over, with the vectors that validation chose: its own, or spectral ones.

    Attributes:
        setting: Has the settings and the model of these vectors.
        trained: The model, its alignment and its history.
        batches: The patches; None once their memory is given back.
        whole: The pass over the whole graph that gives the vectors; None where the patches do.
        choice: What was chosen.
        spectral: The spectral vectors where they were chosen; None for trained ones.
    """

    setting: Setting
    trained: Trained
    batches: Batches | None
    whole: WholePass | None
    choice: Choice
    spectral: SpectralVectors | None

    def add_direct(self, validation: Pairs) -> None:
        """Put direct coordinates beside the trained ones, weighted by these pairs."""
        setting, graph, trained = self.setting, self.setting.split.train, self.trained.model
        config, inputs, communicator = setting.config, setting.inputs.inputs, setting.shard.communicator
        width, directions = config.most_direct - DEGREE_COORDINATES, None
        if width:
            source = RowSource(setting.rows, communicator)
            fitted = fit_inputs(source, scaling=config.feature_scaling, feature_width=width, seed=config.seed)
            directions = share_inputs(communicator, fitted)
        term = DegreeTerm.blank(setting.rows.degrees)
        model, read = widen(trained, inputs, directions, term, config)
        self._replace_model(model, read, graph)
        vectors = self._embed()[0].cpu().numpy()
        found = fit_direct(model, vectors, term, validation, trained.dim, seed=config.seed)
        model, read = set_weights(model, read, found, trained.dim)
        self._replace_model(model, read, graph)
        scores = {"trained": found.trained_auc, "direct": found.auc}
        self.choice = replace(self.choice, direct=found.helps, scores={**scores, **self.choice.scores})

    def try_degree_term(self, validation: Pairs) -> TermTrial:
        """Fit a term of the degree beside the trained vectors to these pairs. A collective call."""
        term = DegreeTerm.blank(self.setting.rows.degrees)
        return try_term(self._embed()[0].cpu().numpy(), term, validation, seed=self.setting.config.seed)

    def add_degree_term(self, found: TermTrial) -> None:
        """Put the term into two coordinates of the trained vectors."""
        setting, term = self.setting, DegreeTerm.blank(self.setting.rows.degrees)
        setting.config = replace(setting.config, decoder="signed")
        model, read = add_term(self.trained.model, setting.inputs.inputs, term, found, setting.config)
        self._replace_model(model, read, setting.split.train)

    def _replace_model(self, model: Autoencoder, inputs: InputMap, graph: GraphStore) -> None:
        setting, passes = self.setting, self.whole is not None
        self.batches = self.whole = None  # large graphs need its memory for the next one
        self.trained = setting.hand_out_model(model, inputs, self.trained)
        self.batches = setting.make_batches(graph, setting.batch_bytes)
        self.whole = setting.make_pass(graph, trains=True) if passes else None

    def inspect_scores(self, pairs: Pairs | None) -> Inspection:
        """Only the scores of some pairs, on the first rank. pairs: that training did not see; None for none."""
        if pairs is None:
            return Inspection()
        return Inspection(self._score(pairs, self._embed()[0].cpu().numpy()))

    def _score(self, pairs: Pairs, vectors: np.ndarray) -> ScoredPairs | None:
        """The pairs with their scores, on the first rank. vectors: as in `score_pairs`. A collective call."""
        setting = self.setting
        scores, every = score_pairs(vectors, pairs, setting.model.decoder.score), pairs.on_first()
        if not pairs.communicator.is_first:
            return None
        return ScoredPairs.of_scores("validation", every, scores, setting.config.seed)

    def inspect(self, pairs: Pairs | None, links: Callable[[np.ndarray], LinkModel | None] | None) -> Inspection:
        """All that the record of a run says of the training, on the first rank. pairs: as in `inspect_scores`.

        links: fits a link model to vectors that have not seen the validation pairs.
        """
        setting = self.setting.with_all_inputs()
        graph, patch_set = setting.split.train, setting.patches.patch_set
        scored, found, frame = None, None, self.trained.frame
        if pairs is not None or self.whole is None:  # without a whole pass this is what aligns the patches
            embedding, frame = self._embed()
        if pairs is not None:
            vectors = embedding.cpu().numpy()
            scored = self._score(pairs, vectors)
            found = None if links is None else links(vectors)
        if not setting.shard.communicator.is_first or patch_set.num_patches == 1:
            return Inspection(scored, None, None if found is None else found.to_dict())
        batches = cast(Batches, self.batches) if setting.shard.has_all else setting.make_batches(graph, 0, every=True)
        residuals = patch_residuals(encode_patches(setting.model, batches).cpu(), patch_set, frame.to("cpu"))
        return Inspection(scored, residuals, None if found is None else found.to_dict())

    def assemble(self, graph: GraphStore) -> tuple[torch.Tensor, Frame]:
        """The final vectors, on this graph, and the alignment of the patches."""
        setting, spectral = self.setting, self.spectral
        is_other = graph is not setting.split.train
        if is_other or not graph.resident or self.whole is not None:
            self.batches = None  # large graphs need its memory for the next one
            if is_other or not graph.resident:
                setting.forget_rows()
                setting.inputs = InputRows(
                    setting.inputs.graph, setting.inputs.inputs.with_degrees(lambda: TrainingRows(graph).degrees)
                )
                if spectral is not None and is_other:
                    config, communicator = setting.config, setting.shard.communicator
                    num_negative = spectral.width if spectral.is_signed else 0
                    structure = fit_columns(graph, spectral.width, config, communicator, num_negative)
                    self.trained = setting.hand_out(spectral.refitted(structure, config, communicator), self.trained)
                self.whole = setting.make_pass(graph)
                return_freed_memory()
            once = None if graph.resident else 0
            self.batches = setting.make_batches(graph, once, none=self.whole is not None)
        return self._embed()

    def _embed(self) -> tuple[torch.Tensor, Frame]:
        setting = self.setting
        assert self.batches is not None
        return embed_nodes(setting.model, self.batches, setting.shard, setting.settings, self.trained.frame, self.whole)


def _finish(
    candidate: Candidate, choice: Choice, spectral: SpectralVectors | None, clock: Stopwatch, term_pairs: Pairs | None
) -> _Finished:
    """End a training, choose how its vectors are assembled, and choose between them and spectral ones.

    term_pairs: validation pairs for a term of the degree beside trained vectors; None for none.
    """
    setting, training, whole = candidate.setting, candidate.training, candidate.training.whole
    with clock.measure("train"):
        trained = training.finish()
    if choice.negatives is not None:
        setting.config = replace(setting.config, negative_sampling=choice.negatives)
    if training.compares_assemblies and choice.structure != "spectral":
        with clock.measure("choose"):
            choice = choose_assembly(choice, training.score_assemblies(trained))
    vectors = _Finished(setting, trained, candidate.batches, whole, choice, None)
    if choice.assembly == "mean":
        vectors.whole = None
    score, trial = training.best_score, None
    if term_pairs is not None and setting.settings.epochs and term_pairs.num_edges >= LEAST_TERM_EDGES:
        with clock.measure("choose"):
            trial = vectors.try_degree_term(term_pairs)
        choice = choose_degree_term(choice, trial.plain_auc, trial.auc, term_pairs.num_edges)
        score = trial.auc if choice.degree_term else score
    choice = choose_vectors(choice, score, spectral)
    if choice.structure == "spectral":
        assert spectral is not None
        trained = setting.hand_out(spectral, trained)
        graph = setting.split.train
        batches = setting.make_batches(graph, setting.batch_bytes)
        return _Finished(setting, trained, batches, setting.make_pass(graph, trains=True), choice, spectral)
    if choice.assembly == "mean":
        setting.config = replace(setting.config, assembly="mean")
    vectors.choice = choice
    if trial is not None and choice.degree_term:
        vectors.add_degree_term(trial)
    return vectors


def check_graph(graph: GraphStore, config: Config) -> None:
    """Refuse a graph from which nothing can be learned, and one in memory that leaves none for training."""
    if graph.num_nodes < 2 or graph.num_edges < 1:
        raise InputError(f"{graph.name}: {graph.num_nodes} nodes and {graph.num_edges} edges; nothing can be learned")
    is_complete = 2 * graph.num_edges == graph.num_nodes * (graph.num_nodes - 1)
    if graph.num_features == 0 and is_complete and not graph.weighted:  # weights would tell nodes apart
        found = "too few edges to learn from (1)" if graph.num_edges == 1 else "every pair of nodes is an edge"
        raise InputError(f"{graph.name}: {found}, so that nothing tells nodes apart; give more nodes, or --features")
    if graph.num_features == 1 and config.feature_scaling == "centred":
        _check_only_column(graph, config)
    if graph.resident:
        check_memory(graph, config)


def _check_only_column(graph: GraphStore, config: Config) -> None:
    """Refuse a feature column that does not tell nodes apart as it is read."""
    ends = [(float(rows.min()), float(rows.max())) for _, _, rows in feature_blocks(graph, 1) if rows is not None]
    low, high = min(each for each, _ in ends), max(each for _, each in ends)
    if low <= 0 <= high:
        return
    if low == high:
        raise InputError(f"{graph.name}: the only feature column is {low:g} for all nodes; leave it out, or add others")
    if not scales_numbers(count_features(graph), config):  # columns of numbers are centred before rows are scaled
        raise InputError(
            f"{graph.name}: one feature column of one sign is the same for all nodes when rows have length 1; "
            "add --feature-scaling raw, or more columns"
        )


def fit_links(
    split: LinkSplit[Any], decoder: Decoder, seed: int, vectors: np.ndarray, *, crossed_auc: float | None = None
) -> LinkModel | None:
    """The link model of vectors that have seen the training graph of a split and nothing else.

    None without validation pairs, for a graph on disk, and where it would take longer than training.
    crossed_auc: as in `choose_scorer`.
    """
    train = split.train
    if split.validation is None or split.protocol != "heldout":
        return None
    if not train.resident or train.num_edges > _MOST_LINK_EDGES:
        return None
    return fit_link_model(
        train.to_graph(),
        vectors,
        decoder,
        split.validation,
        split.held_out,
        seed=seed,
        crossed_auc=crossed_auc,
    )


def check_embedding(embedding: torch.Tensor, config: Config, communicator: Communicator) -> None:
    """Refuse final vectors that say nothing. embedding: as in `embedding_trouble`."""
    trouble = embedding_trouble(embedding, communicator)
    if trouble is not None and (config.epochs != 0 or trouble == NOT_FINITE):
        raise NumericalError(f"{trouble}; lower the learning rate (--lr), or give features that tell nodes apart")
