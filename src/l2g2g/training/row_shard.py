"""Row shard: a whole graph as one patch that ranks share by ranges of rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from l2g2g.models.local_rows import LocalRows
from l2g2g.parallel.node_directory import NodeDirectory
from l2g2g.parallel.node_table import NodeTable
from l2g2g.patches.overlap import PatchSet
from l2g2g.training.shard import Shard


class RowShard(Shard):
    """The rows of this rank; the one patch is on every rank.

    Args:
        rows: The training edges of this rank's nodes.
        patch_set: The whole graph as its only patch.
    """

    def __init__(self, rows: LocalRows, patch_set: PatchSet) -> None:
        super().__init__(patch_set, rows.communicator, np.zeros(1, np.int64))
        self.rows, self.patches = rows, np.array([0])
        self.nodes = np.arange(rows.low, rows.high)
        self._table = NodeTable(self.communicator, rows.owners, self.nodes)

    @property
    def table(self) -> NodeTable:
        """Rows of all nodes, of which this rank holds those it owns."""
        return self._table

    @cached_property
    def directory(self) -> NodeDirectory:
        """The same owners as the table has."""
        claims = np.full(len(self.nodes), self.communicator.rank)
        return NodeDirectory(self.communicator, self.patch_set.num_nodes, self.nodes, claims)
