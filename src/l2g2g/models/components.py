"""Components: which nodes are connected, and which of these groups are large, on ranks that each have some rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.models.local_rows import LocalRows
from l2g2g.models.shared_rows import SharedRows
from l2g2g.parallel.questions import ask_by_rank


def find_components(rows: LocalRows) -> np.ndarray:
    """(num_owned,) int64 the component of each node of this rank: one number for all its nodes. A collective call.

    Every rank joins what its own rows connect. What it finds about ghost nodes, beside what their owners find, says
    which groups of different ranks are one; only these are told to all.
    """
    num_local, own = len(rows.nodes), slice(rows.first, rows.first + rows.num_owned)
    groups = np.arange(num_local)
    for block in rows.blocks():
        places = rows.first + np.arange(block.low, block.high)
        ends = np.repeat(groups[places], np.diff(block.indptr)), groups[block.indices]
        joined = sp.coo_array((np.ones(len(block.indices), np.int8), ends), shape=(num_local,) * 2)
        groups = sp.csgraph.connected_components(sp.csr_array(joined), directed=False)[1][groups]
    if rows.communicator.size == 1:
        return groups
    labels = _name(groups, rows.nodes)[groups]
    elsewhere = rows.with_ghosts(torch.from_numpy(labels[own])[:, None]).numpy()[:, 0]
    same = np.unique(np.stack([labels, elsewhere], axis=1)[labels != elsewhere], axis=0)
    same = SharedRows(rows.communicator).gather(torch.from_numpy(same)).numpy()
    known, places = np.unique(same, return_inverse=True)
    if len(known) == 0:
        return labels[own]
    joined = sp.coo_array((np.ones(len(same), np.int8), tuple(places.reshape(-1, 2).T)), shape=(len(known),) * 2)
    groups = sp.csgraph.connected_components(sp.csr_array(joined), directed=False)[1]
    names = _name(groups, known)
    places = np.minimum(np.searchsorted(known, labels[own]), len(known) - 1)
    return np.where(known[places] == labels[own], names[groups[places]], labels[own])


def _name(groups: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """(num_groups,) int64 the lowest node of each group. groups, nodes: (num_nodes,)."""
    names = np.full(groups.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(names, groups, nodes.astype(np.int64))
    return names


def large_components(components: np.ndarray, share: float, shared: SharedRows) -> tuple[np.ndarray, int]:
    """Whether the component of each node of this rank is large, and how many nodes are in such ones.

    components: (num_owned,) as `find_components` gives them. share: of all nodes, that make a component large; the
    largest always is. Each component is counted by one rank.
    """
    communicator = shared.communicator
    labels, places, counts = np.unique(components, return_inverse=True, return_counts=True)
    rows = np.stack([labels, counts], axis=1).astype(np.int64)
    question, order = ask_by_rank(communicator, shared.kind, rows, labels % communicator.size)
    received, found = np.unique(question.received[:, 0], return_inverse=True)
    sizes = np.bincount(found, question.received[:, 1], len(received))
    (num_nodes,) = shared.sums(float(len(components)))
    largest = -shared.lowest(-float(sizes.max(initial=0)))
    is_large = sizes >= min(share * num_nodes, largest)
    (num_large,) = shared.sums(float(sizes[is_large].sum()))
    told = question.answer(is_large[found].astype(np.uint8))[order]
    return told.astype(bool)[places], int(num_large)
