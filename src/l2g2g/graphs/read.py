"""From a file, a name or an object of another library to a checked Graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.archives import check_unpacked_size
from l2g2g.graphs.datasets import load_dataset
from l2g2g.graphs.edge_table import EdgeTable
from l2g2g.graphs.graph import Graph, check_features
from l2g2g.graphs.graphsaint import is_graphsaint_folder, read_graphsaint
from l2g2g.graphs.node_ids import as_node_ids, as_text, check_unique, quoted, refuse_negative
from l2g2g.graphs.npy_edges import edge_columns, open_npy_edges
from l2g2g.graphs.read_edges import edges_from_table, is_edge_table, read_parquet_edges, read_text_edges
from l2g2g.graphs.read_features import read_features
from l2g2g.graphs.read_npz import graph_from_adjacency, read_npz_graph
from l2g2g.graphs.text_tables import is_text_file
from l2g2g.graphs.vector_table import VectorTable

GRAPH_ENDINGS = ".npz, .npy, .csv, .tsv, .txt (also .gz) or .parquet"


def read_graph(
    source: Any,
    features: Any = None,
    *,
    name: str | None = None,
    data_dir: str | Path | None = None,
    seed: int = 0,
    directed: bool = False,
    memory_limit: int | None = None,
    known_ids: np.ndarray | None = None,
) -> Graph:
    """Read a graph from wherever it is.

    Args:
        source: A path (`.npz`; an edge list `.csv`, `.tsv`, `.txt`, also `.gz`; `.parquet`; node numbers in
            an `.npy`; a folder of GraphSAINT's files), the name of a dataset, a Graph, a SciPy sparse matrix,
            edges as an integer array (2, num_edges) or (num_edges, 2), a pair (edges, features), a networkx
            graph, a PyG `Data`, a pandas DataFrame or an Arrow table of two or three columns (source, target,
            weight). A file wins over a dataset of the same name; a (2, 2) array is taken as two columns of edges.
        features: A path (`.npy`, `.npz`: rows by node number; `.csv`, `.parquet`: an id column first), an
            array or sparse matrix (rows by node number, or in the order of the nodes of a networkx
            graph), or a table with an id column first. They replace features that the source has.
        name: What to call the graph; by default after its file.
        data_dir: Where named datasets are looked for.
        seed: Of the draw, where the source is the name of a block model.
        directed: Keep the directions of the edges, from source to target (rows to columns of a matrix).
        memory_limit: Bytes that a file may unpack to; by default the free memory of the machine.
        known_ids: Nodes that need no row in a feature table; they get zeros, which nobody should read.

    Returns:
        The graph. Nodes keep their numbers; for edge lists they follow the order of first appearance,
        with the ids in `node_ids`, unless features come by node number: then the ids are these numbers.
        Ids in text are integers where every id is written as one; otherwise all are text: "001" is not "1".
        Nodes of a feature table that no edge names come last, as isolated nodes.

    Raises:
        InputError: The input cannot be used as it is; the message names the file, the row and the remedy.

    Example:
        >>> import numpy as np
        >>> graph = read_graph((np.array([[0, 1], [1, 2], [2, 0]]), np.eye(3)))
        >>> graph.num_nodes, graph.num_edges, graph.num_features
        (3, 3, 3)
    """
    if isinstance(source, tuple) and len(source) == 2:
        source, own_features = source
        features = own_features if features is None else features
    vectors = None if features is None else replace(read_features(features, memory_limit), spared=known_ids)
    if is_edge_table(source):
        return _from_edges(edges_from_table(source, name or "edge table"), vectors, name or "graph", directed)
    if isinstance(source, (str, Path)):
        if is_graphsaint_folder(Path(source)):
            return _with_features(read_graphsaint(Path(source), directed=directed), vectors, name)
        path = find_graph_file(source)
        if path is not None:
            return _read_file(path, vectors, name, memory_limit, directed, known_ids)
        return _with_features(load_dataset(str(source), data_dir, seed, directed=directed), vectors, name)
    return _with_features(*_from_object(source, vectors, directed), name)


def find_graph_file(source: str | Path) -> Path | None:
    """The file that is meant, or None where it must be the name of a dataset."""
    path = Path(source)
    if path.is_file():
        return path
    if isinstance(source, Path) or path.suffix or path.parent != Path("."):
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give a file ({GRAPH_ENDINGS})")
        raise InputError(f"{path}: no such file")
    return None


def _read_file(
    path: Path,
    vectors: VectorTable | None,
    name: str | None,
    memory_limit: int | None,
    directed: bool,
    known_ids: np.ndarray | None,
) -> Graph:
    ending = path.suffix.lower()
    check_ending(path)
    check_unpacked_size(path, memory_limit)
    name = name or path.name.split(".")[0] or path.name
    if ending == ".npz":
        return _with_features(read_npz_graph(path, directed=directed), vectors, name)
    if ending == ".npy":
        num_nodes = vectors.vectors.shape[0] if vectors is not None and vectors.ids is None else None
        sources, targets = open_npy_edges(path, num_nodes).collected()
        graph = Graph.from_arcs(sources, targets, num_nodes=num_nodes, name=str(path), directed=directed)
        return _with_features(graph, vectors, name)
    if ending == ".parquet":
        return _from_edges(read_parquet_edges(path, memory_limit), vectors, name, directed)
    nodes = [ids for ids in (known_ids, None if vectors is None else vectors.ids) if ids is not None]
    return _from_edges(read_text_edges(path, nodes), vectors, name, directed)


def check_ending(path: Path) -> None:
    """Refuse a file that no reader is for."""
    if path.suffix.lower() not in (".npz", ".npy", ".parquet") and not is_text_file(path):
        raise InputError(f"{path}: unknown ending of a graph; use {GRAPH_ENDINGS}")


def _from_edges(edges: EdgeTable, vectors: VectorTable | None, name: str, directed: bool) -> Graph:
    """Number the nodes of an edge table and join its features."""
    source_name = edges.source_name
    if vectors is not None and vectors.ids is None:
        num_nodes = vectors.vectors.shape[0]
        sources, targets = edges.as_node_numbers(num_nodes, vectors.source_name)
        features = check_features(vectors.vectors, num_nodes, vectors.source_name)
        graph = Graph.from_arcs(
            sources,
            targets,
            edges.weights,
            num_nodes=num_nodes,
            features=features,
            name=source_name,
            directed=directed,
        )
        return graph.renamed(name)
    sources, targets, node_ids = edges.numbered()
    features = None
    if vectors is not None and vectors.ids is not None:
        if edges.has_integer_ids:
            refuse_negative(vectors.ids, vectors.source_name, vectors.row_name)
        node_ids = _joined(node_ids, vectors.ids_beyond(node_ids))
        features = vectors.by_node(node_ids, source_name)
    graph = Graph.from_arcs(
        sources,
        targets,
        edges.weights,
        num_nodes=len(node_ids),
        features=features,
        node_ids=node_ids,
        name=source_name,
        directed=directed,
    )
    return graph.renamed(name)


def _joined(node_ids: np.ndarray, more: np.ndarray) -> np.ndarray:
    if len(more) == 0:
        return node_ids
    if node_ids.dtype.kind != more.dtype.kind:
        node_ids, more = as_text(node_ids), as_text(more)
    return np.concatenate([node_ids, more])


def _with_features(graph: Graph, vectors: VectorTable | None, name: str | None) -> Graph:
    """The same graph with other features, where some are given, and another name."""
    graph = graph if name is None else graph.renamed(name)
    if vectors is None:
        return graph
    if vectors.ids is None:
        return replace(graph, features=check_features(vectors.vectors, graph.num_nodes, vectors.source_name))
    node_ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    unknown = vectors.ids_beyond(node_ids)
    if len(unknown):
        raise InputError(
            f"{vectors.source_name}: {len(vectors.ids):,} feature rows but {graph.num_nodes:,} nodes in {graph.name}: "
            f"{quoted(unknown[0])} is no node of the graph; drop that row or correct the id"
        )
    return replace(graph, features=vectors.by_node(node_ids, graph.name))


def _from_object(source: Any, vectors: VectorTable | None, directed: bool) -> tuple[Graph, VectorTable | None]:
    """A graph from an object in memory, and the features that still have to be joined to it."""
    if isinstance(source, Graph):
        if directed and not source.directed:
            raise InputError(f"{source.name}: its directions were joined when it was read; read it with directed=True")
        return source, vectors
    if sp.issparse(source):
        return graph_from_adjacency(source, directed=directed), vectors
    if hasattr(source, "edge_index"):
        return _from_pyg(source, vectors, directed), vectors
    if hasattr(source, "adj") and hasattr(source, "edges") and hasattr(source, "nodes"):
        return _from_networkx(source, vectors, directed), vectors
    if isinstance(source, (np.ndarray, list)) or type(source).__module__.split(".")[0] == "torch":
        num_nodes = vectors.vectors.shape[0] if vectors is not None and vectors.ids is None else None
        sources, targets = edge_columns(source)
        return Graph.from_arcs(sources, targets, num_nodes=num_nodes, directed=directed), vectors
    raise InputError(
        f"cannot read a graph from {type(source).__name__}; give a path, a dataset name, a SciPy matrix, "
        f"(edges, features), an edge table, or a networkx or PyG graph"
    )


def _from_pyg(data: Any, vectors: VectorTable | None, directed: bool) -> Graph:
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


def _from_networkx(source: Any, vectors: VectorTable | None, directed: bool) -> Graph:
    """A networkx graph; nodes in its order, their names as ids, the attribute `weight` where all edges have it.

    So with `features` and `label` of the nodes, as `Graph.to_networkx` writes them.
    """
    if directed and not source.is_directed():
        raise InputError("the networkx graph is undirected; give a DiGraph, or leave directed out")
    names = list(source.nodes)
    numbers = {node: number for number, node in enumerate(names)}
    arcs = list(source.edges(data="weight", default=None))
    sources = np.array([numbers[first] for first, _, _ in arcs], dtype=np.int64)
    targets = np.array([numbers[second] for _, second, _ in arcs], dtype=np.int64)
    given = [weight for _, _, weight in arcs]
    weights = np.array(given) if given and all(weight is not None for weight in given) else None
    node_ids = as_node_ids(names, "networkx graph")
    check_unique(node_ids, "networkx graph")
    features = _attributes(source, "features") if vectors is None else None
    labels = np.array(_attributes(source, "label"))
    return Graph.from_arcs(
        sources,
        targets,
        weights,
        num_nodes=len(names),
        features=None if features is None else _stacked(features),
        node_ids=node_ids,
        labels=labels if labels.dtype.kind in "iuU" else None,
        name="networkx graph",
        directed=directed,
    )


def _attributes(source: Any, title: str) -> list[Any] | None:
    """An attribute of all nodes of a networkx graph in their order; None where one of them does not have it."""
    values = [value for _, value in source.nodes(data=title)]
    return values if values and all(value is not None for value in values) else None


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
