"""Graphs of networkx, PyG and igraph, and GraphML files, which networkx reads."""

from __future__ import annotations

import io
import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from l2g2g.errors import InputError, ResourceError, first_line, one_line
from l2g2g.graphs.archives import check_unpacked_size, open_bytes
from l2g2g.graphs.formats import AS_FOUND, IdChoice, TableOptions
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.node_ids import (
    as_integers,
    as_node_ids,
    check_unique,
    integers_or_text,
    refuse_negative,
)
from l2g2g.graphs.read_edges import (
    edge_columns,
)
from l2g2g.graphs.read_features import VectorTable, read_features

_BYTES_PER_BYTE = 12  # of memory, as Python objects, for a byte of the file
_log = logging.getLogger(__name__)


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


def read_graphml(
    path: Path, *, directed: bool = False, tables: TableOptions = AS_FOUND, memory_limit: int | None = None
) -> Graph:
    """The nodes, edges and edge attribute `weight` of a GraphML file; ids follow the rule for edge lists.

    Other attributes are left out, and that is logged.
    """
    replace(tables, ids=None).refuse_for_edges(str(path))
    check_unpacked_size(path, None if memory_limit is None else memory_limit // _BYTES_PER_BYTE)
    found = _parse(path)
    if found.number_of_nodes() == 0:
        raise InputError(f"{path}: holds no nodes; it needs a graph of at least one edge")
    attributes = {name for _, values in found.nodes(data=True) for name in values}
    left_out = f", node attributes {', '.join(sorted(map(str, attributes)))} left out" if attributes else ""
    is_weighted = all("weight" in values for *_, values in found.edges(data=True)) and found.number_of_edges() > 0
    weight = ", weight weight" if is_weighted else ""
    _log.info("%s", one_line(f"read {path}: GraphML{weight}{left_out}"))
    try:
        return graph_from_networkx(
            found,
            directed=directed,
            source_name=str(path),
            node_ids=_node_ids(found, path, tables.ids),
            with_features=False,
            with_labels=False,
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {one_line(str(error))}; weights must be positive numbers") from error


def _parse(path: Path) -> Any:
    try:
        import networkx as nx
    except ImportError as error:
        raise ResourceError(f"{path}: GraphML is read by networkx: pip install 'l2g2g[tables]'") from error
    with open_bytes(path) as stream:
        content = stream.read()
    if b"<!ENTITY" in content:
        raise InputError(f"{path}: defines XML entities, which are not read; write it without them")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about ports and hyperedges, which are no edges here
            return nx.read_graphml(io.BytesIO(content), node_type=str)
    except MemoryError as error:
        raise ResourceError(f"{path}: does not fit into memory") from error
    except Exception as error:  # of networkx and of its XML parser, of many kinds
        raise InputError(f"{path}: is no GraphML file ({first_line(error)}); write it again") from error


def _node_ids(found: Any, path: Path, ids: IdChoice | None) -> np.ndarray:
    names = pa.chunked_array([pa.array([str(name) for name in found.nodes], pa.string())])
    if ids == "integer":
        names = as_integers(names, str(path), _name_node)
    elif ids is None:
        names = integers_or_text(names)
    node_ids = as_node_ids(names.to_numpy(), str(path))
    refuse_negative(node_ids, str(path), _name_node)
    return node_ids


def _name_node(row: int) -> str:
    return f"node {row + 1} of the file"


def graph_from_pyg(data: Any, vectors: VectorTable | None, directed: bool) -> Graph:
    """A PyG `Data`, known by its attributes so that PyG need not be installed."""
    if data.edge_index is None:
        raise InputError("the PyG graph has no edge_index; give it one")
    sources, targets = edge_columns(data.edge_index.detach().cpu().numpy())
    weights = getattr(data, "edge_weight", None)
    own = getattr(data, "x", None)
    features = read_features(own).vectors if own is not None and vectors is None else None
    labels = getattr(data, "y", None)
    labels = None if labels is None else np.asarray(labels.detach().cpu())
    num_nodes = data.num_nodes
    names = getattr(data, "node_id", None)
    node_ids = None if names is None else as_node_ids(names if isinstance(names, list) else names.numpy(), "node_id")
    if node_ids is not None:
        check_unique(node_ids, "node_id")
    return Graph.from_arcs(
        sources,
        targets,
        None if weights is None else weights.detach().cpu().numpy(),
        num_nodes=None if num_nodes is None else int(num_nodes),
        features=features,
        node_ids=node_ids,
        labels=labels if labels is not None and labels.dtype.kind in "iu" and labels.shape == (num_nodes,) else None,
        name="PyG graph",
        directed=directed,
    )


def graph_from_igraph(source: Any, directed: bool) -> Graph:
    """An igraph graph, known by its methods: the vertex attribute `name` as ids, the edge attribute `weight`."""
    if directed and not source.is_directed():
        raise InputError("the igraph graph is undirected; give a directed one, or leave directed out")
    edges = np.array(source.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    node_ids = None
    if "name" in source.vs.attributes():
        node_ids = as_node_ids(list(source.vs["name"]), "igraph graph")
        check_unique(node_ids, "igraph graph")
    weights = source.es["weight"] if "weight" in source.es.attributes() else None
    return Graph.from_arcs(
        edges[:, 0],
        edges[:, 1],
        None if weights is None else np.array(weights, dtype=np.float64),
        num_nodes=source.vcount(),
        node_ids=node_ids,
        name="igraph graph",
        directed=directed,
    )
