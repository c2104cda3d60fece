"""Link prediction: probabilities of pairs, the likeliest missing links, and how well a model tells links apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.evaluation.link_scorer import FEATURE_COLUMN, CombinedScorer, LinkEvidence, LinkScorer
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.graph import Graph, NewNodes
from l2g2g.graphs.splits import Pairs, sample_non_edges
from l2g2g.neighbours.link_model import LinkModel, top_combined
from l2g2g.neighbours.top_links import TopLinks
from l2g2g.options import check_choice
from l2g2g.runs.fitted import Fitted
from l2g2g.runs.new_nodes import embed_new_nodes
from l2g2g.runs.published import Published
from l2g2g.runs.scoring import SCORERS

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


@dataclass(frozen=True, eq=False)
class PredictedLinks:
    """Pairs and how likely they are linked.

    Attributes:
        links: The pairs as rows, with their scores and probabilities, calibrated where `missing_share` is a number.
        scorer: vectors or combined.
        missing_share: Links assumed to be missing, as a share of the known ones; None without a calibration.
    """

    links: TopLinks
    scorer: str
    missing_share: float | None

    @property
    def expected_precision(self) -> float | None:
        """The share of the pairs that is expected to be linked; None without a calibration."""
        if self.missing_share is None or len(self.links.scores) == 0:
            return None
        return float(self.links.probabilities.mean())

    def describe(self) -> dict[str, Any]:
        """What JSON lines say beside each pair."""
        return {
            "scorer": self.scorer,
            "missing_share": self.missing_share,
            "expected_precision": self.expected_precision,
        }


def score_pairs(
    published: Published, sources: np.ndarray, targets: np.ndarray, *, scorer: str, missing_share: float | None
) -> PredictedLinks:
    """Score pairs of rows. scorer, missing_share: as in `find_links`."""
    weights, name = _choose(published, scorer)
    if weights is None:
        scores = published.score_pairs(sources, targets)
    else:
        graph, decoder = _known_graph(published), published.decoder
        evidence = LinkEvidence(graph, published.vectors, decoder.score, graph)
        scores = CombinedScorer(weights, evidence)(published.vectors, sources, targets)
    return _predicted(published, TopLinks(sources, targets, scores, None, 0.0), name, missing_share)


def find_links(published: Published, count: int, *, scorer: str, missing_share: float | None) -> PredictedLinks:
    """The likeliest pairs that are not known edges.

    scorer: vectors, combined, or auto: what the validation pairs of the run prefer, vectors where it has none.
    missing_share: links assumed to be missing, as a share of the known ones; None for what was held out for validation.
    """
    weights, name = _choose(published, scorer)
    if weights is None:
        found = published.top_links(count)
    else:
        if count < 1:
            raise InputError(f"--top is {count}; it must be at least 1")
        found = top_combined(weights, _known_graph(published), published.vectors, published.decoder, count)
    return _predicted(published, found, name, missing_share)


def _predicted(published: Published, links: TopLinks, name: str, missing_share: float | None) -> PredictedLinks:
    if missing_share is not None and not missing_share > 0:
        raise InputError(f"--missing-share is {missing_share}; it must be above 0, as 0.05")
    model = published.links
    shown = "vectors" if name == "vectors" else "combined"
    if model is None:
        if missing_share is not None:
            raise InputError(
                f"{published.name}: has no validation pairs to calibrate by; give a directory of embed --run-dir, "
                f"or leave out --missing-share"
            )
        return PredictedLinks(links, shown, None)
    share = model.share if missing_share is None else missing_share
    probabilities = model.calibrations[name].probabilities(links.scores, share / model.share)
    return PredictedLinks(replace(links, calibrated=probabilities), shown, share)


def _choose(published: Published, wanted: str) -> tuple[LinkScorer | None, str]:
    """The weights of the combined scorer, None for vectors alone, and the name of its calibration."""
    check_choice("scorer", wanted, SCORERS)
    model = published.links
    is_alone = model is None or model.chosen == "vectors" or published.known is None
    if wanted == "vectors" or (wanted == "auto" and is_alone):
        return None, "vectors"
    if model is None or not model.scorers:
        raise InputError(
            f"{published.name}: --scorer combined is fitted to validation pairs, and none are kept here; "
            f"give a directory of embed or evaluate --run-dir, or use --scorer vectors"
        )
    name = _best_scorer(model, published)
    return model.scorers[name], name


def _best_scorer(model: LinkModel, published: Published) -> str:
    """combined where it was fitted and the features of the nodes are at hand; plain otherwise."""
    weights = model.scorers.get("combined")
    if weights is None or (FEATURE_COLUMN in weights.columns and published.features is None):
        return "plain"
    return "combined"


def _known_graph(published: Published) -> Graph:
    if published.known is None:
        raise InputError(f"{published.name}: its edges are not known; give the graph that was embedded (--graph)")
    known = published.known
    return Graph(known, published.features, name=published.name)
