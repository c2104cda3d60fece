"""Link prediction: pairs with the probability that they are linked, at the density of the graph where that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from l2g2g.errors import InputError
from l2g2g.evaluation.link_scorer import FEATURE_COLUMN, CombinedScorer, LinkEvidence, LinkScorer
from l2g2g.graphs.graph import Graph
from l2g2g.neighbours.link_model import LinkModel, top_combined
from l2g2g.neighbours.top_links import TopLinks, sigmoid
from l2g2g.runs.published import Published

SCORERS = ("vectors", "combined", "auto")


@dataclass(frozen=True, eq=False)
class PredictedLinks:
    """Pairs and how likely they are linked.

    Attributes:
        links: The pairs as rows, with their scores.
        probabilities: (num_links,) calibrated where `missing_share` is a number, σ(score) otherwise.
        scorer: vectors or combined.
        missing_share: Links assumed to be missing, as a share of the known ones; None without a calibration.
    """

    links: TopLinks
    probabilities: np.ndarray
    scorer: str
    missing_share: float | None

    @property
    def expected_precision(self) -> float | None:
        """The share of the pairs that is expected to be linked; None without a calibration."""
        if self.missing_share is None or len(self.probabilities) == 0:
            return None
        return float(self.probabilities.mean())

    def describe(self) -> dict[str, Any]:
        """What JSON lines say beside each pair."""
        return {
            "scorer": self.scorer,
            "missing_share": self.missing_share,
            "expected_precision": self.expected_precision,
        }


def score_links(
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
        return PredictedLinks(links, sigmoid(links.scores), shown, None)
    share = model.share if missing_share is None else missing_share
    probabilities = model.calibrations[name].probabilities(links.scores, share / model.share)
    return PredictedLinks(links, probabilities, shown, share)


def _choose(published: Published, wanted: str) -> tuple[LinkScorer | None, str]:
    """The weights of the combined scorer, None for vectors alone, and the name of its calibration."""
    if wanted not in SCORERS:
        raise InputError(f"unknown scorer '{wanted}'; choose from {', '.join(SCORERS)}")
    model = published.links
    if wanted == "vectors" or (wanted == "auto" and (model is None or model.chosen == "vectors")):
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
