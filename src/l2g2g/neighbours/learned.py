"""Learned decoders: their scores are no inner products, so what comes near to them picks candidates to be scored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from l2g2g.models.decoders.base import Decoder
from l2g2g.models.spectral import SpectralVectors
from l2g2g.neighbours.factors import ScoreFactors, keep_best
from l2g2g.neighbours.index import measure_recall
from l2g2g.neighbours.top_links import TopLinks, top_links

_MOST_NEIGHBOURS = 300  # of a common neighbour: what a hub adds to resource allocation is next to nothing
_ROWS = 512
_FITTED_PAIRS = 50_000
_CANDIDATES, _ENOUGH = 50, 200_000  # for every link that is wanted; fewer, but five, where that is more than enough
_STREAM = 0x1EA4  # keeps these draws apart from others of the same seed


def candidate_links(
    found: tuple[np.ndarray, np.ndarray], spectral: SpectralVectors, known: sp.csr_array, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """(sources, targets), source < target, each pair once: `found` and the best `count` pairs by two other measures.

    found: (sources, targets) of the pairs that are best by their vectors. The others are those of highest resource
    allocation, in which hubs do not count, and of highest spectral score: few columns make that search short.
    known: CSR pattern of the edges, symmetric.
    """
    num_nodes = known.shape[0]
    factors = ScoreFactors(spectral.vectors, np.ascontiguousarray(spectral.vectors * spectral.signs))
    by_spectrum = top_links(factors, count, known)
    ends = [found, (by_spectrum.sources, by_spectrum.targets), _by_neighbours(known, count)]
    keys = np.unique(
        np.concatenate([np.minimum(one, other) * num_nodes + np.maximum(one, other) for one, other in ends])
    )
    return keys // num_nodes, keys % num_nodes


def _by_neighbours(known: sp.csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of highest resource allocation."""
    degrees = np.diff(known.indptr)
    shares = np.where(degrees <= _MOST_NEIGHBOURS, 1 / np.maximum(degrees, 1), 0.0).astype(np.float32)
    pattern = sp.csr_array((np.ones(known.nnz, np.float32), known.indices, known.indptr), shape=known.shape)
    through = sp.csr_array(sp.diags_array(shares) @ pattern)
    through.eliminate_zeros()
    num_nodes, threshold = known.shape[0], np.float32(0)
    scores, keys = np.empty(0, np.float32), np.empty(0, np.int64)
    for low in range(0, num_nodes, _ROWS):
        rows = pattern[low : low + _ROWS]
        some_scores, some_keys = _best_products(rows, through, low, threshold)
        scores, keys = np.concatenate([scores, some_scores]), np.concatenate([keys, some_keys])
        if len(scores) > 2 * count:
            best = np.lexsort((keys, -scores))[:count]
            scores, keys = scores[best], keys[best]
            threshold = scores[-1]
    keys = keys[np.lexsort((keys, -scores))[:count]]
    return keys // num_nodes, keys % num_nodes


def _best_products(
    rows: sp.csr_array, through: sp.csr_array, low: int, threshold: np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Scores above a threshold and keys (source · num_nodes + target) of pairs with a common neighbour, edges left out.

    rows: those of the nodes from `low` on.
    """
    num_nodes = rows.shape[1]
    product = sp.coo_array(rows @ through)
    high = np.flatnonzero(product.data > threshold)  # most are far below: nothing else is looked at
    scores = product.data[high]
    sources, targets = (ends[high].astype(np.int64) for ends in product.coords)
    edges = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)) * num_nodes + rows.indices
    kept = (sources + low < targets) & ~np.isin(sources * num_nodes + targets, edges)
    return scores[kept], ((sources + low) * num_nodes + targets)[kept]


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
