"""Files of adjacency matrices: NumPy archives, GraphSAINT folders and Matrix Market."""

from __future__ import annotations

import io
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError, first_line
from l2g2g.graphs.archives import check_unpacked_size, load_arrays, open_bytes, reading
from l2g2g.graphs.checks import check_labels, check_num_nodes
from l2g2g.graphs.formats import AS_FOUND, TableOptions
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.node_ids import as_node_ids, check_unique

Arrays = dict[str, np.ndarray]
# Names of nodes, columns and classes in the published archives; nothing here needs them.
_NAMES = ("node_names", "attr_names", "class_names", "idx_to_node", "idx_to_attr", "idx_to_class")
ADJACENCY, FEATURES, ROLES, CLASSES = "adj_full.npz", "feats.npy", "role.json", "class_map.json"
_LEAST_BYTES = 4  # of an entry in the file: row and column, each a digit and a blank
_MOST_HEADER = 1 << 16
_FIELDS, _SYMMETRIES = ("real", "double", "integer", "pattern"), ("general", "symmetric")


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
    arrays = load_arrays(path, optional=_NAMES)
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


def is_graphsaint_folder(folder: Path) -> bool:
    """Whether a folder holds a graph in this format."""
    return (folder / ADJACENCY).is_file()


def read_graphsaint(folder: Path, name: str | None = None, *, directed: bool = False) -> Graph:
    """Read a folder: the adjacency as `scipy.sparse.save_npz` wrote it, features by row, and a class of each node.

    role.json (which node is for training, validation or test of a classifier) is not used by link prediction; it must
    fit the graph, because a folder of mixed-up files would go unnoticed otherwise.
    """
    path = folder / ADJACENCY
    check_unpacked_size(path)
    adjacency = csr_from_arrays(load_arrays(path), path, "")
    # Entries are 1 or True in some files and counts in others; an edge is an edge.
    adjacency.data = (adjacency.data != 0).astype(np.float32)
    num_nodes = adjacency.shape[0]
    _check_roles(folder / ROLES, num_nodes)
    return graph_from_adjacency(
        adjacency,
        features=_read_features(folder / FEATURES),
        labels=_read_classes(folder / CLASSES, num_nodes),
        source=str(folder),
        name=name or folder.name,
        directed=directed,
    )


def _read_features(path: Path) -> np.ndarray:
    arrays = load_arrays(path)
    if "array" not in arrays:
        raise InputError(f"{path}: is an archive, not one array; fetch it again")
    return arrays["array"]


def _check_roles(path: Path, num_nodes: int) -> None:
    roles = _read_json(path)
    if not all(isinstance(roles.get(part), list) for part in ("tr", "va", "te")):
        raise InputError(f"{path}: needs the lists tr, va and te; fetch the folder again")
    nodes = [node for part in ("tr", "va", "te") for node in roles[part]]
    wrong = [node for node in nodes if type(node) is not int or not 0 <= node < num_nodes]
    if wrong:
        raise InputError(f"{path}: node {wrong[0]!r} is none of the {num_nodes:,} of {ADJACENCY}; fetch both again")
    if len(set(nodes)) != len(nodes):
        raise InputError(f"{path}: a node has two roles; fetch the folder again")


def _read_classes(path: Path, num_nodes: int) -> np.ndarray | None:
    """(num_nodes,) class of each node; None without the file, or where nodes have several classes (Yelp)."""
    if not path.is_file():
        return None
    classes = _read_json(path)
    if any(not isinstance(value, int) for value in classes.values()):
        return None
    labels = np.full(num_nodes, -1, np.int64)
    for node, value in classes.items():
        if not node.isdecimal() or len(node) > 18 or int(node) >= num_nodes:
            raise InputError(f"{path}: node {node!r} is none of the {num_nodes:,} of {ADJACENCY}; fetch both again")
        if not -(2**63) <= value < 2**63:
            raise InputError(f"{path}: node {node!r} has the class {value}; classes are numbers of 64 bits")
        labels[int(node)] = value
    return labels


def _read_json(path: Path) -> dict[str, Any]:
    with reading(path):
        found = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise InputError(f"{path}: holds no JSON object; fetch it again")
    return found


def read_matrix_graph(
    path: Path, *, directed: bool = False, tables: TableOptions = AS_FOUND, memory_limit: int | None = None
) -> Graph:
    """The graph whose adjacency matrix a file holds."""
    tables.refuse_for_edges(str(path))
    return graph_from_adjacency(read_matrix_market(path, memory_limit), source=str(path), directed=directed)


