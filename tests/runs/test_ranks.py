"""Rank split: ranks have parts of the split of one process, and their scores are those of one process, in order."""

import numpy as np
import pytest

from l2g2g.evaluation.links import evaluate_links, link_scores, score_pairs
from l2g2g.graphs.splits import split_links
from l2g2g.graphs.store import write_graph
from l2g2g.runs.ranks import held_out_rows, split_on_ranks
from l2g2g.training.rows import rank_bounds

from ..parallel.threads import run_ranks

HOW = {"validation_fraction": 0.1, "test_fraction": 0.2, "seed": 3}


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_ranks_share_the_split_of_one_process(noisy, tmp_path, num_ranks):
    expected, stored = split_links(noisy, **HOW), write_graph(noisy, tmp_path / "store")
    bounds = rank_bounds(stored, num_ranks)
    vectors = np.random.default_rng(0).normal(size=(noisy.num_nodes, 4)).astype(np.float32)
    nodes = [np.arange(rank, noisy.num_nodes, 2) for rank in range(num_ranks)]

    def work(communicator):
        rank = communicator.rank
        split = split_on_ranks(stored, communicator, **HOW)
        own = vectors[bounds[rank] : bounds[rank + 1]]
        pairs = split.test.on_first()
        scores = score_pairs(own, split.test)
        pattern = held_out_rows(split, nodes[rank], communicator)
        return split, pairs, scores, evaluate_links(own, split.test), pattern

    sources, targets, is_edge = expected.test.endpoints()
    wanted = score_pairs(vectors, expected.test)
    sizes = []
    for rank, (split, pairs, scores, found, pattern) in enumerate(run_ranks(num_ranks, work)):
        assert split.train.num_edges == expected.train.num_edges
        assert split.train.rule == stored.without(split.train.rule, split.train.num_edges).rule
        assert split.validation.num_edges == len(expected.validation.positive)
        firsts = split.test.endpoints()[0]
        assert ((firsts >= bounds[rank]) & (firsts < bounds[rank + 1])).all()
        assert found == link_scores(is_edge, wanted)  # to the bit
        if rank == 0:
            np.testing.assert_array_equal(np.concatenate([pairs.positive, pairs.negative])[:, 0], sources)
            np.testing.assert_array_equal(np.concatenate([pairs.positive, pairs.negative])[:, 1], targets)
            np.testing.assert_array_equal(scores, wanted)
        else:
            assert len(scores) == len(pairs.positive) == len(pairs.negative) == 0
        rows = nodes[rank] if num_ranks > 1 else np.arange(noisy.num_nodes)
        assert pattern.shape == expected.held_out[rows].shape
        assert (pattern != expected.held_out[rows]).nnz == 0
        assert num_ranks == 1 or split.held_out.shape[0] == bounds[rank + 1] - bounds[rank]
        sizes.append(len(firsts))
    assert sum(sizes) == len(sources)
    assert max(sizes) < 0.6 * len(sources) or num_ranks == 1
