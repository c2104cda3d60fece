"""From a file, a name or an object of another library to a checked Graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.archives import check_unpacked_size, is_parquet, text_parts
from l2g2g.graphs.arrow_tables import is_edge_table
from l2g2g.graphs.checks import check_features, check_labels
from l2g2g.graphs.column_roles import PLACEHOLDERS, log_placeholders
from l2g2g.graphs.datasets import load_dataset
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.formats import AS_FOUND, TableOptions, describe_endings, whole_reader
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.matrix_files import graph_from_adjacency, is_graphsaint_folder, read_graphsaint
from l2g2g.graphs.node_ids import as_node_ids, as_text, check_unique, quoted, refuse_negative
from l2g2g.graphs.node_tables import EDGES, is_table_folder, open_node_table
from l2g2g.graphs.other_libraries import graph_from_igraph, graph_from_networkx, graph_from_pyg
from l2g2g.graphs.read_edges import (
    EdgeTable,
    edge_columns,
    edges_from_pairs,
    edges_from_table,
    open_npy_edges,
    read_parquet_edges,
    read_text_edges,
)
from l2g2g.graphs.read_features import VectorTable, read_features
from l2g2g.graphs.text_tables import is_text_table

GRAPH_ENDINGS = describe_endings()


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
    tables: TableOptions = AS_FOUND,
    columns: FeatureColumns | None = None,
) -> Graph:
    """Read a graph from wherever it is.

    Args:
        source: A path (an edge list `.csv`, `.tsv`, `.txt`, also `.gz`; `.parquet`; a folder of `.csv` or `.parquet`
            parts; `.npz`; node numbers in an `.npy`; Matrix Market `.mtx`; `.graphml`; a folder of GraphSAINT's files,
            or one of `edges.parquet` and `nodes.parquet` that another engine wrote: see `node_tables`), the name of
            a dataset, a Graph, a SciPy sparse matrix, a list of (u, v) or (u, v, weight), edges as an integer array
            (2, num_edges) or (num_edges, 2), a pair (edges, features), a networkx or igraph graph, a PyG `Data`, or a
            table of pandas, polars, Arrow or any library with the Arrow C stream interface, of source, target and
            perhaps weight. A file wins over a dataset of the same name; a (2, 2) array is two columns of edges.
        features: A path (`.npy`, `.npz`: rows by node number; `.csv`, `.parquet`: an id column first), an
            array or sparse matrix (rows by node number, or in the order of the nodes of a networkx
            graph), or a table with an id column first. Columns of text become one column for each value. They
            replace features that the source has.
        name: What to call the graph; by default after its file.
        data_dir: Where named datasets are looked for.
        seed: Of the draw, where the source is the name of a block model.
        directed: Keep the directions of the edges, from source to target (rows to columns of a matrix).
        memory_limit: Bytes that a file may unpack to; by default the free memory of the machine.
        known_ids: Nodes that need no row in a feature table; they get zeros, which are not read.
        tables: What is said about the columns of edge list and feature table: see `TableOptions`.
        columns: Of the feature table that a model was trained on, to read this one in the same way.

    Returns:
        The graph. Nodes keep their numbers; for edge lists they follow the order of first appearance, for a folder
        of parts the order of their ids (text by its bytes), with the ids in `node_ids`, unless features come by node
        number: then the ids are these numbers.
        Ids in text are integers where every id is written as one; otherwise all are text: "001" is not "1".
        Nodes of a feature table that no edge names come last, in a folder of parts in their order, as isolated nodes.

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
    vectors = None
    if features is None:
        tables.refuse_for_features(str(source) if isinstance(source, (str, Path)) else "the graph")
    else:
        vectors = replace(read_features(features, memory_limit, tables, columns), spared=known_ids)
    if is_edge_table(source):
        return _from_edges(edges_from_table(source, name or "edge table", tables), vectors, name or "graph", directed)
    if isinstance(source, (str, Path)):
        path = None if is_graphsaint_folder(Path(source)) else find_graph_file(source)
        if path is not None:
            return _read_file(path, vectors, name, memory_limit, directed, known_ids, tables)
        tables.refuse_for_edges(str(source))
        if is_graphsaint_folder(Path(source)):
            return _with_features(read_graphsaint(Path(source), directed=directed), vectors, name)
        return _with_features(load_dataset(str(source), data_dir, seed, directed=directed), vectors, name)
    tables.refuse_for_edges(type(source).__name__)
    if is_edge_list(source):
        return _from_edge_list(source, vectors, name, directed)
    return _with_features(*_from_object(source, vectors, directed), name)


