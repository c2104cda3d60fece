"""Score factors: scores that are inner products of a left and a right vector, and the exact search by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from l2g2g.core import kernels
from l2g2g.errors import InputError
from l2g2g.models.decoders.base import Decoder
from l2g2g.options import check_choice

Metric = Literal["cosine", "inner"]
METRICS: tuple[Metric, ...] = ("cosine", "inner")
_BLOCK_ROWS, _BLOCK_COLUMNS = 256, 16384  # of a block of scores: its 16 MB stay in the last cache


@dataclass(frozen=True, eq=False)
class ScoreFactors:
    """score(u, v) = left_u · right_v + bias.

    Attributes:
        left, right: (num_nodes, width) float32, contiguous; the same array if both factors are equal.
        bias: Added to every score.
        one_way: Whether score(u, v) and score(v, u) differ, as for arcs.
    """

    left: np.ndarray
    right: np.ndarray
    bias: float = 0.0
    one_way: bool = False

    def __post_init__(self) -> None:
        """Make both arrays contiguous float32, as the kernels need them; one array stays one."""
        left = np.ascontiguousarray(self.left, dtype=np.float32)
        right = left if self.right is self.left else np.ascontiguousarray(self.right, dtype=np.float32)
        object.__setattr__(self, "left", left)
        object.__setattr__(self, "right", right)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.left)

    @property
    def same(self) -> bool:
        """Whether both factors are one array."""
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
    check_choice("metric", metric, METRICS)
    if metric == "inner":
        return ScoreFactors(table, table)
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    unit = table / np.where(lengths > 0, lengths, 1)  # a vector of zeros has no angle: cosine 0 with all others
    return ScoreFactors(unit, unit)


def factors_of(decoder: Decoder, embedding: np.ndarray) -> ScoreFactors | None:
    """The factors whose inner products are the decoder's scores; None for a decoder without factors."""
    with torch.no_grad():
        factors = decoder.factors(decoder.as_tensor(embedding))
    if factors is None:
        return None
    left = factors.left.cpu().numpy()
    right = left if factors.right is None else factors.right.cpu().numpy()
    bias = 0.0 if factors.bias is None else float(factors.bias.detach())
    return ScoreFactors(left, right, bias, one_way=decoder.is_directed)


def search_exactly(factors: ScoreFactors, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nodes with the highest scores for each row, best first, the row itself left out.

    Of equal scores the lower node number comes first. rows: (num_rows,); k: below the number of nodes.

    Returns:
        (num_rows, k) node numbers and (num_rows, k) float32 scores.
    """
    nodes = np.full((len(rows), k), -1, np.int64)
    scores = np.full((len(rows), k), -np.inf, np.float32)
    for low in range(0, len(rows), _BLOCK_ROWS):
        part = slice(low, low + _BLOCK_ROWS)
        queries = factors.left[rows[part]]
        for first in range(0, factors.num_nodes, _BLOCK_COLUMNS):
            block = queries @ factors.right[first : first + _BLOCK_COLUMNS].T
            keep_best(block, first, rows[part], scores[part], nodes[part])
    return nodes, scores + np.float32(factors.bias)


def keep_best(block: np.ndarray, first: int, own: np.ndarray, scores: np.ndarray, nodes: np.ndarray) -> None:
    """Merge a block of scores into the k best so far of each row, in place.

    block: (num_rows, num_columns) scores of the nodes from `first` on. own: (num_rows,) the node that a row must not
    find. scores: (num_rows, k) float32, best first. nodes: (num_rows, k) int64, their nodes. Blocks must come in the
    order of the nodes.
    """
    block, own = np.ascontiguousarray(block, np.float32), np.ascontiguousarray(own, np.int64)
    kernels().keep_best(block, first, own, scores, nodes)
