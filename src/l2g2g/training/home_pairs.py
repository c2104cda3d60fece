"""Home pairs: the pairs of all nodes that one section, or one rank, scores: those whose first node is at home there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from l2g2g.models.home_draws import HomeDraws
from l2g2g.models.pair_patterns import PairPattern
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

    edges: PairPattern
    non_edges: PairPattern
    num_edges: int | None = None

    def weighed(self, num_edges: int) -> Drawn:
        """The same once the edges of all are counted."""
        if self.num_edges is None:
            return self
        weight = torch.tensor(1.0 / max(1, num_edges), dtype=torch.float32)
        return Drawn(replace(self.edges, weights=weight), self.non_edges)


class HomePairs:
    """Draws what a source draws for some rows: nothing else, where rows can be drawn on their own.

    Args:
        source: Pairs of the whole graph.
        is_home: (num_nodes,) bool, whether the pairs that begin with a node are scored here.
    """

    def __init__(self, source: PairSource | StoredPairs, is_home: np.ndarray) -> None:
        self.source, self.is_home = source, is_home

    def draw(self, fraction: float, *, fresh: bool, seed: int, epoch: int, num_groups: int = 0) -> Drawn:
        """The pairs of an epoch; arguments as in `PairSource`."""
        source = self.source
        if isinstance(source, StoredPairs) or not _draws_rows(source):
            drawn = source.draw(fraction, fresh=fresh, seed=seed, epoch=epoch, num_groups=num_groups)
            edges, non_edges = (choose_rows(pattern, self.is_home) for pattern in drawn)
            return Drawn(edges, non_edges)
        rows, columns = self._edges
        if fraction < 1.0 or num_groups:
            rows, columns = source.hidden(rows, columns, fraction, seed, epoch, num_groups)
        edges = _list(rows, columns, torch.ones(()), len(self.is_home))
        found = self._negatives.draw(seed=seed, epoch=epoch if fresh else 0)
        indptr, far_rows, far_columns = (torch.from_numpy(part) for part in found)
        non_edges = PairPattern(indptr, far_columns, source.negative_weights, rows=far_rows)
        return Drawn(edges, non_edges, len(rows))

    @cached_property
    def _edges(self) -> tuple[Tensor, Tensor]:
        """(rows, columns) of all edges that begin here."""
        assert isinstance(self.source, PairSource)
        rows, columns, _ = self.source.edges.listed
        here = torch.from_numpy(self.is_home)[rows.long()]
        return rows[here], columns[here]

    @cached_property
    def _negatives(self) -> HomeDraws:
        assert isinstance(self.source, PairSource)
        return HomeDraws(self.source.negatives, np.flatnonzero(self.is_home))


def _draws_rows(source: PairSource) -> bool:
    """Whether a row can be drawn without the others: weights and directions need counts of all."""
    return (
        source.device.type == "cpu"
        and source.arcs is None
        and not source.options.weighted
        and source.negatives.units is None
    )


def choose_rows(pattern: PairPattern, is_home: np.ndarray) -> PairPattern:
    """The pairs of a pattern that begin with certain rows, each once."""
    rows, columns, weights = pattern.listed
    here = torch.from_numpy(is_home).to(rows.device)[rows.long()]
    return _list(rows[here], columns[here], weights[here] if weights.dim() == 1 else weights, len(is_home))


def _list(rows: Tensor, columns: Tensor, weights: Tensor, num_rows: int) -> PairPattern:
    indptr = torch.zeros(num_rows + 1, dtype=torch.int32, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=num_rows), 0, out=indptr[1:])
    return PairPattern(indptr, columns, weights, rows=rows)
