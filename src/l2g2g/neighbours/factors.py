"""Score factors: every way to compare two nodes here is an inner product of a left and a right vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from l2g2g.errors import InputError

Metric = Literal["cosine", "inner"]
METRICS: tuple[Metric, ...] = ("cosine", "inner")


@dataclass(frozen=True, eq=False)
class ScoreFactors:
    """score(u, v) = left_u · right_v + bias.

    Attributes:
        left, right: (num_nodes, width) float32, contiguous; the same table where both factors are one.
        bias: Added to every score.
        one_way: Whether score(u, v) and score(v, u) differ, as for arcs.
    """

    left: np.ndarray
    right: np.ndarray
    bias: float = 0.0
    one_way: bool = False

    def __post_init__(self) -> None:
        """Tables of the form that compiled loops want, and one of them where one was given."""
        same = self.left is self.right
        for name in ("left", "right"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float32))
        if same:
            object.__setattr__(self, "right", self.left)

    @property
    def num_nodes(self) -> int:
        """Rows of either factor."""
        return len(self.left)

    @property
    def same(self) -> bool:
        """Whether both factors are one table."""
        return self.left is self.right


def factors_by(embedding: np.ndarray, metric: str) -> ScoreFactors:
    """The factors of a plain metric: the cosine of the angle, or the inner product. embedding: (num_nodes, dim).

    Example:
        >>> factors_by(np.array([[3.0, 4.0]]), "cosine").left.round(1).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    table = np.ascontiguousarray(embedding, dtype=np.float32)
    if table.ndim != 2:
        raise InputError(f"an embedding has one row per node, not shape {table.shape}")
    if metric == "inner":
        return ScoreFactors(table, table)
    if metric != "cosine":
        raise InputError(f"unknown metric '{metric}'; choose from {', '.join(METRICS)}")
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = table / np.where(lengths > 0, lengths, 1)  # a vector of zeros has no angle: cosine 0 with all others
    return ScoreFactors(unit, unit)
