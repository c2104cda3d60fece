"""Vectors made elsewhere: both ways of scoring, and the choice by validation pairs."""

import numpy as np
import pytest

from l2g2g.evaluation.link_scorer import score_vectors
from l2g2g.evaluation.links import score_cosines
from l2g2g.graphs.splits import Pairs

# Angles tell the pairs apart, lengths mislead: 0-1 and 2-3 are edges, 4 is long and near to nobody.
VECTORS = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [30.0, -30.0]], np.float32)
EDGES, OTHERS = np.array([[0, 1], [2, 3]]), np.array([[0, 4], [1, 2]])


def test_cosines_by_hand():
    vectors = np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0]])
    assert score_cosines(vectors, np.array([0, 0, 0]), np.array([0, 1, 2])).tolist() == pytest.approx([1.0, 0.96, 0.0])


def test_the_better_on_validation_pairs_is_chosen():
    pairs = Pairs(EDGES, OTHERS)
    scores = score_vectors(VECTORS, pairs, pairs)
    assert scores.scorer == "cosine"
    assert scores.test["cosine"].auc == scores.validation["cosine"].auc == 1.0
    assert scores.test["inner"].auc == 0.5  # 0-4 has the inner product 30


def test_test_pairs_do_not_choose():
    scores = score_vectors(VECTORS, Pairs(OTHERS[:1], EDGES), Pairs(EDGES, OTHERS))
    assert scores.scorer == "inner"
    assert scores.test["inner"].auc == 0.5


def test_without_validation_pairs_it_is_the_inner_product():
    scores = score_vectors(VECTORS, None, Pairs(EDGES, OTHERS))
    assert (scores.scorer, scores.validation) == ("inner", None)
