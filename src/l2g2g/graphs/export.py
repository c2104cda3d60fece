"""Export of graphs to networkx and PyG, with vectors as node attributes; `read_graph` reads both back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.checks import find_classes

if TYPE_CHECKING:
    from l2g2g.graphs.graph import Graph


def to_networkx(graph: Graph, embedding: np.ndarray | None = None) -> Any:
    """A networkx graph, or a DiGraph of a directed one. Nodes are named by their ids, in order.

    Node attributes: `features` and `label` where the graph has them, and `embedding` where vectors (num_nodes, dim) are
    given. Edges have a `weight` where the graph has weights.
    """
    try:
        import networkx as nx
    except ImportError as error:
        raise InputError("networkx is not installed; install l2g2g[tables]") from error
    names = list(range(graph.num_nodes)) if graph.node_ids is None else graph.node_ids.tolist()
    columns: dict[str, list[Any]] = {}
    if graph.features is not None:
        columns["features"] = list(graph.features.toarray() if sp.issparse(graph.features) else graph.features)
    if graph.labels is not None:
        columns["label"] = graph.labels.tolist()
    if embedding is not None:
        columns["embedding"] = list(_check_rows(graph, embedding))
    result = nx.Graph() if graph.arcs is None else nx.DiGraph()
    for number, name in enumerate(names):
        result.add_node(name, **{title: values[number] for title, values in columns.items()})
    sources, targets, weights = _arcs(graph)
    ends = [(names[first], names[second]) for first, second in zip(sources.tolist(), targets.tolist(), strict=True)]
    if graph.weighted:
        pairs = zip(ends, weights.tolist(), strict=True)
        result.add_weighted_edges_from((first, second, weight) for (first, second), weight in pairs)
    else:
        result.add_edges_from(ends)
    return result


def to_pyg(graph: Graph, embedding: np.ndarray | None = None) -> Any:
    """A PyG `Data`: edge_index, and what there is of x, y, edge_weight and node_id.

    An undirected edge is there in both directions. Text labels become numbers, -1 where one is
    missing, with their names in `label_names`.
    embedding: vectors (num_nodes, dim), as `data.embedding`.
    """
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise InputError("torch_geometric is not installed; install l2g2g[pyg]") from error
    sources, targets, weights = _arcs(graph)
    if graph.arcs is None:
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
        weights = np.concatenate([weights, weights])
    data = Data(edge_index=torch.from_numpy(np.stack([sources, targets]).astype(np.int64)), num_nodes=graph.num_nodes)
    if graph.features is not None:
        dense = graph.features.toarray() if sp.issparse(graph.features) else graph.features
        data.x = torch.from_numpy(np.array(dense))
    if graph.weighted:
        data.edge_weight = torch.from_numpy(weights.astype(np.float32))
    if graph.labels is not None:
        is_number = graph.labels.dtype.kind in "iu"
        names, codes = (None, graph.labels) if is_number else find_classes(graph.labels)
        data.y = torch.from_numpy(codes.astype(np.int64))
        if names is not None:
            data.label_names = names.tolist()
    if graph.node_ids is not None:
        ids = graph.node_ids
        data.node_id = torch.from_numpy(ids) if ids.dtype.kind in "iu" else ids.tolist()
    if embedding is not None:
        data.embedding = torch.from_numpy(np.array(_check_rows(graph, embedding)))
    return data


def _arcs(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sources, targets, weights) of the arcs, or of each undirected edge once."""
    if graph.arcs is None:
        return *graph.edges(), graph.edge_weights()
    entries = graph.arcs.tocoo()
    return *entries.coords, entries.data


def _check_rows(graph: Graph, embedding: np.ndarray) -> np.ndarray:
    if embedding.ndim != 2 or len(embedding) != graph.num_nodes:
        raise InputError(f"{graph.name}: an embedding of shape {embedding.shape} for {graph.num_nodes:,} nodes")
    return np.asarray(embedding)
