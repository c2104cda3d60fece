"""NumPy archives as graphs and as feature matrices: CSR under adj_* and attr_*, or SciPy's own layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.archives import load_arrays
from l2g2g.graphs.checks import check_labels
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.node_ids import as_node_ids, check_unique
from l2g2g.graphs.table_options import AS_FOUND, TableOptions

Arrays = dict[str, np.ndarray]
# Names of nodes, columns and classes in the published archives; nothing here needs them.
_NAMES = ("node_names", "attr_names", "class_names", "idx_to_node", "idx_to_attr", "idx_to_class")


def read_npz_file(
    path: Path, *, directed: bool = False, tables: TableOptions = AS_FOUND, memory_limit: int | None = None
) -> Graph:
    """The graph of an archive that a user names; its size was checked before."""
    tables.refuse_for_edges(str(path))
    return read_npz_graph(path, directed=directed)


def read_npz_graph(path: Path, name: str | None = None, *, directed: bool = False) -> Graph:
    """Read a graph from an .npz archive.

    Keys: adj_indptr, adj_indices, adj_shape, optionally adj_data (weights), attr_indptr, attr_indices,
    attr_data, attr_shape (features), labels (num_nodes,) integers or text, node_names (num_nodes,). A matrix written by
    `scipy.sparse.save_npz` is read as an adjacency matrix. The published citation graphs hold names as pickled objects
    besides; those are passed over.
    """
    arrays = load_arrays(path, passed_over=_NAMES)
    if "adj_indptr" in arrays:
        adjacency = csr_from_arrays(arrays, path, "adj_")
    elif "format" in arrays:
        adjacency = _scipy_matrix(arrays, path)
    else:
        raise InputError(
            f"{path}: no graph in it (keys: {', '.join(arrays) or 'none'}); "
            f"it needs adj_indptr, adj_indices and adj_shape"
        )
    features = csr_from_arrays(arrays, path, "attr_") if "attr_indptr" in arrays else None
    return graph_from_adjacency(
        adjacency,
        features=features,
        node_ids=_node_names(arrays, path, adjacency.shape[0]),
        labels=_labels(arrays, path, adjacency.shape[0]),
        source=str(path),
        name=name or path.stem,
        directed=directed,
    )


def graph_from_adjacency(
    adjacency: sp.sparray | sp.spmatrix,
    *,
    features: np.ndarray | sp.sparray | sp.spmatrix | None = None,
    node_ids: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    source: str = "graph",
    name: str | None = None,
    directed: bool = False,
) -> Graph:
    """Build a graph from any (num_nodes, num_nodes) sparse matrix; entries other than 1 are weights.

    source is what errors name; name is what the graph is called. directed: entry (u, v) is the arc u → v.
    """
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"{source}: the adjacency matrix has shape {adjacency.shape}; it must be square")
    entries = sp.coo_array(adjacency)
    values = entries.data
    if values.dtype.kind not in "biuf":
        raise InputError(f"{source}: the adjacency matrix holds {values.dtype}; weights must be real numbers")
    sources, targets = entries.coords
    stored = values != 0  # an explicit zero says that there is no edge
    if not stored.all():
        sources, targets, values = sources[stored], targets[stored], values[stored]
    del entries, stored
    if values.dtype.kind != "b":
        wrong = ~(np.isfinite(values) & (values > 0))
        if wrong.any():
            entry = int(np.argmax(wrong))
            raise InputError(
                f"{source}: weight {values[entry]} at row {sources[entry]}, column {targets[entry]} of the adjacency "
                f"matrix; weights must be positive and finite"
            )
        del wrong
    weights = None if values.dtype.kind == "b" or (values == 1).all() else values
    graph = Graph.from_arcs(
        sources,
        targets,
        weights,
        num_nodes=adjacency.shape[0],
        features=features,
        node_ids=node_ids,
        labels=labels,
        name=source,
        directed=directed,
    )
    return graph.renamed(name or source)


def csr_from_arrays(arrays: Arrays, path: Path, prefix: str) -> sp.csr_array:
    """(rows, columns) CSR from the arrays PREFIXindptr, PREFIXindices, PREFIXshape and PREFIXdata, checked."""
    for key in ("indptr", "indices", "shape"):
        if prefix + key not in arrays:
            raise InputError(f"{path}: {prefix}{key} is missing (keys: {', '.join(arrays)})")
        if arrays[prefix + key].dtype.kind not in "iu" or arrays[prefix + key].ndim != 1:
            raise InputError(f"{path}: {prefix}{key} must be a row of integers, not {_kind(arrays[prefix + key])}")
    indptr, indices = arrays[prefix + "indptr"], arrays[prefix + "indices"]
    shape = tuple(int(size) for size in arrays[prefix + "shape"])
    data = arrays.get(prefix + "data")
    if data is None:
        data = np.ones(len(indices), np.bool_)
    if data.dtype == np.float16:  # which SciPy has no sparse matrices of
        data = data.astype(np.float32)
    if data.dtype.kind not in "biuf":
        raise InputError(f"{path}: {prefix}data holds {data.dtype}; convert it to real numbers first")
    if len(shape) != 2 or len(indptr) != shape[0] + 1 or indptr[0] != 0 or (np.diff(indptr.astype(np.int64)) < 0).any():
        raise InputError(f"{path}: {prefix}indptr does not fit {prefix}shape {shape}; write the archive again")
    if int(indptr[-1]) != len(indices) or data.shape != indices.shape:
        raise InputError(
            f"{path}: {prefix}indptr ends at {indptr[-1]} but there are {len(indices)} {prefix}indices and "
            f"{data.size} {prefix}data; write the archive again"
        )
    wrong = (indices < 0) | (indices >= shape[1])
    if wrong.any():
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        raise InputError(
            f"{path}: {prefix}indices of row {row} name column {indices[entry]}, but there are {shape[1]} columns"
        )
    return sp.csr_array((data, indices, indptr), shape=shape)


def features_from_arrays(arrays: Arrays, path: Path) -> np.ndarray | sp.csr_array:
    """(num_nodes, num_features) from attr_* keys, SciPy's save_npz layout, or a single array."""
    if "attr_indptr" in arrays:
        return csr_from_arrays(arrays, path, "attr_")
    if "format" in arrays:
        return _scipy_matrix(arrays, path)
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise InputError(
        f"{path}: no features in it (keys: {', '.join(arrays) or 'none'}); "
        f"it needs attr_indptr, attr_indices, attr_data and attr_shape, or one array"
    )


