"""Recall of a list of links: how much of the true list it holds, measured on all pairs of a few nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from l2g2g.neighbours.top_links import TopLinks

ScorePairs = Callable[[np.ndarray, np.ndarray], np.ndarray]  # sources, targets -> (num_pairs,) scores
_NODES = 64
_STREAM = 0x4EC1  # keeps these draws apart from others


def measure_recall(score: ScorePairs, known: sp.csr_array, found: TopLinks, *, most_pairs: int | None = None) -> float:
    """The share that is in the list among the pairs of some nodes that score higher than its last one.

    Half of the nodes are drawn from all nodes and half from the ends of what was found.
    known: CSR pattern of the edges, symmetric. most_pairs: that are scored; fewer nodes are drawn for it, at least two.
    """
    generator = np.random.default_rng([0, _STREAM])
    num_nodes = known.shape[0]
    half = _NODES // 2 if most_pairs is None else max(1, min(_NODES, most_pairs // num_nodes) // 2)
    ends = np.unique(np.concatenate([found.sources, found.targets]))
    rows = np.unique(
        np.concatenate(
            [
                generator.choice(ends, min(half, len(ends)), replace=False),
                generator.choice(num_nodes, min(half, num_nodes), replace=False),
            ]
        )
    )
    threshold = found.scores[-1]
    num_true = num_found = 0
    for row in rows.tolist():
        reaches = score(np.full(num_nodes, row), np.arange(num_nodes)).astype(np.float32) > threshold
        reaches[row] = False
        reaches[known.indices[known.indptr[row] : known.indptr[row + 1]]] = False
        partners = np.concatenate([found.targets[found.sources == row], found.sources[found.targets == row]])
        num_true += int(reaches.sum())
        num_found += int(reaches[partners].sum())
    return num_found / num_true if num_true else 1.0
