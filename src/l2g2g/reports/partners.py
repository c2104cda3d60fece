"""Partners of a node: its nearest nodes, and its most likely missing links by the score of the trained decoder."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from l2g2g.neighbours.decoding import factors_of
from l2g2g.neighbours.exact import keep_best
from l2g2g.neighbours.factors import ScoreFactors, factors_by
from l2g2g.runs.record import RunRecord

NUM_PARTNERS = 10
SHORTLIST = 256  # nodes of the largest inner product, which a learned decoder then ranks
_SCORES_AT_ONCE = 1 << 22


def has_links(record: RunRecord) -> bool:
    """Whether missing links can be told: of a run, or where the edges of the graph are known."""
    return record.is_run or record.edges is not None


class Partners:
    """Neighbours and missing links of the nodes of a record, as node numbers; -1 where there are fewer than k."""

    def __init__(self, record: RunRecord) -> None:
        self.vectors, self.has_links = record.vectors, has_links(record)
        self.cosine = factors_by(record.vectors, "cosine")
        self.known = None if record.edges is None else sp.csr_array(record.edges + record.edges.T)
        self.decoder = record.make_decoder()
        self.score = factors_of(self.decoder, record.vectors)  # None for a learned decoder
        self.inner = factors_by(record.vectors, "inner")

    def neighbours(self, rows: np.ndarray, k: int = NUM_PARTNERS) -> tuple[np.ndarray, np.ndarray]:
        """(num_rows, k) nearest nodes and (num_rows, k) cosines, the nearest first."""
        return _best(self.cosine, rows, k, None)

    def links(self, rows: np.ndarray, k: int = NUM_PARTNERS) -> tuple[np.ndarray, np.ndarray]:
        """(num_rows, k) most likely partners that are not neighbours in the graph, and their probabilities."""
        if self.score is not None:
            nodes, scores = _best(self.score, rows, k, self.known)
        else:
            nodes, _ = _best(self.inner, rows, SHORTLIST, self.known)
            nodes, scores = self._rank(rows, nodes, k)
        return nodes, (0.5 * (1 + np.tanh(0.5 * scores.astype(np.float64)))).astype(np.float32)

    def _rank(self, rows: np.ndarray, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        sources, targets = np.repeat(rows, nodes.shape[1]), np.maximum(nodes, 0).ravel()
        scores = self.decoder.score(self.vectors, sources, targets).astype(np.float32).reshape(nodes.shape)
        scores = np.where(nodes >= 0, scores, -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(nodes, order, 1), np.take_along_axis(scores, order, 1)


def _best(factors: ScoreFactors, rows: np.ndarray, k: int, known: sp.csr_array | None) -> tuple[np.ndarray, np.ndarray]:
    """The k nodes of the highest scores for each row, neither itself nor known."""
    nodes = np.full((len(rows), k), -1, np.int64)
    scores = np.full((len(rows), k), -np.inf, np.float32)
    at_once = max(1, _SCORES_AT_ONCE // factors.num_nodes)
    for low in range(0, len(rows), at_once):
        here = slice(low, low + at_once)
        block = factors.left[rows[here]] @ factors.right.T
        if known is not None:
            held = sp.csr_array(known[rows[here]])
            block[np.repeat(np.arange(len(block)), np.diff(held.indptr)), held.indices] = -np.inf
        keep_best(block, 0, rows[here], scores[here], nodes[here])
    return nodes, scores + np.float32(factors.bias)
