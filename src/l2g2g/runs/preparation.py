"""Derive what the config leaves open (inputs, dropout, negatives, loop settings) from the sizes of a graph."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.config import OPTIONS, Config
from l2g2g.errors import InputError
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.models.decoders import DECODERS
from l2g2g.models.encoders import ENCODERS
from l2g2g.models.inputs import InputMap, InputSource, fit_inputs
from l2g2g.models.structure import StructureMap
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.loop import LoopSettings
from l2g2g.training.pair_source import PairOptions
from l2g2g.training.rows import rank_span
from l2g2g.training.whole_pass import feature_blocks

# With a directed decoder: share of the negatives' weight that goes to reversed one-way arcs, as in the evaluation.
_REVERSED_SHARE = 0.5
# A table of numbers: so many entries are not zero, and so many of these are not 1.
_TABLE_SHARE, _NUMBER_SHARE = 0.25, 0.25


@dataclass(frozen=True)
class FeatureCounts:
    """Sizes of a graph and its features.

    Attributes:
        num_nodes: Number of nodes.
        num_arcs: Number of edges, counted in both directions.
        num_columns: Features per node.
        num_entries: Nonzero entries of the feature matrix.
        num_numbers: Those other than 1.
    """

    num_nodes: int
    num_arcs: int
    num_columns: int
    num_entries: int
    num_numbers: int = 0

    @property
    def is_number_table(self) -> bool:
        """Return True for tables of numbers, such as measurements or coordinates, not bags of words or classes."""
        is_dense = self.num_entries >= _TABLE_SHARE * self.num_nodes * self.num_columns
        return is_dense and self.num_numbers >= _NUMBER_SHARE * self.num_entries

    @property
    def has_many_entries(self) -> bool:
        """Return True if a row has at least ten nonzero entries on average."""
        return self.num_entries >= 10 * self.num_nodes


def count_features(graph: GraphStore, communicator: Communicator = LOCAL) -> FeatureCounts | None:
    """Count nonzero features over all ranks; return None for a graph without features. A collective call."""
    if not graph.num_features:
        return None
    blocks = feature_blocks(graph, graph.num_features, rank_span(graph, communicator))
    here = np.array([_count_entries(rows) for _, _, rows in blocks]).reshape(-1, 2).sum(axis=0)
    num_entries, num_numbers = map(sum, zip(*communicator.tell_all("count", here.tolist()), strict=True))
    return FeatureCounts(graph.num_nodes, 2 * graph.num_edges, graph.num_features, num_entries, num_numbers)


def _count_entries(rows: Any) -> tuple[int, int]:
    """Count nonzero entries, and those of them other than 1."""
    values = rows.data if sp.issparse(rows) else rows
    num_entries = int(rows.nnz) if sp.issparse(rows) else int(np.count_nonzero(rows))
    return num_entries, num_entries - int(np.count_nonzero(values == 1))


def can_overfit(num_columns: int, hidden: int, num_arcs: int) -> bool:
    """Return True if the first layer has more than four times as many weights as the graph has arcs."""
    return num_columns * hidden > 4 * num_arcs


def choose_sampling(num_features: int, num_arcs: int, config: Config) -> str:
    """Choose how negative targets are drawn, if the config leaves it open: uniform or degree.

    Measured on validation pairs: with uniform negatives, a model with many features learns from few edges that hubs
    are always linked, so small graphs use degree. On larger graphs degree costs accuracy. `auto` starts as uniform.
    """
    if config.negative_sampling is not None:
        return "uniform" if config.negative_sampling == "auto" else config.negative_sampling
    is_small = config.loss_pairs == "sampled" and can_overfit(num_features, config.hidden, num_arcs)
    return "degree" if is_small else "uniform"


def should_compress(counts: FeatureCounts | None, config: Config) -> bool:
    """Return True if the encoder should read principal components instead of the features.

    Measured on validation pairs: compression loses accuracy where rows have few entries, and where edges are too few
    to learn which components matter; single columns with strong dropout generalise better there.
    """
    if not config.feature_width or counts is None:
        return False
    return counts.has_many_entries and not can_overfit(counts.num_columns, config.hidden, counts.num_arcs)


def scales_numbers(counts: FeatureCounts | None, config: Config) -> bool:
    """Return True if the features are a table of numbers whose columns are brought to one scale."""
    return counts is not None and counts.is_number_table and config.feature_scaling == "centred"


def choose_feature_dropout(counts: FeatureCounts | None, num_columns: int, config: Config) -> float:
    """Choose the fraction of feature entries to drop; the values were found on validation pairs.

    num_columns: columns that the encoder reads. Rows with few entries (one-hot features, structural columns) keep all
    of them, as do tables of numbers: 0.5 costs up to three points there. Compressed features have few columns that do
    not matter, so little is dropped.
    """
    if config.feature_dropout is not None:
        return config.feature_dropout
    if counts is None or not counts.has_many_entries or scales_numbers(counts, config):
        return 0.0
    if should_compress(counts, config):
        return 0.1
    return 0.75 if can_overfit(num_columns, config.hidden, counts.num_arcs) else 0.5


def needs_final_pass(patch_set: PatchSet, config: Config) -> bool:
    """Return True if the vectors of several patches come from a last pass over the whole graph."""
    return config.passes_whole_graph and patch_set.num_patches > 1


def propagates_once(config: Config) -> bool:
    """Return True if the encoder needs only Â X, which never changes: no mask, skip, centring or own features."""
    needs_features = config.skip or config.feature_scaling == "centred" or ENCODERS[config.encoder].reads_own_rows
    return not (config.hidden_fraction or needs_features)


def refuse_missing_weights(graph: GraphStore, config: Config) -> None:
    """Raise InputError if the loss uses edge weights that the graph does not have."""
    if config.weighted_loss and not graph.weighted:
        raise InputError(f"{graph.name}: its edges have no weights; leave --weighted-loss out")


def make_pair_options(graph: GraphStore, config: Config) -> PairOptions:
    """Derive how pairs are drawn and weighted. Raises InputError if the graph lacks weights or directions."""
    refuse_missing_weights(graph, config)
    if graph.directed != config.directed:
        wrong = "is directed; use directed=True" if graph.directed else "has no directions; leave --directed out"
        raise InputError(f"{graph.name}: the graph {wrong}")
    return PairOptions(
        negative_sampling=choose_sampling(graph.num_features, 2 * graph.num_edges, config),
        weighted=config.weighted_loss,
        reversed_share=_REVERSED_SHARE if DECODERS[config.decoder].is_directed else 0.0,
    )


def find_inputs(
    source: InputSource, counts: FeatureCounts | None, config: Config, structure: StructureMap | None = None
) -> InputMap:
    """Fit the input columns of the encoder. structure: structural columns of the right width, if known already."""
    return fit_inputs(
        source,
        scaling=config.feature_scaling,
        feature_width=config.feature_width if should_compress(counts, config) else 0,
        structure_width=config.structure_width if counts is None or config.structure == "blend" else 0,
        structure=structure,
        scales_numbers=scales_numbers(counts, config),
        seed=config.seed,
    )


def make_loop_settings(config: Config, num_nodes: int, num_edges: int, feature_dropout: float) -> LoopSettings:
    """Derive the settings of the training loop for a training graph of this size.

    A field of `LoopSettings` with the name of an option gets its value, unless it is derived here.
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
