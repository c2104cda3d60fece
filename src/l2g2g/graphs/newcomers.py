"""Newcomers: nodes that come to a graph later, with their features and their edges to those who are there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Features, Graph, check_features, check_weights, restrict
from l2g2g.graphs.node_ids import find_rows


@dataclass(frozen=True, eq=False)
class Newcomers:
    """New nodes beside known ones. Edges between known nodes are not among it.

    Attributes:
        to_known: (num_new, num_known) CSR weights of the edges to known nodes.
        among: (num_new, num_new) symmetric CSR weights of the edges between new nodes, no diagonal.
        features: (num_new, num_features) float32, dense or CSR; None without features.
        name: What messages call them.
    """

    to_known: sp.csr_array
    among: sp.csr_array
    features: Features | None = None
    name: str = "new nodes"

    @property
    def num_new(self) -> int:
        """Number of new nodes."""
        return self.to_known.shape[0]

    @property
    def num_known(self) -> int:
        """Number of known nodes."""
        return self.to_known.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(num_new, num_known), what scikit-learn asks for."""
        return self.num_new, self.num_known

    @property
    def degrees(self) -> np.ndarray:
        """(num_new,) number of neighbours."""
        return np.diff(self.to_known.indptr) + np.diff(self.among.indptr)

    def propagation(self, known_degrees: np.ndarray) -> sp.csr_array:
        """(num_new, num_known + num_new) their rows of Â = D^(-1/2) (A + I) D^(-1/2) of the grown graph.

        known_degrees: (num_known,) sums of weights of the known nodes before, a loop of weight 1 counted.
        """
        both = sp.csr_array(sp.hstack([self.to_known, self.among + sp.eye_array(self.num_new)], format="csr"))
        grown = known_degrees + np.asarray(self.to_known.sum(axis=0)).ravel()
        scale = 1 / np.sqrt(np.concatenate([grown, np.asarray(both.sum(axis=1)).ravel()]))
        rows = np.repeat(np.arange(self.num_new), np.diff(both.indptr))
        values = both.data * scale[self.num_known + rows] * scale[both.indices]
        indptr, indices = both.indptr.astype(np.int32), both.indices.astype(np.int32)
        found = sp.csr_array((values.astype(np.float32), indices, indptr), shape=both.shape)
        found.sort_indices()
        return found

    def select(self, members: np.ndarray, known: np.ndarray) -> Newcomers:
        """Some of them beside some of the known nodes, by number. Features are left out."""
        to_known = sp.csr_array(self.to_known[members][:, known])
        return Newcomers(to_known, sp.csr_array(self.among[members][:, members]), None, self.name)


@dataclass(frozen=True, eq=False)
class Matched:
    """A graph whose nodes are known or new.

    Attributes:
        known: (num_nodes,) number of each node among the known ones, -1 for a new one.
        newcomers: The new ones, in the order of the graph.
    """

    known: np.ndarray
    newcomers: Newcomers

    @property
    def is_new(self) -> np.ndarray:
        """(num_nodes,) whether each node is new."""
        return self.known < 0


def match_nodes(graph: Graph, known_ids: np.ndarray | None, num_known: int, *, all_new: bool = False) -> Matched:
    """Tell known nodes from new ones: by ids where both sides have them, otherwise by number, known nodes first.

    known_ids: (num_known,) ids, or None where a node is its row number. all_new: none of them is known.
    """
    numbers = np.arange(graph.num_nodes)
    if all_new:
        known = np.full(graph.num_nodes, -1)
    elif graph.node_ids is not None and known_ids is not None:
        known = find_rows(graph.node_ids, known_ids)
    elif graph.num_nodes < num_known:
        raise InputError(
            f"{graph.name}: {graph.num_nodes:,} nodes that no ids tell apart, but the model knows {num_known:,}; give "
            f"the known nodes first, or say that no node of it is known (new_graph=True, --new-graph)"
        )
    else:
        known = np.where(numbers < num_known, numbers, -1)
    new = numbers[known < 0]
    rows = sp.csr_array(graph.adjacency[new])
    place = np.full(graph.num_nodes, -1)
    place[new] = np.arange(len(new))
    entries = np.repeat(np.arange(len(new)), np.diff(rows.indptr))
    is_known = known[rows.indices] >= 0
    parts = []
    for kept, columns, width in ((is_known, known, num_known), (~is_known, place, len(new))):
        ends = (entries[kept], columns[rows.indices[kept]])
        part = sp.csr_array((rows.data[kept], ends), shape=(len(new), width))
        part.sort_indices()
        parts.append(part)
    features = None if graph.features is None else graph.features[new]
    return Matched(known, Newcomers(parts[0], parts[1], features, graph.name))


def newcomers_from_matrix(matrix: sp.csr_array, features: Features | None = None, name: str = "matrix") -> Newcomers:
    """New nodes from (num_new, num_known) weights of their edges to known nodes."""
    matrix = sp.csr_array(matrix, dtype=np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    check_weights(matrix.data, matrix.nnz, name)
    num_new = matrix.shape[0]
    checked = None if features is None else check_features(features, num_new, name)
    return Newcomers(matrix, sp.csr_array((num_new, num_new), dtype=np.float32), checked, name)


def induce(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph of some nodes, in the given order, with the edges between them."""
    nodes = np.asarray(nodes)
    features, node_ids, labels = (
        None if part is None else part[nodes] for part in (graph.features, graph.node_ids, graph.labels)
    )
    adjacency = _sorted(graph.adjacency[nodes][:, nodes])
    arcs = None if graph.arcs is None else restrict(_sorted(graph.arcs[nodes][:, nodes]), adjacency)
    return Graph(adjacency, features, node_ids, labels, graph.name, graph.weighted, arcs=arcs)


def take(graph: Graph, rows: np.ndarray, columns: np.ndarray) -> Graph | Newcomers:
    """What scikit-learn cuts out of a matrix of pairs: the graph of some nodes, or new nodes (rows) beside others."""
    rows, columns = np.ravel(rows), np.ravel(columns)
    if np.array_equal(rows, columns):
        return induce(graph, rows)
    if len(np.intersect1d(rows, columns)):
        raise InputError(f"{graph.name}: rows and columns must be the same nodes, or share none (known and new ones)")
    features = None if graph.features is None else graph.features[rows]
    chosen = graph.adjacency[rows]
    return Newcomers(_sorted(chosen[:, columns]), _sorted(chosen[:, rows]), features, graph.name)


def _sorted(matrix: sp.csr_array) -> sp.csr_array:
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return sp.csr_array(
        (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)), shape=matrix.shape
    )
