"""Link score: how well a fitted model separates unseen links from pairs without one. The estimators' `score`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.new_nodes import NewNodes
from l2g2g.graphs.non_edges import sample_non_edges
from l2g2g.graphs.splits import Pairs
from l2g2g.runs.fitted import Fitted
from l2g2g.runs.new_nodes import embed_new_nodes

_HELD_OUT = 0.2
_STREAM = 0x5C0E  # keeps these draws apart from others of the same seed


def score_links(fitted: Fitted, embedding: np.ndarray, graph: Graph, known: np.ndarray) -> float:
    """AUC of the links of a graph, all of whose nodes are known, against as many pairs without one.

    embedding: (num_known, dim). known: (num_nodes,) row of each node in it. Nothing is held out here: the graph should
    hold links that training has not seen.
    """
    generator = np.random.default_rng([fitted.config.seed, _STREAM])
    positive = np.stack(graph.edges(), axis=1).astype(np.int64)
    pairs = Pairs(known[positive], known[sample_non_edges(graph, len(positive), generator)])
    return evaluate_links(embedding, pairs, fitted.model.decoder.score).auc


def score_new_nodes(fitted: Fitted, embedding: np.ndarray, new: NewNodes) -> float:
    """AUC of links between new and known nodes: a fifth is hidden, the rest embeds the new nodes."""
    generator = np.random.default_rng([fitted.config.seed, _STREAM])
    links = new.to_known.tocoo()
    sources, targets = links.coords
    if len(sources) < 2:
        raise InputError(f"{new.name}: {len(sources)} links to known nodes; at least 2 are needed to hide one of them")
    held = generator.permutation(len(sources)) < max(1, round(_HELD_OUT * len(sources)))
    visible = sp.csr_array((links.data[~held], (sources[~held], targets[~held])), shape=new.shape)
    visible.sort_indices()
    vectors = np.concatenate([embedding, embed_new_nodes(fitted, replace(new, to_known=visible))])
    positive = np.stack([sources[held], targets[held]], axis=1)
    negative = _pairs_without_link(new.to_known, len(positive), generator, new.name)
    shift = np.array([new.num_known, 0])  # new nodes stand after the known ones
    return evaluate_links(vectors, Pairs(positive + shift, negative + shift), fitted.model.decoder.score).auc


def _pairs_without_link(links: sp.csr_array, count: int, generator: np.random.Generator, name: str) -> np.ndarray:
    """(count, 2) distinct pairs of a row and a column that are not linked."""
    num_new, num_known = links.shape
    if count > num_new * num_known - links.nnz:
        raise InputError(f"{name}: too few pairs without a link to be scored; it is too dense")
    rows = np.repeat(np.arange(num_new, dtype=np.int64), np.diff(links.indptr))
    linked = rows * num_known + links.indices
    found = np.empty(0, np.int64)
    while len(found) < count:
        drawn = generator.integers(0, num_new * num_known, 2 * count + 16)
        found = np.unique(np.concatenate([found, drawn[~np.isin(drawn, linked)]]))
    found = generator.permutation(found)[:count]
    return np.stack([found // num_known, found % num_known], axis=1)
