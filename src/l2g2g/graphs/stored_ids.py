"""Stored ids: the ids of the nodes of a graph on disk, read some at a time; like an array where one is sliced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.store import StoredGraph


@dataclass(frozen=True)
class StoredIds:
    """The ids of a graph on disk that has some."""

    graph: StoredGraph

    def __len__(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    def __getitem__(self, part: slice) -> np.ndarray:
        """Some ids, integers or text."""
        low, high, _ = part.indices(len(self))
        ids = self.graph.read_node_ids(low, high)
        assert ids is not None
        return ids


NodeIds = np.ndarray | StoredIds


def node_ids_of(graph: GraphStore) -> NodeIds | None:
    """The ids of a graph in memory or on disk; None where a node is its row number."""
    if graph.stored is None:
        return graph.to_graph().node_ids
    return StoredIds(graph.stored) if graph.stored.has_node_ids else None


def read_node_ids(graph: GraphStore) -> np.ndarray | None:
    """The same in memory."""
    ids = node_ids_of(graph)
    return None if ids is None else ids[:]
