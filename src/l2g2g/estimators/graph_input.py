"""Estimator input: what scikit-learn's users hand to an estimator, besides what `read_graph` reads.

scikit-learn knows matrices. For an estimator of graphs a matrix holds pairs, as a precomputed kernel does: `fit` takes
a square adjacency, and (num_new, num_known) weights are new nodes beside the known ones. Cross-validation cuts both out
of an adjacency, and out of a `Graph`, by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from l2g2g.errors import InputError
from l2g2g.graphs.arrow_tables import is_edge_table
from l2g2g.graphs.column_roles import names_ends
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.graph import Graph, NewNodes
from l2g2g.graphs.matrix_files import graph_from_adjacency
from l2g2g.graphs.new_nodes import new_nodes_from_matrix
from l2g2g.graphs.read import is_edge_list, read_graph

_MOST_EDGE_COLUMNS = 3  # source, target, weight
_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "ensure_non_negative": True}


def read_training(estimator: BaseEstimator, source: Any, *, directed: bool) -> Graph:
    """The graph to fit. Sets `n_features_in_`, and `feature_names_in_` where columns have names."""
    if not is_matrix(source):
        graph = read_graph(source, directed=directed)
        set_columns(estimator, graph)
        return graph
    matrix = validate_data(estimator, source, ensure_min_samples=2, **_CHECKS)
    return _from_matrix(matrix, directed)


def read_grown(
    estimator: BaseEstimator,
    source: Any,
    num_known: int,
    *,
    directed: bool,
    known_ids: np.ndarray | None = None,
    columns: FeatureColumns | None = None,
) -> Graph | NewNodes:
    """A graph of known and new nodes, or new nodes alone where a matrix has a column for every known node.

    known_ids, columns: as in `read_graph`.
    """
    if isinstance(source, NewNodes):
        return source
    if isinstance(source, tuple) and len(source) == 2 and is_matrix(source[0]) and source[1] is not None:
        matrix, features = source
        shape = _shape(matrix)
        if len(shape) == 2 and shape[0] != shape[1] and shape[1] == num_known:
            return new_nodes_from_matrix(check_array(matrix, **_CHECKS), features)
    if not is_matrix(source):
        return read_graph(source, directed=directed, known_ids=known_ids, columns=columns)
    shape = _shape(source)
    if len(shape) == 2 and shape[0] == shape[1] > num_known:
        return _from_matrix(check_array(source, **_CHECKS), directed)
    matrix = validate_data(estimator, source, reset=False, **_CHECKS)
    if matrix.shape[0] == matrix.shape[1]:
        return _from_matrix(matrix, directed)
    return new_nodes_from_matrix(sp.csr_array(matrix))


def set_columns(estimator: BaseEstimator, graph: Graph) -> None:
    """Note the width of the input: columns of the features, or of the adjacency where there are none."""
    estimator.n_features_in_ = graph.num_features or graph.num_nodes
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def is_matrix(source: Any) -> bool:
    """Whether this is a matrix of pairs, or a try at one, and not a list of edges or something else to read."""
    if sp.issparse(source):
        return True
    if isinstance(source, (str, Path, tuple, Graph, NewNodes)) or hasattr(source, "edge_index"):
        return False
    if is_edge_table(source):
        named = source if hasattr(source, "column_names") else None
        titles = [str(title) for title in (getattr(source, "columns", ()) if named is None else named.column_names)]
        return len(titles) > _MOST_EDGE_COLUMNS and not names_ends(titles)
    if is_edge_list(source):
        return False
    if not (isinstance(source, list) or hasattr(source, "__array__")):
        return False
    try:
        array = np.asarray(source)
    except ValueError:  # rows of different lengths: reported by the reader of matrices
        return True
    return not (array.ndim == 2 and 2 in array.shape and array.dtype.kind in "iu")


def _shape(source: Any) -> tuple[int, ...]:
    return tuple(source.shape) if hasattr(source, "shape") else np.asarray(source).shape


def _from_matrix(matrix: Any, directed: bool) -> Graph:
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"the matrix has shape {matrix.shape}; an adjacency is square, with one row and column per node. Edges are "
            f"given as integers, (2, num_edges) or (num_edges, 2)"
        )
    return graph_from_adjacency(sp.csr_array(matrix), source="adjacency", directed=directed)
