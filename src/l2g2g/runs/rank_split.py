"""Rank split: the split of a graph whose held-out pairs the ranks of a job share.

The first rank finds the split. A rank then has the pairs whose first node is in its range of nodes, and of the pairs
that are never drawn as negatives the rows of this range; what the nodes of its patches need is fetched from there.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.held_out import HashedPair, HeldOutRule
from l2g2g.graphs.splits import LinkSplit, Pairs, PairShare, split_edges
from l2g2g.models.shared_rows import SharedRows
from l2g2g.parallel.communicator import Communicator
from l2g2g.training.rows import rank_bounds

_KIND = "held out pairs"


def split_on_ranks(graph: GraphStore, communicator: Communicator, **how: Any) -> LinkSplit[Any]:
    """The split of a graph, of which this rank has its part. how: as for `split_links`. A collective call."""
    found = split_edges(graph, **how) if communicator.is_first else None
    if communicator.size == 1:
        assert found is not None
        return found.of(graph)

    def tell() -> dict[str, Any]:
        assert found is not None
        rule = None if found.rule is None else {"seed": found.rule.seed, **asdict(found.rule.last)}
        return {"rule": rule, "num_edges": found.num_edges}

    told = communicator.decide(tell)
    rule = None if told["rule"] is None else HeldOutRule(told["rule"].pop("seed"), HashedPair(**told["rule"]))
    train = graph.without(rule, told["num_edges"])
    return share_split(None if found is None else found.of(graph), train, communicator)


def share_split(split: LinkSplit[Any] | None, train: GraphStore, communicator: Communicator) -> LinkSplit[Any]:
    """The part of a split that this rank has. split: on the first rank; train: its training graph, on all."""
    if communicator.size == 1:
        assert split is not None
        return split
    bounds = rank_bounds(train, communicator.size)
    sets = [None, None] if split is None else [split.validation, split.test]
    validation, test = (_share_pairs(each, bounds, communicator) for each in sets)
    held_out = _share_pattern(None if split is None else split.held_out, bounds, communicator)
    protocol = communicator.decide(lambda: "" if split is None else split.protocol)
    return LinkSplit(train, validation, test, held_out, protocol)


def held_out_rows(split: LinkSplit[Any], nodes: np.ndarray, communicator: Communicator) -> sp.csr_array:
    """(num_wanted, num_nodes) pattern of the held-out pairs of some nodes. A collective call.

    nodes: (num_wanted,) ascending; one process wants all.
    """
    if communicator.size == 1:
        return split.held_out
    return SharedRows(communicator, _KIND).fetch_pattern(split.held_out, nodes.astype(np.int64))


def _share_pairs(pairs: Pairs | None, bounds: np.ndarray, communicator: Communicator) -> Pairs | None:
    """The pairs whose first node is in the range of this rank. pairs: all of them, on the first rank."""
    size, order, counts, both = communicator.size, None, [[0, 0, 0]], np.empty((0, 2), np.int64)
    if pairs is not None:
        both = np.concatenate([pairs.positive, pairs.negative]).astype(np.int64, copy=False)
        ranks = np.searchsorted(bounds[1:], both[:, 0], side="right")
        order = np.argsort(ranks, kind="stable")  # of each rank the positives first, and reversed arcs last
        parts = np.split(ranks, [len(pairs.positive), len(both) - pairs.num_reversed])
        counts = np.stack([np.bincount(part, minlength=size) for part in parts], axis=1).tolist()
        both = both[order]
    counts = communicator.decide(lambda: None if pairs is None else counts)
    if counts is None:
        return None
    rows = _scatter(torch.from_numpy(both), [sum(each) for each in counts], communicator).numpy()
    num_positive, _, num_reversed = counts[communicator.rank]
    share = PairShare(communicator, sum(each[0] for each in counts), order)
    return Pairs(rows[:num_positive], rows[num_positive:], num_reversed, share)


def _share_pattern(pattern: sp.csr_array | None, bounds: np.ndarray, communicator: Communicator) -> sp.csr_array:
    """(num_here, num_nodes) the rows of the range of this rank. pattern: all of them, on the first rank."""
    lengths, indices, num_entries = np.empty(0, np.int32), np.empty(0, np.int32), []
    if pattern is not None:
        num_entries = np.diff(pattern.indptr[bounds]).tolist()
        lengths, indices = np.diff(pattern.indptr).astype(np.int32), pattern.indices.astype(np.int32, copy=False)
    num_entries = communicator.decide(lambda: num_entries)
    rows = _scatter(torch.from_numpy(lengths), np.diff(bounds).tolist(), communicator).numpy()
    entries = _scatter(torch.from_numpy(indices), num_entries, communicator).numpy()
    indptr = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
    indptr = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr
    return sp.csr_array((np.ones(len(entries), np.float32), entries, indptr), shape=(len(rows), int(bounds[-1])))


def _scatter(rows: torch.Tensor, lengths: list[int], communicator: Communicator) -> torch.Tensor:
    """The rows for this rank of those that the first one has, rank by rank. lengths: of all ranks."""
    nothing = [0] * (communicator.size - 1)
    expected = [lengths[communicator.rank], *nothing]
    sent = lengths if communicator.is_first else [0, *nothing]
    return communicator.all_to_all(_KIND, rows.to(communicator.device), sent, expected).cpu()
