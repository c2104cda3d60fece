"""Records of vectors from a file, and what tables and graphs add to a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.node_columns import read_node_columns
from l2g2g.graphs.node_ids import find_rows
from l2g2g.graphs.read_embedding import read_embedding_table
from l2g2g.runs.record import GraphFacts, PatchFacts, RunRecord
from l2g2g.training.state import History


def read_vector_record(path: Path, training: str | None = None) -> RunRecord:
    """A record of an embedding file, of which nothing is known but its vectors and other columns."""
    if training is not None:
        raise InputError(f"{path}: is an embedding file; --training names a training of a run directory")
    table = read_embedding_table(path)
    num_nodes = len(table.vectors)
    is_numbered = np.array_equal(table.ids, np.arange(num_nodes))
    return RunRecord(
        name=path.name,
        row={},
        settings={},
        graph=GraphFacts(path.name, num_nodes, 0, 0),
        history=History(),
        patches=PatchFacts([num_nodes]),
        separation=None,
        vectors=table.vectors,
        node_ids=None if is_numbered else table.ids,
        columns=table.columns,
    )


def with_table(record: RunRecord, path: Path) -> tuple[RunRecord, int]:
    """The record with the columns of a table of nodes, and how many nodes have a row in it.

    A column replaces one of the same title.
    """
    table, ids = read_node_columns(path), _ids_of(record)
    return replace(record, columns=record.columns | table.by_node(ids)), table.num_matched(ids)


def with_edges(record: RunRecord, graph: Graph) -> RunRecord:
    """The record with the edges and degrees of a graph that has the same nodes, or some of them."""
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    rows = find_rows(ids, _ids_of(record))
    if (rows < 0).all():
        raise InputError(f"{graph.name}: none of its nodes is in {record.graph.name}; give the graph that was embedded")
    arcs = graph.adjacency
    sources = rows[np.repeat(np.arange(graph.num_nodes), np.diff(arcs.indptr))]
    targets = rows[arcs.indices]
    kept = (sources >= 0) & (sources < targets)
    size = (record.num_nodes, record.num_nodes)
    edges = sp.csr_array((np.ones(int(kept.sum()), bool), (sources[kept], targets[kept])), shape=size)
    edges.sum_duplicates()
    edges.sort_indices()
    degrees = np.bincount(edges.indices, minlength=record.num_nodes) + np.diff(edges.indptr)
    facts = replace(record.graph, num_edges=edges.nnz)
    return replace(record, edges=edges, degrees=degrees.astype(np.int32), graph=facts)


def _ids_of(record: RunRecord) -> np.ndarray:
    return np.arange(record.num_nodes) if record.node_ids is None else record.node_ids
