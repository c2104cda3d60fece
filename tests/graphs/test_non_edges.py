"""Non-edges: distinct, uniform, the same from memory and disk for every block size, also where they are scarce."""

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs import splits
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import draw_non_edges, sample_non_edges
from l2g2g.graphs.store import write_graph

CHI_SQUARE_7 = 24.3  # p = 0.001


def owners(count):
    return np.stack([np.arange(count), np.arange(count) + 1], axis=1)


def random_graph(num_nodes, share, seed=0):
    u, v = np.triu_indices(num_nodes, 1)
    chosen = np.random.default_rng(seed).random(len(u)) < share
    return Graph.from_arcs(u[chosen], v[chosen], num_nodes=num_nodes, name="random")


def free_pairs(graph):
    """Set of all pairs u < v that are not edges."""
    u, v = np.triu_indices(graph.num_nodes, 1)
    joined = graph.adjacency.toarray()[u, v] > 0
    return set(zip(u[~joined].tolist(), v[~joined].tolist(), strict=True))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.74, 0.76, 0.99])
@pytest.mark.parametrize("part", [0.05, 0.45, 0.55, 1.0])
def test_distinct_non_edges_as_many_as_wanted(share, part):
    graph = random_graph(60, share)
    free = free_pairs(graph)
    count = int(part * len(free))
    found = [tuple(pair) for pair in draw_non_edges(graph, owners(count), 9).tolist()]
    assert len(set(found)) == len(found) == count
    assert set(found) <= free


@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize("block_entries", [1, 37, 10**6])
def test_memory_and_disk_agree_for_every_block_size(share, block_entries, tmp_path):
    graph = random_graph(80, share, seed=1)
    stored = write_graph(graph, tmp_path)
    expected = draw_non_edges(graph, owners(60), 4).tolist()
    assert draw_non_edges(graph, owners(60), 4, block_entries=block_entries).tolist() == expected
    assert draw_non_edges(stored, owners(60), 4, block_entries=block_entries).tolist() == expected


@pytest.mark.parametrize(("most", "candidates"), [(1, 1), (3, 1 << 18), (32, 200)])
def test_how_many_attempts_are_looked_up_at_once_does_not_matter(most, candidates, monkeypatch):
    graph = random_graph(40, 0.5, seed=2)
    expected = draw_non_edges(graph, owners(150), 5).tolist()
    monkeypatch.setattr(splits, "_MOST_ATTEMPTS", most)
    monkeypatch.setattr(splits, "_MOST_CANDIDATES", candidates)
    assert draw_non_edges(graph, owners(150), 5).tolist() == expected


def test_an_owner_that_stays_alone_keeps_its_pair():
    """Keyed by the owner: others do not shift the draw unless they take the same pair."""
    graph = random_graph(2000, 0.01, seed=3)
    together = draw_non_edges(graph, owners(50), 6)
    alone = np.concatenate([draw_non_edges(graph, owners(50)[row : row + 1], 6) for row in range(50)])
    assert (together == alone).all()


@pytest.mark.slow
@pytest.mark.parametrize("scarce", [False, True])
def test_one_pair_is_uniform_among_the_non_edges(scarce):
    u, v = np.triu_indices(9, 1)
    edges = (u[8:], v[8:]) if scarce else (np.array([0, 1]), np.array([1, 2]))
    graph = Graph.from_arcs(*edges, num_nodes=9 if scarce else 5)
    free = sorted(free_pairs(graph))
    assert len(free) == 8
    counts = dict.fromkeys(free, 0)
    for key in range(4000):
        ((a, b),) = draw_non_edges(graph, owners(1), key * 7919 + 1).tolist()
        counts[a, b] += 1
    expected = 4000 / 8
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < CHI_SQUARE_7


@pytest.mark.slow
def test_every_place_is_uniform_where_owners_compete():
    """Three of eight pairs: each owner, early or late, gets each pair equally often."""
    graph = Graph.from_arcs([0, 1], [1, 2], num_nodes=5)
    free = sorted(free_pairs(graph))
    counts = np.zeros((3, 8))
    for key in range(4000):
        for owner, pair in enumerate(draw_non_edges(graph, owners(3), key * 104729 + 3).tolist()):
            counts[owner, free.index(tuple(pair))] += 1
    assert (((counts - 500) ** 2 / 500).sum(axis=1) < CHI_SQUARE_7).all()


def test_collisions_go_to_the_earlier_owner_and_the_lower_attempt(monkeypatch):
    """Candidates by hand: columns are owners, rows attempts; 9 nodes, no edge among these pairs."""
    graph = Graph.from_arcs([0], [8], num_nodes=9)
    table = np.array([[12, 12, 14, 10], [14, 13, 15, 10], [16, 16, 16, 17]])  # 10 is node 1 with itself
    monkeypatch.setattr(splits, "_MOST_ATTEMPTS", 3)

    def by_hand(streams, attempts, num_nodes):
        return table[list(attempts)][:, : len(streams)]

    monkeypatch.setattr(splits, "_draw_candidates", by_hand)
    # Owner 0 takes 12 before owner 1, who takes 13 in the next attempt; owner 3 waits for 17.
    assert (draw_non_edges(graph, owners(4), 0) @ [9, 1]).tolist() == [12, 13, 14, 17]


def test_all_non_edges_of_a_nearly_complete_graph_and_not_one_more():
    complete = np.triu_indices(12, 1)
    nearly = Graph.from_arcs(complete[0][:-3], complete[1][:-3], num_nodes=12)
    drawn = sample_non_edges(nearly, 3, np.random.default_rng(0))
    assert {tuple(pair) for pair in drawn.tolist()} == {(9, 10), (9, 11), (10, 11)}
    with pytest.raises(InputError, match="4 non-edges are needed but the graph has only 3; it is too dense"):
        sample_non_edges(nearly, 4, np.random.default_rng(0))


def test_a_table_of_non_edges_is_made_in_pieces(monkeypatch):
    graph = random_graph(50, 0.8, seed=5)
    expected = draw_non_edges(graph, owners(100), 1).tolist()
    monkeypatch.setattr(splits, "_TABLE_CELLS", 120)
    assert draw_non_edges(graph, owners(100), 1).tolist() == expected


def test_a_generator_fixes_the_sample_and_another_changes_it(planted):
    one, two, other = (sample_non_edges(planted, 200, np.random.default_rng(seed)).tolist() for seed in (0, 0, 1))
    assert one == two != other
    assert sample_non_edges(planted, 0, np.random.default_rng(0)).shape == (0, 2)
