"""Preparation: from the settings of a run to those of its patches, inputs, pairs and loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import torch

from l2g2g.config import OPTIONS, Config
from l2g2g.errors import InputError
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders import DECODERS
from l2g2g.models.encoders import ENCODERS
from l2g2g.models.inputs import InputMap, InputSource, fit_inputs
from l2g2g.models.structure import StructureMap
from l2g2g.patches.cut import Cut, cut_graph
from l2g2g.patches.overlap import PatchSet, whole_graph
from l2g2g.runs.feature_choices import FeatureCounts, choose_sampling, compression_pays
from l2g2g.runs.fitted import make_autoencoder
from l2g2g.training.loop import LoopSettings
from l2g2g.training.pair_source import PairOptions

# Share of the negatives' weight that reversed one-way arcs have where directions are learned, as in the evaluation.
_REVERSED_SHARE = 0.5


def passes_whole_graph(patch_set: PatchSet, config: Config) -> bool:
    """Whether vectors come from a pass over the whole graph and not from the patches."""
    return config.passes_whole_graph and patch_set.num_patches > 1


def propagates_once(config: Config) -> bool:
    """Whether Â X is enough: not for an encoder that hides edges, drops or centres features, skips or reads X too."""
    needs_features = config.skip or config.feature_scaling == "centred" or ENCODERS[config.encoder].reads_own_rows
    return not (config.hidden_fraction or needs_features)


def refuse_missing_weights(graph: GraphStore, config: Config) -> None:
    """Refuse a loss that counts weights on a graph that has none, in memory or on disk."""
    if config.weighted_loss and not graph.weighted:
        raise InputError(f"{graph.name}: its edges have no weights; leave --weighted-loss out")


def pair_options(graph: GraphStore, config: Config) -> PairOptions:
    """How pairs are drawn and counted; what the graph cannot give is refused."""
    refuse_missing_weights(graph, config)
    if graph.directed != config.directed:
        wrong = "is directed; use directed=True" if graph.directed else "has no directions; leave --directed out"
        raise InputError(f"{graph.name}: the graph {wrong}")
    return PairOptions(
        negative_sampling=choose_sampling(graph.num_features, 2 * graph.num_edges, config),
        weighted=config.weighted_loss,
        reversed_share=_REVERSED_SHARE if DECODERS[config.decoder].is_directed else 0.0,
    )


def make_model(
    num_columns: int, find_centre: Callable[[], tuple[np.ndarray, float]], num_patches: int, config: Config
) -> Autoencoder:
    """The untrained model for features of so many columns. find_centre: of `FeatureFacts`, where it is needed."""
    mean, scale = find_centre() if config.feature_scaling == "centred" else (None, 1.0)
    if mean is not None and float(mean @ mean) < 1e-9 and abs(scale - 1) < 1e-3:  # compressed features are centred
        mean, scale = None, 1.0
    num_encoders = 1 if config.shares_encoder else num_patches
    return make_autoencoder(config, num_columns, num_encoders, None if mean is None else torch.from_numpy(mean), scale)


def cut(graph: GraphStore, config: Config) -> PatchSet:
    """The patches of a graph in memory; one patch for the methods that use none."""
    if not config.definition.uses_patches:
        return whole_graph(graph.num_nodes)
    return cut_graph(graph, plan_cut(graph, config.num_patches(graph.num_nodes), config, config.partition))[0]


def plan_cut(graph: GraphStore, num_patches: int, config: Config, method: str) -> Cut:
    """How these settings cut a graph."""
    least, wanted = config.overlap_range
    return Cut.of(
        method,
        seed=config.seed,
        fennel_passes=config.fennel_passes,
        rule=graph.rule,
        num_patches=num_patches,
        min_overlap=least,
        target_overlap=wanted,
        mean_degree=config.patch_degree,
        most_share=config.widens_to(graph.num_edges),
    )


def find_inputs(
    source: InputSource, counts: FeatureCounts | None, config: Config, structure: StructureMap | None = None
) -> InputMap:
    """How a graph is read under these settings. counts: of its features; None where it has none.

    structure: structural columns of the settings' width, where they are found already.
    """
    structured = counts is None or config.structure == "blend"
    return fit_inputs(
        source,
        scaling=config.feature_scaling,
        feature_width=config.feature_width if compression_pays(counts, config) else 0,
        structure_width=config.structure_width if structured else 0,
        structure=structure,
        seed=config.seed,
    )


def loop_settings(config: Config, num_nodes: int, num_edges: int, feature_dropout: float) -> LoopSettings:
    """The part of the config that the loop needs for a training graph of this size.

    A field of `LoopSettings` with the name of an option has its value, unless it is derived here.
    """
    derived = {
        "scope": config.loss_scope,
        "pairs": config.loss_pairs,
        "mask": 1.0 if config.mask_groups else config.hidden_fraction,
        "mask_groups": config.mask_groups,
        "score_fraction": config.scored_fraction(num_nodes, num_edges),
        "feature_dropout": feature_dropout,
        "fresh_negatives": config.negatives == "fresh",
        "sample_size": config.num_sampled_nodes(num_nodes),
        "alignment": config.definition.alignment,
        "epochs": config.num_epochs(num_edges),
        "learning_rate": config.lr,
        "rotate": config.rotates,
        "translate": config.translates,
    }
    same = {item.name: getattr(config, item.name) for item in fields(LoopSettings) if item.name in OPTIONS}
    return LoopSettings(**{**same, **derived})
