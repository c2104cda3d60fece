"""Logistic regression with a ridge, and folds to fit it honestly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_NUM_FOLDS = 5
_STREAM = 0x5C03  # keeps these draws apart from others of the same seed
_MOST_STEPS, _SMALL_STEP = 50, 1e-8


def fit_logistic(columns: np.ndarray, is_edge: np.ndarray, *, ridge: float = 1.0) -> tuple[np.ndarray, float]:
    """(weights, intercept) that minimise Σ log loss + ridge / 2 · |weights|², by Newton's method.

    columns: (num_pairs, num_columns), standardised. is_edge: (num_pairs,). The intercept has no ridge.

    Example:
        >>> weights, intercept = fit_logistic(np.array([[-1.0], [-1.0], [1.0], [1.0]]), np.array([0, 0, 1, 1]) > 0)
        >>> bool(weights[0] > 0.5), round(abs(intercept), 6)
        (True, 0.0)
    """
    design = np.column_stack([columns, np.ones(len(columns))]).astype(np.float64)
    penalty = np.append(np.full(columns.shape[1], ridge), 1e-9)
    weights, loss = np.zeros(design.shape[1]), np.inf
    step = np.zeros_like(weights)
    for _ in range(_MOST_STEPS):
        found = weights + step
        new_loss = _loss(design, is_edge, found, penalty)
        if new_loss > loss + 1e-12:  # too far: half of the way
            step = step / 2
            if np.abs(step).max() < _SMALL_STEP:
                break
            continue
        weights, loss = found, new_loss
        chances = 0.5 * (1 + np.tanh(0.5 * (design @ weights)))
        gradient = design.T @ (chances - is_edge) + penalty * weights
        curvature = (design * (chances * (1 - chances))[:, None]).T @ design + np.diag(penalty)
        step = -np.linalg.solve(curvature + 1e-9 * np.eye(len(weights)), gradient)
        if np.abs(step).max() < _SMALL_STEP:
            break
    return weights[:-1], float(weights[-1])


def _loss(design: np.ndarray, is_edge: np.ndarray, weights: np.ndarray, penalty: np.ndarray) -> float:
    scores = design @ weights
    return float(np.logaddexp(0, np.where(is_edge, -scores, scores)).sum() + (penalty * weights**2).sum() / 2)


def deal_folds(is_edge: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """(num_pairs,) whether each pair is in a fold, fold after fold; edges and non-edges are dealt out apart."""
    generator = np.random.default_rng([seed, _STREAM])
    folds = np.empty(len(is_edge), np.int64)
    for kind in (True, False):
        places = np.flatnonzero(is_edge == kind)
        folds[generator.permutation(places)] = np.arange(len(places)) % _NUM_FOLDS
    yield from (folds == fold for fold in range(_NUM_FOLDS))
