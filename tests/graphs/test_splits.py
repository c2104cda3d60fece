"""Splits: the right sizes, and nothing held out is ever seen in training, in either direction."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.core.randomness import Purpose, hash_node_pairs, stream_key
from l2g2g.errors import InputError
from l2g2g.graphs import held_out
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import keep_all, split_edges, split_links
from l2g2g.graphs.store import write_graph
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition

from ..training.in_memory import prepare_batches


def as_set(pairs):
    """Unordered pairs."""
    return {(min(u, v), max(u, v)) for u, v in np.asarray(pairs).tolist()}


def edges_of(matrix):
    matrix = sp.coo_array(matrix)
    return {(int(u), int(v)) for u, v in zip(matrix.row, matrix.col, strict=True) if u < v}


def held_out_pairs(split):
    """Every pair of both sets; the paper's self-loops are no pair of two nodes."""
    parts = [split.validation.positive, split.validation.negative, split.test.positive, split.test.negative]
    return {(u, v) for u, v in as_set(np.concatenate(parts)) if u != v}


def cut(graph, method):
    if method == "whole":
        return whole_graph(graph.num_nodes)
    labels = partition(graph.adjacency, 4, method=method)
    return make_patches(graph, labels, min_overlap=5, target_overlap=10)


def test_sizes_and_disjoint_parts(planted):
    split = split_links(planted, seed=3)
    num_validation, num_test = int(0.05 * planted.num_edges), int(0.10 * planted.num_edges)
    assert (len(split.validation.positive), len(split.test.positive)) == (num_validation, num_test)
    assert (len(split.validation.negative), len(split.test.negative)) == (num_validation, num_test)
    assert split.train.num_edges == planted.num_edges - num_validation - num_test
    parts = [edges_of(split.train.adjacency), as_set(split.validation.positive), as_set(split.test.positive)]
    assert set.union(*parts) == edges_of(planted.adjacency)
    assert sum(map(len, parts)) == planted.num_edges
    assert split.train.features is planted.features


def test_negatives_are_distinct_non_edges_of_the_whole_graph(planted):
    split = split_links(planted, seed=1)
    negatives = np.concatenate([split.validation.negative, split.test.negative])
    assert len(as_set(negatives)) == len(negatives)
    assert (negatives[:, 0] < negatives[:, 1]).all()
    assert not as_set(negatives) & edges_of(planted.adjacency)


@pytest.mark.parametrize("patches", ["whole", "metis", "random"])
@pytest.mark.parametrize("protocol", ["heldout", "paper"])
def test_training_never_sees_a_held_out_pair(planted, protocol, patches, monkeypatch):
    split = split_links(planted, protocol=protocol, seed=0)
    forbidden = held_out_pairs(split)
    positives = as_set(np.concatenate([split.validation.positive, split.test.positive]))
    assert not forbidden & edges_of(split.train.adjacency)
    patch_set = cut(split.train, patches)
    batches = prepare_batches(patch_set, split.train.adjacency, planted.features, split.held_out)
    (batch,) = batches
    nodes = patch_set.global_nodes

    def pairs(pair_list):
        return as_set(np.stack([nodes[pair_list.rows], nodes[pair_list.columns]], axis=1))

    loss_edges = pairs(batch.pairs.edges.pair_list)
    seen = batch.inputs.propagation.to_scipy().tocoo()
    encoder_edges = {(u, v) for u, v in as_set(np.stack([nodes[seen.row], nodes[seen.col]], axis=1)) if u != v}
    assert loss_edges
    assert encoder_edges == loss_edges
    assert not loss_edges & forbidden
    drawn = set()
    for epoch in range(60):
        drawn |= pairs(batch.pairs.negatives.list_pairs(seed=0, epoch=epoch))
    monkeypatch.setattr("l2g2g.core._backend", "torch")  # the other route
    drawn |= pairs(batch.pairs.negatives.list_pairs(seed=0, epoch=60))
    assert len(drawn) > 1000
    assert not drawn & forbidden
    assert not drawn & positives
    assert not drawn & edges_of(planted.adjacency)
    assert all(u != v for u, v in drawn)


def test_without_the_held_out_pattern_they_would_be_drawn(planted):
    """The test above can fail: the same draw without the pattern does meet held-out pairs."""
    split = split_links(planted, seed=0)
    nothing = keep_all(planted).held_out
    (batch,) = prepare_batches(whole_graph(planted.num_nodes), split.train.adjacency, planted.features, nothing)
    drawn = set()
    for epoch in range(20):
        negatives = batch.pairs.negatives.list_pairs(seed=0, epoch=epoch)
        drawn |= as_set(np.stack([negatives.rows, negatives.columns], axis=1))
    assert drawn & held_out_pairs(split)


def test_held_out_pattern_is_symmetric_and_complete(planted):
    split = split_links(planted, seed=5)
    assert edges_of(split.held_out) == held_out_pairs(split)
    assert (split.held_out != split.held_out.T).nnz == 0


