"""Row shard: a whole graph as one patch that ranks share by ranges of rows."""

from __future__ import annotations

import numpy as np

from l2g2g.models.local_rows import LocalRows
from l2g2g.parallel.node_table import NodeTable
from l2g2g.patches.overlap import whole_graph
from l2g2g.training.objective import GlobalLoss, GlobalPairs, NodeSample
from l2g2g.training.pair_source import PairSource
from l2g2g.training.shard import Shard
from l2g2g.training.stored_pairs import StoredPairs


class RowShard(Shard):
    """The rows of this rank; the one patch is on every rank.

    Args:
        rows: The training edges of this rank's nodes.
    """

    def __init__(self, rows: LocalRows) -> None:
        super().__init__(whole_graph(rows.num_nodes), rows.communicator, np.zeros(1, np.int64))
        self.rows, self.patches = rows, np.array([0])
        self._table = NodeTable(self.communicator, rows.owners, np.arange(rows.low, rows.high))

    @property
    def table(self) -> NodeTable:
        """Rows of all nodes, of which this rank holds those it owns."""
        return self._table

    def pair_loss(self, pairs: PairSource | StoredPairs) -> GlobalPairs:
        """The loss of sampled pairs of all nodes, of which each rank draws those whose first node it owns."""
        return GlobalPairs(self.table, self._shares, pairs)

    def sample_loss(self, degrees: np.ndarray) -> GlobalLoss:
        """The loss of every pair of a node sample, or of all nodes. degrees: (num_nodes,) edges of every node."""
        return NodeSample(self.table, self._shares, self.rows, degrees)

    @property
    def _shares(self) -> np.ndarray:
        return np.ones(self.rows.num_owned, np.float32)
