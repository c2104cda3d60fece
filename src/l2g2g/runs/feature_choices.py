"""Feature choices: what is done to features where the config leaves it open, decided from a few counts of the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.config import Config
from l2g2g.graphs.graph import Features


@dataclass(frozen=True)
class FeatureCounts:
    """Sizes that the choices depend on.

    Attributes:
        num_nodes, num_arcs: Those of the graph, an edge counted in both directions.
        num_columns: Features of a node.
        num_entries: Entries of the features that are not zero.
    """

    num_nodes: int
    num_arcs: int
    num_columns: int
    num_entries: int

    @classmethod
    def of(cls, features: Features, num_arcs: int) -> FeatureCounts:
        """The counts of features that are in memory."""
        num_entries = features.nnz if sp.issparse(features) else int(np.count_nonzero(features))
        return cls(features.shape[0], num_arcs, features.shape[1], num_entries)

    @property
    def has_many_entries(self) -> bool:
        """Whether a row has ten entries or more on average."""
        return self.num_entries >= 10 * self.num_nodes


def has_few_arcs(num_columns: int, hidden: int, num_arcs: int) -> bool:
    """Whether the first layer has several times as many weights as the graph has arcs: it can learn them by heart."""
    return num_columns * hidden > 4 * num_arcs


def choose_sampling(num_features: int, num_arcs: int, config: Config) -> str:
    """How the far ends of non-edges are drawn; found by validation, decided from the graph alone.

    Where it is left open, by degree for small graphs with many features: uniform non-edges teach that hubs
    are linked, which few edges turn into a rule. On larger graphs that costs accuracy. `auto` begins with uniform ones.
    """
    if config.negative_sampling is not None:
        return "uniform" if config.negative_sampling == "auto" else config.negative_sampling
    is_small = config.loss_pairs == "sampled" and has_few_arcs(num_features, config.hidden, num_arcs)
    return "degree" if is_small else "uniform"


def compression_pays(counts: FeatureCounts | None, config: Config) -> bool:
    """Whether principal directions replace the features; found by validation, decided from the graph alone.

    Not where a row has few entries, and not where there are too few edges to tell which directions matter: there
    single words, most of them dropped at random, generalise better. counts: None for a graph without features.
    """
    if not config.feature_width or counts is None:
        return False
    return counts.has_many_entries and not has_few_arcs(counts.num_columns, config.hidden, counts.num_arcs)


def choose_feature_dropout(counts: FeatureCounts | None, num_columns: int, config: Config) -> float:
    """How much of the features to drop, from the graph alone; the numbers were found by validation.

    Nothing where losing one entry loses the node (one-hot features, columns made from the structure); half where a
    node has many entries; more where the first layer has several times as many weights as there are arcs to fit.
    Compressed features have few columns that do not matter. num_columns: those that the encoder sees.
    """
    if config.feature_dropout is not None:
        return config.feature_dropout
    if counts is None or not counts.has_many_entries:
        return 0.0
    if compression_pays(counts, config):
        return 0.1
    return 0.75 if has_few_arcs(num_columns, config.hidden, counts.num_arcs) else 0.5
