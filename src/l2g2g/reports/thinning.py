"""Thinning: a record of so many nodes that no page could show them becomes one of some of them, drawn at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from l2g2g.runs.record import RunRecord

MOST_SHOWN = 1_000_000


def thin(record: RunRecord, most: int = MOST_SHOWN) -> RunRecord:
    """The record with at most so many nodes, in their order. What it says about the whole graph stays."""
    if record.num_nodes <= most:
        return record
    rows = np.sort(np.random.default_rng(0).choice(record.num_nodes, most, replace=False))
    names = ("vectors", "degrees", "home", "node_ids", "labels", "residuals")
    kept = {name: getattr(record, name)[rows] for name in names if getattr(record, name) is not None}
    if record.node_ids is None:
        kept["node_ids"] = rows  # a node is still called by its number
    edges = None if record.edges is None else sp.csr_array(record.edges[rows][:, rows])
    return replace(record, **kept, edges=edges)
