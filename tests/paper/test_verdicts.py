"""Verdicts say no more than was measured."""

import pytest

from l2g2g.paper.verdicts import ALMOST_ALL, MOST, Finding


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ({"paper": True, "heldout": True}, "holds"),
        ({"paper": True, "heldout": False}, "holds only under the paper's protocol"),
        ({"paper": False, "heldout": True}, "holds only on held-out links"),
        ({"paper": False, "heldout": False}, "does not hold"),
        ({"paper": True}, "holds under the paper's protocol (not measured on held-out links)"),
        ({"heldout": False}, "does not hold on held-out links (not measured under the paper's protocol)"),
        ({"": True}, "holds"),
        ({"": False}, "does not hold"),
        ({}, "not measured"),
    ],
)
def test_verdicts(holds, verdict):
    assert Finding("", holds).verdict == verdict
    assert Finding("", word="no clear difference").verdict == "no clear difference"


def test_most_is_more_than_half_and_almost_all_is_all_but_one():
    assert [MOST.enough([True] * yes + [False] * (4 - yes)) for yes in range(5)] == [False, False, False, True, True]
    assert [ALMOST_ALL.enough([True] * yes + [False] * (4 - yes)) for yes in range(5)] == [False] * 3 + [True] * 2
    assert not ALMOST_ALL.enough([False])
    assert not ALMOST_ALL.enough([True, False])
