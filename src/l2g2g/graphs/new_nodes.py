"""New nodes: find the nodes of a graph that a model does not know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import sort_columns
from l2g2g.graphs.checks import check_features, check_weights
from l2g2g.graphs.graph import Features, NewNodes
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.node_ids import find_rows
from l2g2g.graphs.store import read_node_ids


@dataclass(frozen=True, eq=False)
class Matched:
    """A graph with known and new nodes.

    Attributes:
        known: (num_nodes,) number of each node among the known ones, -1 for a new node.
        new_nodes: The new nodes, in the order of the graph.
    """

    known: np.ndarray
    new_nodes: NewNodes

    @property
    def is_new(self) -> np.ndarray:
        """(num_nodes,) True for new nodes."""
        return self.known < 0


def match_nodes(graph: GraphStore, known_ids: np.ndarray | None, num_known: int, *, all_new: bool = False) -> Matched:
    """Find the new nodes by ids where the graph has them; otherwise known nodes come first, by number.

    known_ids: (num_known,) ids, or None where the id of a node is its number. all_new: no node is known.
    """
    ids = None if all_new else read_node_ids(graph)
    if all_new:
        known = np.full(graph.num_nodes, -1)
    elif ids is not None:
        known = find_rows(ids, np.arange(num_known) if known_ids is None else known_ids)
    elif graph.num_nodes < num_known:
        raise InputError(
            f"{graph.name}: {graph.num_nodes:,} nodes that no ids tell apart, but the model knows {num_known:,}; give "
            f"the known nodes first, or say that no node of it is known (new_graph=True, --new-graph)"
        )
    else:
        known = np.arange(graph.num_nodes)
        known[num_known:] = -1
    new, old = np.flatnonzero(known < 0), np.flatnonzero(known >= 0)
    rows = sp.csr_array(graph.read_adjacency_of(new))
    renumbered = sp.csr_array((np.ones(len(old), np.float32), (old, known[old])), shape=(graph.num_nodes, num_known))
    features = graph.read_features(new) if graph.num_features else None
    new_nodes = NewNodes(sort_columns(rows @ renumbered), sort_columns(rows[:, new]), features, graph.name)
    return Matched(known, new_nodes)


def new_nodes_from_matrix(matrix: sp.csr_array, features: Features | None = None) -> NewNodes:
    """Create new nodes from (num_new, num_known) weights of their edges to known nodes."""
    matrix = sp.csr_array(matrix, dtype=np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    check_weights(matrix.data, matrix.nnz, "matrix")
    num_new = matrix.shape[0]
    checked = None if features is None else check_features(features, num_new, "matrix")
    return NewNodes(matrix, sp.csr_array((num_new, num_new), dtype=np.float32), checked, "matrix")
