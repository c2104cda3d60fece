"""Degree term: what the number of a node's neighbours adds to the score of every pair that it is in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class DegreeTerm:
    """A function of the degree: one weight for no neighbour, one for a single one, and a parabola of the log-degree.

    Attributes:
        weights: (4,) float64, of the columns of `basis`.
        mean, spread: Of the log-degrees of the nodes that the weights were fitted on.
        degrees: (num_nodes,) numbers of neighbours of the nodes of training.
    """

    weights: np.ndarray
    mean: float
    spread: float
    degrees: np.ndarray

    @classmethod
    def blank(cls, degrees: np.ndarray) -> DegreeTerm:
        """Weights 0, for nodes of these degrees."""
        logs = np.log1p(degrees.astype(np.float64))
        return cls(np.zeros(4), float(logs.mean()), max(float(logs.std()), 1e-6), degrees)

    def basis(self, degrees: np.ndarray) -> np.ndarray:
        """(num_rows, 4) float64 columns that are weighted. degrees: (num_rows,)."""
        logs = (np.log1p(degrees.astype(np.float64)) - self.mean) / self.spread
        return np.stack([degrees == 0, degrees == 1, logs, logs**2], axis=1).astype(np.float64)

    def of(self, degrees: np.ndarray) -> np.ndarray:
        """(num_rows,) float32 the term of nodes with so many neighbours; beyond those of training as at the end."""
        known = degrees.clip(self.degrees.min(initial=0), self.degrees.max(initial=0))
        return (self.basis(known) @ self.weights).astype(np.float32)

    def with_degrees(self, degrees: np.ndarray) -> DegreeTerm:
        """The same function for the nodes of another graph. degrees: (num_nodes,)."""
        return replace(self, degrees=degrees)
