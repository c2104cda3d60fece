"""Splits: a graph becomes a training graph and pairs that training never sees, the same from memory and from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, TypeVar, cast, get_args

import numpy as np
import scipy.sparse as sp

from l2g2g.core import kernels
from l2g2g.core.randomness import Purpose, hash_node_pairs, random_words, scale_all_bits, stream_key
from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import BACK, FORTH
from l2g2g.graphs.graph_store import EdgeSource, GraphStore
from l2g2g.graphs.held_out import HeldOutRule, rule_of, smallest_pairs, split_key
from l2g2g.options import check_choice
from l2g2g.parallel.communicator import LOCAL, Communicator

BLOCK_ENTRIES = 1 << 20
# Of one pass over the graph: attempts for each owner, and candidates of all owners.
_MOST_ATTEMPTS, _MOST_CANDIDATES = 32, 1 << 18
_TABLE_CELLS = 1 << 22  # of a table of nodes by nodes in which non-edges are listed
Protocol = Literal["heldout", "paper"]
AnyStore = TypeVar("AnyStore", bound=GraphStore)


def sample_non_edges(graph: EdgeSource, count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw `count` distinct pairs u < v, uniformly among those that are not edges. Returns (count, 2)."""
    key = int(generator.integers(2**64, dtype=np.uint64))
    numbers = np.arange(count)
    return draw_non_edges(graph, np.stack([np.zeros_like(numbers), numbers], axis=1), key)