def read_matrix_market(path: Path, memory_limit: int | None = None) -> sp.coo_array:
    """(num_rows, num_columns) the matrix; entries of a pattern are 1, of a symmetric one both halves are there."""
    check_unpacked_size(path, memory_limit)
    with open_bytes(path) as stream:
        content = stream.read()
    header = _read_header(content, path)
    if header.num_entries * _LEAST_BYTES > len(content) + _LEAST_BYTES:
        raise InputError(
            f"{path}: cannot hold the {header.num_entries:,} entries that its header tells of; write it again"
        )
    check_num_nodes(max(header.num_rows, header.num_columns), header.num_entries, str(path))
    with reading(path):
        numbers = _read_numbers(content[header.end :], header, path)
    rows, columns, values = _entries(numbers, header)
    outside = (rows < 0) | (rows >= header.num_rows) | (columns < 0) | (columns >= header.num_columns)
    if outside.any():
        number = int(np.argmax(outside)) + 1
        raise InputError(f"{path}: entry {number} lies outside the matrix that its header tells of; write it again")
    if header.symmetry == "symmetric":
        mirrored = rows != columns
        rows, columns = np.append(rows, columns[mirrored]), np.append(columns, rows[mirrored])
        values = np.append(values, values[mirrored])
    return sp.coo_array((values, (rows, columns)), shape=(header.num_rows, header.num_columns))


@dataclass(frozen=True)
class _Header:
    """What the first lines say. end: bytes of them."""

    field: str
    symmetry: str
    num_rows: int
    num_columns: int
    num_entries: int
    end: int


def _read_header(content: bytes, path: Path) -> _Header:
    lines = content[:_MOST_HEADER].split(b"\n")
    words = lines[0].decode("latin-1").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise InputError(f"{path}: does not begin with %%MatrixMarket matrix; it is no Matrix Market file")
    layout, field, symmetry = words[2:]
    if field == "complex":
        raise InputError(f"{path}: holds complex numbers; weights must be real")
    if layout == "array":
        raise InputError(f"{path}: holds a dense matrix (array); write a sparse one (coordinate)")
    if field not in _FIELDS or symmetry not in _SYMMETRIES:
        raise InputError(
            f"{path}: holds a {symmetry} matrix of {field}; needed: general or symmetric, of real, integer or pattern"
        )
    sizes: list[str] = []
    end = len(lines[0]) + 1
    for line in lines[1:]:
        end += len(line) + 1
        if line.strip() and not line.startswith(b"%"):
            sizes = line.decode("latin-1").split()
            break
    if layout != "coordinate" or len(sizes) != 3:
        raise InputError(f"{path}: its header does not say how large the matrix is; write it again")
    if not all(size.isascii() and size.isdecimal() and len(size) < 12 for size in sizes):
        raise InputError(f"{path}: its header gives the sizes {' '.join(sizes)[:80]}; write it again")
    num_rows, num_columns, num_entries = map(int, sizes)
    return _Header(field, symmetry, num_rows, num_columns, num_entries, min(end, len(content)))


def _read_numbers(body: bytes, header: _Header, path: Path) -> np.ndarray:
    """(num_entries, numbers of an entry) float64."""
    expected = 2 if header.field == "pattern" else 3
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a matrix without entries
            numbers = np.loadtxt(io.BytesIO(body), np.float64, comments="%", encoding="latin-1", ndmin=2)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: is no Matrix Market file ({first_line(error)}); write it again") from error
    if numbers.size == 0:
        numbers = np.empty((0, expected))
    if numbers.shape != (header.num_entries, expected):
        raise InputError(
            f"{path}: has {len(numbers):,} entries of {numbers.shape[1]} numbers where its header tells of "
            f"{header.num_entries:,} of {expected}; write it again"
        )
    return numbers


def _entries(numbers: np.ndarray, header: _Header) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, values) of a list of entries, which counts from 1; what is no whole number lies outside."""
    places = np.where(np.isfinite(numbers[:, :2]), numbers[:, :2], 0.0)
    places = np.where(places == np.floor(places), np.clip(places, 0, 2**40), 0.0)
    rows, columns = (places.astype(np.int64) - 1).T
    values = np.ones(len(numbers)) if header.field == "pattern" else numbers[:, 2]
    return rows, columns, values