def find_graph_file(source: str | Path) -> Path | None:
    """The file that is meant, or the folder of parts; None where it must be the name of a dataset."""
    path = Path(source)
    if path.is_file() or is_table_folder(path):
        return path
    if path.is_dir():
        parts = text_parts(path)
        if parts and is_parquet(path):
            raise InputError(
                f"{path}: holds {parts[0].name} beside Parquet parts; keep parts of one kind there, or give a file"
            )
        if parts or is_parquet(path):
            return path
    if isinstance(source, Path) or path.suffix or path.parent != Path("."):
        if path.is_dir():
            raise InputError(f"{path}: is a folder without .csv or .parquet parts; give a file ({GRAPH_ENDINGS})")
        raise InputError(f"{path}: no such file")
    return None


def is_streamed(path: Path) -> bool:
    """Whether a graph file is read piece by piece, so that it may be larger than memory."""
    return is_parquet(path) or is_text_table(path) or path.suffix.lower() == ".npy"


def is_edge_list(source: Any) -> bool:
    """Whether this is a list of (u, v) or (u, v, weight): of tuples, or with text among its ids.

    A list of lists of numbers may be a matrix, and is read as NumPy reads it.
    """
    if not isinstance(source, list) or not source or not all(isinstance(edge, (tuple, list)) for edge in source):
        return False
    return isinstance(source[0], tuple) or any(isinstance(part, str) for edge in source for part in edge[:2])


def _from_edge_list(edges: list[Any], vectors: VectorTable | None, name: str | None, directed: bool) -> Graph:
    """Integers are node numbers, as in an array; text, and integers beside text, are ids."""
    table = edges_from_pairs(edges)
    if not table.has_integer_ids:
        return _from_edges(table, vectors, name or "graph", directed)
    num_nodes = vectors.vectors.shape[0] if vectors is not None and vectors.ids is None else None
    ends = table.sources.to_numpy(), table.targets.to_numpy()
    graph = Graph.from_arcs(*ends, table.weights, num_nodes=num_nodes, directed=directed)
    return _with_features(graph, vectors, name)


def _read_file(
    path: Path,
    vectors: VectorTable | None,
    name: str | None,
    memory_limit: int | None,
    directed: bool,
    known_ids: np.ndarray | None,
    tables: TableOptions,
) -> Graph:
    check_ending(path)
    check_unpacked_size(path, memory_limit)
    name = name or path.name.split(".")[0] or path.name
    if is_table_folder(path):
        return _from_tables(path, vectors, name, memory_limit, directed, tables)
    if is_parquet(path):
        edges = read_parquet_edges(path, memory_limit, tables)
        return _from_edges(edges, vectors, name, directed, by_id=path.is_dir())
    if is_text_table(path):
        nodes = [ids for ids in (known_ids, None if vectors is None else vectors.ids) if ids is not None]
        return _from_edges(read_text_edges(path, nodes, tables), vectors, name, directed, by_id=path.is_dir())
    read_whole = whole_reader(path)
    if read_whole is not None:
        graph = read_whole(path, directed=directed, tables=tables, memory_limit=memory_limit)
        return _with_features(graph, vectors, name)
    tables.refuse_for_edges(str(path))
    num_nodes = vectors.vectors.shape[0] if vectors is not None and vectors.ids is None else None
    sources, targets = open_npy_edges(path, num_nodes).collected()
    graph = Graph.from_arcs(sources, targets, num_nodes=num_nodes, name=str(path), directed=directed)
    return _with_features(graph, vectors, name)


def _from_tables(
    folder: Path,
    vectors: VectorTable | None,
    name: str,
    memory_limit: int | None,
    directed: bool,
    tables: TableOptions,
) -> Graph:
    """The graph of an edge table and a node table that another engine wrote."""
    refuse_for_tables(folder, vectors, tables)
    nodes = open_node_table(folder, memory_limit)
    node_ids = np.concatenate([as_node_ids(ids.to_numpy(), nodes.source_name) for ids in nodes.id_batches()])
    check_unique(node_ids, nodes.source_name)
    edges = read_parquet_edges(folder / EDGES, memory_limit)
    sources, targets = edges.as_node_numbers(len(node_ids), nodes.source_name)
    graph = Graph.from_arcs(
        sources,
        targets,
        edges.weights,
        num_nodes=len(node_ids),
        features=np.concatenate(list(nodes.batches())) if nodes.num_features else None,
        node_ids=node_ids,
        name=str(folder),
        directed=directed,
    )
    return graph.renamed(name)


