"""GraphSAINT's published folders (Reddit2, Yelp): adj_full.npz, feats.npy, role.json, without unpickling anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.archives import check_unpacked_size, load_arrays, reading
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read_npz import csr_from_arrays, graph_from_adjacency

ADJACENCY, FEATURES, ROLES, CLASSES = "adj_full.npz", "feats.npy", "role.json", "class_map.json"


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
