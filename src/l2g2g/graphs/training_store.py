"""Training store: the edges of a stored graph that training may see, with its features, as a store of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.graphs.array_writer import locked, write_folder
from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.store import GRAPH_FOLDER, KIND, StoredGraph, open_graph, store_values

_PIECE_BYTES = 1 << 25


def write_training_graph(
    graph: StoredGraph,
    rows: Iterable[RowBlock],
    directory: Path,
    *,
    num_edges: int,
    weighted: bool,
    source: dict[str, Any],
) -> StoredGraph:
    """Write other edges between the nodes of a stored graph, with its features, so that patches can be cut from them.

    rows: all rows in order, with weights where weighted and directions where the graph has some. source: what tells
    this store from others.
    """
    with locked(directory), write_folder(directory / GRAPH_FOLDER, KIND) as writer:
        indptr, indices = writer.array("indptr", np.int64), writer.array("indices", np.int32)
        indptr.append(np.zeros(1, np.int64))
        end = num_arcs = 0
        for block in rows:
            indptr.append(end + block.indptr[1:])
            indices.append(block.indices)
            values = {"weights": block.weights, "directions": block.directions, "arc_weights": block.arc_weights}
            for name, part in values.items():
                if part is not None:
                    writer.append(name, part)
            num_arcs += 0 if block.directions is None else len(block.arcs()[0])
            end += len(block.indices)
        for name, stored in graph.arrays.items():
            if name.startswith("features"):
                copied = writer.array(name, stored.dtype, stored.shape[1:])
                for part in stored.blocks(max(1, _PIECE_BYTES // max(1, stored.info.row_bytes))):
                    copied.append(part)
        writer.values = store_values(
            name=graph.name,
            num_nodes=graph.num_nodes,
            num_edges=num_edges,
            num_features=graph.num_features,
            weighted=weighted,
            cleaning=graph.cleaning,
            source=source,
            num_arcs=num_arcs if graph.directed else None,
            columns=graph.columns,
        )
    return open_graph(directory)
