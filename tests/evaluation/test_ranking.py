"""Ranking: ranks by hand, candidates that match in degree and are never known, and the level of chance."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import NumericalError
from l2g2g.evaluation.ranking import LinkRanks, matched_candidates, rank_links
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links


@pytest.fixture(scope="module")
def uneven():
    """2,000 nodes of very uneven degree: the ends of each edge are drawn with weights 1 / rank."""
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, 2001)
    ends = generator.choice(2000, (2, 12_000), p=weights / weights.sum())
    return Graph.from_arcs(*ends, num_nodes=2000, name="uneven")


def ranked(graph, split, embedding, scorer=None, **options):
    return rank_links(embedding, split.test.positive, graph.pattern_of, split.train.degrees, scorer, **options)


def table_scorer(table):
    """Score pairs by a matrix."""
    return lambda embedding, sources, targets: table[sources, targets]


def test_summary_by_hand():
    scores = LinkRanks.from_ranks(np.array([1.0, 2.0, 10.0, 10.5, 50.0, 51.0]))
    assert scores.mrr == pytest.approx((1 + 1 / 2 + 1 / 10 + 1 / 10.5 + 1 / 50 + 1 / 51) / 6)
    assert (scores.hits_at_1, scores.hits_at_10, scores.hits_at_50) == pytest.approx((1 / 6, 3 / 6, 5 / 6))


def test_ranks_by_hand():
    # Of the path 0 - 1 - 2 - 3 - 4 the edge (1, 2) is held out. Node 1 is not joined to 3 and 4, node 2 not to 0 and 4.
    known = Graph.from_arcs([0, 1, 2, 3], [1, 2, 3, 4]).pattern_of
    degrees = np.array([1, 1, 1, 2, 1])
    table = np.zeros((5, 5))
    table[1, 2] = table[2, 1] = 5
    table[1, [3, 4]] = [6, 5]  # one higher, one the same: rank 2.5
    table[2, [0, 4]] = [1, 9]  # one lower, one higher: rank 2
    scores = rank_links(
        np.zeros((5, 1)), np.array([[1, 2]]), known, degrees, table_scorer(table), num_candidates=2, seed=3
    )
    assert scores.mrr == pytest.approx((1 / 2.5 + 1 / 2) / 2)
    assert (scores.hits_at_1, scores.hits_at_10, scores.num_ranked, scores.num_left_out) == (0, 1, 2, 0)


def test_a_score_that_knows_the_edges_is_perfect_and_its_opposite_last(uneven):
    split = split_links(uneven, seed=0)
    table = uneven.adjacency.toarray()
    nothing = np.zeros((uneven.num_nodes, 1), np.float32)
    perfect = ranked(uneven, split, nothing, table_scorer(table))
    assert (perfect.mrr, perfect.hits_at_1, perfect.hits_at_50) == (1, 1, 1)
    worst = ranked(uneven, split, nothing, table_scorer(-table))
    assert (worst.mrr, worst.hits_at_50) == (pytest.approx(1 / 101), 0)
    tied = ranked(uneven, split, nothing)  # all scores are the same
    assert (tied.mrr, tied.hits_at_50) == (pytest.approx(1 / 51), 0)


def test_a_perfect_embedding_has_rank_one():
    """Cliques without a link between them, and one direction for each: inside scores 1, outside 0."""
    cliques = BlockModel.planted(num_blocks=10, block_size=12, inside=1.0, outside=0.0)
    graph = cliques.sample(0)
    split = split_links(graph, seed=0)
    scores = ranked(graph, split, np.eye(10, dtype=np.float32)[graph.labels])
    assert (scores.mrr, scores.hits_at_1) == (1, 1)


@pytest.mark.slow
def test_random_vectors_are_at_the_documented_chance(uneven):
    split = split_links(uneven, seed=0)
    found = []
    for seed in range(20):
        table = np.random.default_rng(seed).random((uneven.num_nodes, uneven.num_nodes))
        found.append(ranked(uneven, split, np.zeros((uneven.num_nodes, 1)), table_scorer(table), seed=seed))
    chance = (1 / np.arange(1, 102)).sum() / 101
    assert np.mean([scores.mrr for scores in found]) == pytest.approx(chance, abs=0.003)
    assert np.mean([scores.hits_at_1 for scores in found]) == pytest.approx(1 / 101, abs=0.002)
    assert np.mean([scores.hits_at_10 for scores in found]) == pytest.approx(10 / 101, abs=0.005)
    assert np.mean([scores.hits_at_50 for scores in found]) == pytest.approx(50 / 101, abs=0.01)


def test_candidates_are_distinct_and_never_known(uneven):
    split = split_links(uneven, seed=1)
    ends = np.concatenate([split.test.positive, split.test.positive[:, ::-1]])
    allowed = uneven.num_nodes - 1 - uneven.degrees[ends[:, 0]] >= 100
    fixed, replaced = ends[allowed].T
    candidates = matched_candidates(
        fixed, replaced, uneven.adjacency, split.train.degrees, 100, np.random.default_rng(0)
    )
    assert ((candidates >= 0) & (candidates < uneven.num_nodes)).all()
    assert (uneven.adjacency.toarray()[fixed[:, None], candidates] == 0).all()  # training, validation and test edges
    assert (candidates != fixed[:, None]).all()
    assert (np.diff(np.sort(candidates, axis=1), axis=1) > 0).all()


def test_candidates_have_the_degree_of_the_node_they_replace(uneven):
    split = split_links(uneven, seed=1)
    degrees = split.train.degrees
    fixed, replaced = split.test.positive.T
    candidates = matched_candidates(fixed, replaced, uneven.adjacency, degrees, 100, np.random.default_rng(0))
    same = (degrees[candidates] == degrees[replaced][:, None]).sum(axis=1)
    for row in range(0, len(fixed), 7):
        peers = np.flatnonzero(degrees == degrees[replaced[row]])
        taken = [fixed[row], *uneven.adjacency[[fixed[row]]].indices]
        assert same[row] == min(100, len(np.setdiff1d(peers, taken)))
    # As many lie above as below, where the fixed node leaves enough of the 200 above free.
    middle = (degrees[replaced] < np.sort(degrees)[-200]) & (uneven.degrees[fixed] < 100)
    above = (degrees[candidates] > degrees[replaced][:, None]).sum(axis=1)
    below = (degrees[candidates] < degrees[replaced][:, None]).sum(axis=1)
    assert (above[middle] > 0).sum() > 20
    assert (np.abs(above - below)[middle] <= 1).all()


def test_degree_alone_scores_far_less_than_among_uniform_non_edges(uneven):
    split = split_links(uneven, seed=0)
    by_degree = split.train.degrees[:, None].astype(np.float32)
    matched = ranked(uneven, split, by_degree)
    same_degree = np.ones_like(split.train.degrees)  # all nodes count as equal: uniform candidates
    uniform = rank_links(by_degree, split.test.positive, uneven.pattern_of, same_degree)
    assert uniform.mrr > 2 * matched.mrr
    assert matched.hits_at_10 < uniform.hits_at_10 - 0.2


def test_the_seed_decides(uneven):
    split = split_links(uneven, seed=0)
    vectors = np.random.default_rng(0).normal(size=(uneven.num_nodes, 4)).astype(np.float32)
    first, again, other = (ranked(uneven, split, vectors, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first.mrr != other.mrr


def test_many_edges_are_sampled_and_slices_do_not_show(uneven, monkeypatch):
    split = split_links(uneven, seed=0)
    vectors = np.random.default_rng(0).normal(size=(uneven.num_nodes, 4)).astype(np.float32)
    assert ranked(uneven, split, vectors, max_edges=50).num_ranked == 100
    whole = ranked(uneven, split, vectors)
    assert whole.num_ranked + whole.num_left_out == 2 * len(split.test.positive)
    monkeypatch.setattr("l2g2g.evaluation.ranking._ROWS_PER_SLICE", 7)
    assert ranked(uneven, split, vectors) == whole


def test_nodes_joined_to_almost_all_are_left_out_and_counted():
    hub = Graph.from_arcs(np.zeros(119, int), np.arange(1, 120))  # a star: the hub has no non-neighbour
    edges = np.array([[0, 5], [0, 6]])
    scores = rank_links(np.ones((120, 2)), edges, hub.pattern_of, hub.degrees)
    assert (scores.num_ranked, scores.num_left_out) == (2, 2)
    small = Graph.from_arcs(range(20), [(i + 1) % 20 for i in range(20)])
    assert rank_links(np.ones((20, 2)), np.array([[0, 1]]), small.pattern_of, small.degrees) is None


def test_scores_that_are_no_numbers_are_a_numerical_error(uneven):
    split = split_links(uneven, seed=0)
    with pytest.raises(NumericalError, match="not finite"):
        ranked(uneven, split, np.full((uneven.num_nodes, 2), np.nan))


def test_wide_indices_are_understood(uneven):
    split = split_links(uneven, seed=0)
    vectors = np.random.default_rng(0).normal(size=(uneven.num_nodes, 4)).astype(np.float32)
    arrays = uneven.adjacency
    wide = sp.csr_array((arrays.data, arrays.indices.astype(np.int64), arrays.indptr.astype(np.int64)), arrays.shape)
    narrow = ranked(uneven, split, vectors)
    assert rank_links(vectors, split.test.positive, lambda _: wide, split.train.degrees) == narrow


def test_arcs_are_ranked_in_their_own_direction():
    # The arc 1 → 2 is held out; where 2 stays, w → 2 is scored and not 2 → w.
    known = Graph.from_arcs([0, 1, 2, 3], [1, 2, 3, 4]).pattern_of
    degrees = np.array([1, 1, 1, 2, 1])
    table = np.zeros((5, 5))
    table[1, 2] = 5
    table[1, [3, 4]] = [6, 5]  # one higher, one the same: rank 2.5
    table[[0, 4], 2] = [1, 2]  # both lower: rank 1
    table[2, [0, 1, 4]] = [9, 9, 9]
    call = (np.zeros((5, 1)), np.array([[1, 2]]), known, degrees, table_scorer(table))
    assert rank_links(*call, num_candidates=2, directed=True).mrr == pytest.approx((1 / 2.5 + 1) / 2)
    assert rank_links(*call, num_candidates=2).mrr == pytest.approx((1 / 2.5 + 1 / 2) / 2)
