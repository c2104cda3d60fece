"""Node directory: which rank owns each node, where nodes belong to ranks in no order. Ranks share the directory too.

A hash of its number gives a node its home, the rank that knows its owner, so that any rank can find whom to ask. Each
home has about as many nodes, and no rank has anything for all of them. Nodes in the order of their hashes, those of
home 0 first, are in random order: that in which non-edges are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from l2g2g.core import hash_nodes
from l2g2g.core.randomness import Purpose, stream_key
from l2g2g.parallel.communicator import Communicator
from l2g2g.parallel.questions import ask, ask_by_rank

_KIND, _PLACES = "node owners", "far ends"  # what is asked once, and in every epoch
_NODE_BITS = 32


class NodeDirectory:
    """Owners of all nodes. Every rank must take part in making it, and in each question.

    Args:
        communicator: Of this rank.
        num_nodes: Nodes of all ranks; each is claimed by one rank at least.
        nodes: (num_claimed,) the nodes that this rank claims.
        claims: (num_claimed,) int64; a node is owned by the rank with the lowest claim. No two ranks have the same.
    """

    are_ranges = False

    def __init__(self, communicator: Communicator, num_nodes: int, nodes: np.ndarray, claims: np.ndarray) -> None:
        self.communicator, self.num_nodes = communicator, num_nodes
        hashes = hash_nodes(nodes.astype(np.int32), _hash_key())
        rows = np.stack([nodes.astype(np.int64), claims.astype(np.int64)], axis=1)
        question, _ = ask_by_rank(communicator, _KIND, rows, self._homes(hashes))
        received, ranks = question.received, np.repeat(np.arange(communicator.size), question.expected)
        order = np.lexsort((received[:, 1], received[:, 0]))
        first = np.flatnonzero(np.diff(received[order, 0], prepend=-1))
        known, owners = received[order[first], 0], ranks[order[first]]
        keys = _keys(known)
        order = np.argsort(keys)
        self._keys = keys[order]  # hash and number of the nodes that have their home here
        self._owners = owners[order].astype(np.uint8 if communicator.size <= 256 else np.int32)
        found = communicator.tell_all(_KIND, [len(known), *np.bincount(owners, minlength=communicator.size).tolist()])
        self.bounds = np.cumsum([0, *(row[0] for row in found)])  # places in the order of hashes, by home
        assert self.bounds[-1] == num_nodes, "some nodes are claimed by no rank"
        self.counts: list[int] = np.sum([row[1:] for row in found], axis=0).tolist()

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """(num_asked,) the rank that owns each of some nodes."""
        return self._look_up(nodes, lambda places: self._owners[places])

    def places_of(self, nodes: np.ndarray) -> np.ndarray:
        """(num_asked,) int64 the place of each of some nodes among all, in the order of their hashes."""
        return self._look_up(nodes, lambda places: places + self.bounds[self.communicator.rank])

    def at(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(nodes int32, owners) at some places in the order of hashes. places: ascending."""
        lengths = np.diff(np.searchsorted(places, self.bounds)).tolist()
        local = (places - np.repeat(self.bounds[:-1], lengths)).astype(np.int32)
        question = ask(self.communicator, _PLACES, local, lengths)
        told = np.empty(len(question.received), [("node", np.int32), ("owner", self._owners.dtype)])
        told["node"], told["owner"] = self._nodes[question.received], self._owners[question.received]
        received = question.answer(told.view(np.uint8).reshape(len(told), told.itemsize)).view(told.dtype)[:, 0]
        return np.ascontiguousarray(received["node"]), np.ascontiguousarray(received["owner"])

    def _look_up(self, nodes: np.ndarray, find: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        nodes = nodes.astype(np.int32)
        homes = self._homes(hash_nodes(nodes, _hash_key()))
        question, places = ask_by_rank(self.communicator, _KIND, nodes, homes)
        return question.answer(find(np.searchsorted(self._keys, _keys(question.received))))[places]

    def _homes(self, hashes: np.ndarray) -> np.ndarray:
        return ((hashes.astype(np.uint64) * np.uint64(self.communicator.size)) >> np.uint64(32)).astype(np.int64)

    @cached_property
    def _nodes(self) -> np.ndarray:
        """(num_here,) int32 the nodes that have their home here, in the order of their hashes."""
        return (self._keys & np.uint64(2**_NODE_BITS - 1)).astype(np.int32)


def _hash_key() -> int:
    return stream_key(0, Purpose.NODE_ORDER)


def _keys(nodes: np.ndarray) -> np.ndarray:
    """(num_nodes,) uint64 that order nodes by hash, then by number."""
    hashes = hash_nodes(nodes.astype(np.int32), _hash_key()).astype(np.uint64)
    return (hashes << np.uint64(_NODE_BITS)) | nodes.astype(np.uint64)
