"""Candidates: pairs that are no edges and may be among the likeliest links, by vectors, neighbours and spectrum."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from l2g2g.models.spectral import SpectralVectors
from l2g2g.neighbours.factors import ScoreFactors
from l2g2g.neighbours.top_links import top_links

_MOST_NEIGHBOURS = 300  # of a common neighbour: what a hub adds to resource allocation is next to nothing
_ROWS = 512


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
