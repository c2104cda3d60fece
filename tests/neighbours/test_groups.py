from itertools import pairwise

import numpy as np
import pytest

from l2g2g.neighbours.top_links import bound_scores, make_groups, principal_axes


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(0).normal(size=(333, 5)).astype(np.float32) * [5, 1, 1, 0.1, 3]


def test_every_node_is_in_one_group_and_groups_are_even(table):
    groups = make_groups(table, principal_axes(table), 4)
    assert groups.num_groups == 16
    assert sorted(groups.order) == list(range(333))
    assert set(np.diff(groups.starts)) <= {20, 21}


def test_more_groups_than_nodes_is_no_trouble_for_few_cuts():
    table = np.eye(3, dtype=np.float32)
    assert sorted(make_groups(table, principal_axes(table), 1).order) == [0, 1, 2]


def test_bounds_hold_and_rule_out(table):
    groups = make_groups(table, principal_axes(table), 4)
    bounds = bound_scores(groups, groups)
    scores = table[groups.order] @ table[groups.order].T
    best = np.array([[scores[a:b, c:d].max() for c, d in pairwise(groups.starts)] for a, b in pairwise(groups.starts)])
    assert (bounds >= best).all()
    assert (bounds < np.sort(scores.ravel())[-50]).mean() > 0.5  # most pairs of groups hold none of the best


def test_nodes_of_a_group_lie_close_together(table):
    groups = make_groups(table, principal_axes(table), 4)
    inside = [table[groups.order[a:b]].var(axis=0).sum() for a, b in pairwise(groups.starts)]
    assert np.mean(inside) < 0.5 * table.var(axis=0).sum()
