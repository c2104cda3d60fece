"""Column roles: which columns are the edge list, by titles, by options, by position; and what is refused."""

import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.column_roles import Roles, find_roles, names_ends
from l2g2g.graphs.formats import TableOptions


def roles(titles, *, titled=None, cells=(), **options):
    return find_roles(titles.split("|"), TableOptions(**options), "t.csv", titled=titled, first_cells=cells)


@pytest.mark.parametrize(
    ("titles", "options", "expected"),
    [
        ("a|b", {}, Roles((0, 1), None)),  # two columns: the rows decide about the header
        ("a|b|c", {}, Roles((0, 1, 2), None)),
        ("target|source", {}, Roles((1, 0), True)),
        ("From|To|Weight", {}, Roles((0, 1, 2), True)),
        ("u|v|id", {}, Roles((0, 1), True, ("id",))),  # an id is no weight
        ("u|v|strength", {}, Roles((0, 1, 2), True)),  # the only third column is one
        ("x|src|y|dst|weight", {}, Roles((1, 3, 4), True, ("x", "y"))),
        ("a|b|c|d", {"source": "c", "target": "a"}, Roles((2, 0), True, ("b", "d"))),
        ("a|b|c|d", {"source": "4", "target": "1", "weight": "2"}, Roles((3, 0, 1), None, ("column 3",))),
        ("a|b|c", {"weight": "a"}, Roles((1, 2, 0), True)),
        ("source|target|5", {}, Roles((0, 1, 2), None)),  # a number among the titles: perhaps an edge
    ],
    ids=str,
)
def test_which_columns_are_read(titles, options, expected):
    assert roles(titles, **options) == expected


def test_the_index_of_pandas_is_left_out_where_it_counts():
    assert roles("|a|b", cells=["0", "1", "2"]) == Roles((1, 2), True, ("column 1",))
    assert roles("|a|b", cells=["0", "2", "1"]) == Roles((0, 1, 2), None)
    assert roles("__index_level_0__|a|b", titled=True) == Roles((1, 2), True, ("__index_level_0__",))


@pytest.mark.parametrize(
    ("titles", "options", "message"),
    [
        ("a", {}, "only 1 column; it needs source and target"),
        ("a|b|c|d", {}, r"4 columns \(a, b, c, d\) of which none are called source and target"),
        ("a|b|c", {"source": "x", "target": "b"}, "there is no column 'x' for --source; the first row is a, b, c"),
        ("a|b|a", {"source": "a", "target": "b"}, "2 columns are called 'a'; give --source a number"),
        ("a|b", {"source": "a", "target": "1"}, "one column cannot be two of"),
        ("a|b", {"source": "1", "target": "3"}, "there is no column '3' for --target"),
    ],
    ids=str,
)
def test_what_is_refused(titles, options, message):
    with pytest.raises(InputError, match=rf"^t\.csv: .*{message}"):
        roles(titles, **options)


def test_untitled_columns_are_known_by_number_only():
    with pytest.raises(InputError, match="give a number from 1 to 3"):
        roles("a|b|c", titled=False, source="a", target="b")
    assert roles("source|target|c", titled=False) == Roles((0, 1, 2), False)
    assert names_ends(["weight", "To ", "FROM"])
    assert not names_ends(["from", "target"])
