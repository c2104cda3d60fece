"""Learned decoders: their scores are no inner products, so what comes near to them picks candidates to be scored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from l2g2g.models.decoders.base import Decoder
from l2g2g.neighbours.exact import keep_best
from l2g2g.neighbours.factors import ScoreFactors
from l2g2g.neighbours.recall import measure_recall
from l2g2g.neighbours.top_links import TopLinks, top_links

_FITTED_PAIRS = 50_000
_CANDIDATES, _ENOUGH = 50, 200_000  # for every link that is wanted; fewer, but five, where that is more than enough
_STREAM = 0x1EA4  # keeps these draws apart from others of the same seed


def nearest_learned(decoder: Decoder, embedding: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """As `search_exactly`, by the score of any decoder: every row with every node."""
    nodes = np.full((len(rows), k), -1, np.int64)
    scores = np.full((len(rows), k), -np.inf, np.float32)
    for place, row in enumerate(rows):
        block = _score_row(decoder, embedding, int(row)).astype(np.float32)
        here = slice(place, place + 1)
        keep_best(block[None], 0, rows[here], scores[here], nodes[here])
    return nodes, scores


def top_learned_links(decoder: Decoder, embedding: np.ndarray, count: int, known: sp.csr_array) -> TopLinks:
    """As `top_links`, by the score of a learned decoder.

    Weights of the coordinates are fitted such that weighted inner products come near to the scores; the pairs that
    are best by them are scored by the decoder. What that misses is measured, see `measure_recall`.
    """
    wanted = max(5 * count, min(_CANDIDATES * count, _ENOUGH))
    candidates = top_links(_fit_factors(decoder, embedding, known), wanted, known)
    scores = decoder.score(embedding, candidates.sources, candidates.targets).astype(np.float32)
    best = np.lexsort((candidates.targets, candidates.sources, -scores))[:count]
    found = TopLinks(candidates.sources[best], candidates.targets[best], scores[best], None, candidates.scored_fraction)
    if len(candidates.scores) < wanted:  # all pairs that there are
        return found
    recall = measure_recall(partial(decoder.score, embedding), known, found)
    return replace(found, recall=recall)


def _fit_factors(decoder: Decoder, embedding: np.ndarray, known: sp.csr_array) -> ScoreFactors:
    """score(u, v) ≈ Σ weight · z_u · z_v over the coordinates, by least squares over edges and random pairs."""
    generator = np.random.default_rng([0, _STREAM])
    num_nodes = len(embedding)
    entries = generator.integers(0, known.nnz, _FITTED_PAIRS) if known.nnz else np.empty(0, np.int64)
    edge_sources = np.searchsorted(known.indptr, entries, side="right") - 1
    random_pairs = generator.integers(0, num_nodes, (2, _FITTED_PAIRS))
    sources = np.concatenate([edge_sources, random_pairs[0]])
    targets = np.concatenate([known.indices[entries].astype(np.int64), random_pairs[1]])
    products = embedding[sources].astype(np.float64) * embedding[targets]
    design = np.column_stack([products, np.ones(len(products))])
    aim = design.T @ decoder.score(embedding, sources, targets)
    weights = np.linalg.lstsq(design.T @ design, aim, rcond=None)[0][:-1]  # normal equations: a third of the time
    roots = np.sqrt(np.abs(weights))
    left = (embedding * roots).astype(np.float32)
    if (weights >= 0).all():
        return ScoreFactors(left, left)
    return ScoreFactors(left, (left * np.sign(weights)).astype(np.float32))


def _score_row(decoder: Decoder, embedding: np.ndarray, row: int) -> np.ndarray:
    """(num_nodes,) scores of a node with every node."""
    return decoder.score(embedding, np.full(len(embedding), row), np.arange(len(embedding)))
