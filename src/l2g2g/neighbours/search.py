"""Search: the nearest nodes of some nodes, exactly or through an index, whichever is faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.write_table import make_frame, show_rows
from l2g2g.neighbours.factors import ScoreFactors, factors_by, search_exactly
from l2g2g.neighbours.index import NeighbourIndex

if TYPE_CHECKING:
    import pandas as pd

SearchMethod = Literal["auto", "exact", "index"]
# To link one vector into an index costs about as much as to compare it with this many others. An exact search for
# fewer nodes than that is done before the index is built.
_BUILD_COST = 60_000
_RECALL_SAMPLES = 200


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest nodes of some nodes.

    Attributes:
        nodes: (num_rows, k) node numbers, the nearest first.
        scores: (num_rows, k) float32, higher is nearer.
        recall: Share of the true nearest that the index finds, on sampled nodes; None for an exact search, which
            finds all.
        queries: (num_rows,) the nodes that were asked for; None where these are known from elsewhere.
    """

    nodes: np.ndarray
    scores: np.ndarray
    recall: float | None = None
    queries: np.ndarray | None = None

    def __repr__(self) -> str:
        """The first rows as text."""
        num_rows, k = self.nodes.shape
        asked, columns = self._columns()
        found = "" if self.recall is None else f", {100 * self.recall:.1f} % of them found"
        return show_rows(
            f"Neighbours: the {k} nearest of {num_rows:,} node{'s' if num_rows != 1 else ''}{found}",
            {"node": asked, **columns},
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row for each neighbour: the node as index, then rank (from 1), neighbour and score."""
        asked, columns = self._columns()
        return make_frame(columns, asked, "node")

    def _columns(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The node of each row of the table, and the other columns."""
        num_rows, k = self.nodes.shape
        asked = np.arange(num_rows) if self.queries is None else self.queries
        columns = {
            "rank": np.tile(np.arange(1, k + 1), num_rows),
            "neighbour": self.nodes.ravel(),
            "score": self.scores.ravel(),
        }
        return np.repeat(asked, k), columns


def nearest(
    embedding: np.ndarray | ScoreFactors,
    rows: np.ndarray | list[int],
    k: int = 10,
    *,
    metric: str = "cosine",
    method: SearchMethod = "auto",
    threads: int = 0,
) -> Neighbours:
    """The k nearest nodes of each row, the row itself left out.

    Args:
        embedding: (num_nodes, dim), compared by the metric; or the factors of a score, and then the metric is theirs.
        rows: (num_rows,) node numbers.
        k: Neighbours of each; fewer where there are fewer nodes.
        metric: cosine or inner.
        method: exact, index (see `NeighbourIndex`), or auto: exact unless building an index pays.
        threads: Of the index; 0 for all cores.

    Example:
        >>> nearest(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), [0], k=2).nodes.tolist()
        [[1, 2]]
    """
    factors = embedding if isinstance(embedding, ScoreFactors) else factors_by(embedding, metric)
    rows = np.asarray(rows, dtype=np.int64)
    k = check_k(k, factors.num_nodes)
    if len(rows) and not (rows.min() >= 0 and rows.max() < factors.num_nodes):
        raise InputError(f"rows must be from 0 to {factors.num_nodes - 1}, the nodes of the embedding")
    if method == "exact" or (method == "auto" and not index_pays(len(rows), factors.num_nodes)):
        return Neighbours(*search_exactly(factors, rows, k))
    index = NeighbourIndex.build(factors, threads)
    return search_index(index, rows, k)


def search_index(index: NeighbourIndex, rows: np.ndarray, k: int) -> Neighbours:
    """As `nearest`, by an index that was built before; its recall is measured on 200 nodes."""
    k = check_k(k, index.factors.num_nodes)
    return Neighbours(*index.search(rows, k), recall=index.recall(k, num_samples=_RECALL_SAMPLES))


def index_pays(num_rows: int, num_nodes: int) -> bool:
    """Whether building and searching an index is faster than comparing every row with every node."""
    return num_rows > _BUILD_COST and num_nodes > _BUILD_COST


def check_k(k: int, num_nodes: int) -> int:
    """How many neighbours there can be."""
    if k < 1:
        raise InputError(f"-k is {k}; it must be at least 1")
    if num_nodes < 2:
        raise InputError(f"{num_nodes} node has no neighbours; give an embedding of two nodes or more")
    return min(k, num_nodes - 1)
