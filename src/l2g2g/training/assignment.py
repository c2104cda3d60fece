"""Assignment: which rank has which patches. Loads balance, and neighbours in the patch graph share a rank."""

from __future__ import annotations

import numpy as np

from l2g2g.errors import InputError

# A rank may have this much more than its share where that keeps neighbours together.
_SLACK = 0.01
_MOST_PASSES = 20
# Up to this many patches exchanges of two are tried as well: they balance what single moves cannot.
_FEW_PATCHES = 100


def assign_patches(loads: np.ndarray, edges: np.ndarray, overlaps: np.ndarray, num_ranks: int) -> np.ndarray:
    """(num_patches,) the rank of every patch; each rank has one at least. The same input gives the same ranks.

    loads: (num_patches,) positive, what a patch costs. edges: (num_pairs, 2) the patch graph. overlaps: (num_pairs,)
    nodes that a pair shares: what it has to send where its patches are apart.
    """
    num_patches = len(loads)
    if num_ranks > num_patches:
        raise InputError(f"{num_ranks} ranks and {num_patches} patches: use fewer ranks, or more --patches")
    search = _Search(loads.astype(np.float64), edges, overlaps.astype(np.float64), num_ranks)
    for _ in range(_MOST_PASSES):
        if not search.improve():
            break
    return search.ranks


class _Search:
    """Starts with runs of neighbours of about the same load, then moves and exchanges patches while that helps."""

    def __init__(self, loads: np.ndarray, edges: np.ndarray, overlaps: np.ndarray, num_ranks: int) -> None:
        self.loads, self.num_ranks = loads, num_ranks
        self.ties: list[list[tuple[int, float]]] = [[] for _ in loads]
        for (first, second), shared in zip(edges.tolist(), overlaps.tolist(), strict=True):
            self.ties[first].append((second, shared))
            self.ties[second].append((first, shared))
        self.limit = max(float(loads.max()), (1 + _SLACK) * float(loads.sum()) / num_ranks)
        self.ranks = _cut_into_runs(loads[_walk(self.ties)], num_ranks)[np.argsort(_walk(self.ties))]
        self.totals = np.bincount(self.ranks, loads, num_ranks)
        self.counts = np.bincount(self.ranks, minlength=num_ranks)

    def improve(self) -> bool:
        """One pass over all patches; whether anything changed."""
        changed = False
        for patch in np.argsort(-self.loads, kind="stable").tolist():
            changed |= self._move(patch)
            if len(self.loads) <= _FEW_PATCHES:
                changed |= self._exchange(patch)
        return changed

    def _move(self, patch: int) -> bool:
        here = int(self.ranks[patch])
        if self.counts[here] == 1:
            return False
        affinity = self._affinity(patch)
        gains = [self._gain(here, there, self.loads[patch], affinity) for there in range(self.num_ranks)]
        there = int(np.argmax(gains))
        if gains[there] <= 1e-9:
            return False
        self._put(patch, there)
        return True

    def _exchange(self, patch: int) -> bool:
        here, affinity, best, partner = int(self.ranks[patch]), self._affinity(patch), 1e-9, -1
        for other in np.flatnonzero(self.ranks != here).tolist():
            there = int(self.ranks[other])
            gain = self._gain(here, there, self.loads[patch] - self.loads[other], affinity)
            theirs = self._affinity(other)
            gain += theirs[here] - theirs[there] - 2 * sum(shared for near, shared in self.ties[patch] if near == other)
            if gain > best:
                best, partner = gain, other
        if partner < 0:
            return False
        there = int(self.ranks[partner])
        self._put(patch, there)
        self._put(partner, here)
        return True

    def _gain(self, here: int, there: int, load: float, affinity: np.ndarray) -> float:
        """What is won by moving this load: first less above the limit, then fewer rows to send."""
        if here == there:
            return 0.0
        before = self._excess(self.totals[here]) + self._excess(self.totals[there])
        after = self._excess(self.totals[here] - load) + self._excess(self.totals[there] + load)
        return (before - after) * 1e6 + float(affinity[there] - affinity[here])

    def _excess(self, total: float) -> float:
        return max(0.0, total / self.limit - 1)

    def _affinity(self, patch: int) -> np.ndarray:
        """(num_ranks,) nodes that a patch shares with the patches of every rank."""
        shared = np.zeros(self.num_ranks)
        for other, overlap in self.ties[patch]:
            shared[self.ranks[other]] += overlap
        return shared

    def _put(self, patch: int, there: int) -> None:
        here = self.ranks[patch]
        self.totals[here] -= self.loads[patch]
        self.totals[there] += self.loads[patch]
        self.counts[here] -= 1
        self.counts[there] += 1
        self.ranks[patch] = there


def _walk(ties: list[list[tuple[int, float]]]) -> np.ndarray:
    """All patches, breadth first from the one with fewest neighbours, the strongest tie first."""
    order: list[int] = []
    seen = [False] * len(ties)
    for start in sorted(range(len(ties)), key=lambda patch: len(ties[patch])):
        if seen[start]:
            continue
        seen[start] = True
        head = len(order)
        order.append(start)
        while head < len(order):
            for other, _ in sorted(ties[order[head]], key=lambda tie: (-tie[1], tie[0])):
                if not seen[other]:
                    seen[other] = True
                    order.append(other)
            head += 1
    return np.array(order)


def _cut_into_runs(loads: np.ndarray, num_ranks: int) -> np.ndarray:
    """(num_patches,) rank of every place of a walk: runs of about the same load, none of them empty."""
    middles = np.cumsum(loads) - loads / 2
    ranks = np.minimum((middles * num_ranks / loads.sum()).astype(np.int64), num_ranks - 1)
    places = np.arange(len(loads))
    # Every rank starts at least one place after the one before it, and leaves a place for each one behind it.
    starts = np.searchsorted(ranks, np.arange(num_ranks))
    for rank in range(1, num_ranks):
        starts[rank] = max(starts[rank], starts[rank - 1] + 1)
    starts = np.minimum(starts, len(loads) - num_ranks + np.arange(num_ranks))
    return np.searchsorted(starts, places, side="right") - 1
