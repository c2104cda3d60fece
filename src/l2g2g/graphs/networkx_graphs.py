"""Graphs of networkx: nodes, edges, weights and the attributes that `Graph.to_networkx` writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.node_ids import as_node_ids, check_unique


def graph_from_networkx(
    source: Any,
    *,
    directed: bool,
    source_name: str = "networkx graph",
    node_ids: np.ndarray | None = None,
    with_features: bool = True,
    with_labels: bool = True,
) -> Graph:
    """A networkx graph; nodes in its order, their names as ids, the attribute `weight` where all edges have it.

    `features` of the nodes are read where all nodes have them, `label` where some do (see `Graph.to_networkx`).

    source_name: what errors call it. node_ids: ids instead of the names. with_features, with_labels: whether these
    attributes are read.
    """
    if directed and not source.is_directed():
        raise InputError(f"{source_name}: is undirected; give a directed one (a DiGraph), or leave --directed out")
    names = list(source.nodes)
    numbers = {node: number for number, node in enumerate(names)}
    arcs = list(source.edges(data="weight", default=None))
    sources = np.array([numbers[first] for first, _, _ in arcs], dtype=np.int64)
    targets = np.array([numbers[second] for _, second, _ in arcs], dtype=np.int64)
    given = [weight for _, _, weight in arcs]
    weights = np.array(given) if given and all(weight is not None for weight in given) else None
    node_ids = as_node_ids(names, source_name) if node_ids is None else node_ids
    check_unique(node_ids, source_name)
    features = _attributes(source, "features") if with_features else None
    labels = _labels(source) if with_labels else None
    return Graph.from_arcs(
        sources,
        targets,
        weights,
        num_nodes=len(names),
        features=None if features is None else _stacked(features),
        node_ids=node_ids,
        labels=labels,
        name=source_name,
        directed=directed,
    )


def _attributes(source: Any, title: str) -> list[Any] | None:
    """An attribute of all nodes of a networkx graph in their order; None where one of them does not have it."""
    values = [value for _, value in source.nodes(data=title)]
    return values if values and all(value is not None for value in values) else None


def _labels(source: Any) -> np.ndarray | None:
    """(num_nodes,) the attribute `label`, -1 or "" where a node has none; None unless integers or text."""
    values = [value for _, value in source.nodes(data="label")]
    known = np.array([value for value in values if value is not None])
    if len(known) == 0 or known.dtype.kind not in "iuU":
        return None
    unknown = "" if known.dtype.kind == "U" else -1
    return np.array([unknown if value is None else value for value in values])


def _stacked(rows: list[Any]) -> np.ndarray:
    """(num_nodes, num_features) of one vector per node."""
    lengths = [np.shape(row) for row in rows]
    wrong = next((place for place, length in enumerate(lengths) if length != lengths[0] or len(length) != 1), None)
    if wrong is not None:
        raise InputError(
            f"networkx graph: the attribute 'features' of node number {wrong} has shape {lengths[wrong]}, that of the "
            f"first {lengths[0]}; give every node a vector of the same length, or call the attribute otherwise"
        )
    return np.stack([np.asarray(row) for row in rows])
