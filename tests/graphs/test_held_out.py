"""Which edges are held out: the smallest hashes, exactly as many as wanted, ties by (u, v)."""

import numpy as np
import pytest

from l2g2g.core.randomness import Purpose, hash_node_pairs, mix, stream_key
from l2g2g.errors import InputError
from l2g2g.graphs import held_out
from l2g2g.graphs.held_out import HashedPair, HeldOutRule, drop_entries, rule_of, smallest_pairs

TRIANGLES = (np.array([0, 0, 1, 2, 2, 3]), np.array([1, 2, 2, 3, 4, 4]))  # 0-1-2 and 2-3-4
GOLDEN = 0x9E3779B97F4A7C15


def in_blocks(pairs, size):
    return lambda: [(pairs[0][low : low + size], pairs[1][low : low + size]) for low in range(0, len(pairs[0]), size)]


def hash_by_hand(seed, u, v):
    return mix((stream_key(seed, Purpose.SPLIT) + ((u << 32) + v + 1) * GOLDEN) % 2**64)


@pytest.fixture
def coarse(monkeypatch):
    """A hash of one bit: nearly all pairs are tied."""

    def hash_coarsely(one, other, key):
        return ((one.astype(np.int64) + other.astype(np.int64)) % 2).astype(np.uint64)

    monkeypatch.setattr(held_out, "hash_node_pairs", hash_coarsely)


@pytest.mark.slow
def test_the_hash_is_that_of_the_formula_and_of_no_other_pair():
    pairs = np.array([[0, 1], [1, 0], [3, 2**31 - 1]])
    found = hash_node_pairs(pairs[:, 0], pairs[:, 1], stream_key(7, Purpose.SPLIT))
    assert found.tolist() == [hash_by_hand(7, int(u), int(v)) for u, v in pairs]
    u, v = np.triu_indices(1000, 1)
    assert len(np.unique(hash_node_pairs(u, v, 5))) == len(u)


@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("count", range(7))
def test_the_smallest_hashes_are_taken_in_order(count, size):
    found = smallest_pairs(in_blocks(TRIANGLES, size), 6, count, stream_key(3, Purpose.SPLIT), "g")
    pairs = list(zip(*(ends.tolist() for ends in TRIANGLES), strict=True))
    assert [tuple(pair) for pair in found.tolist()] == sorted(pairs, key=lambda pair: hash_by_hand(3, *pair))[:count]


@pytest.mark.parametrize("size", [1, 4, 6])
def test_ties_go_by_the_nodes(coarse, size):
    # Even sums first, each group in the order of (u, v).
    expected = [(0, 2), (2, 4), (0, 1), (1, 2), (2, 3), (3, 4)]
    for count in range(7):
        found = smallest_pairs(in_blocks(TRIANGLES, size), 6, count, 0, "g")
        assert [tuple(pair) for pair in found.tolist()] == expected[:count]
        rule = rule_of(found, 0)
        held = [] if rule is None else rule.holds(*TRIANGLES)
        chosen = {pair for pair, is_held in zip(zip(*TRIANGLES, strict=True), held, strict=False) if is_held}
        assert chosen == set(expected[:count])


@pytest.mark.slow
def test_many_pairs_and_few_wanted_need_one_pass():
    u, v = np.triu_indices(2000, 1)
    passes = []

    def blocks():
        passes.append(1)
        return in_blocks((u, v), 100_000)()

    found = smallest_pairs(blocks, len(u), 10_000, 11, "g")
    hashes = hash_node_pairs(u, v, 11)
    assert (hash_node_pairs(found[:, 0], found[:, 1], 11) == np.sort(hashes)[:10_000]).all()
    assert len(passes) == 1


def test_hashes_that_are_all_large_are_still_found(monkeypatch):
    monkeypatch.setattr(held_out, "hash_node_pairs", lambda one, other, key: np.full(len(one), 2**64 - 1, np.uint64))
    u, v = np.triu_indices(100, 1)
    assert smallest_pairs(in_blocks((u, v), 1000), len(u), 3, 0, "g").tolist() == [[0, 1], [0, 2], [0, 3]]


def test_fewer_pairs_than_promised_are_refused():
    with pytest.raises(InputError, match="g: has 6 pairs where 60 are expected; it is damaged"):
        smallest_pairs(in_blocks(TRIANGLES, 6), 60, 50, 0, "g")


def test_a_rule_is_the_same_in_both_directions_and_for_local_numbers():
    u, v = np.triu_indices(40, 1)
    held = smallest_pairs(in_blocks((u, v), 100), len(u), 100, stream_key(2, Purpose.SPLIT), "g")
    rule = rule_of(held, 2)
    assert rule.holds(u, v).sum() == rule.holds(v, u).sum() == 100
    assert rule.holds(held[:, 1], held[:, 0]).all()
    # A patch of the nodes 5, 9, 30, all joined: rows and columns are local.
    nodes = np.array([5, 9, 30])
    indptr, indices = np.array([0, 2, 4, 6]), np.array([1, 2, 0, 2, 0, 1])
    expected = rule.holds(np.repeat(nodes, 2), nodes[indices])
    assert rule.find(indptr, indices, nodes, nodes).tolist() == np.flatnonzero(expected).tolist()


def test_nothing_held_out_has_no_rule():
    assert rule_of(np.empty((0, 2), np.int64), 0) is None


def test_the_last_pair_is_held_out_and_the_one_after_it_is_not(coarse):
    rule = HeldOutRule(0, HashedPair(0, 2, 6))
    assert rule.holds(np.array([2, 2, 1, 3, 0]), np.array([6, 8, 9, 5, 1])).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_entries_are_dropped_from_their_rows():
    indptr, indices, weights = np.array([0, 2, 2, 5]), np.array([1, 3, 0, 1, 4]), np.arange(5.0)
    found = drop_entries(indptr, indices, weights, np.array([1, 2]))
    assert [part.tolist() for part in found] == [[0, 1, 1, 3], [1, 1, 4], [0.0, 3.0, 4.0]]
