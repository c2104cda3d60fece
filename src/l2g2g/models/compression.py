"""Compression: features as a few dense columns, their principal directions, evened out in part.

Bags of words spend most of their length on a few common directions. A half-whitened projection keeps what
distinguishes the rows, and makes every step of training cheaper and fewer of them necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch

from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.graphs.graph import Features
from l2g2g.models.feature_facts import FeatureFacts

_ITERATIONS, _SPARE_COLUMNS = 3, 10


def principal_map(
    blocks: Callable[[], Iterable[Features]], width: int, *, power: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(mean, map) with compressed rows (x − mean) · map. Shapes (num_features,) and (num_features, width).

    The columns of the map are the leading principal directions v of the features, each scaled by λ^(−power / 2): 0 is
    a plain projection, 1 makes all columns equally long. Together the compressed rows have a mean square length of 1.
    Randomised subspace iteration: memory of the map, time of a few products with `width` columns.

    blocks: gives the rows of all nodes, in order; asked once for every product.
    """
    num_features = next(iter(blocks())).shape[1]
    facts = FeatureFacts.of_blocks(blocks(), num_features)
    num_rows, mean = facts.num_rows, facts.centre()[0]
    width = min(width, num_features, num_rows)
    start = torch.randn(
        num_features, min(width + _SPARE_COLUMNS, num_features), generator=torch_generator(seed, Purpose.STRUCTURE)
    )
    basis = torch.linalg.qr(start).Q.numpy()
    for _ in range(_ITERATIONS):
        basis = torch.linalg.qr(torch.from_numpy(_covariance_times(blocks(), num_rows, mean, basis))).Q.numpy()
    moments = basis.T @ _covariance_times(blocks(), num_rows, mean, basis)
    values, vectors = np.linalg.eigh((moments + moments.T).astype(np.float64) / 2)
    values, vectors = values[::-1][:width], vectors[:, ::-1][:, :width]
    lengths = np.maximum(values, 1e-9 * max(float(values[0]), 1e-30))
    scaled = vectors * lengths ** (-power / 2)
    total = float((lengths ** (1 - power)).sum()) / num_rows
    return mean, (basis @ scaled / np.sqrt(max(total, 1e-30))).astype(np.float32)


def compress_features(features: Features, mean: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """(num_rows, width) float32: the rows of other or the same features, compressed."""
    return np.asarray(features @ projection - mean @ projection, dtype=np.float32)


def _covariance_times(blocks: Iterable[Features], num_rows: int, mean: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Σ (x − mean)(x − mean)ᵀ · basis, without centring the rows one by one."""
    product = np.zeros(basis.shape)
    for rows in blocks:
        product += np.asarray(rows.T @ (rows @ basis), np.float64)
    centred = product - num_rows * np.outer(mean, mean @ basis).astype(np.float64)
    return np.ascontiguousarray(centred, dtype=np.float32)
