"""Link model: what a run keeps to turn scores of pairs into probabilities: the combined scorer, and calibrations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.evaluation.calibration import Calibration, fit_calibration
from l2g2g.evaluation.link_scorer import FEATURE_COLUMN, CombinedScorer, LinkEvidence, LinkScorer, choose_scorer
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import Pairs, sample_non_edges
from l2g2g.models.decoders.base import Decoder
from l2g2g.neighbours.factors import factors_of
from l2g2g.neighbours.index import measure_recall
from l2g2g.neighbours.learned import candidate_links, top_learned_links
from l2g2g.neighbours.top_links import TopLinks, top_links

_TOP, _SAMPLE = 20_000, 20_000  # pairs that are no links: those that score highest, and uniform ones
_CANDIDATES = 20  # for every link that is wanted, of each kind
_RECALL_PAIRS = 1_000_000  # scored to say what a list misses
_STREAM = 0xCA11  # keeps these draws apart from others of the same seed


@dataclass(frozen=True)
class LinkModel:
    """What the validation pairs of a run say about scores.

    Attributes:
        chosen: vectors or combined, whichever the validation pairs prefer.
        share: Links that were held out for validation, as a share of all known ones.
        calibrations: By scorer: vectors; combined; plain, which is combined without the features of the nodes.
        scorers: The weights of combined (where nodes have features) and of plain, where they could be fitted.
    """

    chosen: str
    share: float
    calibrations: dict[str, Calibration]
    scorers: dict[str, LinkScorer]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "chosen": self.chosen,
            "share": self.share,
            "calibrations": {name: each.to_dict() for name, each in self.calibrations.items()},
            "scorers": {name: each.to_dict() for name, each in self.scorers.items()},
        }

    @classmethod
    def from_dict(cls, found: dict[str, Any], name: str) -> LinkModel:
        """What `to_dict` gave. name: of the run, for errors."""
        try:
            calibrations = {key: Calibration.from_dict(each) for key, each in found["calibrations"].items()}
            scorers = {key: LinkScorer.from_dict(each) for key, each in found["scorers"].items()}
            model = cls(str(found["chosen"]), float(found["share"]), calibrations, scorers)
            if not {"vectors", *scorers} <= set(calibrations) or not 0 < model.share < 1:
                raise ValueError("calibrations that do not fit")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{name}: its link model cannot be read ({error}); run it again") from error
        return model


def fit_link_model(
    train: Graph,
    vectors: np.ndarray,
    decoder: Decoder,
    validation: Pairs,
    held_out: sp.csr_array,
    *,
    seed: int,
    crossed_auc: float | None = None,
) -> LinkModel | None:
    """Fit to the validation pairs of a training. None for directed decoders and where there are too few pairs.

    train: what training saw, with the features of the nodes; vectors: (num_nodes, dim) from it alone. held_out: pattern
    of all pairs that are held out, which do not count as non-links. crossed_auc: as in `choose_scorer`.
    """
    if decoder.is_directed:
        return None
    evidence = LinkEvidence(train, vectors, decoder.score, train, seed=seed)
    choice = choose_scorer("auto", evidence, validation, seed=seed, crossed_auc=crossed_auc)
    known = sp.csr_array(train.adjacency + held_out)
    known.sort_indices()
    num_pairs = train.num_nodes * (train.num_nodes - 1) // 2
    num_others = num_pairs - known.nnz // 2
    if choice.combined is None or num_others < 1:
        return None
    generator = np.random.default_rng([seed, _STREAM])
    sample = sample_non_edges(train, min(_SAMPLE, num_pairs - train.num_edges), generator)
    num_top = min(_TOP, num_others)
    best = _top_by_vectors(decoder, vectors, num_top, known)
    pairs = candidate_links((best.sources, best.targets), evidence.leading, known, num_top)
    sources, targets, is_edge = validation.endpoints()
    # Paths and features are what takes the time: the columns of every pair are made once, for all scorers.
    names = evidence.names
    of_validation, of_sample, of_top = (
        evidence.columns(*ends) for ends in ((sources, targets), (sample[:, 0], sample[:, 1]), pairs)
    )
    scorers = {"plain": choice.combined.scorer}
    if FEATURE_COLUMN in names:
        plain = tuple(name for name in names if name != FEATURE_COLUMN)
        values = of_validation[:, [names.index(name) for name in plain]]
        scorers = {"plain": LinkScorer.fit(plain, values, is_edge), "combined": choice.combined.scorer}
    own = names.index("vectors")
    links = of_validation[is_edge]
    best_scores = best.scores.astype(np.float64)
    calibrations = {"vectors": fit_calibration(links[:, own], best_scores, of_sample[:, own], num_others)}
    for name, weights in scorers.items():
        wanted = [names.index(column) for column in weights.columns]
        scores = (weights.score(values[:, wanted]) for values in (links, of_top, of_sample))
        of_links, of_best, of_others = scores
        calibrations[name] = fit_calibration(of_links, np.sort(of_best)[::-1][:num_top], of_others, num_others)
    share = len(validation.positive) / (len(validation.positive) + train.num_edges)
    return LinkModel(choice.chosen, share, calibrations, scorers)


def top_combined(scorer: LinkScorer, graph: Graph, vectors: np.ndarray, decoder: Decoder, count: int) -> TopLinks:
    """The likeliest pairs that are no edges of a graph, by a combined scorer: the best of the candidates.

    The candidates are the best by vectors, by common neighbours and by spectral score, several for every link that is
    wanted; `recall` says on all pairs of a few nodes what they miss.
    """
    evidence = LinkEvidence(graph, vectors, decoder.score, graph)
    num_others = graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges
    wanted = min(max(_TOP, _CANDIDATES * count), num_others)
    best = _top_by_vectors(decoder, vectors, wanted, graph.adjacency)
    sources, targets = candidate_links((best.sources, best.targets), evidence.leading, graph.adjacency, wanted)
    score = partial(CombinedScorer(scorer, evidence), vectors)
    scores = score(sources, targets)
    order = np.argsort(-scores, kind="stable")[:count]
    fraction = min(1.0, best.scored_fraction + len(sources) / max(1, num_others))
    found = TopLinks(sources[order], targets[order], scores[order].astype(np.float32), None, fraction)
    if len(sources) == num_others:
        return found
    return replace(found, recall=measure_recall(score, graph.adjacency, found, most_pairs=_RECALL_PAIRS))


def _top_by_vectors(decoder: Decoder, vectors: np.ndarray, count: int, known: sp.csr_array) -> TopLinks:
    factors = factors_of(decoder, vectors)
    if factors is None:
        return top_learned_links(decoder, vectors, count, known)
    return top_links(factors, count, known)