def test_paper_protocol_is_validation_both_ways_plus_self_loops(planted):
    split = split_links(planted, protocol="paper", seed=2)
    validation = split.validation.positive
    num_nodes = planted.num_nodes
    assert len(split.test.positive) == 2 * len(validation) + num_nodes
    assert split.test.positive[: len(validation)].tolist() == validation.tolist()
    assert split.test.positive[len(validation) : 2 * len(validation)].tolist() == validation[:, ::-1].tolist()
    assert split.test.positive[-num_nodes:].tolist() == [[node, node] for node in range(num_nodes)]
    assert len(split.test.negative) == len(split.test.positive)
    assert len(as_set(split.test.negative)) == len(split.test.negative)
    assert not as_set(split.test.negative) & edges_of(planted.adjacency)
    assert split.protocol == "paper"


def test_a_seed_fixes_the_split_and_another_changes_it(planted):
    first, again, other = (split_links(planted, seed=seed) for seed in (7, 7, 8))
    for part in ("validation", "test"):
        for side in ("positive", "negative"):
            one, two, three = (getattr(getattr(split, part), side) for split in (first, again, other))
            assert (one == two).all()
            assert as_set(one) != as_set(three)


def test_weights_stay_with_their_edges():
    weights = np.arange(1.0, 41.0)
    ring = Graph.from_arcs(np.arange(40), (np.arange(40) + 1) % 40, weights)
    train = split_links(ring, seed=0).train
    for u, v, weight in zip(*train.edges(), train.edge_weights(), strict=True):
        assert weight == (40 if (u, v) == (0, 39) else u + 1)


def test_validation_only_and_nothing_held_back(planted):
    split = split_links(planted, test_fraction=0.0)
    assert split.test is None
    assert len(split.validation.positive) == int(0.05 * planted.num_edges)
    everything = keep_all(planted)
    assert everything.train is planted
    assert (everything.validation, everything.test, everything.held_out.nnz) == (None, None, 0)


@pytest.mark.parametrize("block_entries", [1, 97, 10**6])
@pytest.mark.parametrize("fractions", [(0.05, 0.10), (0.3, 0.0), (0.0, 0.2), (0.0001, 0.0001)])
def test_memory_and_disk_give_the_same_split_for_every_block_size(planted, fractions, block_entries, tmp_path):
    how = {"validation_fraction": fractions[0], "test_fraction": fractions[1], "seed": 4}
    expected = split_links(planted, **how)
    found = split_edges(write_graph(planted, tmp_path), **how, block_entries=block_entries)
    for part, fraction in zip(("validation", "test"), fractions, strict=True):
        one, two = getattr(expected, part), getattr(found, part)
        if fraction == 0:
            assert one is two is None
            continue
        assert len(two.positive) == len(two.negative) == max(1, int(fraction * planted.num_edges))
        assert one.positive.tolist() == two.positive.tolist()
        assert one.negative.tolist() == two.negative.tolist()
    assert (expected.held_out != found.held_out).nnz == 0
    assert found.num_edges == expected.train.num_edges
    assert (found.of(planted).train.adjacency != expected.train.adjacency).nnz == 0