def refuse_for_tables(folder: Path, features: object, tables: TableOptions) -> None:
    """Refuse what says how files are read, for tables whose columns are fixed."""
    if features is not None:
        raise InputError(f"{folder}: its node table has the features; leave --features out")
    tables.refuse_for_edges(f"{folder}: a folder of edge and node tables")


def check_ending(path: Path) -> None:
    """Refuse a file that no reader is for."""
    if not is_streamed(path) and whole_reader(path) is None:
        raise InputError(f"{path}: unknown ending of a graph; use {GRAPH_ENDINGS}")


def _from_edges(
    edges: EdgeTable, vectors: VectorTable | None, name: str, directed: bool, *, by_id: bool = False
) -> Graph:
    """Number the nodes of an edge table and join its features.

    by_id: number them by id and not in the order of first appearance, so that the order of parts does not matter.
    """
    source_name, node_ids, features, labels = edges.source_name, None, None, None
    if vectors is not None and vectors.ids is None:
        num_nodes = vectors.vectors.shape[0]
        sources, targets = edges.as_node_numbers(num_nodes, vectors.source_name)
        features = check_features(vectors.vectors, num_nodes, vectors.source_name)
    else:
        sources, targets, node_ids = edges.numbered()
        if not edges.has_integer_ids:
            log_placeholders(source_name, set(PLACEHOLDERS).intersection(node_ids))
        if vectors is not None and vectors.ids is not None:
            if edges.has_integer_ids:
                refuse_negative(vectors.ids, vectors.source_name, vectors.row_name)
            node_ids = _joined(node_ids, vectors.ids_beyond(node_ids))
        if by_id:
            order = np.argsort(node_ids)  # text by code points, which is the order of its bytes in UTF-8
            numbers = np.argsort(order)
            sources, targets, node_ids = numbers[sources], numbers[targets], node_ids[order]
        if vectors is not None:
            features, labels = _joined_rows(vectors, node_ids, source_name)
        num_nodes = len(node_ids)
    graph = Graph.from_arcs(
        sources,
        targets,
        edges.weights,
        num_nodes=num_nodes,
        features=features,
        node_ids=node_ids,
        labels=labels,
        name=source_name,
        directed=directed,
    )
    return replace(graph.renamed(name), columns=None if vectors is None else vectors.columns)


def _joined_rows(
    vectors: VectorTable, node_ids: np.ndarray, graph_name: str
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Features and labels of these nodes; a table of labels alone has no features."""
    labels = vectors.labels_by_node(node_ids)
    if vectors.vectors.shape[1] == 0:
        return None, labels
    return vectors.by_node(node_ids, graph_name), labels


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
    features, labels = _joined_rows(vectors, node_ids, graph.name)
    return replace(
        graph,
        features=graph.features if features is None else features,
        labels=graph.labels if labels is None else check_labels(labels, graph.num_nodes, graph.name),
        columns=vectors.columns,
    )


def _from_object(source: Any, vectors: VectorTable | None, directed: bool) -> tuple[Graph, VectorTable | None]:
    """A graph from an object in memory, and the features that still have to be joined to it."""
    if isinstance(source, Graph):
        if directed and not source.directed:
            raise InputError(f"{source.name}: its directions were joined when it was read; read it with directed=True")
        return source, vectors
    if sp.issparse(source):
        return graph_from_adjacency(source, directed=directed), vectors
    if hasattr(source, "edge_index"):
        return graph_from_pyg(source, vectors, directed), vectors
    if hasattr(source, "adj") and hasattr(source, "edges") and hasattr(source, "nodes"):
        return graph_from_networkx(source, directed=directed, with_features=vectors is None), vectors
    if hasattr(source, "get_edgelist") and hasattr(source, "vs"):
        return graph_from_igraph(source, directed), vectors
    if isinstance(source, (np.ndarray, list)) or type(source).__module__.split(".")[0] == "torch":
        num_nodes = vectors.vectors.shape[0] if vectors is not None and vectors.ids is None else None
        sources, targets = edge_columns(source)
        return Graph.from_arcs(sources, targets, num_nodes=num_nodes, directed=directed), vectors
    raise InputError(
        f"cannot read a graph from {type(source).__name__}; give a path, a dataset name, a SciPy matrix, "
        f"(edges, features), a list of edges, an edge table, or a networkx, igraph or PyG graph"
    )
