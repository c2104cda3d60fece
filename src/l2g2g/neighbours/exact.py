"""Exact neighbours: blocks of a matrix product, of which each row keeps its best in one compiled pass."""

from __future__ import annotations

import numpy as np

from l2g2g.core import kernels
from l2g2g.neighbours.factors import ScoreFactors

_QUERIES = 256  # rows of a block
_COLUMNS = 16384  # and its columns: 16 MB of scores, which stay in the last cache


def search_exactly(factors: ScoreFactors, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nodes with the highest scores for each row, best first, the row itself left out.

    Of equal scores the lower node number comes first. rows: (num_rows,); k: below the number of nodes.

    Returns:
        (num_rows, k) node numbers and (num_rows, k) float32 scores.
    """
    nodes = np.full((len(rows), k), -1, np.int64)
    scores = np.full((len(rows), k), -np.inf, np.float32)
    for low in range(0, len(rows), _QUERIES):
        here = slice(low, low + _QUERIES)
        queries = factors.left[rows[here]]
        for first in range(0, factors.num_nodes, _COLUMNS):
            block = queries @ factors.right[first : first + _COLUMNS].T
            keep_best(block, first, rows[here], scores[here], nodes[here])
    return nodes, scores + np.float32(factors.bias)


def keep_best(block: np.ndarray, first: int, own: np.ndarray, scores: np.ndarray, nodes: np.ndarray) -> None:
    """Merge a block of scores into the k best so far of each row, in place.

    block: (num_rows, num_columns), its columns the nodes from `first` on. own: (num_rows,) the node that a row must
    not find. scores: (num_rows, k) float32, nodes: (num_rows, k) int64, sorted from the best down. Blocks must come in
    the order of the nodes.
    """
    block, own = np.ascontiguousarray(block, np.float32), np.ascontiguousarray(own, np.int64)
    kernels().keep_best(block, first, own, scores, nodes)