def _scipy_matrix(arrays: Arrays, path: Path) -> sp.csr_array:
    """A CSR matrix as `scipy.sparse.save_npz` lays it out; other layouts are refused."""
    if arrays["format"].size != 1:
        raise InputError(f"{path}: format must be one word, not {_kind(arrays['format'])}; write the archive again")
    layout = arrays["format"].item()
    layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
    if layout != "csr":
        raise InputError(f"{path}: a sparse matrix in {layout!r} layout; save it with save_npz(..., matrix.tocsr())")
    return csr_from_arrays(arrays, path, "")


def _node_names(arrays: Arrays, path: Path, num_nodes: int) -> np.ndarray | None:
    if "node_names" not in arrays:
        return None
    names = arrays["node_names"]
    if names.shape != (num_nodes,):
        raise InputError(f"{path}: node_names have shape {names.shape} but there are {num_nodes:,} nodes")
    node_ids = as_node_ids(names, f"{path}: node_names")
    check_unique(node_ids, f"{path}: node_names")
    return node_ids


def _labels(arrays: Arrays, path: Path, num_nodes: int) -> np.ndarray | None:
    if "labels" not in arrays:
        return None
    labels = arrays["labels"]
    # One label per node is all that anything uses; several labels per node are left aside.
    if labels.ndim == 2 and len(labels) == num_nodes and labels.shape[1] > 1:
        return None
    return check_labels(labels, num_nodes, str(path))


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype} of shape {array.shape}"
