"""Home pairs: the pairs of all nodes that one rank scores: those whose first node it owns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from l2g2g.models.masking import hidden_pairs
from l2g2g.models.pairs import PairList
from l2g2g.training.pair_source import PairSource
from l2g2g.training.stored_pairs import StoredPairs


@dataclass(frozen=True, eq=False)
class Drawn:
    """The pairs of an epoch that are scored here; their rows and columns are nodes.

    Attributes:
        edges, non_edges: The pairs.
        num_edges: How many of the edges of the epoch are here, where their weight is not known before those elsewhere
            are counted too; None where it is.
    """

    edges: PairList
    non_edges: PairList
    num_edges: int | None = None

    def weighed(self, num_edges: int) -> Drawn:
        """The same once the edges of all are counted."""
        if self.num_edges is None:
            return self
        weights = np.full(1, 1.0 / max(1, num_edges), np.float32)
        return Drawn(replace(self.edges, weights=weights), self.non_edges)


class HomePairs:
    """Draws what a source draws for some rows.

    Args:
        source: Pairs of the whole graph.
        is_home: (num_nodes,) bool, whether the pairs that begin with a node are scored here.
    """

    def __init__(self, source: PairSource | StoredPairs, is_home: np.ndarray) -> None:
        self.source, self.is_home = source, is_home

    def draw(self, hidden: float, scored: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0) -> Drawn:
        """The pairs of an epoch; arguments as in `PairSource`."""
        source = self.source
        if isinstance(source, StoredPairs) or not _draws_rows(source):
            drawn = source.draw(hidden, scored, fresh=fresh, seed=seed, epoch=epoch, num_groups=num_groups)
            edges, non_edges = (pairs.listed.select(self.is_home[pairs.listed.rows]) for pairs in drawn)
            return Drawn(edges, non_edges)
        rows, columns = self._edges
        if scored < 1.0 or num_groups:
            groups = source.draw_groups(num_groups, seed=seed, epoch=epoch)
            nodes = source.nodes.astype(np.int32)
            chosen = hidden_pairs(rows, columns, nodes, scored, seed=seed, epoch=epoch, groups=groups)
            rows, columns = rows[chosen], columns[chosen]
        non_edges = source.negatives.list_pairs(seed=seed, epoch=epoch if fresh else 0, wanted=self.is_home)
        return Drawn(PairList(rows, columns, np.ones(1, np.float32)), non_edges, len(rows))

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of all edges that begin here."""
        assert isinstance(self.source, PairSource)
        pairs = self.source.edges.listed
        here = self.is_home[pairs.rows]
        return pairs.rows[here], pairs.columns[here]


def _draws_rows(source: PairSource) -> bool:
    """Whether a row can be drawn without the others: weights and directions need counts of all."""
    return source.arcs is None and not source.options.weighted
