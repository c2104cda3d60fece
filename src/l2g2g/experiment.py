"""Experiment: the rim that wires the rooms: a graph and a config become an embedding and its scores."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.errors import InputError, NumericalError, ResourceError
from l2g2g.evaluation.limits import best_link_scores
from l2g2g.evaluation.links import LinkScores, PairScorer, evaluate_links
from l2g2g.evaluation.probe import probe_labels
from l2g2g.evaluation.ranking import rank_links
from l2g2g.evaluation.separation import PairKind, separate
from l2g2g.feature_choices import FeatureCounts, choose_feature_dropout, compression_pays
from l2g2g.fitted import Fitted, Start, make_autoencoder, remember
from l2g2g.graphs.fingerprint import fingerprint
from l2g2g.graphs.graph import Features, Graph
from l2g2g.graphs.splits import LinkSplit, Pairs, Protocol, keep_all, split_links
from l2g2g.inspection import Inspection, inspect_training
from l2g2g.memory import check_memory
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoder import EncoderInput, prepare_input
from l2g2g.models.features import feature_centre
from l2g2g.models.inputs import InputMap, fit_inputs
from l2g2g.patches.overlap import PatchSet, count_cut_edges, make_patches, whole_graph
from l2g2g.patches.partition import partition
from l2g2g.rank_share import describe_messages, make_team
from l2g2g.run_directory import RunDirectory
from l2g2g.training.batches import PairOptions, PairSource, PatchBatch, prepare_batches
from l2g2g.training.distributed import Ranks
from l2g2g.training.heap import return_freed_memory
from l2g2g.training.keeper import Keeper
from l2g2g.training.loop import LoopSettings, Trained, WholePass, embed_nodes, train
from l2g2g.training.objective import GlobalPairs, prepare_global_pairs
from l2g2g.training.recovery import embedding_trouble
from l2g2g.training.report import OnEpoch
from l2g2g.training.state import History
from l2g2g.training.team import Alone

Measures = Literal["auc", "all"]
# Below this, threads gain little, and on a busy machine they cost a hundredfold: each of the many small parallel
# steps of an epoch waits for a thread that has no core.
_LITTLE_WORK = 1_600_000  # arcs times columns
# Length of the two trainings that decide whether structure is blended in, and what it must gain in AUC.
_TRIAL_EPOCHS = 15
_TRIAL_GAIN = 0.002
# Share of the negatives' weight that reversed one-way arcs have where directions are learned, as in the evaluation.
_REVERSED_SHARE = 0.5


@dataclass
class Stopwatch:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        started = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started


@dataclass(frozen=True)
class Run:
    """A finished training: the vectors, and all that later questions need.

    Attributes:
        embedding: (num_nodes, dim) float32, rows in input order.
        trained: Model, alignment and history.
        patch_set: The patches that were used.
        kept_edge_fraction: Training edges that lie inside at least one patch.
        seconds: Time by stage.
        fitted: What new nodes need, where it was asked for.
        inspection: Validation scores and residuals, where a run directory keeps a record of them.
        messages: What ranks sent each other, see `describe_messages`; empty for one process.
    """

    embedding: np.ndarray
    trained: Trained
    patch_set: PatchSet
    config: Config
    kept_edge_fraction: float
    seconds: dict[str, float]
    fitted: Fitted | None = None
    inspection: Inspection = field(default_factory=Inspection)
    messages: dict[str, dict[str, float]] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """What every JSON line says about a run."""
        return {
            "method": self.config.method,
            "preset": self.config.preset,
            "dim": self.config.dim,
            "epochs": self.trained.history.num_epochs,
            "best_epoch": self.trained.history.best_epoch,
            "recoveries": self.trained.history.recoveries,
            "resumed_from_epoch": self.trained.history.resumed_from_epoch,
            "num_patches": self.patch_set.num_patches,
            "kept_edge_fraction": self.kept_edge_fraction,
            "node_duplication": self.patch_set.node_duplication,
            "largest_patch_nodes": int(self.patch_set.sizes.max()),
            "num_joined_patches": self.patch_set.num_joined,
            "structure": self.config.structure,
            **({"messages": self.messages} if self.messages else {}),
        }


def embed_graph(
    graph: Graph,
    config: Config,
    *,
    validation_fraction: float = 0.05,
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    keep: bool = False,
    start: Start | None = None,
    ranks: Ranks | None = None,
) -> Run:
    """Embed a graph. A few edges are held back for early stopping only and used for the final vectors.

    validation_fraction: 0 trains on all edges, without early stopping.
    directory: where the state of training is kept, and read from where the run is resumed.
    keep, start: as in `run_split`.
    ranks: those of a torchrun job, which train together; only the first gets the vectors.
    """
    clock = Stopwatch()
    hold_back = validation_fraction > 0 and config.epochs != 0 and graph.num_edges >= 20
    with clock.measure("split"):
        split = keep_all(graph)
        if hold_back:
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
        ranks=ranks,
    )


def keep_training(
    directory: RunDirectory | None, name: str, graph: Graph, split: LinkSplit, config: Config, **more: Any
) -> Keeper | None:
    """A keeper for a training on this graph with these settings; more: what else decides the result."""
    if directory is None:
        return None
    settings = {**config.to_dict(), **more}
    machine = describe_machine(config, split.train.adjacency.nnz, settings)
    return directory.keep(name, {"graph": fingerprint(graph), "settings": settings, "machine": machine})


def describe_machine(config: Config, num_arcs: int, settings: dict[str, Any]) -> dict[str, Any]:
    """What decides the bits of a result but not the result; it is taken out of the settings."""
    del settings["threads"], settings["memory"]
    return {
        "threads": choose_threads(config, num_arcs),
        "device": settings.pop("device"),
        "torch": str(torch.__version__),
    }


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
    ranks: Ranks | None = None,
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
    config = choose_structure(split, config, clock, ranks)
    with clock.measure("partition"):
        patch_set = cut(graph, config) if patch_set is None else patch_set
        if start is None:
            inputs, features = read_inputs(graph, config)
            find_centre = partial(feature_centre, features)
            model = make_model(features.shape[1], find_centre, patch_set.num_patches, config).to(config.device)
        else:
            inputs, features, model = start.inputs, start.read(graph.features), start.model.to(config.device)
        validation = split.validation if config.patience else None
        purpose: _Purpose = "train" if validation is None else "train and validate"
        validates = validation is not None
        team, shared_keeper = make_team(ranks, graph, patch_set, model, config, keeper, validates=validates)
        prepared: _Prepared | None = _prepare(graph, split, team, features, config, purpose)
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
            team=team,
        )
    inspection = Inspection()
    if keeper is not None and ranks is None:  # several ranks would have to send all overlaps once more
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
            )
    with clock.measure("assemble"):
        final_graph = final_graph or graph
        if final_graph is not graph or (passes_whole_graph(patch_set, config) and prepared.whole is None):
            prepared = None  # large graphs need its memory for the next one
            prepared = _prepare(final_graph, split, team, features, config, "embed")
        embedding, frame = embed_nodes(model, prepared.batches, team, settings, trained.frame, prepared.whole_pass)
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
        describe_messages(team),
    )


def score_pairs(model: Autoencoder, pairs: Pairs, embedding: torch.Tensor) -> float:
    """AUC of some pairs."""
    return evaluate_links(embedding.cpu().numpy(), pairs, pair_scorer(model)).auc


def check_embedding(embedding: torch.Tensor, config: Config) -> None:
    """Refuse final vectors that say nothing."""
    trouble = embedding_trouble(embedding)
    if trouble is not None and (config.epochs != 0 or not bool(torch.isfinite(embedding).all())):
        raise NumericalError(f"{trouble}; lower the learning rate (--lr), or give features that tell nodes apart")


def note_seconds(clock: Stopwatch, history: History, keeper: Keeper | None) -> None:
    """The parts of training that are told beside its whole time."""
    clock.seconds["epoch_median"] = statistics.median(history.epoch_seconds) if history.epoch_seconds else 0.0
    clock.seconds["synchronise"] = sum(history.refresh_seconds)
    if keeper is not None:
        clock.seconds["checkpoint"] = keeper.seconds


_Purpose = Literal["train", "train and validate", "embed"]


def passes_whole_graph(patch_set: PatchSet, config: Config) -> bool:
    """Whether vectors come from a pass over the whole graph and not from the patches."""
    return config.passes_whole_graph and patch_set.num_patches > 1


@dataclass(frozen=True)
class _Prepared:
    """A graph as the loop wants it."""

    batches: list[PatchBatch]
    global_pairs: GlobalPairs | None
    whole: EncoderInput | None
    elsewhere: bool = False

    @property
    def whole_pass(self) -> WholePass | None:
        """The pass of a shared encoder over the whole graph, where vectors come from one. The first rank has it."""
        if self.elsewhere:
            return lambda model: torch.empty(0, model.dim)
        whole = self.whole
        return None if whole is None else lambda model: model.encode(whole)[0]


def _prepare(
    graph: Graph,
    split: LinkSplit,
    team: Alone,
    features: Features,
    config: Config,
    purpose: _Purpose,
) -> _Prepared:
    """What the purpose needs of a graph, and nothing else: each part of it is as large as the graph."""
    patch_set = team.patch_set
    scored = config.scored_fraction(graph.num_nodes, graph.num_edges)
    units, hidden = None, config.hidden_fraction or 1.0
    if config.mask_by == "clusters":
        units = mask_clusters(graph, config)
        hidden *= max(count_cut_edges(graph.adjacency, units, int(units.max()) + 1).sum() / graph.adjacency.nnz, 1e-9)
    negatives = config.negatives_per_edge * hidden * scored
    # An encoder that hides edges, drops or centres features or skips needs X itself, not Â X.
    plain = not (config.hidden_fraction or config.skip or config.feature_scaling == "centred")
    options = pair_options(graph, config)
    whole = None
    elsewhere = passes_whole_graph(patch_set, config) and not team.is_first
    if passes_whole_graph(patch_set, config) and team.is_first and purpose != "train":
        whole = prepare_input(
            graph.adjacency,
            features,
            device=config.device,
            propagate_once=plain,
            storage=config.feature_storage,
        )
    if purpose == "embed" and (elsewhere or whole is not None):
        return _Prepared([], None, whole, elsewhere)
    batches = prepare_batches(
        patch_set,
        graph.adjacency,
        features,
        split.held_out,
        negatives_per_edge=negatives,
        together=config.together and config.shares_encoder,
        propagate_once=plain,
        units=units,
        options=options,
        storage=config.feature_storage,
        device=config.device,
        patches=team.patches,
    )
    global_pairs = None
    if config.loss_scope == "global" and purpose != "embed":
        global_pairs = prepare_global_pairs(
            patch_set,
            graph.adjacency,
            split.held_out,
            negatives_per_edge=negatives,
            only_between=config.mask_by == "patches",
            units=units,
            options=options,
            device=config.device,
            patches=team.patches,
            exchange=team.exchange,
        )
        if isinstance(global_pairs.pairs, PairSource) and global_pairs.pairs.adjacency.nnz == 0:
            raise InputError("--mask-by patches: every edge lies inside a patch, so there is nothing to predict")
    return _Prepared(batches, global_pairs, whole, elsewhere)


def pair_options(graph: Graph, config: Config) -> PairOptions:
    """How pairs are drawn and counted; what the graph cannot give is refused."""
    if config.weighted_loss and not graph.weighted:
        raise InputError(f"{graph.name}: its edges have no weights; leave --weighted-loss out")
    if graph.directed != config.directed:
        wrong = "is directed; use directed=True" if graph.directed else "has no directions; leave --directed out"
        raise InputError(f"{graph.name}: the graph {wrong}")
    return PairOptions(
        by_degree=config.negative_sampling == "degree",
        weighted=config.weighted_loss,
        arcs=graph.arcs,
        reversed_share=_REVERSED_SHARE if config.decoder == "asymmetric" else 0.0,
    )


def make_model(
    num_columns: int, find_centre: Callable[[], tuple[np.ndarray, float]], num_patches: int, config: Config
) -> Autoencoder:
    """The untrained model for features of so many columns. find_centre: see `feature_centre`; asked where needed."""
    mean, scale = find_centre() if config.feature_scaling == "centred" else (None, 1.0)
    if mean is not None and float(mean @ mean) < 1e-9 and abs(scale - 1) < 1e-3:  # compressed features are centred
        mean, scale = None, 1.0
    num_encoders = 1 if config.shares_encoder else num_patches
    return make_autoencoder(config, num_columns, num_encoders, None if mean is None else torch.from_numpy(mean), scale)


def pair_scorer(model: Autoencoder) -> PairScorer | None:
    """How the model's decoder scores pairs; None for inner products."""
    decoder = model.decoder
    if decoder is None:
        return None

    def score(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        device = next(decoder.parameters()).device
        with torch.no_grad():
            parts = (torch.from_numpy(part).to(device) for part in (embedding, sources, targets))
            return decoder.score(*parts).double().cpu().numpy()

    return score


def evaluate_graph(
    graph: Graph,
    config: Config,
    *,
    protocol: Protocol = "heldout",
    measures: Measures = "auc",
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    ranks: Ranks | None = None,
) -> tuple[dict[str, Any], Run]:
    """Split, train, score. Returns the JSON line of the contract and the run.

    measures: auc for AUC and AP, all for ranks and a linear probe besides. directory: as in `embed_graph`.
    ranks: as in `embed_graph`; only the first scores, the others return an empty line.
    """
    started = time.perf_counter()
    clock = Stopwatch()
    with clock.measure("split"):
        split = split_links(graph, protocol=protocol, seed=config.seed)
    keeper = keep_training(directory, training_name(config), graph, split, config, protocol=protocol)
    run = run_split(split, config, clock=clock, on_epoch=on_epoch, keeper=keeper, ranks=ranks)
    assert split.test is not None
    if ranks is not None and not ranks.is_first:
        return {}, run
    with clock.measure("evaluate"):
        scores = evaluate_links(run.embedding, split.test, pair_scorer(run.trained.model))
        best: LinkScores | None = None
        if graph.block_model is not None and protocol == "heldout":
            best = best_link_scores(graph.block_model, split.test)
    if directory is not None:
        with clock.measure("inspect"):
            kind: PairKind = "test" if protocol == "heldout" else "paper"
            separation = separate(kind, run.embedding, split.test, pair_scorer(run.trained.model), config.seed)
            run = replace(run, inspection=replace(run.inspection, separation=separation))
    further = further_measures(graph, split, run, clock) if measures == "all" else dict.fromkeys(FURTHER_MEASURES)
    clock.seconds["total"] = time.perf_counter() - started
    row = {
        **run.describe(),
        "dataset": graph.name,
        "protocol": protocol,
        "seed": config.seed,
        "auc": scores.auc,
        "ap": scores.average_precision,
        "best_auc": None if best is None else best.auc,
        **further,
        **directed_measures(graph, split, run),
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": graph.num_features,
        "seconds": clock.seconds,
        "peak_memory_bytes": peak_memory(),
    }
    return row, run


def training_name(config: Config) -> str:
    """What a training of an evaluation is called in a run directory."""
    return f"{config.method}-seed-{config.seed}"


def directed_measures(graph: Graph, split: LinkSplit, run: Run) -> dict[str, float | int | None]:
    """The two questions of a directed graph apart; nothing for an undirected one."""
    if graph.arcs is None or split.test is None:
        return {}
    scorer = pair_scorer(run.trained.model)
    joined = evaluate_links(run.embedding, split.test.without_reversed(), scorer).auc
    way = evaluate_links(run.embedding, split.test.only_reversed(), scorer).auc if split.test.num_reversed else None
    return {"auc_joined": joined, "auc_direction": way, "num_arcs": graph.arcs.nnz}


FURTHER_MEASURES = ("mrr", "hits@1", "hits@10", "hits@50", "probe_accuracy", "probe_macro_f1")


def further_measures(graph: Graph, split: LinkSplit, run: Run, clock: Stopwatch) -> dict[str, float | None]:
    """Ranks of the held-out edges, and classes read by a linear probe; None for what does not apply.

    The paper's test pairs hold self-loops, which cannot be ranked among other partners of the node.
    """
    found: dict[str, float | None] = dict.fromkeys(FURTHER_MEASURES)
    seed, scorer = run.config.seed, pair_scorer(run.trained.model)
    if split.protocol == "heldout" and split.test is not None:
        with clock.measure("rank"):
            edges, degrees = split.test.positive, split.train.degrees
            ranks = rank_links(
                run.embedding, edges, graph.adjacency, degrees, scorer, directed=graph.directed, seed=seed
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


def cut(graph: Graph, config: Config) -> PatchSet:
    """The patches of a graph; one patch for the methods that use none."""
    if not config.definition.uses_patches:
        return whole_graph(graph.num_nodes)
    labels = partition(
        graph.adjacency,
        config.num_patches(graph.num_nodes),
        method=config.partition,
        seed=config.seed,
        fennel_passes=config.fennel_passes,
    )
    least, wanted = config.overlap_range
    return make_patches(
        graph.adjacency, labels, min_overlap=least, target_overlap=wanted, mean_degree=config.patch_degree
    )


def mask_clusters(graph: Graph, config: Config) -> np.ndarray:
    """(num_nodes,) METIS cluster of every node, ten clusters for every patch: what a mask regroups each epoch."""
    num_clusters = max(2, min(10 * config.num_patches(graph.num_nodes), graph.num_nodes // 2))
    return partition(graph.adjacency, num_clusters, seed=config.seed)


def read_inputs(graph: Graph, config: Config) -> tuple[InputMap, Features]:
    """What the encoder sees: the features, scaled if asked for, or columns made from the structure."""
    structured = graph.features is None or config.structure != "none"
    counts = None if graph.features is None else FeatureCounts.of(graph.features, graph.adjacency.nnz)
    return fit_inputs(
        graph.adjacency,
        graph.features,
        scaling=config.feature_scaling,
        feature_width=config.feature_width if compression_pays(counts, config) else 0,
        structure_width=config.structure_width if structured else 0,
        seed=config.seed,
    )


def choose_structure(split: LinkSplit, config: Config, clock: Stopwatch, ranks: Ranks | None = None) -> Config:
    """Decide `auto` by two short trainings, without structure and with it, scored on the validation pairs.

    Without features there is nothing to blend, and without validation pairs nothing to decide by: then none.
    """
    if config.structure != "auto":
        return config
    if split.train.features is None or split.validation is None or config.epochs == 0:
        return replace(config, structure="none")
    with clock.measure("trial"):
        num_epochs = min(_TRIAL_EPOCHS, config.num_epochs(split.train.num_edges))
        short = replace(config, epochs=num_epochs, patience=_TRIAL_EPOCHS)
        runs = [run_split(split, replace(short, structure=choice), ranks=ranks) for choice in ("none", "blend")]
        without, blended = (max(score for _, score in run.trained.history.validations) for run in runs)
    return replace(config, structure="blend" if blended > without + _TRIAL_GAIN else "none")


def loop_settings(config: Config, num_nodes: int, num_edges: int, feature_dropout: float) -> LoopSettings:
    """The part of the config that the loop needs for a training graph of this size."""
    return LoopSettings(
        scope=config.loss_scope,
        pairs=config.loss_pairs,
        mask=1.0 if config.mask_groups else config.hidden_fraction,
        mask_groups=config.mask_groups,
        score_fraction=config.scored_fraction(num_nodes, num_edges),
        feature_dropout=feature_dropout,
        fresh_negatives=config.negatives == "fresh",
        sample_size=config.num_sampled_nodes(num_nodes),
        alignment=config.definition.alignment,
        seed=config.seed,
        epochs=config.num_epochs(num_edges),
        learning_rate=config.lr,
        schedule=config.schedule,
        refresh_every=config.refresh_every,
        rotate=config.rotates,
        translate=config.translates,
        scale=config.scale,
        align_gradient=config.align_gradient,
        validate_every=config.validate_every,
        patience=config.patience,
    )


def choose_threads(config: Config, num_arcs: int) -> int:
    """Threads of a training: what was asked for, all cores, or one where there is little work."""
    import numba

    if config.threads:
        return config.threads
    return 1 if num_arcs * config.dim < _LITTLE_WORK else int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def prepare_torch(config: Config, num_arcs: int) -> None:
    """Honour the number of threads and check that the device is there."""
    import numba

    threads = choose_threads(config, num_arcs)
    torch.set_num_threads(threads)
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    try:
        torch.empty(1, device=config.device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ResourceError(f"device '{config.device}' cannot be used ({reason}); choose --device cpu") from error


def peak_memory() -> int:
    """Peak resident memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
