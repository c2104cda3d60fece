"""Splits, of any graph and seed: disjoint, of the right size, symmetric, and negatives that are none."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links

BOUNDED = settings(max_examples=25, deadline=None, derandomize=True)


@st.composite
def graphs(draw):
    """Up to 30 nodes, sparse or dense, perhaps with weights."""
    num_nodes = draw(st.integers(5, 30))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sources, targets = np.triu_indices(num_nodes, 1)
    chosen = generator.random(len(sources)) < draw(st.floats(0.05, 0.6))
    chosen[0] = True
    weights = generator.random(int(chosen.sum())) + 0.1 if draw(st.booleans()) else None
    return Graph.from_arcs(sources[chosen], targets[chosen], weights, num_nodes=num_nodes)


def pairs_of(array):
    return {(min(u, v), max(u, v)) for u, v in array.tolist()}


def edges_of(graph):
    return set(zip(*(part.tolist() for part in graph.edges()), strict=True))


def split_or_pass(graph, **options):
    try:
        return split_links(graph, **options)
    except InputError:  # too few edges, or too few pairs that are none
        assume(False)


@BOUNDED
@given(graph=graphs(), seed=st.integers(0, 999), held=st.tuples(st.floats(0.01, 0.4), st.floats(0.01, 0.4)))
def test_the_parts_are_disjoint_and_of_their_sizes(graph, seed, held):
    split = split_or_pass(graph, seed=seed, validation_fraction=held[0], test_fraction=held[1])
    parts = [edges_of(split.train), pairs_of(split.validation.positive), pairs_of(split.test.positive)]
    assert set.union(*parts) == edges_of(graph)
    assert sum(map(len, parts)) == graph.num_edges
    assert [len(part) for part in parts[1:]] == [max(1, int(share * graph.num_edges)) for share in held]
    negatives = np.concatenate([split.validation.negative, split.test.negative])
    assert len(pairs_of(negatives)) == len(negatives) == len(parts[1]) + len(parts[2])
    assert not pairs_of(negatives) & edges_of(graph)
    assert (negatives[:, 0] != negatives[:, 1]).all()


@BOUNDED
@given(graph=graphs(), seed=st.integers(0, 999), protocol=st.sampled_from(["heldout", "paper"]))
def test_training_sees_nothing_of_what_is_held_out(graph, seed, protocol):
    split = split_or_pass(graph, seed=seed, protocol=protocol)
    train, held = split.train.adjacency, split.held_out
    assert abs(train - train.T).nnz == 0
    assert abs(held - held.T).nnz == 0
    assert train.multiply(held).nnz == 0
    for pairs in (split.validation, split.test):
        both = np.concatenate([pairs.positive, pairs.negative])
        apart = both[both[:, 0] != both[:, 1]]  # the paper's pairs hold self-loops
        assert (np.asarray(held[apart[:, 0], apart[:, 1]]) > 0).all()
    if graph.weighted:
        assert sp.csr_array(train - graph.adjacency.multiply(train > 0)).nnz == 0


@BOUNDED
@given(graph=graphs(), seed=st.integers(0, 999))
def test_the_same_seed_is_the_same_split(graph, seed):
    one, two = (split_or_pass(graph, seed=seed) for _ in range(2))
    assert np.array_equal(one.test.positive, two.test.positive)
    assert np.array_equal(one.test.negative, two.test.negative)
    assert (one.train.adjacency != two.train.adjacency).nnz == 0


@BOUNDED
@given(num_nodes=st.integers(6, 25), seed=st.integers(0, 999))
def test_directed_splits_hold_pairs_back_with_all_their_arcs(num_nodes, seed):
    generator = np.random.default_rng(seed)
    sources, targets = generator.integers(0, num_nodes, (2, 4 * num_nodes))
    try:
        graph = Graph.from_arcs(sources, targets, num_nodes=num_nodes, directed=True)
    except InputError:  # every arc both ways
        assume(False)
    split = split_or_pass(graph, seed=seed, validation_fraction=0.2, test_fraction=0.2)
    arcs = {(int(u), int(v)) for u, v in zip(*graph.arcs.nonzero(), strict=True)}
    for pairs in (split.validation, split.test):
        assert {tuple(pair) for pair in pairs.positive.tolist()} <= arcs
        assert not {tuple(pair) for pair in pairs.negative.tolist()} & arcs
        for u, v in pairs.positive.tolist():
            assert split.train.arcs[u, v] == split.train.arcs[v, u] == 0


def test_too_little_to_hold_back_is_refused():
    with pytest.raises(InputError, match="leave none to train on"):
        split_links(Graph.from_arcs([0, 1], [1, 2]))
