"""Pair scores: inner products of pairs of rows, the score that most of the package compares others with."""

from __future__ import annotations

import numpy as np

from l2g2g.core import kernels


def score_inner_products(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(num_pairs,) float64 z_u · z_v of each pair. embedding: (num_nodes, dim)."""
    table = np.ascontiguousarray(embedding, np.float32 if embedding.dtype == np.float32 else np.float64)
    return kernels().inner_products(table, *(np.ascontiguousarray(ends, np.int64) for ends in (sources, targets)))