def draw_non_edges(
    graph: EdgeSource, owners: np.ndarray, key: int, *, block_entries: int = BLOCK_ENTRIES
) -> np.ndarray:
    """One pair u < v for each owner, all distinct, uniform among the pairs that are not edges. Returns (count, 2).

    The candidates of an owner are hashes of (key, owner, attempt). It takes the first one that joins two different
    nodes, is no edge, and is not taken: a lower attempt comes first, then the earlier owner. Where non-edges are
    scarce, those with the smallest hashes are taken instead, in the order of their hashes.

    owners: (count, 2) distinct pairs of numbers. block_entries: entries read at once, which do not change the result.
    """
    count, num_nodes = len(owners), graph.num_nodes
    num_pairs = num_nodes * (num_nodes - 1) // 2
    num_free = num_pairs - graph.num_edges
    if count > num_free:
        raise InputError(
            f"{graph.name}: {count} non-edges are needed but the graph has only {num_free}; "
            f"it is too dense to be evaluated on held-out links"
        )
    if 2 * count > num_free or 4 * num_free < num_pairs:  # drawing at random would meet too few
        blocks = partial(_non_edge_blocks, graph, block_entries)
        return smallest_pairs(blocks, num_free, count, key, graph.name)
    streams = hash_node_pairs(owners[:, 0], owners[:, 1], key)
    found, waiting, attempt = np.full(count, -1, np.int64), np.arange(count), 0
    while len(waiting):
        num_attempts = min(_MOST_ATTEMPTS, max(1, _MOST_CANDIDATES // len(waiting)))
        candidates = _draw_candidates(streams[waiting], range(attempt, attempt + num_attempts), num_nodes)
        allowed = ~_are_edges(graph, candidates.ravel(), block_entries).reshape(candidates.shape)
        allowed &= candidates // num_nodes != candidates % num_nodes
        _assign(found, waiting, candidates, allowed)
        waiting, attempt = np.flatnonzero(found < 0), attempt + num_attempts
    return np.stack([found // num_nodes, found % num_nodes], axis=1)


def _draw_candidates(streams: np.ndarray, attempts: range, num_nodes: int) -> np.ndarray:
    """(num_attempts, num_owners) pairs u ≤ v as u · num_nodes + v, uniform over ordered pairs of nodes."""
    found = np.empty((len(attempts), len(streams)), np.int64)
    for place, attempt in enumerate(attempts):
        one, other = (scale_all_bits(random_words(streams, 2 * attempt + end), num_nodes) for end in (0, 1))
        found[place] = np.minimum(one, other) * num_nodes + np.maximum(one, other)
    return found


def _assign(found: np.ndarray, waiting: np.ndarray, candidates: np.ndarray, allowed: np.ndarray) -> None:
    """Give owners their first allowed candidate that is not taken, in place.

    found: (num_owners,) pairs, -1 where none is found yet. waiting: owners of the columns of the others, ascending.
    candidates, allowed: (num_attempts, num_waiting).
    """
    taken = np.sort(found[found >= 0])
    for pairs, is_allowed in zip(candidates, allowed, strict=True):
        places = np.flatnonzero(is_allowed & (found[waiting] < 0))
        if len(places) == 0:
            continue
        places = places[~_are_among(pairs[places], taken)]
        new, first = np.unique(pairs[places], return_index=True)  # the earliest owner of each pair
        found[waiting[places[first]]] = new
        taken = np.insert(taken, np.searchsorted(taken, new), new)


def _are_among(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """(num_values,) whether each value is among the ordered ones, which ascend."""
    if len(ordered) == 0:
        return np.zeros(len(values), bool)
    return ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values


def _are_edges(graph: EdgeSource, pairs: np.ndarray, block_entries: int) -> np.ndarray:
    """(num_pairs,) whether each pair u · num_nodes + v is an edge; one pass over the graph."""
    order = np.argsort(pairs)
    ordered, found = pairs[order], np.empty(len(pairs), bool)
    for block in graph.row_blocks(block_entries):
        low, high = np.searchsorted(ordered, np.array([block.low, block.high]) * graph.num_nodes)
        wanted = ordered[low:high]
        rows, columns = wanted // graph.num_nodes - block.low, wanted % graph.num_nodes
        found[order[low:high]] = kernels().find_entries(block.indptr, block.indices, rows, columns) >= 0
    return found


def _non_edge_blocks(graph: EdgeSource, block_entries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(sources, targets) of all non-edges u < v in order."""
    num_nodes = graph.num_nodes
    height = max(1, _TABLE_CELLS // num_nodes)
    for block in graph.row_blocks(block_entries):
        for low in range(block.low, block.high, height):
            nodes = np.arange(low, min(low + height, block.high))
            indptr = block.indptr[low - block.low : low - block.low + len(nodes) + 1]
            is_free = np.arange(num_nodes) > nodes[:, None]
            rows = np.repeat(np.arange(len(nodes)), np.diff(indptr))
            is_free[rows, block.indices[indptr[0] : indptr[-1]]] = False
            rows, targets = np.nonzero(is_free)
            yield nodes[rows], targets


@dataclass(frozen=True, eq=False)
class PairShare:
    """How the pairs of one rank are a part of the pairs of all ranks.

    Attributes:
        communicator: Of the ranks.
        num_edges: Positives of all ranks.
        order: On the first rank (num_pairs of all ranks,): where each gathered pair belongs. Pairs are gathered rank by
            rank, the positives of a rank first. None on the other ranks.
    """

    communicator: Communicator
    num_edges: int
    order: np.ndarray | None

    def gather(self, values: np.ndarray) -> np.ndarray:
        """See `Pairs.gather`."""
        import torch

        communicator = self.communicator
        counts = [count for (count,) in communicator.tell_all("count", [len(values)])]
        sent = torch.from_numpy(np.ascontiguousarray(values)).to(communicator.device)
        received = communicator.gather("pair scores", sent, counts).cpu().numpy()
        if self.order is None:
            return received
        found = np.empty_like(received)
        found[self.order] = received
        return found


@dataclass(frozen=True)
class Pairs:
    """Node pairs to be told apart: positive (num_positive, 2) edges, negative (num_negative, 2) non-edges.

    Of a directed graph a pair (u, v) is the arc u → v, and the last num_reversed negatives are the reverses of
    one-way arcs; no arc joins the others.

    share: how these are a part of the pairs of all ranks; None for all pairs, in one process.
    """

    positive: np.ndarray
    negative: np.ndarray
    num_reversed: int = 0
    share: PairShare | None = None

    @property
    def num_edges(self) -> int:
        """Number of positives, those of all ranks included."""
        return len(self.positive) if self.share is None else self.share.num_edges

    @property
    def communicator(self) -> Communicator:
        """The communicator of the ranks that have the pairs."""
        return LOCAL if self.share is None else self.share.communicator

    def gather(self, values: np.ndarray) -> np.ndarray:
        """The values of the pairs of all ranks on the first one, positives first; none on the others.

        values: (num_pairs, ...) of the pairs here, in the order of `endpoints`. A collective call.
        """
        return values if self.share is None else self.share.gather(values)

    def on_first(self) -> Pairs:
        """The pairs of all ranks on the first one, none on the others. A collective call."""
        if self.share is None:
            return self
        both = self.gather(np.concatenate([self.positive, self.negative]))
        num_reversed = sum(count for (count,) in self.communicator.tell_all("count", [self.num_reversed]))
        return Pairs(both[: self.num_edges], both[self.num_edges :], num_reversed if len(both) else 0)

    def without_reversed(self) -> Pairs:
        """The pairs without reversed arcs: edges against pairs of nodes that no arc joins."""
        return Pairs(self.positive, self.negative[: len(self.negative) - self.num_reversed])

    def only_reversed(self) -> Pairs:
        """One-way arcs against their reverses: a scorer that ignores directions has AUC 0.5."""
        reverses = self.negative[len(self.negative) - self.num_reversed :]
        return Pairs(reverses[:, ::-1], reverses)

    def endpoints(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(sources, targets, is_edge) of positives and negatives together."""
        both = np.concatenate([self.positive, self.negative])
        is_edge = np.concatenate([np.ones(len(self.positive), bool), np.zeros(len(self.negative), bool)])
        return both[:, 0], both[:, 1], is_edge


@dataclass(frozen=True)
class LinkSplit(Generic[AnyStore]):
    """A training graph, in memory or on disk, with the validation and test pairs held out of it.

    Attributes:
        train: The graph that training may see.
        validation: Held-out edges and as many non-edges, for early stopping; None without validation.
        test: Held-out pairs for the final scores; None where nothing is tested.
        held_out: Symmetric CSR pattern of every pair of both sets: training never draws one as a negative. On several
            ranks only the rows of a rank's range of nodes are filled, and its sets have the pairs that begin there.
        protocol: Which evaluation the test pairs belong to.
    """

    train: AnyStore
    validation: Pairs | None
    test: Pairs | None
    held_out: sp.csr_array
    protocol: Protocol = "heldout"


@dataclass(frozen=True)
class EdgeSplit:
    """What is held out of a graph in memory or on disk.

    Attributes:
        rule: Which edges are held out; None for none.
        validation, test, held_out, protocol: As in `LinkSplit`.
        num_edges: Edges that are left for training.
    """

    rule: HeldOutRule | None
    validation: Pairs | None
    test: Pairs | None
    held_out: sp.csr_array
    num_edges: int
    protocol: Protocol = "heldout"

    def of(self, whole: AnyStore) -> LinkSplit[AnyStore]:
        """The split of the whole graph: what is left of it, and what is held out."""
        train = cast(AnyStore, whole.without(self.rule, self.num_edges))
        return LinkSplit(train, self.validation, self.test, self.held_out, self.protocol)


def split_links(
    graph: AnyStore,
    *,
    protocol: Protocol = "heldout",
    validation_fraction: float = 0.05,
    test_fraction: float = 0.10,
    seed: int = 0,
) -> LinkSplit[AnyStore]:
    """Hold out edges of a graph, in memory or on disk, with as many non-edges of the whole graph; see `split_edges`.

    Of a directed graph both arcs between two nodes are held out together, because one would reveal the other.
    Positives are the held-out arcs. Half of the negatives are reverses of held-out one-way arcs (fewer where there are
    not enough), the rest are pairs that no arc joins, in a random direction.

    Example:
        >>> from l2g2g.graphs.graph import Graph
        >>> graph = Graph.from_arcs(range(40), [(i + 1) % 40 for i in range(40)])
        >>> split = split_links(graph, seed=1)
        >>> split.train.num_edges, len(split.validation.positive), len(split.test.positive)
        (34, 2, 4)
    """
    held_out = split_edges(
        graph, protocol=protocol, validation_fraction=validation_fraction, test_fraction=test_fraction, seed=seed
    )
    return held_out.of(graph)


def split_edges(
    graph: EdgeSource,
    *,
    protocol: Protocol = "heldout",
    validation_fraction: float = 0.05,
    test_fraction: float = 0.10,
    seed: int = 0,
    block_entries: int = BLOCK_ENTRIES,
) -> EdgeSplit:
    """Hold out exact numbers of edges, and draw one non-edge of the whole graph for each.

    Edges are taken in the order of a hash of (seed, u, v), ties by (u, v): the first max(1, fraction · num_edges) for
    validation, the next ones for the test. Non-edges are keyed by (seed, edge, attempt), see `draw_non_edges`. So the
    split does not depend on where the graph lies.

    `heldout`: the test pairs are held-out edges against non-edges. `paper`: the authors' evaluation, for comparison
    only: the *validation* edges in both directions and a self-loop for every node, against as many non-edges.

    block_entries: entries of the graph read at once, which do not change the result.
    """
    check_choice("protocol", protocol, get_args(Protocol))
    if graph.directed and protocol == "paper":
        raise InputError("the paper's evaluation knows no directions; use --protocol heldout with --directed")
    num_edges = graph.num_edges
    num_validation, num_test = (_count_held(each, num_edges) for each in (validation_fraction, test_fraction))
    num_held = num_validation + num_test
    if num_held == 0:
        return EdgeSplit(None, None, None, pair_pattern([], graph.num_nodes), num_edges, protocol)
    if num_edges - num_held < 1:
        raise InputError(
            f"{graph.name}: {num_edges} edges leave none to train on after holding back "
            f"{num_validation} for validation and {num_test} for test; use a larger graph"
        )
    blocks = partial(edge_blocks, graph, block_entries)
    held = smallest_pairs(blocks, num_edges, num_held, split_key(seed), graph.name)

    def draw(owners: np.ndarray, stream: int = 0) -> np.ndarray:
        return draw_non_edges(graph, owners, stream_key(seed, Purpose.NON_EDGES, stream), block_entries=block_entries)

    parts = held[:num_validation], held[num_validation:]
    if graph.directed:
        find = partial(_find_directions, graph, block_entries=block_entries)
        validation, test = _pair_up_arcs(parts, find, seed, draw)
    else:
        validation, test = _pair_up(parts, draw)
    seen = [held, validation.negative, test.negative]
    if protocol == "paper":
        positive = _paper_positives(validation.positive, graph.num_nodes)
        test = Pairs(positive, draw(positive, 1))
        seen.append(test.negative)
    return EdgeSplit(
        rule_of(held, seed),
        validation if num_validation else None,
        test if num_test or protocol == "paper" else None,
        pair_pattern(seen, graph.num_nodes),
        num_edges - num_held,
        protocol,
    )


def keep_all(graph: AnyStore) -> LinkSplit[AnyStore]:
    """A split that holds nothing back: everything is training data."""
    return LinkSplit(graph, None, None, pair_pattern([], graph.num_nodes))


def _pair_up(parts: tuple[np.ndarray, np.ndarray], draw: Callable[[np.ndarray], np.ndarray]) -> tuple[Pairs, Pairs]:
    """Two sets of held-out edges, each edge with a non-edge; one draw, so that no pair is in both sets."""
    first, second = parts
    negative = draw(np.concatenate(parts))
    return Pairs(first, negative[: len(first)]), Pairs(second, negative[len(first) :])


def _pair_up_arcs(
    parts: tuple[np.ndarray, np.ndarray],
    find: Callable[[np.ndarray], np.ndarray],
    seed: int,
    draw: Callable[[np.ndarray], np.ndarray],
) -> tuple[Pairs, Pairs]:
    """The same of a directed graph: each arc with its reverse or with a non-edge. find: see `_find_directions`."""
    first, second = (_Arcs.of(part, find(part), seed) for part in parts)
    non_edges = draw(np.concatenate([first.others, second.others]))
    return first.pairs(non_edges[: len(first.others)], seed), second.pairs(non_edges[len(first.others) :], seed)


@dataclass(frozen=True)
class _Arcs:
    """The arcs of some held-out pairs of nodes.

    Attributes:
        positive: (num_arcs, 2) all of them.
        reversed: (num_reversed, 2) one-way arcs, the other way round: negatives.
        others: (num_arcs - num_reversed, 2) arcs that need a non-edge as their negative.
    """

    positive: np.ndarray
    reversed: np.ndarray
    others: np.ndarray

    @classmethod
    def of(cls, held: np.ndarray, directions: np.ndarray, seed: int) -> _Arcs:
        """Choose the arcs to reverse: the one-way arcs with the smallest hashes, half of all arcs if there are enough.

        held: (num_held, 2) held-out pairs of nodes. directions: (num_held,) of their arcs, as in `RowBlock`.
        """
        backwards = held[:, ::-1]
        forth, back = ((directions & way) > 0 for way in (FORTH, BACK))
        positive = np.concatenate([held[forth], backwards[back]])
        is_one_way = np.concatenate([~back[forth], ~forth[back]])
        one_way = np.flatnonzero(is_one_way)
        hashes = _hash_directions(positive[one_way], seed)
        order = np.lexsort((positive[one_way, 1], positive[one_way, 0], hashes))
        chosen = one_way[order[: min(len(one_way), len(positive) // 2)]]
        return cls(positive, positive[chosen, ::-1], np.delete(positive, chosen, axis=0))

    def pairs(self, non_edges: np.ndarray, seed: int) -> Pairs:
        """The arcs against non-edges, each in a random direction, and against reversed arcs."""
        is_reversed = (_hash_directions(non_edges, seed) & np.uint64(1)).astype(bool)
        non_edges = np.where(is_reversed[:, None], non_edges[:, ::-1], non_edges)
        return Pairs(self.positive, np.concatenate([non_edges, self.reversed]), len(self.reversed))


def _find_directions(graph: EdgeSource, pairs: np.ndarray, *, block_entries: int) -> np.ndarray:
    """(num_pairs,) uint8 directions of the arcs between joined nodes, as in `RowBlock`; one pass over the graph."""
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    sources, targets = np.ascontiguousarray(pairs[order].T, np.int64)
    found = np.zeros(len(pairs), np.uint8)
    for block in graph.row_blocks(block_entries, directions=True):
        low, high = np.searchsorted(sources, [block.low, block.high])
        places = kernels().find_entries(block.indptr, block.indices, sources[low:high] - block.low, targets[low:high])
        assert block.directions is not None
        found[order[low:high]] = block.directions[places]
    return found


def _hash_directions(pairs: np.ndarray, seed: int) -> np.ndarray:
    return hash_node_pairs(pairs[:, 0], pairs[:, 1], stream_key(seed, Purpose.DIRECTIONS))


def edge_blocks(graph: EdgeSource, block_entries: int = BLOCK_ENTRIES) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(sources, targets) of all edges u < v in order."""
    for block in graph.row_blocks(block_entries):
        sources, targets, _ = block.upper()
        yield sources, targets


def _count_held(fraction: float, num_edges: int) -> int:
    if not 0 <= fraction < 1:
        raise InputError(f"a held-out fraction must be at least 0 and below 1, not {fraction}")
    return max(1, int(fraction * num_edges)) if fraction > 0 else 0


def _paper_positives(validation: np.ndarray, num_nodes: int) -> np.ndarray:
    """Validation edges in both directions, and a self-loop for every node."""
    nodes = np.arange(num_nodes)
    return np.concatenate([validation, validation[:, ::-1], np.stack([nodes, nodes], axis=1)])


def pair_pattern(pair_sets: list[np.ndarray], num_nodes: int) -> sp.csr_array:
    """(num_nodes, num_nodes) symmetric CSR pattern of some pairs. pair_sets: each (num_pairs, 2)."""
    pairs = np.concatenate([np.empty((0, 2), np.int32), *(pairs.astype(np.int32) for pairs in pair_sets)])
    rows, columns = np.concatenate([pairs, pairs[:, ::-1]]).T
    pattern = sp.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(num_nodes, num_nodes)).tocsr()
    pattern.sort_indices()
    pattern.data[:] = 1  # a pair may be there twice
    return pattern
