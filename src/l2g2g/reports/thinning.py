"""Thinning: a random sample of the nodes of a record, for graphs too large for a page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from l2g2g.runs.record import RunRecord

MAX_SHOWN = 1_000_000


def thin(record: RunRecord, most: int = MAX_SHOWN) -> RunRecord:
    """The record with at most `most` nodes, in their order; its facts about the whole graph stay."""
    if record.num_nodes <= most:
        return record
    rows = np.sort(np.random.default_rng(0).choice(record.num_nodes, most, replace=False))
    names = ("vectors", "degrees", "home", "node_ids", "labels", "residuals")
    kept = {name: getattr(record, name)[rows] for name in names if getattr(record, name) is not None}
    if record.node_ids is None:
        kept["node_ids"] = rows  # names of nodes are still their numbers
    kept["columns"] = {title: values[rows] for title, values in record.columns.items()}
    edges = None if record.edges is None else sp.csr_array(record.edges[rows][:, rows])
    return replace(record, **kept, edges=edges)
