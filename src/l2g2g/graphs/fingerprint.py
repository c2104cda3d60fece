"""Fingerprint: what a graph is, in a few numbers and hashes, to tell whether two are the same."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.graph_store import GraphStore

_KEY = "fingerprint"
_ROWS_AT_ONCE = 1 << 20  # wider copies of all would take as much memory as the graph


def fingerprint(graph: GraphStore) -> dict[str, Any]:
    """Sizes, and a SHA-256 of edges, features and ids each, so that a difference can be named; of a store its own.

    A store that ranks wrote of a graph in memory has the fingerprint of that, so that one process can go on with what
    several began. Names, where the graph was read from and its labels do not count: training sees none of them.
    """
    if graph.stored is None:
        return _describe(graph.to_graph())
    known = (graph.stored.source or {}).get(_KEY)
    return dict(known) if isinstance(known, dict) else {"store": graph.stored.sha256}


def as_source(graph: Graph) -> dict[str, Any]:
    """What the store of a graph in memory is to say of its source."""
    return {_KEY: fingerprint(graph)}


def _describe(graph: Graph) -> dict[str, Any]:
    features = graph.features
    return {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": graph.num_features,
        "directed": graph.directed,
        "edges": _hash(graph.adjacency, graph.arcs),
        "features": None if features is None else _hash(features),
        "node_ids": None if graph.node_ids is None else _hash(graph.node_ids),
    }


def _hash(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        arrays = [part.indptr, part.indices, part.data] if sp.issparse(part) else [part]
        for array in arrays:
            if array is None:
                digest.update(b"none")
                continue
            array = np.asarray(array)
            digest.update(f"{array.dtype.kind} {array.shape} ".encode())
            if array.dtype.kind == "O":
                for text in array.tolist():
                    digest.update(str(text).encode() + b"\0")
                continue
            for low in range(0, len(array), _ROWS_AT_ONCE):
                rows = np.ascontiguousarray(array[low : low + _ROWS_AT_ONCE])
                if rows.dtype.kind in "iu":
                    rows = rows.astype("<i8", copy=False)  # the same numbers, however wide they are held
                digest.update(rows.data)
    return digest.hexdigest()