def test_no_way_of_reading_a_training_graph_shows_a_held_out_edge(planted, tmp_path):
    expected = split_links(planted, seed=4).train.adjacency
    train = split_links(write_graph(planted, tmp_path), seed=4).train
    nodes = np.arange(planted.num_nodes)
    for rows in (train.read_adjacency_of(nodes), train.pattern_of(nodes)):
        assert (rows != expected).nnz == 0
    assert (train.to_graph().adjacency != expected).nnz == 0
    assert train.row_block(0, len(nodes)).indices.tolist() == expected.indices.tolist()
    assert train.degrees.tolist() == np.diff(expected.indptr).tolist()
    assert (train.num_edges, train.stored.num_edges) == (expected.nnz // 2, planted.num_edges)


@pytest.mark.parametrize("protocol", ["heldout", "paper"])
def test_the_papers_pairs_are_the_same_on_disk(planted, protocol, tmp_path):
    expected = split_links(planted, protocol=protocol, seed=6)
    found = split_edges(write_graph(planted, tmp_path), protocol=protocol, seed=6, block_entries=50)
    assert found.test.positive.tolist() == expected.test.positive.tolist()
    assert found.test.negative.tolist() == expected.test.negative.tolist()
    assert (expected.held_out != found.held_out).nnz == 0


def test_held_out_edges_have_the_smallest_hashes(planted):
    split = split_links(planted, seed=9)
    parts = (split.validation.positive, split.test.positive, np.stack(split.train.edges(), axis=1))
    low, middle, high = (hash_node_pairs(*part.T, stream_key(9, Purpose.SPLIT)) for part in parts)
    assert low.max() < middle.min() <= middle.max() < high.min()
    assert (np.diff(np.concatenate([low, middle]).astype(float)) > 0).all()


def test_equal_hashes_are_split_by_their_nodes(monkeypatch):
    """With one hash for all, the first edges by (u, v) are validation and the next ones test."""
    monkeypatch.setattr(held_out, "hash_node_pairs", lambda one, other, key: np.full(len(one), 5, np.uint64))
    ring = Graph.from_arcs(np.arange(40), (np.arange(40) + 1) % 40)
    split = split_links(ring, validation_fraction=0.05, test_fraction=0.1)
    assert split.validation.positive.tolist() == [[0, 1], [0, 39]]
    assert split.test.positive.tolist() == [[1, 2], [2, 3], [3, 4], [4, 5]]
    assert edges_of(split.train.adjacency) == {(u, u + 1) for u in range(5, 39)}


@pytest.mark.slow
def test_which_edges_are_held_out_is_uniform():
    """Of a ring of 20, each edge is validation in 1 of 20 seeds and test in 2."""
    ring = Graph.from_arcs(np.arange(20), (np.arange(20) + 1) % 20)
    counts = np.zeros((2, 20))
    for seed in range(2000):
        split = split_links(ring, seed=seed)
        for part, pairs in enumerate((split.validation.positive, split.test.positive)):
            for u, v in pairs.tolist():
                counts[part, 19 if (u, v) == (0, 19) else u] += 1
    expected = np.array([[100.0], [200.0]])
    assert (((counts - expected) ** 2 / expected).sum(axis=1) < 43.8).all()  # chi-square, 19 degrees, p = 0.001


def test_only_edges_and_node_numbers_decide(planted):
    bare = Graph(planted.adjacency, name="bare")
    assert split_links(bare, seed=1).test.positive.tolist() == split_links(planted, seed=1).test.positive.tolist()


def test_refusals_name_the_numbers(planted):
    complete = Graph.from_arcs(*np.triu_indices(12, 1), name="clique")
    with pytest.raises(InputError, match="it is too dense"):
        split_links(complete)
    with pytest.raises(InputError, match="tiny: 2 edges leave none to train on"):
        split_links(Graph.from_arcs([0, 1], [1, 2], name="tiny"))
    with pytest.raises(InputError, match="unknown protocol 'both'"):
        split_links(planted, protocol="both")
    with pytest.raises(InputError, match=r"at least 0 and below 1, not 1\.5"):
        split_links(planted, test_fraction=1.5)


def arcs_of(matrix):
    return {(int(u), int(v)) for u, v in zip(*sp.coo_array(matrix).coords, strict=True)}


def test_directed_pairs_are_held_out_with_all_their_arcs(arrows):
    split = split_links(arrows, seed=1)
    arcs, kept = arcs_of(arrows.arcs), arcs_of(split.train.arcs)
    held = [{tuple(pair) for pair in part.positive.tolist()} for part in (split.validation, split.test)]
    assert kept | held[0] | held[1] == arcs
    assert len(kept) + len(held[0]) + len(held[1]) == len(arcs)
    for pairs in held:
        assert not {(v, u) for u, v in pairs} & kept
        assert not as_set(list(pairs)) & edges_of(split.train.adjacency)
    assert edges_of(split.train.adjacency) == as_set(list(kept))


def test_directed_negatives_are_no_arcs_half_of_them_reversed(arrows):
    split = split_links(arrows, seed=1)
    arcs, joined = arcs_of(arrows.arcs), edges_of(arrows.adjacency)
    for part in (split.validation, split.test):
        assert len(part.negative) == len(part.positive)
        assert part.num_reversed == len(part.positive) // 2
        assert not {tuple(pair) for pair in part.negative.tolist()} & arcs
        apart = part.without_reversed().negative
        assert not as_set(apart) & joined
        assert len(apart) + part.num_reversed == len(part.negative)
        way = part.only_reversed()
        positive = {tuple(pair) for pair in part.positive.tolist()}
        assert {tuple(pair) for pair in way.positive.tolist()} <= positive
        assert (way.positive == way.negative[:, ::-1]).all()
        never = split.held_out.toarray() > 0
        assert never[part.negative[:, 0], part.negative[:, 1]].all()
        assert never[part.positive[:, 1], part.positive[:, 0]].all()
    ups = (split.test.without_reversed().negative[:, 0] < split.test.without_reversed().negative[:, 1]).mean()
    assert 0.3 < ups < 0.7


def test_the_papers_protocol_knows_no_directions(arrows):
    with pytest.raises(InputError, match="heldout"):
        split_links(arrows, protocol="paper")


def test_directed_negatives_are_distinct_over_both_sets(arrows):
    split = split_links(arrows, seed=2)
    apart = np.concatenate([part.without_reversed().negative for part in (split.validation, split.test)])
    assert len(as_set(apart)) == len(apart)
    held = held_out_pairs(split)
    assert edges_of(split.held_out) == held


@pytest.mark.parametrize("fractions", [(0.1, 0.0), (0.0, 0.1)])
def test_one_directed_set_alone(arrows, fractions):
    split = split_links(arrows, validation_fraction=fractions[0], test_fraction=fractions[1])
    part, other = (split.validation, split.test) if fractions[0] else (split.test, split.validation)
    assert other is None
    assert len(as_set(part.positive)) == int(0.1 * arrows.num_edges)
    assert arcs_of(split.train.arcs) | {tuple(pair) for pair in part.positive.tolist()} == arcs_of(arrows.arcs)
