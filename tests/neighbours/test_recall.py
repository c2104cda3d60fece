"""Recall of a list: the share of the pairs that belong into it, by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.neighbours.index import measure_recall
from l2g2g.neighbours.top_links import TopLinks


def score(sources, targets):
    return np.asarray(sources + targets, np.float64)


def test_the_share_of_the_true_list():
    known = sp.csr_array((np.ones(2, np.float32), ([3, 4], [4, 3])), shape=(5, 5))  # an edge is never missing
    # By score the list above 4 is (2, 4), (2, 3), (1, 4); the pair (2, 3) was not found.
    found = TopLinks(np.array([2, 1, 0]), np.array([4, 4, 4]), np.array([6, 5, 4], np.float32), None, 0.0)
    # All nodes are asked, so every pair counts twice: 4 of 6.
    assert measure_recall(score, known, found) == pytest.approx(4 / 6)


def test_few_pairs_are_scored_where_few_are_allowed():
    asked = []

    def count(sources, targets):
        asked.append(sources[0])
        return score(sources, targets)

    found = TopLinks(np.array([48]), np.array([49]), np.array([97], np.float32), None, 0.0)
    assert measure_recall(count, sp.csr_array((50, 50), dtype=np.float32), found, most_pairs=100) == 1.0
    assert len(asked) == 2
